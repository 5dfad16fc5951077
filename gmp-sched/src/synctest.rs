//! Bubbles: groups of Gs with a clock of their own, which jumps to the next timer when all Gs of the group wait. For
//! tests of code that takes time, on threads and in the simulator. Go: `testing/synctest`, `runtime/synctest.go`.
//!
//! A G that is spawned by a G of a bubble is in the same bubble. For the Gs of a bubble,
//! [`time::now`](crate::time::now) is the bubble's clock. Their timers belong to the bubble, too. The G that called
//! [`test()`] is the bubble's *driver*, which fires these timers. The bubble counts its *active* Gs, which are those
//! that do not [wait durably](#durable-waits). A G that decrements the count to zero readies the G in [`wait`]. If no G
//! is in [`wait`], or if a timer is due, it readies the driver instead, which fires the due timers or advances the
//! clock.
//!
//! # Durable waits
//!
//! A G waits durably if only another G or a timer of its bubble can end the wait. When all Gs wait durably, nothing
//! more happens in the bubble until the clock advances. If something outside of the bubble can end the wait of a G, the
//! clock does not advance before that wait has ended.
//!
//! | a G of a bubble waits for | durable? |
//! |---|---|
//! | the other side of a channel, a [`Timer`](crate::time::Timer) or [`Ticker`](crate::time::Ticker) | if it was made in the bubble |
//! | one of several channels or timers, in a [select](mod@crate::select) | if all of them were made in the bubble |
//! | something that never happens: a [`never`](crate::chan::Receiver::never) channel, a select without cases | yes |
//! | a point in time | yes |
//! | a [`WaitGroup`](crate::sync::WaitGroup) | if its tasks were added in the bubble |
//! | another G, by its handle or as a coroutine | if that G is in the bubble |
//! | the children of a [scope](crate::scope) | yes |
//! | a [`Once`](crate::sync::Once) and the types built on it, such as `SingleFlight` | if a G of the bubble runs the function |
//! | a [`Condvar`](crate::sync::Condvar), [`Barrier`](crate::sync::Barrier), [`Semaphore`](crate::sync::Semaphore) | yes, wherever it was made: a G outside of the bubble that ends the wait panics |
//! | the end of a [context](crate::cancel) | yes, wherever it was made: it must be cancelled in the bubble |
//! | a mutex, a reader-writer lock, a future, a device, a system call, a stop of the world | no |
//! | a condition of the program, in [`park`](crate::park::park) | no |
//!
//! A [`Limit`](crate::cancel::Limit) does not make a wait durable: while a G waits in a way that is not durable, the
//! clock does not advance, so no deadline passes. Some kinds of wait are durable in some cases only. For such a kind,
//! the wait reason of a durable wait ends in `(durable)`, as in Go. (Only joining, once and semaphores differ from Go.
//! Go builds these from mutexes and channels, so in Go they behave as mutexes and channels do.)
//!
//! The cost outside of bubbles is small. A G that parks, spawns or ends checks whether it is in a bubble. A
//! [`WaitGroup`](crate::sync::WaitGroup) checks whether there has ever been a bubble. Readying a G has no additional
//! cost, because the status of the G shows whether it waits in a bubble.

use core::time::Duration;

use crate::base::error::{JoinError, OutOfResources};
use crate::base::forever::make_forever;
use crate::base::instant::Instant;
use crate::base::list::List;
use crate::engine::enqueue::enqueue_next;
use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::entities::bubble::{Bubble, Unused};
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::lifecycle::join::JoinHandle;
use crate::lifecycle::spawn::try_go;
use crate::platform::{Pinned, Platform};

