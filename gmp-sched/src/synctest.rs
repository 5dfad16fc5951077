//! Bubbles: groups of Gs with a clock of their own, which jumps to the next timer when all of them wait. For tests of what
//! takes time, on threads as in the simulator. Go: `testing/synctest`, `runtime/synctest.go`.
//!
//! A G started in a bubble is in it. In there [`time::now`](crate::library::time::now) is the bubble's clock, and timers are
//! the bubble's own, run by the G that called [`test()`]. The bubble counts those of its Gs that do not [wait
//! durably](#what-waits-durably), its *active* ones; whoever takes the count to zero readies the G in [`wait`] or the one in
//! [`test()`], and that one lets time go on.
//!
//! # What waits durably
//!
//! A G waits durably if only another one of its bubble, or that one's clock, is to wake it: then what it waits for does not
//! happen unless time goes on. What may come from outside holds the clock.
//!
//! | a G of a bubble waits for | durably? |
//! |---|---|
//! | somebody at the other end of a channel, [`Timer`](crate::library::time::Timer), [`Ticker`](crate::library::time::Ticker) | if that was made in the bubble |
//! | one of several, in a [select](mod@crate::library::select) | if each of them was |
//! | nobody: at a [`never`](crate::library::chan::Receiver::never), in a select without cases | yes |
//! | a point in time | yes |
//! | a [`WaitGroup`](crate::library::sync::WaitGroup) | if what is under way was added in the bubble |
//! | another G, by its handle or as a [coroutine](crate::library::coroutine) | if that one is in the bubble |
//! | the children of a [scope](crate::library::scope) | yes |
//! | a [`Once`](crate::library::sync::Once) and what is built on it, also a [`SingleFlight`](crate::library::sync::SingleFlight) | if a G of the bubble is doing it |
//! | a [`Condvar`](crate::library::sync::Condvar), [`Barrier`](crate::library::sync::Barrier), [`Semaphore`](crate::library::sync::Semaphore) | yes, wherever it was made: who ends the wait from outside of the bubble panics |
//! | the end of a [context](crate::library::cancel) | yes, wherever it was made: who cancels it is to be in the bubble |
//! | a mutex, a reader-writer lock, a future, a device, a system call, a stop of the world | no |
//! | what it has told others of by [`park`](crate::engine::park::park) | no |
//!
//! A deadline or a context besides, a [`Limit`](crate::library::cancel::Limit), changes nothing: while a wait that is not durable
//! holds the clock no deadline comes. The reason shown for a wait that
//! could be either says `(durable)`, as Go's. (In Go joining, once and semaphores, which are made of mutexes and channels
//! there, are what these are; the rest is the same.)
//!
//! What this costs those outside: a look at the G's bubble where it parks, spawns and ends; none where it is readied, since
//! the status says that it waits in a bubble; and in a `WaitGroup` one at whether there has ever been a bubble.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::base::atomic::{AtomicU64, Ordering, StaticU64};
use crate::base::list::{Linked, List};
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::engine::caller::Caller;
use crate::engine::park::{park_because, park_pinned, queue, ready_pinned};
use crate::engine::timers::Timers;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::library::time::Instant;
use crate::lifecycle::join::JoinHandle;
use crate::lifecycle::spawn::spawn;
use crate::platform::{OutOfResources, Pinned, Platform};

/// A bubble. Like Gs it is never freed, only reused. Go: `synctestBubble`.
#[doc(alias = "synctestBubble")]
pub(crate) struct Bubble<P: Platform> {
    /// Which one it is; another each time that it is used.
    id: AtomicU64,
    clock: AtomicU64,
    pub(crate) timers: Timers<P>,
    census: Lock<Census<P>, P>,
    /// Link of the list of those that nobody uses.
    link: AtomicRef<Self>,
}

