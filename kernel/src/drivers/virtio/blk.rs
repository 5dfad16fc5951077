//! The virtio block device. A request blocks the calling G with its M, and the device's interrupt reports the
//! completion.
//!
//! The queue has 16 entries. A request takes 3 of them, so 5 requests can be in flight. Each of them uses one *slot*: a
//! bounce buffer in the DMA pool and an entry of the completion table. Slots are allocated when the device is set up,
//! so a request does not allocate. [`admission`](super::admission) decides which caller gets a slot. The life of a
//! request:
//!
//! ```text
//! thread:   get a slot ▶ (copy in) ▶ submit, notify ▶ park ..........▶ copy out ▶ return the slot
//! handler:                                             pop, mark, unpark
//! ```
//!
//! If a device violates the protocol, for example by completing a request that was not submitted, the driver stops
//! using the device. All current and later requests to the device fail, and its memory in the DMA pool is never reused.
//!
//! There is no timeout. If the host does not answer, the calling G waits for ever, and all other Gs continue.

use core::fmt;
use core::slice;

use virtio_drivers::device::blk::{BlkResp, VirtIOBlk};
use virtio_drivers::transport::pci::bus::DeviceFunction;

use super::admission::{Admission, Grant, Slot, Waiter};
use super::hal::DmaPool;
use super::request::{Buffers, Direction, InFlight, Outcome, SLOT_PAGES};
use super::transport::{self, Doorbell, MessageTransport};
use crate::arch::x86_64::interrupts;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::drivers::disk_error::{RequestError, SetupError};
use crate::drivers::pci;
use crate::mm::{PAGE_SIZE, dma};
use crate::sched::blocking::Blocked;
use crate::sched::kthread::KernelThread;

pub(crate) use super::request::REQUEST_BYTES;
pub(crate) use virtio_drivers::device::blk::SECTOR_SIZE;

/// Number of entries of the queue that virtio-drivers sets up.
const QUEUE_ENTRIES: usize = 16;
/// Number of entries that a request takes: header, data and status.
const REQUEST_ENTRIES: usize = 3;
/// Number of slots, which is the largest number of requests in flight.
const SLOTS: usize = QUEUE_ENTRIES / REQUEST_ENTRIES;

/// The state under the device's lock.
struct Driver {
    queue: VirtIOBlk<DmaPool, MessageTransport>,
    /// The completion table: for each slot, the request that is in flight.
    in_flight: [Option<InFlight>; SLOTS],
    admission: Admission<SLOTS>,
    is_broken: bool,
}

/// A virtio block device on the PCI bus.
pub(crate) struct BlockDevice {
    driver: InterruptMutex<Driver>,
    doorbell: Doorbell,
    buffers: [Buffers; SLOTS],
    outcomes: [Outcome; SLOTS],
    sectors: u64,
    is_read_only: bool,
}

impl fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDevice").field("sectors", &self.sectors).finish_non_exhaustive()
    }
}

/// The right to use a slot. Dropping this value returns the slot.
struct Admitted<'a> {
    device: &'a BlockDevice,
    slot: Slot,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let thread = self.device.driver.lock().admission.give_back(self.slot);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }
}

impl BlockDevice {
    /// Sets up the device. Its interrupts go to `cpu`, where they call `handler` with its argument.
    ///
    /// # Errors
    /// If the device lacks or refuses something that the driver needs. The device is then not used.
    pub(super) fn open(
        root: &mut pci::Root,
        function: DeviceFunction,
        cpu: CpuId,
        handler: (fn(usize), usize),
    ) -> Result<Self, SetupError> {
        transport::check(root, function)?;
        pci::map_bars(root, function)?;
        pci::enable(root, function);
        let vector = interrupts::allocate(handler.0, handler.1).map_err(|_| SetupError::NoVector)?;
        pci::route_messages(root, function, vector, cpu)?;
        let (transport, doorbell) = transport::open(root, function)?;
        let registers = transport.common();
        let queue = VirtIOBlk::new(transport).map_err(|error| match error {
            virtio_drivers::Error::DmaError => SetupError::OutOfMemory,
            _ => SetupError::Refused,
        })?;
        if !transport::is_routed(registers) {
            return Err(SetupError::Refused);
        }
        let memory = dma::allocate(SLOTS * SLOT_PAGES)?;
        let buffers = core::array::from_fn(|slot| {
            // SAFETY: the range has `SLOTS * SLOT_PAGES` pages, so the result is within it.
            let start = unsafe { memory.add(slot * SLOT_PAGES * PAGE_SIZE) };
            // SAFETY: each slot has its own pages, and the pool has filled these pages with zeros.
            unsafe { Buffers::new(start) }
        });
        Ok(Self {
            sectors: queue.capacity(),
            is_read_only: queue.readonly(),
            driver: InterruptMutex::new(Driver {
                queue,
                in_flight: [const { None }; SLOTS],
                admission: Admission::new(),
                is_broken: false,
            }),
            doorbell,
            buffers,
            outcomes: [const { Outcome::new() }; SLOTS],
        })
    }

