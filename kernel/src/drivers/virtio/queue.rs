//! Two simple types of virtqueue (virtio 1.2, 2.7). A queue of the first type passes a single buffer at a time to the
//! device, and a queue of the second type receives a few short messages from the device.
//!
//! The functions take no lock. So a panic may call them, even if it has stopped another CPU in the middle of a call.
//! All words that are shared with the device are atomic, and no word that the device writes is used as an address. So
//! if the device writes a wrong value, the worst result is wrong data.

use core::mem::offset_of;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use virtio_drivers::transport::Transport as _;

use super::transport::{Doorbell, MessageTransport};
use crate::drivers::disk_error::SetupError;
use crate::mm::{OutOfMemory, PAGE_SIZE, dma};

/// The number of descriptors of a queue.
const SIZE: u16 = 8;
/// The flag of a descriptor which says that the device writes to the buffer.
const WRITE: u16 = 2;
/// The flag of the available ring which says that the device need not interrupt.
const NO_INTERRUPT: u16 = 1;
/// The offset of the buffers, which follow the rings in the same memory.
const DATA: usize = 256;
const _: () = assert!(size_of::<Rings>() <= DATA);

/// The part of a queue that the device and the driver share, except for the buffers.
#[repr(C)]
struct Rings {
    descriptors: [Descriptor; SIZE as usize],
    available: Available,
    used: Used,
}

#[repr(C, align(16))]
struct Descriptor {
    address: AtomicU64,
    length: AtomicU32,
    flags: AtomicU16,
    next: AtomicU16,
}

/// The descriptors that the device may use. Only the driver writes this part.
#[repr(C)]
struct Available {
    flags: AtomicU16,
    index: AtomicU16,
    ring: [AtomicU16; SIZE as usize],
}

/// The descriptors that the device has used. Only the device writes this part.
#[repr(C, align(4))]
struct Used {
    flags: AtomicU16,
    index: AtomicU16,
    ring: [UsedDescriptor; SIZE as usize],
}

#[repr(C)]
struct UsedDescriptor {
    descriptor: AtomicU32,
    length: AtomicU32,
}

/// The memory of a queue, which the driver never frees.
struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is only accessed by atomic operations.
unsafe impl Send for Memory {}
// SAFETY: the memory is only accessed by atomic operations.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates `pages` pages, and makes them the memory of a queue of the device.
    fn new(transport: &mut MessageTransport, queue: u16, pages: usize) -> Result<Self, SetupError> {
        if transport.max_queue_size(queue) < u32::from(SIZE) {
            return Err(SetupError::Refused);
        }
        let start = dma::allocate(pages)?;
        let memory = Self { start, bytes: pages * PAGE_SIZE };
        let at = memory.device_address()?;
        let [available, used] =
            [offset_of!(Rings, available), offset_of!(Rings, used)].map(|offset| at + offset as u64);
        transport.queue_set(queue, SIZE.into(), at, available, used);
        if !transport.is_routed(queue) {
            return Err(SetupError::Refused);
        }
        Ok(memory)
    }

    /// Returns the address by which the device accesses the memory.
    fn device_address(&self) -> Result<u64, OutOfMemory> {
        let memory = NonNull::slice_from_raw_parts(self.start, self.bytes);
        Ok(dma::device_address(memory).ok_or(OutOfMemory)?.as_u64())
    }

    fn rings(&self) -> &Rings {
        // SAFETY: the memory is aligned to pages, is longer than `Rings`, was filled with zeros and is never freed. All
        // fields are atomic.
        unsafe { self.start.cast().as_ref() }
    }

    fn data(&self) -> &[AtomicU8] {
        // SAFETY: the memory has at least one page, so the result is within it.
        let data = unsafe { self.start.add(DATA) };
        // SAFETY: the bytes up to the end of the memory are never freed, and are only accessed by atomic operations.
        unsafe { slice::from_raw_parts(data.cast().as_ptr(), self.bytes - DATA) }
    }
}