/// Where something was made: in a bubble, for whose Gs alone it is then, or in none.
pub(crate) struct Home<P: Platform> {
    bubble: Option<&'static Bubble<P>>,
    /// The bubble's own may be another one by now: then it is not this one any more.
    id: u64,
}

impl<P: Platform> Home<P> {
    /// In no bubble.
    pub(crate) fn none() -> Self {
        Self { bubble: None, id: NOWHERE }
    }

    /// In that of the calling G, if it is a G and in one.
    pub(crate) fn here() -> Self {
        if !may_be_used() {
            return Self::none();
        }
        let pinned = Pinned::<P>::new();
        pinned.try_machine().and_then(Machine::current_goroutine).map_or_else(Self::none, Self::of)
    }

    /// In that of the G, if it is in one.
    pub(crate) fn of(goroutine: &Goroutine<P>) -> Self {
        let bubble = goroutine.bubble();
        Self { bubble, id: bubble.map_or(NOWHERE, |bubble| bubble.id.load(Ordering::Relaxed)) }
    }

    /// The bubble, if it is one.
    pub(crate) fn bubble(&self) -> Option<&'static Bubble<P>> {
        self.bubble
    }

    /// What time it is there.
    pub(crate) fn now(&self) -> Instant {
        self.bubble.map_or_else(P::now, Bubble::now)
    }

    /// The number of the bubble, or [`NOWHERE`].
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it is a bubble.
    pub(crate) fn is_bubble(&self) -> bool {
        self.id != NOWHERE
    }

    /// Whether it is the bubble of the calling G.
    pub(crate) fn is_this_bubble(&self) -> bool {
        self.is_bubble() && Self::here().id == self.id
    }

    /// Whether it is a bubble, and not that of the calling G.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_bubble() && Self::here().id != self.id
    }
}

impl<P: Platform> Clone for Home<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Home<P> {}

/// No bubble's number.
pub(crate) const NOWHERE: u64 = 0;

/// The number of the bubble that was made last, whatever the platform. So it tells whether there has ever been one: where
/// nobody tests, nobody looks any further.
static LAST_ID: StaticU64 = StaticU64::new(NOWHERE);

/// Whether there may be a bubble; there always may for a G that is in one. Once it says so it always does.
#[inline(always)]
pub(crate) fn may_be_used() -> bool {
    // Ordering: Relaxed: what the G in a bubble does comes after the bubble was made.
    LAST_ID.load(Ordering::Relaxed) != NOWHERE
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
/// Blocks the calling G; not callable from interrupts. Gs outside may wake those inside that do not [wait
/// durably](self#what-waits-durably): time stands still until they do. What is the bubble's own they are not to touch: its
/// [channels](crate::library::chan#bubbles), timers, functions that run later, groups that count in it, and conditions that its Gs
/// wait for; that is a panic for whoever does. Contexts may be used everywhere; but a deadline is compared with the clock of
/// whoever asks, so one that was made elsewhere says nothing.
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
    let Caller { pinned, me, .. } = Caller::<P>::new();
    if me.bubble().is_some() {
        drop(pinned);
        panic!("synctest.Run called from within a synctest bubble");
    }
    let bubble = Bubble::take(&pinned)?;
    // What a G spawns is in its bubble.
    me.set_bubble(Some(bubble));
    let main = spawn(body);
    me.set_bubble(None);
    match main {
        Ok(main) => Ok((bubble, main)),
        Err(error) => {
            bubble.give_back();
            Err(error)
        }
    }
}

/// Waits until every other G of the calling G's bubble [waits durably](self#what-waits-durably) and nothing is due any more.
/// See [`test()`] for an example. Go: `synctest.Wait`.
///
/// Blocks the calling G; not callable from interrupts.
///
/// # Panics
///
/// The caller is in no bubble, or another G of it is in this function.
#[doc(alias = "Wait")]
pub fn wait<P: Platform>() {
    let caller = Caller::<P>::new();
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
    let reason = WaitReason::SynctestWait;
    park_because(caller, reason, || reason, |_, _| true);
}

