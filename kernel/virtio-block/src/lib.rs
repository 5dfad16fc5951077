//! The driver's half of the virtio block protocol (Virtual I/O Device 1.2, 5.2), without interrupts, locks and waiting.
//! The kernel adds these three in `drivers/virtio`. The transport is that of the crate virtio-drivers.
//!
//! A [`Device`] has one or several [`Queue`]s of up to 256 entries each. Each queue has its own requests in flight, and
//! its own buffers in memory that the device may access. So CPUs that use different queues share only the device, and
//! each queue can have a lock of its own. Only a reset concerns all queues.
//!
//! A request has one to [`MAX_REQUEST_BUFFERS`] buffers of [`BUFFER_BYTES`] each, as many as its data needs. A device
//! may allow fewer or smaller ones. A request with one buffer consists of two pieces of memory. The device reads the
//! first piece (the header, and the data to write), and writes the second piece (the data read, and the status). Each
//! further buffer adds a piece.
//!
//! If the device offers *indirect descriptors*, and the queue has at least 32 entries, a request takes one entry: that
//! of a table with a descriptor of each piece. The table is in the first buffer of the request, so adding a request
//! allocates nothing. Otherwise each piece takes an entry. A device has at most 256 buffers (17 MiB) in all queues
//! together, and a queue has at most one buffer for each entry, or for two entries without indirect descriptors. So up
//! to 256 requests are in flight, and a request that has its buffers always finds room in the queue.
//!
//! *Event indices*, which would save notifications and interrupts, are not used. They need a full fence between the
//! write of one index and the read of the other (virtio 1.2, 2.7.13.4.1).
//!
//! # Who owns a buffer
//!
//! | from | to | who may access the buffers of a request |
//! |---|---|---|
//! | [`Queue::take_buffers`] | [`Queue::submit`] | the caller, who has the value |
//! | [`Queue::submit`] | [`Queue::complete`] | the device; the queue has the value |
//! | [`Queue::complete`] | [`Queue::put_buffers`] | the caller again |
//!
//! The [`Buffers`] of a request are moved at each of these steps. So the compiler checks that nothing else uses them
//! while the device may use them. A request cannot be cancelled: its buffers are returned only when the device has
//! completed the request, or has been reset. A device never gets the memory of a caller, such as a stack. The reason is
//! that a caller whose time limit has ended the wait may use its memory for other things.
//!
//! A request takes all its buffers at once, or none. A caller that has some of them never waits for more, so callers
//! cannot wait for each other in a circle.
//!
//! # What a device can do
//!
//! The device is not trusted. It may write anything to the memory that it shares with the driver, at any time. Then a
//! request may fail, or return wrong data. But the driver never panics and never accesses other memory. If a buffer is
//! lost, the answer to its request is an error:
//!
//! - A device that completes a request which is not in flight is *broken*. All requests in flight, in all queues, are
//!   answered with [`Failure::Broken`]. Their buffers are never used again, because the device may still access them.
//! - A device that does not answer a request in time can be [reset](Device::reset). The age of each request counts,
//!   because a device may lose one request and answer others.
//!
//! The tests of this crate contain a device that misbehaves in these ways at random, also between any two reads of the
//! driver in one call.
//!
//! # Who waits for an answer
//!
//! An [`AnswerSlot`] is where the answer to a request arrives, and where its caller waits. The kernel adds the lock and
//! the threads.
//!
//! # Frames
//!
//! A network device has queues of another kind: [`Frames`], each buffer of which holds one frame.
//!
//! # A device in software
//!
//! The module [`software`] is the device's half, for a disk in memory. If its requests come at the same times in two
//! runs, its answers come at the same times, too.
//!
//! No function of this crate blocks, except that [`AnswerSlot::wait_for_answer`] waits by a function of its caller.
//! Only [`Device::open`], [`SoftwareDevice::new`](software::SoftwareDevice::new) and the functions that make [`Frames`]
//! use the heap, and the first and the last call [`Hal::dma_alloc`]. A reset uses the memory of the queues again.
//!
//! [`Hal::dma_alloc`]: virtio_drivers::Hal::dma_alloc

// The unit tests use the fake device of the tests in `tests/device`, which needs the standard library.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(test, expect(redundant_imports, reason = "other builds need these imports"))]
#![deny(unsafe_code)]

extern crate alloc;

mod buffer;
mod device;
mod frames;
mod protocol;
mod queue;
mod ring;
mod slot;
pub mod software;
pub mod stripes;

#[cfg(test)]
extern crate self as kernel_virtio_block;
#[cfg(test)]
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../tests/device/fake.rs"]
mod fake;
#[cfg(test)]
mod frames_fuzz;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
#[expect(dead_code, unsafe_code, reason = "the other tests use the rest; the memory is that of a fake device")]
#[path = "../tests/device/memory.rs"]
mod memory;
#[cfg(test)]
mod races;
#[cfg(test)]
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../tests/device/rig.rs"]
mod rig;
#[cfg(test)]
#[expect(unsafe_code, reason = "the memory is that of a fake device")]
#[path = "../tests/device/virtqueue.rs"]
mod virtqueue;

/// Called before each read of memory that the device may write. The arguments are the address and the number of bytes
/// that are read. In the unit tests, the fake device writes to the memory in this function.
#[cfg(not(test))]
#[inline(always)]
const fn before_shared_read(_: *const u8, _: usize) {}
#[cfg(test)]
use races::before_shared_read;

pub use buffer::{BUFFER_BYTES, BUFFER_PAGES, Buffers, MAX_REQUEST_BUFFERS, MAX_REQUEST_BYTES};
pub use device::{Device, MAX_QUEUES, OpenError, reset};
pub use frames::{FRAME_BYTES, Frames};
pub use protocol::{Failure, Properties, Request, SECTOR_SIZE};
pub use queue::{Completion, Queue, Refused};
pub use slot::{AnswerSlot, Mail};