    /// Number of sectors.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Whether the device is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Reads whole sectors from `sector` on. Copies their bytes to `buffer`, except the first `skip` bytes, until
    /// `buffer` is full.
    ///
    /// # Errors
    /// See [`RequestError`]. After an error `buffer` is unchanged.
    ///
    /// # Panics
    /// If the sectors are together larger than [`REQUEST_BYTES`], or end past the end of the disk.
    pub(crate) fn read(
        &self,
        blocked: &Blocked,
        sector: u64,
        skip: usize,
        buffer: &mut [u8],
    ) -> Result<(), RequestError> {
        let bytes = (skip + buffer.len()).next_multiple_of(SECTOR_SIZE);
        let admitted = self.admit(blocked)?;
        let admitted = self.run(blocked, admitted, Direction::Read, sector, bytes)?;
        let data = self.buffers[usize::from(admitted.slot)].data;
        // SAFETY: `run` has checked that `bytes` fits into the slot's data buffer, and `skip` is at most `bytes`.
        let data = unsafe { data.add(skip) };
        // SAFETY: this thread holds the slot, and the device has completed the slot's request. So nothing else accesses
        // the data buffer.
        buffer.copy_from_slice(unsafe { slice::from_raw_parts(data.as_ptr(), buffer.len()) });
        Ok(())
    }

    /// Writes whole sectors from `sector` on.
    ///
    /// # Errors
    /// See [`RequestError`]. After `Refused`, the sectors are unchanged. After other errors, their contents are
    /// undefined.
    ///
    /// # Panics
    /// If `data` does not consist of whole sectors, is longer than [`REQUEST_BYTES`], or does not fit on the disk.
    pub(crate) fn write(&self, blocked: &Blocked, sector: u64, data: &[u8]) -> Result<(), RequestError> {
        assert!(
            data.len() <= REQUEST_BYTES && data.len().is_multiple_of(SECTOR_SIZE),
            "whole sectors, no more than fit"
        );
        let admitted = self.admit(blocked)?;
        let bounce = self.buffers[usize::from(admitted.slot)].data;
        // SAFETY: this thread holds the slot, and no request of the slot is in flight. So nothing else accesses the
        // buffer. The assertion above ensures that `data` fits.
        unsafe { slice::from_raw_parts_mut(bounce.as_ptr(), data.len()) }.copy_from_slice(data);
        self.run(blocked, admitted, Direction::Write, sector, data.len()).map(drop)
    }

