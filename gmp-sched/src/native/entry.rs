//! Entering the platform of threads: its safety contract, and running a scheduler.

use core::panic::AssertUnwindSafe;
use std::panic;
use std::sync::mpsc;

use super::platform::BodyEnds;
use super::watch::Watch;
use super::{Native, alive, exception, overflow, panic_hook, pool, schedtrace, stack, watch};
use crate::entities::scheduler::Scheduler;
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::lifecycle::exit::exit_body;
use crate::platform::OutOfResources;
use crate::policy::Policy;
use crate::report::schedtrace::Schedtrace;

/// Maximum number of Ps for [`set_procs`](super::set_procs), unless [`run`](Threads::run) was given more.
pub const PROCS_LIMIT: usize = 64;

/// Runs schedulers on threads of this process. Returned by [`enter`].
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// The size of the main G's stack in bytes. (This field is private, so only [`enter`] can create a `Threads`.)
    main_stack_size: usize,
    /// How often to print the state of the scheduler, and in how much detail. `None` if the environment variable
    /// `GMP_DEBUG` decides.
    schedtrace: Option<Schedtrace>,
    /// The policy of the scheduler. `None` for Go's rules.
    policy: Option<&'static dyn Policy>,
}

/// Enters the platform of threads.
///
/// # Safety
///
/// A G may continue on another thread after each call that may wait or yield. These are all calls that this crate
/// documents as blocking (the end of a scope and a join are among them), and [`yield_now`](super::yield_now),
/// [`syscall`](super::syscall) and [`blocking`](super::blocking). Code that Gs run, including libraries, must not rely
/// on being on the same thread before and after such a call:
///
/// - No reference to a thread-local variable is kept across such a call: the closure passed to `LocalKey::with` makes
///   no such call.
/// - No function uses a thread-local variable both before and after such a call, unless each use is in a function of
///   its own that is `#[inline(never)]`. The reason is that the compiler may keep the *address* of the variable, and
///   would then access the variable of another thread, even if the call itself is not inlined.
/// - No value that belongs to the thread is kept across such a call: guards of locks of `std` (`std::sync::MutexGuard`,
///   `StdoutLock`), a value that is not `Send` and shares state with a thread-local variable (an `Rc`, a handle of a
///   thread-local random number generator), a scope of `std::thread::scope`.
///
/// A G between [`lock_thread`](super::lock_thread) and the end of its guard stays on its thread, so it need not follow
/// these rules.
///
/// ```
/// use gmp_sched::native;
///
/// // SAFETY: no G uses a thread-local variable.
/// let threads = unsafe { native::enter() };
/// assert_eq!(threads.run(2, || native::go(|| 6 * 7).join()), Ok(42));
/// ```
#[must_use]
#[expect(unsafe_code, reason = "the compiler takes the thread of a function for the same all the time")]
pub const unsafe fn enter() -> Threads {
    Threads { main_stack_size: stack::DEFAULT, schedtrace: None, policy: None }
}

impl Threads {
    /// Sets the size of the main G's stack in bytes, which is rounded up to pages. The default is the same as for other
    /// Gs: 512 KiB. (For other Gs, [`Builder::stack_size`](super::Builder::stack_size) sets the size.)
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// fn deep(levels: u64) -> u64 {
    ///     let room = std::hint::black_box([0u8; 1000]);
    ///     if levels == 0 { u64::from(room[0]) } else { 1 + deep(levels - 1) }
    /// }
    /// // SAFETY: no G uses a thread-local variable.
    /// let threads = unsafe { native::enter() };
    /// assert_eq!(threads.stack_size(16 << 20).run(1, || deep(2_000)), 2_000);
    /// ```
    #[must_use = "it returns a new value"]
    pub const fn stack_size(self, bytes: usize) -> Self {
        Self { main_stack_size: bytes, ..self }
    }

    /// Prints the state of the scheduler to standard error, periodically and in Go's format, while a run lasts. Without
    /// this call, the environment variable `GMP_DEBUG` decides; see the [module](super). Go: `GODEBUG=schedtrace`.
    ///
    /// A thread of its own prints the state. (In Go sysmon does. If standard error accepts nothing, Go's sysmon waits.)
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native;
    /// use gmp_sched::schedtrace::Schedtrace;
    ///
    /// // SAFETY: no G uses a thread-local variable.
    /// let threads = unsafe { native::enter() };
    /// let every_second = Schedtrace { interval: Duration::from_secs(1), detailed: false };
    /// threads.schedtrace(every_second).run(2, || native::sleep(Duration::from_millis(1)));
    /// ```
    #[must_use = "it returns a new value"]
    pub const fn schedtrace(self, settings: Schedtrace) -> Self {
        Self { schedtrace: Some(settings), ..self }
    }