/// Runs `body` in a new bubble, in which time advances only when all Gs of the bubble [wait
/// durably](self#durable-waits). Returns the result of `body` when all Gs of the bubble have ended. Go:
/// `synctest.Test`.
///
/// Blocks the calling G; not callable from interrupts. If a G of the bubble waits, but not
/// [durably](self#durable-waits), a G outside of the bubble may wake it. Until then the clock does not advance. A G
/// outside must not use what belongs to the bubble: its [channels](crate::chan#bubbles), timers and delayed functions,
/// wait groups with tasks of the bubble, and condition variables, barriers and semaphores that its Gs wait for. If a G
/// outside does so, it panics. Contexts may be used everywhere. However, a deadline is compared with the clock of the
/// caller, so a deadline from another clock is meaningless.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, synctest};
///
/// unsafe { native::enter() }.run(2, || {
///     // A day takes no time.
///     let day = Duration::from_secs(24 * 3600);
///     let slept = synctest::test(move || {
///         let start = native::now();
///         let sleeper = native::go(move || native::sleep(day));
///         synctest::wait();
///         assert!(!sleeper.is_finished());
///         sleeper.join().unwrap();
///         native::now() - start
///     });
///     assert_eq!(slept, day);
/// });
/// ```
///
/// # Panics
///
/// - The body panics, or calls `goexit`.
/// - All Gs of the bubble wait, none of them for a timer, and no delayed function is pending: `deadlock: all goroutines
///   in bubble are blocked`.
/// - The body has returned, which stops the clock, and other Gs still wait:
///   `deadlock: main bubble goroutine has exited but blocked goroutines remain`.
/// - There is no memory for the bubble or its main G.
/// - The caller is pinned, is not a G with a P, or is in a bubble.
#[doc(alias = "Test")]
#[track_caller]
pub fn test<Plat: Platform, T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (bubble, main) = match enter::<Plat, T>(body) {
        Ok(entered) => entered,
        Err(error) => panic!("cannot make a bubble: {error}"),
    };
    match bubble.drive(main) {
        Ok(value) => value,
        Err(reason) => panic!("{reason}"),
    }
}

/// Makes a bubble with a main G that runs `body`.
#[track_caller]
fn enter<Plat: Platform, T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<(&'static Bubble<Plat>, JoinHandle<T, Plat>), OutOfResources> {
    let CurrentGoroutine { pinned, me, .. } = CurrentGoroutine::<Plat>::new();
    if me.bubble().is_some() {
        drop(pinned);
        panic!("synctest.Run called from within a synctest bubble");
    }
    let bubble = Bubble::take(&pinned)?;
    // A spawned G gets the bubble of its creator. So the creator is in the bubble during the spawn.
    me.set_bubble(Some(bubble));
    let main = try_go(body);
    me.set_bubble(None);
    match main {
        Ok(main) => Ok((bubble, main)),
        Err(error) => {
            bubble.give_back();
            Err(error)
        }
    }
}

/// Waits until every other G of the calling G's bubble [waits durably](self#durable-waits) and no timer is due. See
/// [`test()`] for an example. Go: `synctest.Wait`.
///
/// Blocks the calling G; not callable from interrupts.
///
/// # Panics
///
/// The caller is pinned, is not a G with a P, or is in no bubble; or another G of the bubble is in this function.
#[doc(alias = "Wait")]
#[track_caller]
pub fn wait<Plat: Platform>() {
    let caller = CurrentGoroutine::<Plat>::new();
    let Some(bubble) = caller.me.bubble() else {
        drop(caller);
        panic!("goroutine is not in a bubble");
    };
    let mut census = bubble.census.lock();
    if census.waiting.is_some() {
        drop(census);
        drop(caller);
        panic!("wait already in progress");
    }
    census.waiting = Some(caller.me);
    drop(census);
    drop(park_with(caller, WaitReason::SynctestWait, |_, _| true));
}

/// Sleeps, then [waits](wait) until nothing is left to do at that time. All timers that are due when the sleep ends
/// have then fired, whether they were set before or after the sleep began. Go: `synctest.Sleep`.
///
/// Blocks the calling G; not callable from interrupts.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, synctest};
///
/// let hour = Duration::from_secs(3600);
/// unsafe { native::enter() }.run(1, move || {
///     synctest::test(move || {
///         let sleeper = native::go(move || native::sleep(hour));
///         synctest::sleep(hour);
///         assert!(sleeper.is_finished());
///     });
/// });
/// ```
///
/// # Panics
///
/// In the same cases as [`wait`].
#[doc(alias = "Sleep")]
#[track_caller]
pub fn sleep<Plat: Platform>(duration: Duration) {
    crate::library::sleep::sleep::<Plat>(duration);
    wait::<Plat>();
}

