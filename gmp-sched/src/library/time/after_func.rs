//! Functions that run later, in Gs of their own.
//!
//! A timer is fired by any M that finds it due, and firing must not allocate. So the G that will run the function is
//! made in advance, and is only started when the timer fires. A pending function occupies a timer slot, the slot of its
//! G and the stack of its G. All three are reused later, and no other memory is needed.

use core::fmt;
use core::time::Duration;

use super::slot::Setting;
use super::{Instant, RESET, STOP, TimerSlot, instant_after as after};
use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::error::OutOfResources;
use crate::entities::bubble::BubbleRef;
use crate::entities::current::CurrentProcessor;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::lifecycle::new_goroutine::{prepare, start_next};
use crate::platform::{Pinned, Platform};

/// If the waiter of the function's G has this outcome, the G calls the function.
const RUN: usize = 0;
/// If the waiter of the function's G has this outcome, the G drops the function without calling it.
const DISCARD: usize = 1;

/// A function that will run later, and that can be stopped before it runs. Dropping this handle lets the function run.
/// Go: the `time.Timer` of `time.AfterFunc`. See [`after_func`] for an example.
pub struct AfterFunc<Plat: Platform> {
    slot: &'static TimerSlot<Plat>,
    /// The generation of the slot when this function was set. If the slot's generation has changed since, this
    /// function is not set any more.
    number: AtomicU64,
    /// The bubble in which this function was made. (The slot may be reused in another bubble.)
    bubble: BubbleRef<Plat>,
}

/// Runs `function` in a new G after `duration`. Go: `time.AfterFunc`.
///
/// This call already makes the G, so that firing cannot fail. The G does not run until the timer starts it. Does not
/// block; not callable from interrupts.
///
/// ```
/// use core::time::Duration;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use gmp_sched::native;
///
/// static RAN: AtomicBool = AtomicBool::new(false);
///
/// unsafe { native::enter() }.run(1, || {
///     let later = native::after_func(Duration::from_millis(1), || RAN.store(true, Ordering::Relaxed));
///     let never = native::after_func(Duration::from_secs(3600), || unreachable!());
///     assert!(never.stop());
///     while !RAN.load(Ordering::Relaxed) {
///         native::yield_now();
///     }
///     assert!(!later.stop());
/// });
/// ```
///
/// # Panics
///
/// In the cases in which [`try_after_func`] panics or returns an error.
#[doc(alias = "AfterFunc")]
#[track_caller]
pub fn after_func<Plat: Platform>(duration: Duration, function: impl FnOnce() + Send + 'static) -> AfterFunc<Plat> {
    match try_after_func(duration, function) {
        Ok(after_func) => after_func,
        Err(error) => panic!("cannot prepare a G for a timer: {error}"),
    }
}

/// Like [`after_func`], but returns an error if there is no memory.
///
/// # Errors
///
/// There is no memory for the G or the timer; `function` is dropped, and nothing else has happened.
///
/// # Panics
///
/// The caller is not a G with a P.
#[track_caller]
pub fn try_after_func<Plat: Platform>(
    duration: Duration,
    function: impl FnOnce() + Send + 'static,
) -> Result<AfterFunc<Plat>, OutOfResources> {
    #[track_caller]
    fn prepare<Plat: Platform, F: FnOnce() + Send + 'static>(
        when: Instant,
        function: F,
    ) -> Result<AfterFunc<Plat>, OutOfResources> {
        after_func_at::<Plat, F, F>(when, function)
    }
    prepare(after(super::now::<Plat>(), duration), function)
}

/// Like [`after_func`], but runs `function` at the point in time `when`. With [`Instant::NEVER`] only
/// [`start_now`](AfterFunc::start_now) starts the function. Traces name the function `N`.
#[track_caller]
pub(crate) fn after_func_at<Plat: Platform, N, F: FnOnce() + Send + 'static>(
    when: Instant,
    function: F,
) -> Result<AfterFunc<Plat>, OutOfResources> {
    let slot = TimerSlot::<Plat>::take()?;
    let prepared = prepare::<Plat, N, _, _>(move || {
        let pinned = Pinned::<Plat>::of_scheduler();
        let is_discarded = pinned.goroutine().waiter.outcome.load(Ordering::Relaxed) == DISCARD;
        slot.give_back(&pinned);
        drop(pinned);
        if !is_discarded {
            __rust_begin_short_backtrace(function);
        }
    });
    let goroutine = match prepared {
        Ok(handle) => handle.goroutine(),
        Err(error) => {
            slot.give_back(&Pinned::of_scheduler());
            return Err(error);
        }
    };
    goroutine.waiter.outcome.store(RUN, Ordering::Relaxed);
    let here = CurrentProcessor::new();
    let mut setting = slot.setting.lock();
    slot.start_at(&here, &mut setting, when, goroutine);
    let after_func = AfterFunc { slot, number: AtomicU64::new(setting.number), bubble: setting.bubble };
    drop(setting);
    drop(here);
    after_func.start_if_due_in_bubble(when);
    Ok(after_func)
}

