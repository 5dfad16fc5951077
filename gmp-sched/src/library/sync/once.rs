//! One-time execution. Go: `sync.Once` (sync/once.go), `sync.OnceFunc`, `sync.OnceValue` (sync/oncefunc.go, go1.27).

use core::fmt;

use super::blocking::{Blocking, WakeList};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::points::Site;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::library::waiter::WaitQueue;
use crate::lifecycle::deferred::{self, Deferred};
use crate::platform::{Pinned, Platform};

/// Runs a function once. The first caller runs it, and the others wait until it has returned. Go: `sync.Once`.
///
/// A `Once` takes 40 bytes and can be a `static`.
///
/// If the function panics, the panic propagates to its caller, and the next caller or a waiter runs its own function,
/// as with `std::sync::OnceLock`. (In Go a function that panicked counts as done.)
///
/// If the G that runs the function ends without unwinding, the `Once` is poisoned: waiters and later callers panic, as
/// with `std::sync::Once`. In the kernel, a G ends without unwinding if it calls [`goexit`](crate::exit::goexit). With
/// the option `panic=isolate`, so does a G that panics, raises an exception or overflows its stack. The work of the
/// function may then be half done, and the locks that the G held stay locked. So no other function is run. (In Go, such
/// a G runs its deferred calls, or the program ends.)
///
/// ```
/// use gmp_sched::native::{self, Once};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static START: Once = Once::new();
/// static STARTED: AtomicU32 = AtomicU32::new(0);
///
/// unsafe { native::enter() }.run(2, || {
///     let all: Vec<_> = (0..4)
///         .map(|_| {
///             native::go(|| {
///                 START.call_once(|| drop(STARTED.fetch_add(1, Ordering::Relaxed)));
///                 STARTED.load(Ordering::Relaxed)
///             })
///         })
///         .collect();
///     assert!(all.into_iter().all(|handle| handle.join().unwrap() == 1));
/// });
/// ```
pub struct Once<Plat: Platform> {
    /// [`NEW`], [`RUNNING`], [`DONE`] or [`POISONED`]. Changed under the lock only.
    word: AtomicU32,
    state: Lock<State<Plat>, Plat>,
}

struct State<Plat: Platform> {
    queue: WaitQueue<Plat>,
    /// The G that runs the function. `None` while no function runs, and while a thread that is not a G runs the
    /// function.
    runner: Option<&'static Goroutine<Plat>>,
}

const NEW: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
/// The G that ran the function has ended without returning from the function and without unwinding.
const POISONED: u32 = 3;

impl<Plat: Platform> Once<Plat> {
    const_fn! {
        /// Makes a `Once` that has not been run.
        ///
        /// ```
        /// assert!(!gmp_sched::native::Once::new().is_done());
        /// ```
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicU32::new(NEW), state: Lock::new(State { queue: WaitQueue::new(), runner: None }) }
        }
    }

    /// Whether the function has returned. If so, its effects are visible. Callable from anywhere.
    ///
    /// ```
    /// let once = gmp_sched::native::Once::new();
    /// once.call_once(|| ());
    /// assert!(once.is_done());
    /// ```
    #[inline]
    pub fn is_done(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `end`.
        self.word.load(Ordering::Acquire) == DONE
    }

    /// Runs `body`, unless a function of this `Once` has returned. If another caller's function is running, first waits
    /// until that function has ended. May block the G; not callable from interrupts. Go: `Once.Do`.
    ///
    /// ```
    /// let (once, mut calls) = (gmp_sched::native::Once::new(), 0);
    /// once.call_once(|| calls += 1);
    /// once.call_once(|| calls += 1);
    /// assert_eq!(calls, 1);
    /// ```
    ///
    /// # Panics
    ///
    /// - `body` panics, or calls this method on the same `Once`.
    /// - The `Once` is poisoned.
    /// - The call has to wait, although the caller is pinned or is not a G with a P.
    #[inline]
    #[track_caller]
    #[doc(alias = "Do")]
    pub fn call_once(&self, body: impl FnOnce()) {
        if !self.is_done() {
            self.call_slow(body);
        }
    }

    #[cold]
    #[track_caller]
    fn call_slow(&self, body: impl FnOnce()) {
        let Some(caller) = self.begin() else { return };
        let mut running = Running { once: self, becomes: NEW };
        match caller {
            Some(me) => deferred::with(me, self, body),
            None => body(),
        }
        running.becomes = DONE;
    }

    /// Waits while another caller's function runs. Afterwards, returns `None` if the `Once` is done. Otherwise returns
    /// `Some(me)`, and the caller must run its own function. `me` is the calling G, or `None` if the caller is not a G.
    #[track_caller]
    fn begin(&self) -> Option<Option<&'static Goroutine<Plat>>> {
        loop {
            let pinned = Pinned::<Plat>::of_scheduler();
            let me = pinned.try_machine().and_then(Machine::current_goroutine);
            let mut state = self.state.lock();
            Plat::point(Site::Sync);
            let word = self.word.load(Ordering::Relaxed);
            match word {
                NEW => {
                    self.word.store(RUNNING, Ordering::Relaxed);
                    state.runner = me;
                    return Some(me);
                }
                DONE => return None,
                _ => {}
            }
            let runs_it_itself = state.runner.zip(me).is_some_and(|(runner, me)| core::ptr::eq(runner, me));
            drop(state);
            drop(pinned);
            assert!(
                word != POISONED,
                "sync: the goroutine that ran the function of this Once ended without finishing it"
            );
            assert!(!runs_it_itself, "sync: Once called recursively from its own function");
            self.wait();
        }
    }

    /// Waits until the running function has ended.
    #[track_caller]
    fn wait(&self) {
        let blocking = Blocking::<Plat>::new(WaitReason::Once, None);
        let state = self.state.lock();
        if self.word.load(Ordering::Relaxed) == RUNNING {
            let runner = state.runner;
            blocking.on(&runner).wait(state, 0, |state, waiter| state.queue.push_back(waiter));
        }
    }

    /// Stores the new state when the function has ended, and readies the waiters.
    fn end(&self, word: u32) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let to_wake = {
            let mut state = self.state.lock();
            state.runner = None;
            Plat::point(Site::Sync);
            // Ordering: Release; partner: the Acquire in `is_done`.
            self.word.store(word, Ordering::Release);
            WakeList::all_of(&state.queue)
        };
        to_wake.ready(&pinned);
    }
}

/// A guard that exists while the function runs. Dropping the guard ends the run, even if the function panics.
struct Running<'a, Plat: Platform> {
    once: &'a Once<Plat>,
    /// The state to store when the run ends: `NEW` after a panic, otherwise `DONE`.
    becomes: u32,
}

impl<Plat: Platform> Drop for Running<'_, Plat> {
    fn drop(&mut self) {
        self.once.end(self.becomes);
    }
}

/// Called when the G that runs the function is abandoned, that is, ends without unwinding.
impl<Plat: Platform> Deferred for Once<Plat> {
    fn run(&self) {
        self.end(POISONED);
    }
}

impl<Plat: Platform> Default for Once<Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform> fmt::Debug for Once<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