/// Sleeps, and then [waits](wait) until nothing is left to do at that time: what is due at the end of the sleep has happened
/// when it is over, whether it was set before or after. Go: `synctest.Sleep`.
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
/// As [`wait`].
#[doc(alias = "Sleep")]
pub fn sleep<P: Platform>(duration: Duration) {
    crate::engine::sleep::sleep::<P>(duration);
    wait::<P>();
}

impl<P: Platform> Bubble<P> {
    /// A bubble that nobody uses, with nobody in it.
    fn take(pinned: &Pinned<P>) -> Result<&'static Self, OutOfResources> {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let unused = pinned.machine().scheduler().bubbles.lock().pop_front();
        if let Some(bubble) = unused {
            bubble.id.store(id, Ordering::Relaxed);
            bubble.clock.store(EPOCH.as_nanos(), Ordering::Relaxed);
            bubble.timers.restart();
            return Ok(bubble);
        }
        let mut home = Vec::new();
        home.try_reserve_exact(1).map_err(|_| OutOfResources)?;
        home.push(Self {
            id: AtomicU64::new(id),
            clock: AtomicU64::new(EPOCH.as_nanos()),
            timers: Timers::new()?,
            census: Lock::new(Census { alive: 0, active: 0, waiting: None, driver: None }),
            link: AtomicRef::none(),
        });
        Ok(&home.leak()[0])
    }

    /// Nobody is in it, and no timer of it is armed: it may be used again.
    fn give_back(&'static self) {
        let pinned = Pinned::<P>::new();
        pinned.machine().scheduler().bubbles.lock().push_front(self);
    }

    /// Takes one off the active ones; gives the G to be readied if that was the last: first the driver for what is due by
    /// now, which may not be parked, but then looks by itself.
    fn one_less_active(&self, census: &mut Census<P>) -> Option<&'static Goroutine<P>> {
        census.active -= 1;
        if census.active != 0 {
            None
        } else if self.timers.earliest() <= self.now() {
            census.driver.take()
        } else {
            census.waiting.take().or_else(|| census.driver.take())
        }
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
        let woken = self.one_less_active(&mut census);
        drop(census);
        if let Some(goroutine) = woken {
            ready_pinned(pinned, goroutine);
        }
    }

    /// A G in it waits durably, and may have been woken since.
    pub(crate) fn blocked(&self, pinned: &Pinned<P>) {
        let woken = self.one_less_active(&mut self.census.lock());
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
            if earliest > self.now() {
                if let Some(waiting) = census.waiting.take() {
                    // What was due has been cancelled.
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
            // Counted itself, so that those it readies do not find all others waiting before it is through.
            census.active += 1;
            drop(census);
            self.clock.fetch_max(earliest.as_nanos(), Ordering::Relaxed);
            let mut readied = List::<Goroutine<P>>::new();
            while let Some(action) = self.timers.pop_due(self.now()) {
                if let Some(goroutine) = action.run(&pinned, self.now()) {
                    readied.push_back(goroutine);
                }
            }
            // As in Go, no test is to rely on the order of what happens at the same time.
            readied.shuffle(|| pinned.processor().random() >> 31 != 0);
            while let Some(goroutine) = readied.pop_front() {
                queue(&pinned, goroutine);
            }
            self.blocked(&pinned);
        }
        // A timer that is left belongs to a function that will never run: its bubble cannot be used again.
        if self.timers.earliest() == Instant::NEVER {
            self.give_back();
        }
        main.join().map_err(|_| "the main goroutine of a bubble panicked")
    }
}

impl<P: Platform> Linked for Bubble<P> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<P: Platform> fmt::Debug for Home<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("bubble", &self.bubble).field("id", &self.id).finish()
    }
}

impl<P: Platform> fmt::Debug for Bubble<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bubble").field("clock", &self.now()).finish_non_exhaustive()
    }
}
