//! The handles of a channel, counted per side. The channel is closed when the last handle of one side is dropped, and
//! freed when no handle of either side is left.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use super::channel::Channel;
use super::header::Side;
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::entities::bubble::BubbleRef;
use crate::platform::Platform;

/// A handle of one side. `SIDE` is [`SEND`] or [`RECEIVE`].
pub(super) struct Handle<T, Plat: Platform, const SIDE: u32> {
    channel: NonNull<Channel<T, Plat>>,
}

/// The sending side.
pub(super) const SEND: u32 = Side::Send as u32;
/// The receiving side.
pub(super) const RECEIVE: u32 = Side::Receive as u32;

// SAFETY: through a handle a G sends values of type `T` to other Gs and receives values from them, hence `T: Send`. The
// other parts of the channel are atomic, or guarded by the channel's lock, or never change.
unsafe impl<T: Send, Plat: Platform, const SIDE: u32> Send for Handle<T, Plat, SIDE> {}
// SAFETY: a reference to a handle allows only what a clone of the handle allows, and clones are `Send`.
unsafe impl<T: Send, Plat: Platform, const SIDE: u32> Sync for Handle<T, Plat, SIDE> {}

/// Maximum number of handles per side. Only a program that leaks handles can reach it, because a leaked handle needs no
/// memory but stays in the count. The maximum keeps the count from overflowing.
const LIMIT: usize = isize::MAX as usize;

/// One handle for each side.
type Pair<T, Plat> = (Handle<T, Plat, SEND>, Handle<T, Plat, RECEIVE>);

/// Makes a channel with one handle for each side.
pub(super) fn pair<T, Plat: Platform>(capacity: usize) -> Result<Pair<T, Plat>, OutOfResources> {
    let channel = allocate(Channel::new(capacity, BubbleRef::current())?)?;
    Ok((Handle { channel }, Handle { channel }))
}

/// Makes a channel that has a handle of one side only. The channel is open, although the other side has no handle.
pub(super) fn single<T, Plat: Platform, const SIDE: u32>() -> Result<Handle<T, Plat, SIDE>, OutOfResources> {
    Ok(Handle { channel: allocate(Channel::never()?)? })
}

fn allocate<T, Plat: Platform>(channel: Channel<T, Plat>) -> Result<NonNull<Channel<T, Plat>>, OutOfResources> {
    // SAFETY: a channel has fields, so its size is not zero.
    let memory = unsafe { alloc(Layout::new::<Channel<T, Plat>>()) };
    let memory = NonNull::new(memory).ok_or(OutOfResources)?.cast();
    // SAFETY: the memory has just been allocated with the layout of a channel.
    unsafe { memory.write(channel) };
    Ok(memory)
}

impl<T, Plat: Platform, const SIDE: u32> Handle<T, Plat, SIDE> {
    fn count(&self) -> &AtomicUsize {
        if SIDE == SEND { &self.sender_count } else { &self.receiver_count }
    }

    #[cold]
    fn last_of_its_side(&self) {
        // The channel is closed already if it was closed explicitly, or if the last handle of the other side was
        // dropped first. A closed channel stays closed, so this check needs no lock.
        if !self.header.is_closed() {
            self.close();
        }
        if SIDE == RECEIVE {
            // No receiver is left for the values in the buffer, and none can be added.
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

impl<T, Plat: Platform, const SIDE: u32> Deref for Handle<T, Plat, SIDE> {
    type Target = Channel<T, Plat>;

    #[inline(always)]
    fn deref(&self) -> &Channel<T, Plat> {
        // SAFETY: only the drop of the last handle frees the channel, so the channel is alive here. Until then all
        // references to the channel are shared.
        unsafe { self.channel.as_ref() }
    }
}

impl<T, Plat: Platform, const SIDE: u32> Clone for Handle<T, Plat, SIDE> {
    #[inline]
    fn clone(&self) -> Self {
        // Ordering: Relaxed, as in `Arc`, because passing the clone to another thread synchronises.
        let before = self.count().fetch_add(1, Ordering::Relaxed);
        assert!(before < LIMIT, "too many handles of a channel");
        Self { channel: self.channel }
    }
}

impl<T, Plat: Platform, const SIDE: u32> Drop for Handle<T, Plat, SIDE> {
    #[inline]
    fn drop(&mut self) {
        // Ordering: Release publishes what was done through this handle; Acquire makes that visible to the drop of the
        // last handle.
        if self.count().fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last_of_its_side();
        }
    }
}

impl<T, Plat: Platform, const SIDE: u32> fmt::Debug for Handle<T, Plat, SIDE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(if SIDE == SEND { "Sender" } else { "Receiver" })
            .field("len", &self.header.len())
            .field("capacity", &self.header.capacity)
            .field("closed", &self.header.is_closed())
            .finish_non_exhaustive()
    }
}
