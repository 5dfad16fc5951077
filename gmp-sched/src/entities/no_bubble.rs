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
pub(crate) struct BubblePointer<P> {
    never: Infallible,
    _platform: PhantomData<fn(P)>,
}

impl<P: Platform> BubblePointer<P> {
    pub(crate) fn timers(&self) -> &'static Timers<P> {
        match self.never {}
    }

    pub(crate) fn admit(&self, _: &Goroutine<P>) {
        match self.never {}
    }

    pub(crate) fn dismiss(&self, _: &Goroutine<P>) -> Option<&'static Goroutine<P>> {
        match self.never {}
    }

    pub(crate) fn blocked(&self) -> Option<&'static Goroutine<P>> {
        match self.never {}
    }

    pub(crate) fn unblocked(&self) {
        match self.never {}
    }
}

/// Replaces the word of a G that refers to the G's bubble. The type has size zero, because no G is in a bubble.
pub(crate) struct AtomicBubble<P>(PhantomData<fn(P)>);

impl<P: Platform> AtomicBubble<P> {
    pub(crate) const fn none() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn load(&self, _: Ordering) -> Option<BubblePointer<P>> {
        None
    }
}

/// Replaces the reference from an object to its bubble. The type has size zero, because no object is in a bubble.
#[derive(Debug)]
pub(crate) struct BubbleRef<P>(PhantomData<fn(P)>);

impl<P: Platform> BubbleRef<P> {
    pub(crate) fn none() -> Self {
        Self(PhantomData)
    }

    pub(crate) fn current() -> Self {
        Self::none()
    }

    pub(crate) fn of(_: &Goroutine<P>) -> Self {
        Self::none()
    }

    pub(crate) fn get(&self) -> Option<BubblePointer<P>> {
        None
    }

    /// The current time of the platform's clock.
    pub(crate) fn now(&self) -> Instant {
        P::now()
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

impl<P> PartialEq for BubbleRef<P> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<P> Clone for BubbleRef<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for BubbleRef<P> {}

/// Replaces the type that records with which bubble an object is associated. The type has size zero, because no object
/// is associated with a bubble.
pub(crate) struct Association<P>(PhantomData<fn(P)>);

impl<P: Platform> Association<P> {
    pub(crate) const fn none() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn check(&self, _: &str, _: impl FnOnce() -> bool) {}
}

impl<P: Platform> Awaited for Association<P> {
    fn is_of_current_bubble(&self) -> bool {
        false
    }
}
