//! The handles of a channel, counted on each side: what goes when the last of one side goes, and the memory when both
//! have.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use super::channel::Channel;
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::platform::{OutOfResources, Platform};
use crate::synctest::Home;

/// One of the handles of one side. `SIDE` is [`SEND`] or [`RECEIVE`].
pub(super) struct Handle<T, P: Platform, const SIDE: bool> {
    channel: NonNull<Channel<T, P>>,
}

/// The side that sends.
pub(super) const SEND: bool = true;
/// The side that receives.
pub(super) const RECEIVE: bool = false;

// SAFETY: a handle gives a G values of type `T` that another one sent, and the right to send some; nothing else in the
// channel depends on `T`, and all of it is atomic or guarded by the channel's lock.
unsafe impl<T: Send, P: Platform, const SIDE: bool> Send for Handle<T, P, SIDE> {}
// SAFETY: as above; a shared handle can do no more than its clones.
unsafe impl<T: Send, P: Platform, const SIDE: bool> Sync for Handle<T, P, SIDE> {}

/// Handles of one side at most: far more than fit into memory, so that forgotten ones cannot wrap the count.
const LIMIT: usize = isize::MAX as usize;

/// One handle for each side.
type Pair<T, P> = (Handle<T, P, SEND>, Handle<T, P, RECEIVE>);

/// A new channel with one handle for each side.
pub(super) fn pair<T, P: Platform>(capacity: usize) -> Result<Pair<T, P>, OutOfResources> {
    let channel = allocate(Channel::new(capacity, false, Home::here())?)?;
    Ok((Handle { channel }, Handle { channel }))
}

/// The only handle of a channel whose other side was never there and still is not gone.
pub(super) fn single<T, P: Platform, const SIDE: bool>() -> Result<Handle<T, P, SIDE>, OutOfResources> {
    Ok(Handle { channel: allocate(Channel::new(0, true, Home::none())?)? })
}

fn allocate<T, P: Platform>(channel: Channel<T, P>) -> Result<NonNull<Channel<T, P>>, OutOfResources> {
    // SAFETY: a channel has fields, so its size is not zero.
    let memory = unsafe { alloc(Layout::new::<Channel<T, P>>()) };
    let memory = NonNull::new(memory).ok_or(OutOfResources)?.cast();
    // SAFETY: just allocated, with the layout of what is written.
    unsafe { memory.write(channel) };
    Ok(memory)
}

impl<T, P: Platform, const SIDE: bool> Handle<T, P, SIDE> {
    fn count(&self) -> &AtomicUsize {
        if SIDE == SEND { &self.sender_count } else { &self.receiver_count }
    }

    #[cold]
    fn last_of_its_side(&self) {
        // Once closed it stays so. Nearly always the other side has gone before, or goes after this.
        if !self.header.is_closed() {
            self.close();
        }
        if SIDE == RECEIVE {
            // Nobody is left to receive these, and none is added any more.
            self.drain();
        }
        // Ordering: Release: all that this side did comes before; Acquire: all that the other did comes before the end.
        if self.is_half_gone.swap(true, Ordering::AcqRel) {
            // SAFETY: no handle of either side is left, this one is being dropped, and Gs use a channel only by a handle
            // that is borrowed meanwhile.
            unsafe {
                self.channel.drop_in_place();
            }
            // SAFETY: as above; allocated with this layout.
            unsafe {
                dealloc(self.channel.as_ptr().cast(), Layout::new::<Channel<T, P>>());
            }
        }
    }
}

impl<T, P: Platform, const SIDE: bool> Deref for Handle<T, P, SIDE> {
    type Target = Channel<T, P>;

    #[inline(always)]
    fn deref(&self) -> &Channel<T, P> {
        // SAFETY: it is freed by the last handle only, and never borrowed mutably before.
        unsafe { self.channel.as_ref() }
    }
}

impl<T, P: Platform, const SIDE: bool> Clone for Handle<T, P, SIDE> {
    #[inline]
    fn clone(&self) -> Self {
        // Ordering: Relaxed, as in `Arc`: whoever passes the clone on orders it.
        let before = self.count().fetch_add(1, Ordering::Relaxed);
        assert!(before < LIMIT, "too many handles of a channel");
        Self { channel: self.channel }
    }
}

impl<T, P: Platform, const SIDE: bool> Drop for Handle<T, P, SIDE> {
    #[inline]
    fn drop(&mut self) {
        // Ordering: Release: what was done by this handle comes before what the last one does, which therefore acquires.
        if self.count().fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last_of_its_side();
        }
    }
}

impl<T, P: Platform, const SIDE: bool> fmt::Debug for Handle<T, P, SIDE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(if SIDE == SEND { "Sender" } else { "Receiver" })
            .field("len", &self.header.len())
            .field("capacity", &self.header.capacity)
            .field("closed", &self.header.is_closed())
            .finish_non_exhaustive()
    }
}