impl<Plat: Platform> AfterFunc<Plat> {
    /// Stops the function if it has not been started, and returns whether it was stopped. The function's G drops a
    /// stopped function without running it. Go: `Timer.Stop`.
    ///
    /// If this returns `false`, the function was stopped before, or it has been started and may still run. Does not
    /// block; callable on any thread, but not from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let later = native::after_func(Duration::from_secs(3600), || unreachable!());
    ///     assert!(later.stop() && !later.stop());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is outside of the [bubble](crate#features) in which the function was set.
    #[doc(alias = "Stop")]
    #[track_caller]
    pub fn stop(&self) -> bool {
        self.check_bubble(STOP);
        self.take_back()
    }

    /// Stops the function like [`stop`](Self::stop), but from any bubble. Used for a function that waits for the end of
    /// a context.
    pub(crate) fn take_back(&self) -> bool {
        self.start(DISCARD)
    }

    /// Starts the function now; returns `false` if the function has been started or stopped before.
    pub(crate) fn start_now(&self) -> bool {
        self.start(RUN)
    }

    /// Returns another handle to the same function, for a function that is not [reset](Self::reset).
    pub(crate) fn same(&self) -> Self {
        let number = AtomicU64::new(self.number.load(Ordering::Relaxed));
        Self { slot: self.slot, number, bubble: self.bubble }
    }

    /// The timers of a bubble fire only when all Gs of the bubble wait. So a function that is due at once is started
    /// here.
    fn start_if_due_in_bubble(&self, when: Instant) {
        if self.bubble.is_some() && when <= self.bubble.now() {
            self.start_now();
        }
    }

    fn start(&self, what: usize) -> bool {
        let pinned = Pinned::<Plat>::of_scheduler();
        let mut setting = self.slot.setting.lock();
        let Some(goroutine) = self.still_to_come(&mut setting) else { return false };
        setting.prepared = None;
        self.slot.disarm(&pinned, &mut setting);
        drop(setting);
        goroutine.waiter.outcome.store(what, Ordering::Relaxed);
        let canceller = pinned.try_machine().and_then(Machine::current_goroutine);
        start_next(&pinned, goroutine, canceller);
        true
    }

    /// Restarts the delay, so that the function runs after `duration` from now. Returns `false` if the function has
    /// been started or stopped before. (In Go, a function that has run can be scheduled again; here it runs only once.)
    /// Go: `Timer.Reset`.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     let later = native::after_func(Duration::from_secs(3600), move || sender.send(7).unwrap());
    ///     assert!(later.reset(Duration::from_millis(1)));
    ///     assert_eq!(receiver.recv(), Ok(7));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, or is outside of the [bubble](crate#features) in which the function was set.
    #[doc(alias = "Reset")]
    #[track_caller]
    pub fn reset(&self, duration: Duration) -> bool {
        self.check_bubble(RESET);
        let when = after(self.bubble.now(), duration);
        let here = CurrentProcessor::<Plat>::new();
        let mut setting = self.slot.setting.lock();
        let Some(goroutine) = self.still_to_come(&mut setting) else { return false };
        self.slot.disarm(&here.pinned, &mut setting);
        self.slot.start_at(&here, &mut setting, when, goroutine);
        self.number.store(setting.number, Ordering::Relaxed);
        drop(setting);
        drop(here);
        self.start_if_due_in_bubble(when);
        true
    }

    /// Panics if the function was set in a bubble and the calling G is not in it.
    #[track_caller]
    fn check_bubble(&self, what: &str) {
        assert!(!self.bubble.is_foreign(), "{what} from outside bubble");
    }

    /// Returns the function's G if it has not been started. Compares generations, because the slot may have been
    /// reused.
    fn still_to_come(&self, setting: &mut Setting<Plat>) -> Option<&'static Goroutine<Plat>> {
        if setting.number == self.number.load(Ordering::Relaxed) { setting.prepared } else { None }
    }
}

impl<Plat: Platform> fmt::Debug for AfterFunc<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterFunc").field("slot", self.slot).finish_non_exhaustive()
    }
}
