//! The handles of a channel, counted per side. The channel is closed when the last handle of one side is dropped, and
//! freed when no handle of either side is left.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::channel::Channel;
use super::header::Side;
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::entities::bubble::BubbleRef;
use crate::platform::Platform;

/// A handle of the side `S`.
pub(super) struct Handle<T, Plat: Platform, S: OneSide> {
    channel: NonNull<Channel<T, Plat>>,
    side: PhantomData<S>,
}

/// A [`Side`] as a type, so that a handle needs no memory for its side.
pub(super) trait OneSide {
    const SIDE: Side;
}

pub(super) enum Sending {}

impl OneSide for Sending {
    const SIDE: Side = Side::Send;
}

pub(super) enum Receiving {}

impl OneSide for Receiving {
    const SIDE: Side = Side::Receive;
}

// SAFETY: through a handle a G sends values of type `T` to other Gs and receives values from them, hence `T: Send`. The
// other parts of the channel are atomic, or guarded by the channel's lock, or never change.
unsafe impl<T: Send, Plat: Platform, S: OneSide> Send for Handle<T, Plat, S> {}
// SAFETY: a reference to a handle allows only what a clone of the handle allows, and clones are `Send`.
unsafe impl<T: Send, Plat: Platform, S: OneSide> Sync for Handle<T, Plat, S> {}

/// Maximum number of handles per side. Only a program that leaks handles can reach it, because a leaked handle needs no
/// memory but stays in the count. The maximum keeps the count from overflowing.
const LIMIT: usize = isize::MAX as usize;

/// One handle for each side.
type Pair<T, Plat> = (Handle<T, Plat, Sending>, Handle<T, Plat, Receiving>);

/// Makes a channel that belongs to `bubble`, with one handle for each side.
pub(super) fn pair<T, Plat: Platform>(
    capacity: usize,
    bubble: BubbleRef<Plat>,
) -> Result<Pair<T, Plat>, OutOfResources> {
    let channel = allocate(Channel::new(capacity, bubble)?)?;
    Ok((Handle { channel, side: PhantomData }, Handle { channel, side: PhantomData }))
}

/// Makes a channel that has a handle of one side only. The channel is open, although the other side has no handle.
pub(super) fn single<T, Plat: Platform, S: OneSide>() -> Result<Handle<T, Plat, S>, OutOfResources> {
    Ok(Handle { channel: allocate(Channel::never()?)?, side: PhantomData })
}

fn allocate<T, Plat: Platform>(channel: Channel<T, Plat>) -> Result<NonNull<Channel<T, Plat>>, OutOfResources> {
    // SAFETY: a channel has fields, so its size is not zero.
    let memory = unsafe { alloc(Layout::new::<Channel<T, Plat>>()) };
    let memory = NonNull::new(memory).ok_or(OutOfResources)?.cast();
    // SAFETY: the memory has just been allocated with the layout of a channel.
    unsafe { memory.write(channel) };
    Ok(memory)
}

impl<T, Plat: Platform, S: OneSide> Handle<T, Plat, S> {
    fn count(&self) -> &AtomicUsize {
        match S::SIDE {
            Side::Send => &self.sender_count,
            Side::Receive => &self.receiver_count,
        }
    }

    #[cold]
    fn last_of_its_side(&self) {
        // The channel is closed already if it was closed explicitly, or if the last handle of the other side was
        // dropped first. A closed channel stays closed, so this check needs no lock.
        if !self.header.is_closed() {
            self.close();
        }
        if S::SIDE == Side::Receive {
            // No receiver is left for the values in the buffer, and no value can be added any more.
            self.drain();
        }
        // Ordering: Release publishes what Gs did through the handles of this side. Acquire makes visible what Gs did
        // through the handles of the other side, before the channel is freed.
        if self.is_half_gone.swap(true, Ordering::AcqRel) {
            // SAFETY: no other handle of either side is left, and Gs use a channel only while they borrow a handle.
            unsafe {
                self.channel.drop_in_place();
            }
            // SAFETY: no other handle of either side is left, and the channel has been dropped. `allocate` used this
            // layout.
            unsafe {
                dealloc(self.channel.as_ptr().cast(), Layout::new::<Channel<T, Plat>>());
            }
        }
    }
}

impl<T, Plat: Platform, S: OneSide> Deref for Handle<T, Plat, S> {
    type Target = Channel<T, Plat>;

    #[inline(always)]
    fn deref(&self) -> &Channel<T, Plat> {
        // SAFETY: only the drop of the last handle frees the channel, so the channel is alive here. Until then all
        // references to the channel are shared.
        unsafe { self.channel.as_ref() }
    }
}

impl<T, Plat: Platform, S: OneSide> Clone for Handle<T, Plat, S> {
    #[inline]
    fn clone(&self) -> Self {
        // Ordering: Relaxed, as in `Arc`, because passing the clone to another thread synchronises.
        let before = self.count().fetch_add(1, Ordering::Relaxed);
        assert!(before < LIMIT, "too many handles of a channel");
        Self { channel: self.channel, side: PhantomData }
    }
}

impl<T, Plat: Platform, S: OneSide> Drop for Handle<T, Plat, S> {
    #[inline]
    fn drop(&mut self) {
        // Ordering: Release publishes what was done through this handle; Acquire makes that visible to the drop of the
        // last handle.
        if self.count().fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last_of_its_side();
        }
    }
}

impl<T, Plat: Platform, S: OneSide> fmt::Debug for Handle<T, Plat, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match S::SIDE {
            Side::Send => "Sender",
            Side::Receive => "Receiver",
        };
        f.debug_struct(name)
            .field("len", &self.header.len())
            .field("capacity", &self.header.capacity)
            .field("closed", &self.header.is_closed())
            .finish_non_exhaustive()
    }
}
