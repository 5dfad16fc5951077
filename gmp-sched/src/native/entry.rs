//! Entering the platform of threads: its safety contract, and running a scheduler.

use core::panic::AssertUnwindSafe;
use std::panic;
use std::sync::mpsc;
use std::thread;

use super::{BodyEnds, Native, alive, overflow, panic_hook, pool};
use crate::engine::sysmon::Sysmon;
use crate::entities::scheduler::Scheduler;
use crate::lifecycle::exit::exit_body;

/// Maximum number of Ps for [`set_procs`](super::set_procs), unless [`run`](Threads::run) was given more.
pub const PROCS_LIMIT: usize = 64;

/// Runs schedulers on threads of this process. Made by [`enter`].
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    _by_enter: (),
}

/// Enters the platform of threads.
///
/// # Safety
///
/// A G may continue on another thread after each call that may wait or yield. These calls are everything that this
/// crate documents as blocking, [`yield_now`](super::yield_now), [`syscall`](super::syscall),
/// [`blocking`](super::blocking), and scopes and joins at their end. Code that Gs run, including libraries, must not
/// rely on being on the same thread before and after such a call:
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
/// A G between [`lock_thread`](super::lock_thread) and the end of its guard stays on its thread and may do all of this.
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
    Threads { _by_enter: () }
}

impl Threads {
    /// Runs `main` as the main G of a scheduler with `processors` Ps, and returns its result. Gs that have not ended by
    /// then are abandoned: those that run continue until they wait, and those that wait do so forever. Blocks the
    /// calling thread.
    ///
    /// # Panics
    ///
    /// `processors` is 0, there is no thread or memory, or `main` panics.
    #[track_caller]
    pub fn run<T: Send + 'static>(self, processors: usize, main: impl FnOnce() -> T + Send + 'static) -> T {
        self.run_with(processors, |_| main())
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
        panic_hook::install();
        let scheduler = pool::enter(processors);
        alive::enter(scheduler);
        let (result_sender, result) = mpsc::channel();
        let main = move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| main(scheduler)));
            if let Err(payload) = &outcome
                && payload.is::<BodyEnds>()
            {
                // The main G has called `goexit`, so only this G ends. As in Go, the other Gs continue until none is
                // left, which is a fatal error. `run` waits until then, so the sender must not be dropped.
                core::mem::forget(result_sender);
                exit_body::<Native>();
            }
            // The scheduler is unregistered before main ends, because Gs that wait after that are abandoned, not
            // deadlocked.
            alive::leave(scheduler);
            scheduler.shut_down();
            // This does not fail, because the receiver waits below until the outcome is sent.
            let _ = result_sender.send(outcome);
        };
        #[expect(unsafe_code, reason = "passes on the promise of `enter`")]
        // SAFETY: `self` was made by `enter`, whose caller promised what this platform requires of Gs. The scheduler is
        // new.
        if let Err(error) = unsafe { scheduler.start(main) } {
            alive::leave(scheduler);
            scheduler.shut_down();
            pool::leave(scheduler);
            panic!("no threads for all Ps, or no stack for the main G: {error}");
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let watch = thread::spawn(move || {
            let mut sysmon = Sysmon::new(scheduler);
            while stopped.recv_timeout(sysmon.check()) == Err(mpsc::RecvTimeoutError::Timeout) {}
        });
        let outcome = result.recv().expect("main sends its result or keeps the sender");
        drop(stop);
        watch.join().expect("sysmon does not panic");
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