impl<Plat: Platform> Bubble<Plat> {
    /// Takes an unused bubble, or makes one if there is none.
    fn take(pinned: &Pinned<Plat>) -> Result<&'static Self, OutOfResources> {
        let unused = pinned.machine().scheduler().bubbles.get_or_make(|| Unused::new(List::new()))?;
        let first = unused.lock().pop_front();
        if let Some(bubble) = first {
            bubble.restart();
            return Ok(bubble);
        }
        make_forever(|| Self::new(unused))
    }

    /// Advances the clock until all Gs have ended. Returns the result of `main`. If `main` panicked or called `goexit`,
    /// or if the remaining Gs can never continue, returns a message that says so.
    fn drive<T: Send + 'static>(&'static self, main: JoinHandle<T, Plat>) -> Result<T, &'static str> {
        loop {
            let pinned = Pinned::<Plat>::of_scheduler();
            let mut census = self.census.lock();
            if census.alive == 0 {
                break;
            }
            if census.active != 0 {
                census.driver = Some(pinned.goroutine());
                drop(park_with(CurrentGoroutine::of(pinned), WaitReason::SynctestRun, |_, _| {
                    drop(census);
                    true
                }));
                continue;
            }
            let earliest = self.timers().earliest();
            if earliest > self.now() {
                if let Some(waiting) = census.waiting.take() {
                    // The driver was readied for a timer, but the timer has been cancelled since. So no timer is due,
                    // and the G in `wait` continues.
                    drop(census);
                    ready_pinned(&pinned, waiting);
                    continue;
                }
                if main.is_finished() {
                    return Err("deadlock: main bubble goroutine has exited but blocked goroutines remain");
                }
                if earliest == Instant::NEVER {
                    return Err("deadlock: all goroutines in bubble are blocked");
                }
            }
            // The driver counts as active while it fires timers. Otherwise a G that a timer has readied could wait
            // again, find that no G is active, and ready the G in `wait` before all due timers have fired.
            census.active += 1;
            drop(census);
            self.advance(earliest);
            self.fire_due(&pinned);
            if let Some(waiting) = self.blocked() {
                ready_pinned(&pinned, waiting);
            }
        }
        // If a timer is still armed, it belongs to a delayed function that will never run, or to a timer or ticker that
        // the program has not dropped. In this case the bubble cannot be reused.
        if self.timers().earliest() == Instant::NEVER {
            let _pinned = Pinned::<Plat>::of_scheduler();
            self.give_back();
        }
        main.join().map_err(|error| match error {
            JoinError::Exited => "the main goroutine of a bubble ended by goexit, so it has no result",
            JoinError::Panicked(_) | JoinError::StackOverflow => "the main goroutine of a bubble panicked",
        })
    }

    /// Fires all due timers, then enqueues the Gs that these timers have readied.
    fn fire_due(&'static self, pinned: &Pinned<Plat>) {
        // The order of timers that are due at the same time is random, as in Go. So tests cannot rely on the order in
        // which these timers ready Gs, or on which case a select takes.
        self.timers().shuffle_due(self.now(), || pinned.processor().random() >> 31 != 0);
        let mut readied = List::<Goroutine<Plat>>::new();
        while let Some(action) = self.timers().pop_due(self.now()) {
            if let Some(goroutine) = action.run(pinned, self.now()) {
                readied.push_back(goroutine);
            }
        }
        // The readied Gs are enqueued only after all timers have fired, because a G that runs may stop another timer.
        while let Some(goroutine) = readied.pop_front() {
            enqueue_next(pinned, goroutine);
        }
    }
}
