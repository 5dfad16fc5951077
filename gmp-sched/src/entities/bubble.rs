//! A bubble: a clock, timers, and the Gs that use them; see [`crate::synctest`].
//!
//! Primitives and timers refer to a bubble only by a [`BubbleRef`]: the bubble in which they were made, if any.

use core::fmt;

use crate::base::atomic::{AtomicU64, Ordering, StaticU64};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::list::Linked;
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::timers::Timers;
use crate::platform::{Pinned, Platform};

/// A bubble. Like a G it is reused, never freed. Go: `synctestBubble`.
#[doc(alias = "synctestBubble")]
pub(crate) struct Bubble<P: Platform> {
    /// A new number for each use.
    pub(crate) id: AtomicU64,
    pub(crate) clock: AtomicU64,
    pub(crate) timers: Timers<P>,
    pub(crate) census: Lock<Census<P>, P>,
    /// Link of the list of unused bubbles.
    link: AtomicRef<Self>,
}

/// The bubble in which an object was made, if any. The id shows whether the bubble has been reused since.
pub(crate) struct BubbleRef<P: Platform> {
    bubble: Option<&'static Bubble<P>>,
    /// The bubble's id when the object was made. If the bubble's id is another one now, it has been reused.
    id: u64,
}

impl<P: Platform> BubbleRef<P> {
    /// No bubble.
    pub(crate) fn none() -> Self {
        Self { bubble: None, id: NO_BUBBLE }
    }

    /// The bubble of the calling G, if it is a G and in one.
    pub(crate) fn current() -> Self {
        if !may_be_used() {
            return Self::none();
        }
        let pinned = Pinned::<P>::new();
        pinned.try_machine().and_then(Machine::current_goroutine).map_or_else(Self::none, Self::of)
    }

    /// The bubble of `goroutine`, if it is in one.
    pub(crate) fn of(goroutine: &Goroutine<P>) -> Self {
        let bubble = goroutine.bubble();
        Self { bubble, id: bubble.map_or(NO_BUBBLE, |bubble| bubble.id.load(Ordering::Relaxed)) }
    }

    /// The bubble, if there is one.
    pub(crate) fn get(&self) -> Option<&'static Bubble<P>> {
        self.bubble
    }

    /// The current time of its clock, or of the platform's.
    pub(crate) fn now(&self) -> Instant {
        self.bubble.map_or_else(P::now, Bubble::now)
    }

    /// The id of the bubble, or [`NO_BUBBLE`].
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether there is a bubble.
    pub(crate) fn is_some(&self) -> bool {
        self.id != NO_BUBBLE
    }

    /// Whether it is the bubble of the calling G.
    pub(crate) fn is_current(&self) -> bool {
        self.is_some() && Self::current().id == self.id
    }

    /// Whether there is a bubble, and the calling G is not in it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_some() && Self::current().id != self.id
    }
}

impl<P: Platform> Clone for BubbleRef<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for BubbleRef<P> {}

/// The id that stands for no bubble.
pub(crate) const NO_BUBBLE: u64 = 0;

/// The id of the latest bubble of any platform. While it is zero, no bubble was ever made, and no other checks are
/// needed.
static LAST_ID: StaticU64 = StaticU64::new(NO_BUBBLE);

/// Whether a bubble was ever made. Always true for a G in a bubble, and never becomes false again.
#[inline(always)]
pub(crate) fn may_be_used() -> bool {
    // Ordering: Relaxed: a G in a bubble runs after the bubble was made.
    LAST_ID.load(Ordering::Relaxed) != NO_BUBBLE
}

/// A new id.
fn take_id() -> u64 {
    LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
}

/// The Gs of a bubble.
pub(crate) struct Census<P: Platform> {
    /// Number of Gs that have been started and have not ended.
    pub(crate) alive: usize,
    /// Number of living Gs that do not wait durably, plus one for the driver while it advances the clock.
    pub(crate) active: usize,
    /// The G in [`wait`](crate::synctest::wait), while it is parked.
    pub(crate) waiting: Option<&'static Goroutine<P>>,
    /// The driver, the G in [`test`](crate::synctest::test()), while it is parked. It is not in the bubble.
    pub(crate) driver: Option<&'static Goroutine<P>>,
}

/// The initial time of a bubble: midnight UTC, 2000-01-01, as in Go, counted from 1970.
const EPOCH: Instant = Instant::from_nanos(946_684_800 * 1_000_000_000);

impl<P: Platform> Bubble<P> {
    /// A bubble without Gs.
    pub(crate) fn new() -> Result<Self, OutOfResources> {
        Ok(Self {
            id: AtomicU64::new(take_id()),
            clock: AtomicU64::new(EPOCH.as_nanos()),
            timers: Timers::new()?,
            census: Lock::new(Census { alive: 0, active: 0, waiting: None, driver: None }),
            link: AtomicRef::none(),
        })
    }

    /// Makes an unused bubble a new one, with a new id and its clock at the initial time.
    pub(crate) fn restart(&self) {
        self.id.store(take_id(), Ordering::Relaxed);
        self.clock.store(EPOCH.as_nanos(), Ordering::Relaxed);
        self.timers.restart();
    }

    /// Decrements the number of active Gs. If it becomes zero, returns the G to ready: the driver if a timer is due,
    /// otherwise the G in [`wait`](crate::synctest::wait) or the driver. A driver that is not parked will check by
    /// itself.
    pub(crate) fn one_less_active(&self, census: &mut Census<P>) -> Option<&'static Goroutine<P>> {
        census.active -= 1;
        if census.active != 0 {
            None
        } else if self.timers.earliest() <= self.now() {
            census.driver.take()
        } else {
            census.waiting.take().or_else(|| census.driver.take())
        }
    }

    /// The current time of its clock.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Counts a G that has been started in it.
    #[cold]
    pub(crate) fn entered(&self) {
        let mut census = self.census.lock();
        census.alive += 1;
        census.active += 1;
    }

    /// Counts a G that was started in the bubble by a G that waits durably from now on.
    pub(crate) fn entered_for_another(&self) {
        self.census.lock().alive += 1;
    }

    /// Advances the clock to `when`, unless it is later already.
    pub(crate) fn advance(&self, when: Instant) {
        self.clock.fetch_max(when.as_nanos(), Ordering::Relaxed);
    }

    /// Counts a G as active after its durable wait.
    pub(crate) fn unblocked(&self) {
        self.census.lock().active += 1;
    }
}

impl<P: Platform> Linked for Bubble<P> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<P: Platform> fmt::Debug for BubbleRef<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BubbleRef").field("bubble", &self.bubble).field("id", &self.id).finish()
    }
}

impl<P: Platform> fmt::Debug for Bubble<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bubble").field("clock", &self.now()).finish_non_exhaustive()
    }
}