/// A queue that passes one buffer at a time to the device. The device reads the buffer, or writes to it if the queue is
/// [receiving](Self::receiving).
///
/// Only one caller at a time may fill the buffer and [`send`](Self::send) it. The callers ensure this by a lock of
/// their own. A panic does not take that lock. It stops all other CPUs, and calls [`resume`](Self::resume) before it
/// uses the queue in other ways.
pub(crate) struct Lane {
    memory: Memory,
    doorbell: Doorbell,
    /// How many buffers were ever sent, modulo 2^16.
    sent: AtomicU16,
    /// Whether the device is not notified, so that it never answers. Set by tests.
    is_mute: AtomicBool,
}

impl Lane {
    /// Sets up a queue of a device. The memory of the queue has `pages` pages.
    pub(super) fn new(transport: &mut MessageTransport, queue: u16, pages: usize) -> Result<Self, SetupError> {
        let memory = Memory::new(transport, queue, pages)?;
        let first = &memory.rings().descriptors[0];
        first.address.store(memory.device_address()? + DATA as u64, Ordering::Relaxed);
        let doorbell = transport.doorbell(queue)?;
        let lane = Self { memory, doorbell, sent: AtomicU16::new(0), is_mute: AtomicBool::new(false) };
        lane.set_interrupts(false);
        Ok(lane)
    }

    /// Sets up a queue whose buffer the device writes to. The device interrupts when it has written. The memory of the
    /// queue has one page.
    pub(super) fn receiving(transport: &mut MessageTransport, queue: u16) -> Result<Self, SetupError> {
        let lane = Self::new(transport, queue, 1)?;
        lane.memory.rings().descriptors[0].flags.store(WRITE, Ordering::Relaxed);
        lane.set_interrupts(true);
        Ok(lane)
    }

    /// Returns the buffer. The caller may change it while [`is_idle`](Self::is_idle) returns `true`.
    pub(crate) fn buffer(&self) -> &[AtomicU8] {
        self.memory.data()
    }

    /// Returns how many buffers were ever sent, modulo 2^16.
    pub(crate) fn sent(&self) -> u16 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether the device has used every buffer that was sent.
    pub(crate) fn is_idle(&self) -> bool {
        // Ordering: Acquire, so that the driver changes the buffer only after the device has used it.
        self.memory.rings().used.index.load(Ordering::Acquire) == self.sent()
    }

    /// Returns the number of bytes that the device has written to the last buffer, as reported by the device. A broken
    /// device may report any number. Callable only while [`is_idle`](Self::is_idle) returns `true`, that is, while the
    /// device does not use the buffer.
    pub(super) fn received(&self) -> usize {
        let last = usize::from(self.sent().wrapping_sub(1) % SIZE);
        self.memory.rings().used.ring[last].length.load(Ordering::Relaxed) as usize
    }

    /// Passes the first `length` bytes of the buffer to the device. Callable only while [`is_idle`](Self::is_idle)
    /// returns `true`, that is, while the device does not use the buffer.
    pub(crate) fn send(&self, length: usize) {
        debug_assert!(self.is_idle(), "the device still uses the buffer");
        let bytes = u32::try_from(length).expect("a buffer has a few pages");
        self.memory.rings().descriptors[0].length.store(bytes, Ordering::Relaxed);
        // Ordering: Release; partner: the load in `resume`. A panic that sees the new count also sees the buffer.
        self.sent.store(self.sent().wrapping_add(1), Ordering::Release);
        self.resume();
    }

    /// Notifies the device of the buffer that was sent last, if there is one. A repeated notification has no effect.
    pub(crate) fn resume(&self) {
        let sent = self.sent.load(Ordering::Acquire);
        // Each entry of the ring is 0, which is the only descriptor in use.
        // Ordering: Release. The device sees the descriptor and the buffer when it sees the index.
        self.memory.rings().available.index.store(sent, Ordering::Release);
        if !self.is_mute.load(Ordering::Relaxed) {
            self.doorbell.ring();
        }
    }

