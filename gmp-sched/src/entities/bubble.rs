//! A bubble: a clock, timers, and the Gs that use them; see [`crate::synctest`].
//!
//! Three things can be in a bubble: a G ([`AtomicBubble`]), an object that was made in a bubble ([`BubbleRef`]), and an
//! object that is used in a bubble for some time ([`Association`]). A G that begins to wait checks whether the object
//! that it waits for is in the G's bubble ([`Awaited`]). Without the feature `synctest`, `no_bubble.rs` replaces this
//! file: it has the same interface, and there are no bubbles.

use core::fmt;
use core::marker::PhantomData;

use crate::base::atomic::{AtomicU64, Ordering, StaticU64};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::list::{Linked, List};
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::timers::Timers;
use crate::entities::wait_reason::Awaited;
use crate::platform::{Pinned, Platform};

/// A bubble. Like the slot of a G, a bubble is reused, never freed. Go: `synctestBubble`.
#[doc(alias = "synctestBubble")]
pub(crate) struct Bubble<Plat: Platform> {
    /// The number of the bubble. Each use of the bubble has a new number.
    id: AtomicU64,
    clock: AtomicU64,
    timers: Timers<Plat>,
    pub(crate) census: Lock<Census<Plat>, Plat>,
    /// The list of unused bubbles to which this bubble returns.
    unused: &'static Unused<Plat>,
    link: AtomicRef<Self>,
}

/// The unused bubbles of one scheduler.
pub(crate) type Unused<Plat> = Lock<List<Bubble<Plat>>, Plat>;

/// The type of the references to bubbles in code outside of this file. Without the feature `synctest`, an `Option` of
/// this type has size zero.
pub(crate) type BubblePointer<Plat> = &'static Bubble<Plat>;

/// The bubble of a G; `None` if the G is in no bubble.
pub(crate) type AtomicBubble<Plat> = AtomicRef<Bubble<Plat>>;

/// The bubble in which an object was made, if any.
pub(crate) struct BubbleRef<Plat: Platform> {
    bubble: Option<BubblePointer<Plat>>,
    /// The id of the bubble when the object was made. If the bubble has another id now, it has been reused since.
    id: u64,
}

impl<Plat: Platform> BubbleRef<Plat> {
    /// Returns a reference to no bubble.
    pub(crate) fn none() -> Self {
        Self { bubble: None, id: NO_BUBBLE }
    }

    /// Returns the bubble of the calling G. Returns no bubble if that G is in none or if the caller is not a G.
    pub(crate) fn current() -> Self {
        if !may_be_used() {
            return Self::none();
        }
        let pinned = Pinned::<Plat>::of_scheduler();
        pinned.try_machine().and_then(Machine::current_goroutine).map_or_else(Self::none, Self::of)
    }

    /// Returns the bubble of `goroutine`, if the G is in one.
    pub(crate) fn of(goroutine: &Goroutine<Plat>) -> Self {
        if !may_be_used() {
            return Self::none();
        }
        let bubble = goroutine.bubble();
        Self { bubble, id: bubble.map_or(NO_BUBBLE, |bubble| bubble.id.load(Ordering::Relaxed)) }
    }

    /// The bubble, if there is one.
    pub(crate) fn get(&self) -> Option<BubblePointer<Plat>> {
        self.bubble
    }

    /// The current time: that of the bubble's clock, or of the platform's clock if there is no bubble.
    pub(crate) fn now(&self) -> Instant {
        self.bubble.map_or_else(Plat::now, Bubble::now)
    }

    /// Whether this refers to a bubble. Compares only the id.
    pub(crate) fn is_some(&self) -> bool {
        self.id != NO_BUBBLE
    }

    /// Whether there is a bubble, and the calling G is in it.
    pub(crate) fn is_current(&self) -> bool {
        self.is_some() && Self::current().id == self.id
    }

    /// Whether there is a bubble, and the calling G is not in it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_some() && Self::current().id != self.id
    }
}