    /// Lets `policy` decide what runs, in place of Go's rules. See [`policy`](crate::policy). (A G on a thread is
    /// preempted only where it calls the scheduler, unless [`set_preemption`](super::set_preemption) is on.)
    ///
    /// ```
    /// use gmp_sched::native;
    /// use gmp_sched::policy::PriorityAging;
    ///
    /// // SAFETY: no G uses a thread-local variable.
    /// let threads = unsafe { native::enter() };
    /// threads.policy(&PriorityAging).run(1, || {
    ///     let (sender, receiver) = native::channel(3);
    ///     let spawn = |priority| {
    ///         let sender = sender.clone();
    ///         native::Builder::new().parameter(priority).go(move || sender.send(priority).unwrap())
    ///     };
    ///     let spawned = [1, 3, 2].map(spawn);
    ///     spawned.into_iter().for_each(|handle| handle.join().unwrap());
    ///     drop(sender);
    ///     assert!(receiver.iter().eq([3, 2, 1]));
    /// });
    /// ```
    #[must_use = "it returns a new value"]
    pub const fn policy(self, policy: &'static dyn Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Runs `main` as the main G of a scheduler with `processors` Ps, and returns its result. Gs that have not ended
    /// when `main` returns are left behind: a running G continues until it waits, and other Gs may wait forever. The
    /// same holds for a [`Timer`](super::Timer) or delayed function that one of the Gs has set, even if a G of another
    /// scheduler waits for it. Blocks the calling thread.
    ///
    /// # Panics
    ///
    /// `processors` is 0 or more than a scheduler can have, there is no thread or memory, or `main` panics.
    #[track_caller]
    pub fn run<T: Send + 'static>(self, processors: usize, main: impl FnOnce() -> T + Send + 'static) -> T {
        self.run_with(processors, |_| __rust_begin_short_backtrace(main))
    }

    /// Makes what a run needs beside Gs and Ms: the policy, and the threads that watch the scheduler.
    fn prepare(self, scheduler: &'static Scheduler<Native>) -> Result<[Option<Watch>; 2], OutOfResources> {
        self.policy.map_or(Ok(()), |policy| scheduler.set_policy(policy))?;
        let settings = self.schedtrace.or_else(schedtrace::of_environment);
        let sysmon = watch::make_sysmon(scheduler)?;
        let printer = settings.map(|settings| watch::make_printer(scheduler, settings)).transpose()?;
        Ok([Some(sysmon), printer])
    }

    /// Like [`run`](Self::run), but passes the scheduler to `main`, for counters and dumps.
    ///
    /// # Panics
    ///
    /// In the same cases as [`run`](Self::run).
    #[track_caller]
    pub fn run_with<T: Send + 'static>(
        self,
        processors: usize,
        main: impl FnOnce(&'static Scheduler<Native>) -> T + Send + 'static,
    ) -> T {
        overflow::install();
        exception::install();
        panic_hook::install();
        let scheduler = pool::enter(processors);
        let Ok(watches) = self.prepare(scheduler) else {
            pool::leave(scheduler);
            panic!("no threads or memory for a scheduler");
        };
        alive::enter(scheduler);
        let (result_sender, result) = mpsc::channel();
        let main = move || {
            #[cfg(feature = "refinements")]
            super::trace_file::start_as_requested(scheduler);
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| __rust_begin_short_backtrace(|| main(scheduler))));
            if let Err(payload) = &outcome
                && payload.is::<BodyEnds>()
            {
                // The main G has called `goexit`, so only this G ends. As in Go, the other Gs continue until none is
                // left, which is a fatal error. `run` waits until then, so the sender must not be dropped.
                core::mem::forget(result_sender);
                exit_body::<Native>();
            }
            // The scheduler is unregistered before the main G ends, because Gs that wait after that are left behind,
            // which is not a deadlock.
            alive::leave(scheduler);
            scheduler.end_machines();
            // This does not fail, because the thread that called `run` waits below until it has received the outcome.
            let _ = result_sender.send(outcome);
        };
        #[expect(unsafe_code, reason = "passes on the promise of `enter`")]
        // SAFETY: `self` was made by `enter`, whose caller promised what this platform requires of Gs. The scheduler is
        // new, or its last run has ended.
        if let Err(error) = unsafe { scheduler.start_with_stack(self.main_stack_size, main) } {
            alive::leave(scheduler);
            scheduler.end_machines();
            // The threads that watch the scheduler end now. `pool::leave` waits until they have.
            drop(watches);
            pool::leave(scheduler);
            panic!("no threads for all Ps, or no stack for the main G: {error}");
        }
        watches.iter().flatten().for_each(Watch::begin);
        let outcome = result.recv().expect("main sends its result or keeps the sender");
        drop(watches);
        pool::leave(scheduler);
        match outcome {
            Ok(value) => value,
            Err(panic) => panic::resume_unwind(panic),
        }
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "enters the platform")]
// SAFETY: the Gs of the tests use thread-local variables only within single calls of the standard library.
pub(crate) const THREADS: Threads = unsafe { enter() };
