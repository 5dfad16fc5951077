//! Bubbles: groups of Gs with a clock of their own, which jumps to the next timer when all of them wait. For tests of what
//! takes time, on threads as in the simulator. Go: `testing/synctest`, `runtime/synctest.go`.
//!
//! A G spawned in a bubble is in it. In there [`time::now`](crate::time::now) is the bubble's clock, and timers are
//! the bubble's own, run by the G that called [`test()`]. A G *waits durably* if only another one of the bubble, or
//! its clock, can be expected to wake it: in a channel, a select, a sleep, a condition, for other Gs; not in a lock that
//! guards data, in a system call, for a device or a future. The bubble counts those that do not, its *active* ones; whoever
//! takes the count to zero readies the G in [`wait`] or the one in [`test()`], and that one lets time go on.
//!
//! What this costs those outside: a look at the G's bubble where it parks, spawns and ends; none where it is readied, since
//! the status says that it waits in a bubble.

use alloc::vec::Vec;
use core::fmt;

use crate::goroutine::{Goroutine, WaitReason};
use crate::join::JoinHandle;
use crate::list::Linked;
use crate::lock::Lock;
use crate::machine::Machine;
use crate::park::{park_pinned, queue, ready_pinned};
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::primitives::{AtomicU64, Ordering};
use crate::reference::AtomicRef;
use crate::spawn::spawn;
use crate::time::Instant;
use crate::timers::Timers;

/// A bubble. Like Gs it is never freed, only reused. Go: `synctestBubble`.
#[doc(alias = "synctestBubble")]
pub(crate) struct Bubble<P: Platform> {
    clock: AtomicU64,
    pub(crate) timers: Timers<P>,
    census: Lock<Census<P>, P>,
    /// Link of the list of those that nobody uses.
    link: AtomicRef<Self>,
}