    /// Sets whether the device interrupts when it has used a buffer. After turning interrupts on, the caller must check
    /// [`is_idle`](Self::is_idle), because the device may have used the buffer just before.
    pub(crate) fn set_interrupts(&self, are_on: bool) {
        let flags = if are_on { 0 } else { NO_INTERRUPT };
        self.memory.rings().available.flags.store(flags, Ordering::Relaxed);
        // Ordering: SeqCst; partner: the device, which stores its index before it reads the flags (virtio 1.2,
        // 2.7.7.2).
        fence(Ordering::SeqCst);
    }

    /// Withholds all further notifications from the device. Tests use this. A device that is not notified never
    /// answers.
    pub(crate) fn mute(&self) {
        self.is_mute.store(true, Ordering::Relaxed);
    }
}

/// A queue in which the device writes short messages. It has room for [`SIZE`] messages that were not read yet, and
/// later ones are dropped by the device. The device does not interrupt: the driver checks the queue when it has another
/// reason to run.
pub(super) struct Mailbox {
    memory: Memory,
    doorbell: Doorbell,
    /// How many messages were read, modulo 2^16.
    read: AtomicU16,
}

impl Mailbox {
    /// The number of bytes for each message.
    const BYTES: usize = 64;

    /// Sets up a queue of a device.
    pub(super) fn new(transport: &mut MessageTransport, queue: u16) -> Result<Self, SetupError> {
        let memory = Memory::new(transport, queue, 1)?;
        let start = memory.device_address()? + DATA as u64;
        let rings = memory.rings();
        for (index, descriptor) in (0..).zip(&rings.descriptors) {
            descriptor.address.store(start + u64::from(index) * Self::BYTES as u64, Ordering::Relaxed);
            descriptor.length.store(Self::BYTES as u32, Ordering::Relaxed);
            descriptor.flags.store(WRITE, Ordering::Relaxed);
            rings.available.ring[usize::from(index)].store(index, Ordering::Relaxed);
        }
        rings.available.flags.store(NO_INTERRUPT, Ordering::Relaxed);
        // Ordering: Release. The device sees the descriptors and the flag when it sees the index.
        rings.available.index.store(SIZE, Ordering::Release);
        let doorbell = transport.doorbell(queue)?;
        Ok(Self { memory, doorbell, read: AtomicU16::new(0) })
    }

    /// Returns the beginning of the next message, if the device has written one. The device can use the buffer of the
    /// message again.
    pub(super) fn read<const N: usize>(&self) -> Option<[u8; N]> {
        const { assert!(N <= Self::BYTES) };
        let used = &self.memory.rings().used;
        let read = self.read.load(Ordering::Relaxed);
        // Ordering: Acquire, so that the message that the index includes is visible.
        if used.index.load(Ordering::Acquire) == read {
            return None;
        }
        self.read.store(read.wrapping_add(1), Ordering::Relaxed);
        let descriptor = used.ring[usize::from(read % SIZE)].descriptor.load(Ordering::Relaxed);
        // A broken device may have written any number.
        let descriptor = u16::try_from(descriptor).ok().filter(|&descriptor| descriptor < SIZE)?;
        let bytes = self.memory.data().get(usize::from(descriptor) * Self::BYTES..)?.first_chunk::<N>()?;
        let message = bytes.each_ref().map(|byte| byte.load(Ordering::Relaxed));
        self.give_back(descriptor);
        Some(message)
    }

    /// Lets the device write another message to the buffer of this descriptor.
    fn give_back(&self, descriptor: u16) {
        let available = &self.memory.rings().available;
        let index = available.index.load(Ordering::Relaxed);
        available.ring[usize::from(index % SIZE)].store(descriptor, Ordering::Relaxed);
        // Ordering: Release. The last message was read before the device overwrites it, and the device sees the
        // descriptor when it sees the index.
        available.index.store(index.wrapping_add(1), Ordering::Release);
        self.doorbell.ring();
    }
}