    /// Waits until a slot is free, and takes it.
    fn admit(&self, blocked: &Blocked) -> Result<Admitted<'_>, RequestError> {
        let waiter = Waiter::new(blocked.thread());
        {
            let mut driver = self.driver.lock();
            if driver.is_broken {
                return Err(RequestError::Broken);
            }
            if let Some(slot) = driver.admission.take() {
                return Ok(Admitted { device: self, slot });
            }
            // SAFETY: `waiter` is queued only once. It stays at its address on this stack, because the wait below ends
            // only when the grant is decided.
            unsafe { driver.admission.wait(&waiter) };
        }
        let mut grant = None;
        blocked.wait_until(|| {
            grant = waiter.grant();
            grant.is_some()
        });
        match grant {
            Some(Grant::Slot(slot)) => Ok(Admitted { device: self, slot }),
            Some(Grant::Refused) | None => Err(RequestError::Broken),
        }
    }

    /// Submits a request and waits until it is completed.
    fn run<'a>(
        &self,
        blocked: &Blocked,
        admitted: Admitted<'a>,
        direction: Direction,
        sector: u64,
        bytes: usize,
    ) -> Result<Admitted<'a>, RequestError> {
        assert!(
            bytes != 0 && bytes <= REQUEST_BYTES && bytes.is_multiple_of(SECTOR_SIZE),
            "whole sectors, no more than fit"
        );
        assert!(sector + (bytes / SECTOR_SIZE) as u64 <= self.sectors, "the request ends on the disk");
        let outcome = &self.outcomes[usize::from(admitted.slot)];
        outcome.begin();
        self.submit(blocked.thread(), admitted.slot, direction, sector, bytes)?;
        self.doorbell.ring();
        let mut result = None;
        blocked.wait_until(|| {
            result = outcome.get();
            result.is_some()
        });
        match result {
            Some(Ok(())) => Ok(admitted),
            Some(Err(RequestError::Broken)) | None => {
                // The device may still use the buffers. So the slot is never returned, and the buffers are never
                // reused.
                core::mem::forget(admitted);
                Err(RequestError::Broken)
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn submit(
        &self,
        thread: &'static KernelThread,
        slot: Slot,
        direction: Direction,
        sector: u64,
        bytes: usize,
    ) -> Result<(), RequestError> {
        let slot = usize::from(slot);
        let Buffers { mut request, mut response, data } = self.buffers[slot];
        let sector = usize::try_from(sector).map_err(|_| RequestError::Refused)?;
        let mut driver = self.driver.lock();
        if driver.is_broken {
            return Err(RequestError::Broken);
        }
        // SAFETY: this thread holds the slot, and no request of the slot is in flight. So nothing else accesses the
        // slot's memory. The header is valid: it contains zeros or the slot's previous request.
        let request = unsafe { request.as_mut() };
        // SAFETY: this thread holds the slot, and no request of the slot is in flight. The response is valid: every
        // byte is a valid status.
        let response = unsafe { response.as_mut() };
        // The default status is an error. So the request succeeds only if the device writes another status.
        *response = BlkResp::default();
        // SAFETY: this thread holds the slot, and no request of the slot is in flight. `run` has checked that `bytes`
        // fits into the buffer.
        let data = unsafe { slice::from_raw_parts_mut(data.as_ptr(), bytes) };
        let token = match direction {
            // SAFETY: the slot stays in use until the request is completed. So only the device accesses the memory
            // until `complete` tells the queue, by the returned token, that the request is completed.
            Direction::Read => unsafe { driver.queue.read_blocks_nb(sector, request, data, response) },
            // SAFETY: the slot stays in use until the request is completed. So only the device accesses the memory
            // until `complete` tells the queue, by the returned token, that the request is completed.
            Direction::Write => unsafe { driver.queue.write_blocks_nb(sector, request, data, response) },
        };
        let token = token.map_err(|_| RequestError::Refused)?;
        driver.in_flight[slot] = Some(InFlight { token, direction, bytes, thread });
        Ok(())
    }

    /// The device's interrupt handler: processes the completed requests, and unparks the threads that wait for them.
    /// Takes the device's lock and does not allocate.
    pub(super) fn serve_interrupt(&self) {
        let mut woken = heapless::Vec::<&'static KernelThread, SLOTS>::new();
        {
            let mut driver = self.driver.lock();
            while !driver.is_broken
                && let Some(token) = driver.queue.peek_used()
            {
                match self.complete(&mut driver, token) {
                    // This cannot fail: each slot has at most one request in flight, so `woken` has room for all
                    // threads.
                    Some(thread) => drop(woken.push(thread)),
                    None => self.give_up(&mut driver),
                }
            }
        }
        for thread in woken {
            thread.unpark();
        }
    }

    /// Marks the request that the queue identifies by `token` as completed, and returns the thread that waits for the
    /// request. Returns `None` if there is no such request, or if the device violates the protocol.
    fn complete(&self, driver: &mut Driver, token: u16) -> Option<&'static KernelThread> {
        let is_it = |entry: &Option<InFlight>| entry.as_ref().is_some_and(|request| request.token == token);
        let slot = driver.in_flight.iter().position(is_it)?;
        let InFlight { direction, bytes, thread, .. } = driver.in_flight[slot].take()?;
        let Buffers { request, mut response, data } = self.buffers[slot];
        // SAFETY: the device has completed the request of this slot, so it does not access the slot's memory any more.
        // The thread that holds the slot does not access the memory either, because it waits.
        let request = unsafe { request.as_ref() };
        // SAFETY: the device has completed the request, and the thread that holds the slot waits. So nothing else
        // accesses the response.
        let response = unsafe { response.as_mut() };
        // SAFETY: the device has completed the request, and the thread that holds the slot waits. So nothing else
        // accesses the data. `bytes` is the length that was submitted.
        let data = unsafe { slice::from_raw_parts_mut(data.as_ptr(), bytes) };
        let result = match direction {
            // SAFETY: these are the buffers that were submitted with this token.
            Direction::Read => unsafe { driver.queue.complete_read_blocks(token, request, data, response) },
            // SAFETY: these are the buffers that were submitted with this token.
            Direction::Write => unsafe { driver.queue.complete_write_blocks(token, request, data, response) },
        };
        let result = match result {
            Ok(()) => Ok(()),
            Err(virtio_drivers::Error::Unsupported) => Err(RequestError::Unsupported),
            // The device has changed its used ring after `peek_used` has read it, or has not written a status. So the
            // device may still use the buffers.
            Err(virtio_drivers::Error::WrongToken | virtio_drivers::Error::NotReady) => {
                driver.in_flight[slot] = Some(InFlight { token, direction, bytes, thread });
                return None;
            }
            Err(_) => Err(RequestError::Failed),
        };
        self.outcomes[slot].set(result);
        Some(thread)
    }

    /// Fails all current and later requests of the device.
    #[cold]
    fn give_up(&self, driver: &mut Driver) {
        driver.is_broken = true;
        for (slot, request) in driver.in_flight.iter_mut().enumerate() {
            if let Some(request) = request.take() {
                self.outcomes[slot].set(Err(RequestError::Broken));
                request.thread.unpark();
            }
        }
        while let Some(thread) = driver.admission.refuse() {
            thread.unpark();
        }
        log::error!("a block device completed a request that it was not given; it is not used any more");
    }
}