/// Where something was made: in a bubble, for whose Gs alone it is then, or in none.
#[derive(Clone, Copy)]
pub(crate) struct Home<P: Platform>(Option<&'static Bubble<P>>);

impl<P: Platform> Home<P> {
    /// In no bubble.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// In that of the calling G, if it is a G and in one.
    pub(crate) fn here() -> Self {
        let pinned = Pinned::<P>::new();
        Self(pinned.try_machine().and_then(Machine::current_goroutine).and_then(Goroutine::bubble))
    }

    /// What time it is there.
    pub(crate) fn now(&self) -> Instant {
        self.0.map_or_else(P::now, Bubble::now)
    }

    /// Whether it is a bubble.
    pub(crate) fn is_bubble(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is a bubble, and not that of the calling G.
    pub(crate) fn is_foreign(&self) -> bool {
        self.0.is_some_and(|bubble| !Self::here().0.is_some_and(|here| core::ptr::eq(here, bubble)))
    }
}

/// Who is in a bubble.
struct Census<P: Platform> {
    /// Gs that have been started and have not ended.
    alive: usize,
    /// Those of them that do not wait durably, and one for the driver while it lets time go on.
    active: usize,
    /// The G in [`wait`], while it is parked.
    waiting: Option<&'static Goroutine<P>>,
    /// The G in [`test()`], while it is parked. It is outside.
    driver: Option<&'static Goroutine<P>>,
}

/// Where the clock of a bubble begins: midnight UTC, 2000-01-01, as in Go, counted from 1970.
const EPOCH: Instant = Instant::from_nanos(946_684_800 * 1_000_000_000);

/// Runs `body` in a bubble of its own, where time goes on only when everybody waits for it; gives what it returns when all
/// Gs of the bubble have ended. Go: `synctest.Test`.
///
/// Blocks the calling G; not callable from interrupts. Gs outside may wake those inside, and should not: the bubble does
/// not wait for them. Its [channels](crate::chan#bubbles) and timers they cannot use: that is a panic.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, synctest};
///
/// native::run(2, || {
///     // A day takes no time.
///     let day = Duration::from_secs(24 * 3600);
///     let slept = synctest::test(move || {
///         let start = native::now();
///         let sleeper = native::go(move || native::sleep(day));
///         synctest::wait();
///         assert!(!sleeper.is_finished());
///         sleeper.join().unwrap();
///         native::now().since(start)
///     });
///     assert_eq!(slept, day);
/// });
/// ```
///
/// # Panics
///
/// The body panics. All Gs of the bubble wait and no timer is to wake one: `deadlock: all goroutines in bubble are
/// blocked`. The body has returned, which stops the clock, and others wait on: `deadlock: main bubble goroutine has
/// exited but blocked goroutines remain`. There is no memory for a G; the caller is not a G with a P, or is in a bubble.
#[doc(alias = "Test")]
pub fn test<P: Platform, T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (bubble, main) = match enter::<P, T>(body) {
        Ok(entered) => entered,
        Err(error) => panic!("cannot make a bubble: {error}"),
    };
    match bubble.drive(main) {
        Ok(value) => value,
        Err(reason) => panic!("{reason}"),
    }
}

/// Makes a bubble with `body` in it.
fn enter<P: Platform, T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<(&'static Bubble<P>, JoinHandle<T, P>), OutOfResources> {
    let pinned = Pinned::<P>::new();
    let me = pinned.goroutine();
    assert!(me.bubble().is_none(), "synctest.Run called from within a synctest bubble");
    let bubble = Bubble::take(&pinned)?;
    // What a G spawns is in its bubble.
    me.set_bubble(Some(bubble));
    let main = spawn(body);
    me.set_bubble(None);
    Ok((bubble, main?))
}

/// Waits until every other G of the calling G's bubble waits durably. See [`test()`] for an example. Go: `synctest.Wait`.
///
/// Blocks the calling G; not callable from interrupts.
///
/// # Panics
///
/// The caller is in no bubble, or another G of it is in this function.
#[doc(alias = "Wait")]
pub fn wait<P: Platform>() {
    let pinned = Pinned::<P>::new();
    let bubble = pinned.goroutine().bubble().expect("goroutine is not in a bubble");
    let mut census = bubble.census.lock();
    assert!(census.waiting.is_none(), "wait already in progress");
    census.waiting = Some(pinned.goroutine());
    drop(census);
    park_pinned(pinned, WaitReason::SynctestWait, |_, _| true);
}

impl<P: Platform> Bubble<P> {
    /// A bubble that nobody uses, with nobody in it.
    fn take(pinned: &Pinned<P>) -> Result<&'static Self, OutOfResources> {
        let unused = pinned.machine().scheduler().bubbles.lock().pop_front();
        if let Some(bubble) = unused {
            bubble.clock.store(EPOCH.as_nanos(), Ordering::Relaxed);
            bubble.timers.restart();
            return Ok(bubble);
        }
        let mut home = Vec::new();
        home.try_reserve_exact(1).map_err(|_| OutOfResources)?;
        home.push(Self {
            clock: AtomicU64::new(EPOCH.as_nanos()),
            timers: Timers::new()?,
            census: Lock::new(Census { alive: 0, active: 0, waiting: None, driver: None }),
            link: AtomicRef::none(),
        });
        Ok(&home.leak()[0])
    }

    /// What time it is in there.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// A G in it has been started.
    #[cold]
    pub(crate) fn entered(&self) {
        let mut census = self.census.lock();
        census.alive += 1;
        census.active += 1;
    }

    /// A G in it has been started by one that waits durably from now on.
    pub(crate) fn entered_for_another(&self) {
        self.census.lock().alive += 1;
    }

    /// A G in it ends.
    #[cold]
    pub(crate) fn left(&self, pinned: &Pinned<P>, goroutine: &Goroutine<P>) {
        goroutine.set_bubble(None);
        let mut census = self.census.lock();
        census.alive -= 1;
        let woken = census.one_less_active();
        drop(census);
        if let Some(goroutine) = woken {
            ready_pinned(pinned, goroutine);
        }
    }

    /// A G in it waits durably, and may have been woken since.
    pub(crate) fn blocked(&self, pinned: &Pinned<P>) {
        let woken = self.census.lock().one_less_active();
        if let Some(goroutine) = woken {
            ready_pinned(pinned, goroutine);
        }
    }

    /// The durable wait of a G in it is over.
    pub(crate) fn unblocked(&self) {
        self.census.lock().active += 1;
    }

    /// Lets time go on until all have ended; gives the result of `main`, or says why nothing goes on.
    fn drive<T: Send + 'static>(&'static self, main: JoinHandle<T, P>) -> Result<T, &'static str> {
        loop {
            let pinned = Pinned::<P>::new();
            let mut census = self.census.lock();
            if census.alive == 0 {
                break;
            }
            if census.active != 0 {
                census.driver = Some(pinned.goroutine());
                park_pinned(pinned, WaitReason::SynctestRun, |_, _| {
                    drop(census);
                    true
                });
                continue;
            }
            let earliest = self.timers.earliest();
            if main.is_finished() {
                return Err("deadlock: main bubble goroutine has exited but blocked goroutines remain");
            }
            if earliest == Instant::NEVER {
                return Err("deadlock: all goroutines in bubble are blocked");
            }
            // Counted itself, so that those it readies do not find all others waiting before it is through.
            census.active += 1;
            drop(census);
            self.clock.fetch_max(earliest.as_nanos(), Ordering::Relaxed);
            while let Some(action) = self.timers.pop_due(self.now()) {
                if let Some(readied) = action.run(&pinned, self.now()) {
                    queue(&pinned, readied);
                }
            }
            self.blocked(&pinned);
        }
        // A timer that is left belongs to a function that will never run: its bubble cannot be used again.
        if self.timers.earliest() == Instant::NEVER {
            let pinned = Pinned::<P>::new();
            pinned.machine().scheduler().bubbles.lock().push_front(self);
        }
        main.join().map_err(|_| "the main goroutine of a bubble panicked")
    }
}

impl<P: Platform> Census<P> {
    /// Takes one off the active ones; gives the G to be readied if that was the last.
    fn one_less_active(&mut self) -> Option<&'static Goroutine<P>> {
        self.active -= 1;
        if self.active == 0 { self.waiting.take().or_else(|| self.driver.take()) } else { None }
    }
}

impl<P: Platform> Linked for Bubble<P> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<P: Platform> fmt::Debug for Home<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Home").field(&self.0).finish()
    }
}

impl<P: Platform> fmt::Debug for Bubble<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bubble").field("clock", &self.now()).finish_non_exhaustive()
    }
}
