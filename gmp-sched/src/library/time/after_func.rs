//! Functions that run later, in Gs of their own.
//!
//! A timer fires on whichever M comes upon it, where nothing may allocate. So the G with the function on its stack is made
//! at once, and only started when the timer fires: what waits costs a slot with its stack and no heap cell.

use core::fmt;
use core::time::Duration;

use super::slot::Setting;
use super::{Instant, RESET, STOP, TimerSlot};
use crate::base::atomic::{AtomicU64, Ordering};
use crate::engine::caller::Here;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::lifecycle::spawn::{prepare, start_next};
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::synctest::Home;

/// What the G finds in its own waiter: it is to run its function.
const RUN: usize = 0;
/// It is only to drop it.
const DISCARD: usize = 1;

/// The right to take back a function that is to run later. Dropping it lets the function run. Go: the `time.Timer` of
/// `time.AfterFunc`. See [`after_func`] for an example.
pub struct AfterFunc<P: Platform> {
    slot: &'static TimerSlot<P>,
    /// The number of the slot's setting, which tells whether it still is this one.
    number: AtomicU64,
    /// Where it was made. (The slot may be another one's by now.)
    home: Home<P>,
}

/// Runs `function` in a G of its own after `duration`. Go: `time.AfterFunc`.
///
/// The G is made here and started then, so that firing cannot fail; meanwhile it shows as idle. Does not block; not
/// callable from interrupts.
///
/// ```
/// use core::time::Duration;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use gmp_sched::native;
///
/// static RAN: AtomicBool = AtomicBool::new(false);
///
/// unsafe { native::enter() }.run(1, || {
///     let later = native::after_func(Duration::from_millis(1), || RAN.store(true, Ordering::Relaxed)).unwrap();
///     let never = native::after_func(Duration::from_secs(3600), || unreachable!()).unwrap();
///     assert!(never.stop());
///     native::sleep(Duration::from_millis(5));
///     assert!(RAN.load(Ordering::Relaxed));
///     assert!(!later.stop());
/// });
/// ```
///
/// # Errors
///
/// There is no memory for the G or the timer; nothing has happened, except that `function` is dropped.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "AfterFunc")]
pub fn after_func<P: Platform>(
    duration: Duration,
    function: impl FnOnce() + Send + 'static,
) -> Result<AfterFunc<P>, OutOfResources> {
    after_func_at(super::now::<P>().after(duration), function)
}

/// [`after_func`] at a point in time; with [`Instant::NEVER`] only when [started](AfterFunc::start_now).
pub(crate) fn after_func_at<P: Platform>(
    when: Instant,
    function: impl FnOnce() + Send + 'static,
) -> Result<AfterFunc<P>, OutOfResources> {
    let slot = TimerSlot::<P>::take()?;
    let prepared = prepare(move || {
        let pinned = Pinned::<P>::new();
        let is_discarded = pinned.goroutine().waiter.outcome.load(Ordering::Relaxed) == DISCARD;
        slot.give_back(&pinned);
        drop(pinned);
        if !is_discarded {
            function();
        }
    });
    let goroutine = match prepared {
        Ok(handle) => handle.goroutine(),
        Err(error) => {
            slot.give_back(&Pinned::new());
            return Err(error);
        }
    };
    goroutine.waiter.outcome.store(RUN, Ordering::Relaxed);
    let here = Here::new();
    let mut setting = slot.setting.lock();
    setting.prepared = Some(goroutine);
    slot.arm(&here, &mut setting, when, Duration::ZERO);
    Ok(AfterFunc { slot, number: AtomicU64::new(setting.number), home: setting.home })
}

impl<P: Platform> AfterFunc<P> {
    /// Takes the function back: tells whether this kept it from running. If so it is dropped, by its G. Go: `Timer.Stop`.
    ///
    /// If not, it has been started, and may still run. Does not block; callable on any thread, but not
    /// from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let later = native::after_func(Duration::from_secs(3600), || unreachable!()).unwrap();
    ///     assert!(later.stop() && !later.stop());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is outside of the [bubble](crate::synctest) where this was made.
    #[doc(alias = "Stop")]
    #[track_caller]
    pub fn stop(&self) -> bool {
        self.check_bubble(STOP);
        self.take_back()
    }

    /// [`stop`](Self::stop) for those who have it from a context, which may be used everywhere.
    pub(crate) fn take_back(&self) -> bool {
        self.start(DISCARD)
    }

    /// Runs the function now and not later; tells whether it had not been started yet.
    pub(crate) fn start_now(&self) -> bool {
        self.start(RUN)
    }

    fn start(&self, what: usize) -> bool {
        let pinned = Pinned::<P>::new();
        let mut setting = self.slot.setting.lock();
        let Some(goroutine) = self.still_to_come(&mut setting) else { return false };
        setting.prepared = None;
        self.slot.disarm(&pinned, &mut setting);
        drop(setting);
        goroutine.waiter.outcome.store(what, Ordering::Relaxed);
        let canceller = pinned.try_machine().and_then(Machine::current_goroutine);
        start_next(&pinned, goroutine, canceller.and_then(Goroutine::bubble));
        true
    }

    /// Has the function run after `duration` from now instead; tells whether that could still be done. (In Go a function
    /// that has run can be set to run again; here it runs once.) Go: `Timer.Reset`.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     let later = native::after_func(Duration::from_secs(3600), move || sender.send(7).unwrap()).unwrap();
    ///     assert!(later.reset(Duration::from_millis(1)));
    ///     assert_eq!(receiver.recv(), Ok(7));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, or is outside of the [bubble](crate::synctest) where this was made.
    #[doc(alias = "Reset")]
    #[track_caller]
    pub fn reset(&self, duration: Duration) -> bool {
        self.check_bubble(RESET);
        let when = self.home.now().after(duration);
        let here = Here::<P>::new();
        let mut setting = self.slot.setting.lock();
        if self.still_to_come(&mut setting).is_none() {
            return false;
        }
        self.slot.disarm(&here.pinned, &mut setting);
        self.slot.arm(&here, &mut setting, when, Duration::ZERO);
        self.number.store(setting.number, Ordering::Relaxed);
        true
    }

    /// Panics if the calling G is outside of the bubble where this was made, if it was in one.
    #[track_caller]
    fn check_bubble(&self, what: &str) {
        assert!(!self.home.is_foreign(), "{what} from outside bubble");
    }

    /// The G, if nobody has started it. The slot may be somebody else's by now.
    fn still_to_come(&self, setting: &mut Setting<P>) -> Option<&'static Goroutine<P>> {
        if setting.number == self.number.load(Ordering::Relaxed) { setting.prepared } else { None }
    }
}

impl<P: Platform> fmt::Debug for AfterFunc<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterFunc").field("slot", self.slot).finish_non_exhaustive()
    }
}
