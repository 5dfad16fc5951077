//! A queue of virtio-drivers, in the largest of four sizes that the device supports.

#![expect(unsafe_code, reason = "promises the queue that only the device uses the memory of a request")]

use alloc::boxed::Box;
use core::{fmt, slice};

use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;
use virtio_drivers::{Hal, Result};

use crate::buffer::Pieces;

/// The largest number of entries of a queue.
pub(crate) const MAX_ENTRIES: usize = 256;
/// The number of entries for each buffer of a queue. A request with one buffer takes two entries: what the device
/// reads, and what it writes. Each further buffer takes one entry.
pub(crate) const BUFFER_ENTRIES: usize = 2;

/// A queue of a device.
pub(crate) struct Ring<H: Hal> {
    /// The number of the queue in its device.
    number: u16,
    sized: AnySize<H>,
}

/// A queue of one of four sizes. The size is a constant of the queue's type, so there is one variant for each size. The
/// queue is on the heap, because it is too large to be moved around on the stacks of the kernel.
enum AnySize<H: Hal> {
    Of256(Box<VirtQueue<H, 256>>),
    Of128(Box<VirtQueue<H, 128>>),
    Of64(Box<VirtQueue<H, 64>>),
    Of16(Box<VirtQueue<H, 16>>),
}

/// Evaluates an expression with the queue, which has a different type in each variant.
macro_rules! with {
    ($ring:expr, $queue:ident => $result:expr) => {
        match $ring {
            AnySize::Of256($queue) => $result,
            AnySize::Of128($queue) => $result,
            AnySize::Of64($queue) => $result,
            AnySize::Of16($queue) => $result,
        }
    };
}

impl<H: Hal> fmt::Debug for Ring<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

impl<H: Hal> Ring<H> {
    /// Sets up the queue `number` of the device. Neither indirect descriptors nor event indices are used. If this
    /// fails, the device does not use the queue.
    pub(crate) fn new(transport: &mut impl Transport, number: u16) -> Result<Self> {
        let sized = match transport.max_queue_size(number) {
            256.. => AnySize::Of256(boxed(transport, number)?),
            128.. => AnySize::Of128(boxed(transport, number)?),
            64.. => AnySize::Of64(boxed(transport, number)?),
            _ => AnySize::Of16(boxed(transport, number)?),
        };
        Ok(Self { number, sized })
    }

    /// Sets up the queue again, with the same size, and frees the memory of the old queue. The device has been reset,
    /// so it no longer uses that memory. Does not use the heap.
    pub(crate) fn renew(&mut self, transport: &mut impl Transport) -> Result<()> {
        with!(&mut self.sized, queue => renew(queue, transport, self.number)?);
        Ok(())
    }

    /// Returns the number of the queue in its device.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> usize {
        match self.sized {
            AnySize::Of256(_) => 256,
            AnySize::Of128(_) => 128,
            AnySize::Of64(_) => 64,
            AnySize::Of16(_) => 16,
        }
    }

    /// Adds a request to the queue. Returns its token: the number that the device returns when it has completed the
    /// request.
    ///
    /// # Safety
    /// Only the device may access `pieces` until [`pop`](Self::pop) has returned the request, or the device has been
    /// reset.
    pub(crate) unsafe fn add(&mut self, pieces: &mut Pieces) -> Result<u16> {
        // SAFETY: the caller promises that nothing else accesses the memory.
        let (inputs, outputs) = unsafe { references(pieces) };
        // SAFETY: the caller promises that only the device accesses the memory until the request is popped.
        with!(&mut self.sized, queue => unsafe { queue.add(inputs, outputs) })
    }

    /// Returns the token of the next completed request. The token comes from the device, so it may be any number.
    pub(crate) fn peek(&self) -> Option<u16> {
        with!(&self.sized, queue => queue.peek_used())
    }

    /// Removes the next completed request from the queue. Returns the number of bytes that the device says it has
    /// written, or an error if the token of this request is no longer `token`.
    ///
    /// # Safety
    /// [`add`](Self::add) has returned `token` for `pieces`, and the request has not been popped since.
    pub(crate) unsafe fn pop(&mut self, token: u16, pieces: &mut Pieces) -> Result<u32> {
        // SAFETY: the memory was given to the queue by `add`, so nothing else but the device accesses it.
        let (inputs, outputs) = unsafe { references(pieces) };
        // SAFETY: the caller promises that this memory was added with this token.
        with!(&mut self.sized, queue => unsafe { queue.pop_used(token, inputs, outputs) })
    }
}

/// Sets up a queue with this number of entries.
///
/// This function is never inlined, because its caller calls it for four sizes. If it were inlined, the caller's stack
/// frame would have room for queues of all four sizes. A queue of 256 entries has 9 KiB, of which an unoptimised build
/// needs several copies.
#[inline(never)]
fn boxed<H: Hal, const ENTRIES: usize>(
    transport: &mut impl Transport,
    number: u16,
) -> Result<Box<VirtQueue<H, ENTRIES>>> {
    Ok(Box::new(VirtQueue::new(transport, number, false, false)?))
}

/// Replaces a queue by a new one with the same number of entries. Never inlined, for the same reason as [`boxed`].
#[inline(never)]
fn renew<H: Hal, const ENTRIES: usize>(
    queue: &mut VirtQueue<H, ENTRIES>,
    transport: &mut impl Transport,
    number: u16,
) -> Result<()> {
    *queue = VirtQueue::new(transport, number, false, false)?;
    Ok(())
}

/// Returns references to the pieces, because virtio-drivers expects references. virtio-drivers uses only their
/// addresses and lengths.
///
/// # Safety
/// The pieces must be initialised memory, to which there are no other references.
unsafe fn references(pieces: &mut Pieces) -> (&[&[u8]], &mut [&mut [u8]]) {
    let (inputs, outputs) = pieces.split();
    // SAFETY: a reference has the same layout as a `NonNull` with the same target. The caller promises that the memory
    // is initialised and that there are no other references to it.
    let inputs = unsafe { slice::from_raw_parts(inputs.as_ptr().cast::<&[u8]>(), inputs.len()) };
    // SAFETY: the same reasons hold for the pieces that the device writes.
    (inputs, unsafe { slice::from_raw_parts_mut(outputs.as_mut_ptr().cast::<&mut [u8]>(), outputs.len()) })
}
