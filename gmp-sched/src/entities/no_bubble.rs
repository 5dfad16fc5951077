//! Replaces `bubble.rs` if the feature `synctest` is off, so that there are no bubbles.
//!
//! No value of [`BubblePointer`] can exist, so an `Option` of it has size zero. The other types of this file have size
//! zero, too. So the compiler removes all code that is only for Gs and objects in bubbles.

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::goroutine::Goroutine;
use crate::entities::timers::Timers;
use crate::entities::wait_reason::Awaited;
use crate::platform::Platform;

/// A reference to a bubble. No value of this type exists.
pub(crate) struct BubblePointer<Plat> {
    never: Infallible,
    _platform: PhantomData<fn(Plat)>,
}

impl<Plat: Platform> BubblePointer<Plat> {
    pub(crate) fn timers(&self) -> &'static Timers<Plat> {
        match self.never {}
    }

    pub(crate) fn admit(&self, _: &Goroutine<Plat>) {
        match self.never {}
    }

    pub(crate) fn dismiss(&self, _: &Goroutine<Plat>) -> Option<&'static Goroutine<Plat>> {
        match self.never {}
    }

    pub(crate) fn blocked(&self) -> Option<&'static Goroutine<Plat>> {
        match self.never {}
    }

    pub(crate) fn unblocked(&self) {
        match self.never {}
    }
}

/// Replaces the word of a G that refers to the G's bubble. The type has size zero, because no G is in a bubble.
pub(crate) struct AtomicBubble<Plat>(PhantomData<fn(Plat)>);

impl<Plat: Platform> AtomicBubble<Plat> {
    pub(crate) const fn none() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn load(&self, _: Ordering) -> Option<BubblePointer<Plat>> {
        None
    }
}

/// Replaces the reference from an object to its bubble. The type has size zero, because no object is in a bubble.
#[derive(Debug)]
pub(crate) struct BubbleRef<Plat>(PhantomData<fn(Plat)>);

impl<Plat: Platform> BubbleRef<Plat> {
    pub(crate) fn none() -> Self {
        Self(PhantomData)
    }

    pub(crate) fn current() -> Self {
        Self::none()
    }

    pub(crate) fn of(_: &Goroutine<Plat>) -> Self {
        Self::none()
    }

    pub(crate) fn get(&self) -> Option<BubblePointer<Plat>> {
        None
    }

    /// The current time of the platform's clock.
    pub(crate) fn now(&self) -> Instant {
        Plat::now()
    }

    pub(crate) fn is_some(&self) -> bool {
        false
    }

    pub(crate) fn is_current(&self) -> bool {
        false
    }

    pub(crate) fn is_foreign(&self) -> bool {
        false
    }
}

impl<Plat> PartialEq for BubbleRef<Plat> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<Plat> Clone for BubbleRef<Plat> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Plat> Copy for BubbleRef<Plat> {}

/// Replaces the type that records with which bubble an object is associated. The type has size zero, because no object
/// is associated with a bubble.
pub(crate) struct Association<Plat>(PhantomData<fn(Plat)>);

impl<Plat: Platform> Association<Plat> {
    pub(crate) const fn none() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn check(&self, _: &str, _: impl FnOnce() -> bool) {}
}

impl<Plat: Platform> Awaited for Association<Plat> {
    fn is_of_current_bubble(&self) -> bool {
        false
    }
}