/// The bubble that an object is associated with while the object is in use.
pub(crate) struct Association<Plat> {
    /// The id of the bubble, or [`NO_BUBBLE`].
    id: AtomicU64,
    _platform: PhantomData<fn(Plat)>,
}

impl<Plat: Platform> Association<Plat> {
    const_fn! {
        /// Returns an association with no bubble.
        pub(crate) fn none() -> Self {
            Self { id: AtomicU64::new(NO_BUBBLE), _platform: PhantomData }
        }
    }

    /// Called before each operation on the object. If the object `is_unused`, associates it with the bubble of the
    /// calling G, or with no bubble if that G is in none. `operation` is the name of the operation for panic messages.
    ///
    /// # Panics
    ///
    /// The object is in use and not associated with the bubble of the calling G.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check(&self, operation: &str, is_unused: impl FnOnce() -> bool) {
        if may_be_used() {
            self.check_caller(operation, is_unused());
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn check_caller(&self, operation: &str, is_unused: bool) {
        let here = BubbleRef::<Plat>::current().id;
        // Ordering: Relaxed for all accesses, because the association does not change while the object is in use. If Gs
        // of different bubbles begin to use the object at the same time, this error is not always detected.
        if is_unused {
            self.id.store(here, Ordering::Relaxed);
        }
        let id = self.id.load(Ordering::Relaxed);
        if id != here {
            let both = id != NO_BUBBLE && here != NO_BUBBLE;
            assert!(!both, "{operation} called from multiple synctest bubbles");
            panic!("{operation} called from inside and outside synctest bubble");
        }
    }
}

impl<Plat: Platform> Awaited for Association<Plat> {
    #[cold]
    fn is_of_current_bubble(&self) -> bool {
        let id = self.id.load(Ordering::Relaxed);
        id != NO_BUBBLE && id == BubbleRef::<Plat>::current().id
    }
}

impl<Plat: Platform> Clone for BubbleRef<Plat> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Plat: Platform> Copy for BubbleRef<Plat> {}

impl<Plat: Platform> PartialEq for BubbleRef<Plat> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The id that is used where there is no bubble.
const NO_BUBBLE: u64 = 0;

/// The id of the latest bubble of any platform. While it is [`NO_BUBBLE`], no bubble was ever made, and all other
/// checks can be skipped.
static LAST_ID: StaticU64 = StaticU64::new(NO_BUBBLE);

/// Whether a bubble was ever made. Once the result is `true`, it stays `true`. A G in a bubble always sees `true`.
#[inline(always)]
fn may_be_used() -> bool {
    // Ordering: Relaxed, because a bubble gets its id before the Gs in the bubble run. So these Gs never see
    // `NO_BUBBLE`.
    LAST_ID.load(Ordering::Relaxed) != NO_BUBBLE
}

/// Returns an id that no bubble has had before.
fn take_id() -> u64 {
    LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
}

/// How many Gs of a bubble are alive and how many are active, and the two Gs that may wait until these counts change.
pub(crate) struct Census<Plat: Platform> {
    /// Number of Gs that have been started and have not ended.
    pub(crate) alive: usize,
    /// Number of living Gs that do not wait durably. The `driver` counts as one more while it advances the clock and
    /// fires timers.
    pub(crate) active: usize,
    /// The G in [`wait`](crate::synctest::wait), while it is parked.
    pub(crate) waiting: Option<&'static Goroutine<Plat>>,
    /// The driver, which is the G in [`test`](crate::synctest::test()), while it is parked. The driver is not in the
    /// bubble.
    pub(crate) driver: Option<&'static Goroutine<Plat>>,
}

/// The initial time of a bubble: midnight UTC, 2000-01-01, as in Go, counted from 1970.
const EPOCH: Instant = Instant::from_nanos(946_684_800 * 1_000_000_000);

impl<Plat: Platform> Bubble<Plat> {
    /// A bubble without Gs.
    pub(crate) fn new(unused: &'static Unused<Plat>) -> Result<Self, OutOfResources> {
        Ok(Self {
            id: AtomicU64::new(take_id()),
            clock: AtomicU64::new(EPOCH.as_nanos()),
            timers: Timers::new()?,
            census: Lock::new(Census { alive: 0, active: 0, waiting: None, driver: None }),
            unused,
            link: AtomicRef::none(),
        })
    }

