//! The drivers' half of virtio (Virtual I/O Device 1.2), without interrupts, locks and waiting. The kernel adds these
//! three in `drivers/virtio`, and the registers.
//!
//! | module | what |
//! |---|---|
//! | `transport` | what the kernel offers to the drivers: the registers of a device, its doorbells, and memory |
//! | `setup` | the steps with any device: [`reset`], [`negotiate`], [`start`] |
//! | `rings` | the memory of a queue |
//! | `ring` | a queue, with the requests in flight |
//! | `lane` | two simpler types of queue: [`Lane`] for one buffer at a time, [`Mailbox`] for short messages |
//! | `memory` | the memory that driver and device share |
//! | [`block`] | disks; also a disk in software |
//! | [`net`] | network devices, with queues of frames |
//! | `slot` | the wait for an answer |
//! | [`device_queue`] | a queue as the device sees it, for devices in software and for the fake devices of the tests |
//!
//! The console and the entropy device need only the queues of `lane`, so their drivers are in the kernel.
//! `docs/add-a-device.md` shows how to add a device.
//!
//! *Event indices*, which would save notifications and interrupts, are not used. They need a full fence between the
//! write of one index and the read of the other (virtio 1.2, 2.7.13.4.1).
//!
//! # Who owns the memory of a request
//!
//! | from | to | who may access the memory |
//! |---|---|---|
//! | [`Queue::take_buffers`] | [`Queue::submit`] | the caller, who has the value |
//! | [`Queue::submit`] | [`Queue::complete`] | the device; the queue has the value |
//! | [`Queue::complete`] | [`Queue::put_buffers`] | the caller again |
//!
//! The table is that of a disk; those of other devices differ only in the names. The [`Buffers`] of a request are moved
//! at each of these steps. So the compiler checks that nothing else uses them while the device may use them. A request
//! cannot be cancelled: its buffers are returned only when the device has completed the request, or has been reset. A
//! device never gets the memory of a caller, such as a stack. The reason is that a caller whose time limit has ended
//! the wait may use its memory for other things.
//!
//! A request takes all its buffers at once, or none. A caller that has some of them never waits for more, so callers
//! cannot wait for each other in a circle.
//!
//! # What a device can do
//!
//! The device is not trusted. It may write anything to the memory that it shares with the driver, at any time. Then a
//! request may fail, or return wrong data. But the driver never panics and never accesses other memory. These errors are
//! treated specially:
//!
//! - A device that completes a request which is not in flight is *broken*. All requests to a disk that are in flight,
//!   in all queues, are answered with [`RequestError::Broken`]. Their buffers are never used again, because the device may
//!   still access them. A network device is reset at once, and goes on: see [`net`].
//! - A disk that does not answer a request in time can be [reset](block::Device::reset). The age of each request
//!   counts, because a device may lose one request and answer others.
//!
//! The tests of this crate contain devices that misbehave in these ways at random, also between any two reads of the
//! driver in one call.
//!
//! No function of this crate blocks, except that [`AnswerSlot::wait_for_answer`] waits by a function of its caller.
//! Only functions that set up a device or a queue use the heap and call [`Dma::allocate`]. A reset uses the memory of
//! the queues again.
//!
//! [`Queue::take_buffers`]: block::Queue::take_buffers
//! [`Queue::submit`]: block::Queue::submit
//! [`Queue::complete`]: block::Queue::complete
//! [`Queue::put_buffers`]: block::Queue::put_buffers
//! [`Buffers`]: block::Buffers
//! [`RequestError::Broken`]: block::RequestError::Broken

#![cfg_attr(not(test), no_std)]
#![cfg_attr(test, expect(redundant_imports, reason = "other builds need these imports"))]
#![deny(unsafe_code)]

extern crate alloc;

pub mod block;
pub mod device_queue;
mod lane;
mod memory;
pub mod net;
mod ring;
mod rings;
mod setup;
mod slot;
#[cfg(test)]
mod tests;
mod transport;

pub use lane::{Lane, Mailbox};
use setup::needs_reset;
pub use setup::{INDIRECT, OpenError, VERSION_1, negotiate, reset, start};
pub use slot::{AnswerSlot, Mail};
pub use transport::{Dma, Doorbell, PAGE_SIZE, Transport};