    /// Turns an unused bubble into a new one, with a new id and with its clock at the initial time.
    pub(crate) fn restart(&self) {
        self.id.store(take_id(), Ordering::Relaxed);
        self.clock.store(EPOCH.as_nanos(), Ordering::Relaxed);
        self.timers.restart();
    }

    /// Puts the bubble on the list of unused bubbles. The bubble must have no Gs and no armed timers. The caller is
    /// pinned.
    pub(crate) fn give_back(&'static self) {
        self.unused.lock().push_front(self);
    }

    /// The bubble's timers, which its driver fires.
    pub(crate) fn timers(&'static self) -> &'static Timers<Plat> {
        &self.timers
    }

    /// Decrements the number of active Gs. If no active G is left, returns the G that the caller must ready, if there
    /// is one. If a timer is due, this is the driver (the G in [`test`](crate::synctest::test())). Otherwise it is the
    /// G in [`wait`](crate::synctest::wait), or the driver if no G is in `wait`. A driver that is not parked is not
    /// returned, because it checks for itself whether anything is left to do.
    fn one_less_active(&self, census: &mut Census<Plat>) -> Option<&'static Goroutine<Plat>> {
        census.active -= 1;
        if census.active != 0 {
            None
        } else if self.timers.earliest() <= self.now() {
            census.driver.take()
        } else {
            census.waiting.take().or_else(|| census.driver.take())
        }
    }

    /// The current time of the bubble's clock.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Adds a G that is being started.
    #[cold]
    pub(crate) fn admit(&'static self, goroutine: &Goroutine<Plat>) {
        goroutine.set_bubble(Some(self));
        let mut census = self.census.lock();
        census.alive += 1;
        census.active += 1;
    }

    /// Removes a G that ends. If no active G is left, returns the G that the caller must ready, if there is one.
    #[cold]
    #[must_use]
    pub(crate) fn dismiss(&self, goroutine: &Goroutine<Plat>) -> Option<&'static Goroutine<Plat>> {
        goroutine.set_bubble(None);
        let mut census = self.census.lock();
        census.alive -= 1;
        self.one_less_active(&mut census)
    }

    /// Decrements the number of active Gs, because a G waits durably or the driver has fired due timers. This is also
    /// correct if a waker has already counted the waiting G as active again. Returns the G that the caller must ready,
    /// if there is one.
    #[must_use]
    pub(crate) fn blocked(&self) -> Option<&'static Goroutine<Plat>> {
        self.one_less_active(&mut self.census.lock())
    }

    /// Advances the clock to `when`. Does nothing if the clock is already later.
    pub(crate) fn advance(&self, when: Instant) {
        self.clock.fetch_max(when.as_nanos(), Ordering::Relaxed);
    }

    /// Counts a G as active after its durable wait.
    pub(crate) fn unblocked(&self) {
        self.census.lock().active += 1;
    }
}

impl<Plat: Platform> Goroutine<Plat> {
    /// Sets the bubble of this G. Called by the G itself or by the code that starts it.
    pub(crate) fn set_bubble(&self, bubble: Option<&'static Bubble<Plat>>) {
        self.bubble.store(bubble, Ordering::Relaxed);
    }
}

impl<Plat: Platform> Linked for Bubble<Plat> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<Plat: Platform> fmt::Debug for BubbleRef<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BubbleRef").field("bubble", &self.bubble).field("id", &self.id).finish()
    }
}

impl<Plat: Platform> fmt::Debug for Bubble<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bubble").field("clock", &self.now()).finish_non_exhaustive()
    }
}
