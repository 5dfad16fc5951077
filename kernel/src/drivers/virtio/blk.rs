//! The virtio block device: requests that block the calling G with its M, completed by interrupt.
//!
//! The queue has 16 entries and a request takes 3, so there are 5 places; [`admission`](super::admission) says who gets
//! one. Each place has a bounce buffer in the DMA pool and a line in the completion table, both made at the start, so
//! that a request allocates nothing. The life of a request:
//!
//! ```text
//! thread:   get a place ▶ (copy in) ▶ submit, ring ▶ park ..........▶ copy out ▶ give the place back
//! handler:                                           pop, mark, unpark
//! ```
//!
//! A device that completes what was not asked of it cannot be trusted with the rest either: from then on all its
//! requests fail, and what it has of the pool is never used again.
//!
//! There is no time limit: a host that does not answer lets its reader wait, while all other Gs run.

use core::fmt;
use core::slice;

use virtio_drivers::device::blk::{BlkResp, VirtIOBlk};
use virtio_drivers::transport::pci::bus::DeviceFunction;

use super::SetupError;
use super::admission::{Admission, Grant, Place, Waiter};
use super::hal::DmaPool;
use super::request::{Buffers, Direction, InFlight, Outcome, PLACE_PAGES};
use super::transport::{self, Doorbell, MessageTransport};
use crate::arch::x86_64::interrupts;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::drivers::pci;
use crate::mm::{PAGE_SIZE, dma};
use crate::sched::blocking::Blocked;
use crate::sched::kthread::KernelThread;

pub(crate) use super::request::REQUEST_BYTES;
pub use super::request::RequestError;
pub(crate) use virtio_drivers::device::blk::SECTOR_SIZE;

/// Entries of the queue, as virtio-drivers has it.
const QUEUE_ENTRIES: usize = 16;
/// Entries that a request takes: what is asked, the data, how it went.
const REQUEST_ENTRIES: usize = 3;
/// Requests that are under way at once.
const PLACES: usize = QUEUE_ENTRIES / REQUEST_ENTRIES;

/// What the lock guards.
struct Driver {
    queue: VirtIOBlk<DmaPool, MessageTransport>,
    /// The completion table.
    in_flight: [Option<InFlight>; PLACES],
    admission: Admission<PLACES>,
    is_broken: bool,
}

/// A disk on the bus.
pub(crate) struct BlockDevice {
    driver: InterruptMutex<Driver>,
    doorbell: Doorbell,
    buffers: [Buffers; PLACES],
    outcomes: [Outcome; PLACES],
    sectors: u64,
    is_read_only: bool,
}

impl fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDevice").field("sectors", &self.sectors).finish_non_exhaustive()
    }
}

/// A place, given back when this is dropped.
struct Admitted<'a> {
    device: &'a BlockDevice,
    place: Place,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let thread = self.device.driver.lock().admission.give_back(self.place);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }
}

impl BlockDevice {
    /// Sets the device up; it is to interrupt `cpu`, which calls `handler`.
    ///
    /// # Errors
    /// What it does not do or have. Then it is off.
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
        let memory = dma::allocate(PLACES * PLACE_PAGES)?;
        let buffers = core::array::from_fn(|place| {
            // SAFETY: inside of what was allocated.
            let start = unsafe { memory.add(place * PLACE_PAGES * PAGE_SIZE) };
            // SAFETY: each place has its own pages, which are zero.
            unsafe { Buffers::new(start) }
        });
        Ok(Self {
            sectors: queue.capacity(),
            is_read_only: queue.readonly(),
            driver: InterruptMutex::new(Driver {
                queue,
                in_flight: [const { None }; PLACES],
                admission: Admission::new(),
                is_broken: false,
            }),
            doorbell,
            buffers,
            outcomes: [const { Outcome::new() }; PLACES],
        })
    }

    /// How many sectors it has.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Whether it takes no writes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Reads whole sectors from `sector` on and copies what comes after the first `skip` bytes of them.
    ///
    /// # Errors
    /// See [`RequestError`]. What is in `buffer` then is not changed.
    ///
    /// # Panics
    /// If it is more than [`REQUEST_BYTES`], or past the end.
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
        let data = self.buffers[usize::from(admitted.place)].data;
        // SAFETY: the request asked for at least that many bytes, and `run` has checked that they fit.
        let data = unsafe { data.add(skip) };
        // SAFETY: the place is ours and the device is through with it.
        buffer.copy_from_slice(unsafe { slice::from_raw_parts(data.as_ptr(), buffer.len()) });
        Ok(())
    }

    /// Writes whole sectors from `sector` on.
    ///
    /// # Errors
    /// See [`RequestError`]. What is on the disk then is not known, except with `Refused`.
    ///
    /// # Panics
    /// If `data` is not whole sectors, more than [`REQUEST_BYTES`], or past the end.
    pub(crate) fn write(&self, blocked: &Blocked, sector: u64, data: &[u8]) -> Result<(), RequestError> {
        assert!(
            data.len() <= REQUEST_BYTES && data.len().is_multiple_of(SECTOR_SIZE),
            "whole sectors, no more than fit"
        );
        let admitted = self.admit(blocked)?;
        let bounce = self.buffers[usize::from(admitted.place)].data;
        // SAFETY: the place is ours, nothing is in flight in it, and it has room.
        unsafe { slice::from_raw_parts_mut(bounce.as_ptr(), data.len()) }.copy_from_slice(data);
        self.run(blocked, admitted, Direction::Write, sector, data.len()).map(drop)
    }

    /// Waits for a place.
    fn admit(&self, blocked: &Blocked) -> Result<Admitted<'_>, RequestError> {
        let waiter = Waiter::new(blocked.thread());
        {
            let mut driver = self.driver.lock();
            if driver.is_broken {
                return Err(RequestError::Broken);
            }
            if let Some(place) = driver.admission.take() {
                return Ok(Admitted { device: self, place });
            }
            // SAFETY: it stays on this stack until the loop below has seen its grant.
            unsafe { driver.admission.wait(&waiter) };
        }
        let mut grant = None;
        blocked.wait_until(|| {
            grant = waiter.grant();
            grant.is_some()
        });
        match grant {
            Some(Grant::Place(place)) => Ok(Admitted { device: self, place }),
            Some(Grant::Refused) | None => Err(RequestError::Broken),
        }
    }

    /// Has the device do a request and waits for it.
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
        let outcome = &self.outcomes[usize::from(admitted.place)];
        outcome.begin();
        self.submit(blocked.thread(), admitted.place, direction, sector, bytes)?;
        self.doorbell.ring();
        let mut result = None;
        blocked.wait_until(|| {
            result = outcome.get();
            result.is_some()
        });
        match result {
            Some(Ok(())) => Ok(admitted),
            Some(Err(RequestError::Broken)) | None => {
                // The device still has the buffers.
                core::mem::forget(admitted);
                Err(RequestError::Broken)
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn submit(
        &self,
        thread: &'static KernelThread,
        place: Place,
        direction: Direction,
        sector: u64,
        bytes: usize,
    ) -> Result<(), RequestError> {
        let place = usize::from(place);
        let Buffers { mut request, mut response, data } = self.buffers[place];
        let sector = usize::try_from(sector).map_err(|_| RequestError::Refused)?;
        let mut driver = self.driver.lock();
        if driver.is_broken {
            return Err(RequestError::Broken);
        }
        // SAFETY: the place is the caller's and nothing is in flight in it; the pages were zero, which is a valid
        // request, and later hold the last one.
        let request = unsafe { request.as_mut() };
        // SAFETY: as above, for the response.
        let response = unsafe { response.as_mut() };
        // Not OK until the device says so.
        *response = BlkResp::default();
        // SAFETY: as above; there are at least that many bytes.
        let data = unsafe { slice::from_raw_parts_mut(data.as_ptr(), bytes) };
        let token = match direction {
            // SAFETY: nobody accesses the memory until `complete` has the token back: the place is taken.
            Direction::Read => unsafe { driver.queue.read_blocks_nb(sector, request, data, response) },
            // SAFETY: as above.
            Direction::Write => unsafe { driver.queue.write_blocks_nb(sector, request, data, response) },
        };
        let token = token.map_err(|_| RequestError::Refused)?;
        driver.in_flight[place] = Some(InFlight { token, direction, bytes, thread });
        Ok(())
    }

    /// Takes what the device has completed. In an interrupt: takes the device's lock, allocates nothing.
    pub(super) fn serve_interrupt(&self) {
        let mut woken = heapless::Vec::<&'static KernelThread, PLACES>::new();
        {
            let mut driver = self.driver.lock();
            while !driver.is_broken
                && let Some(token) = driver.queue.peek_used()
            {
                match self.complete(&mut driver, token) {
                    // There is room: each place was in flight once.
                    Some(thread) => drop(woken.push(thread)),
                    None => self.give_up(&mut driver),
                }
            }
        }
        for thread in woken {
            thread.unpark();
        }
    }

    /// Marks the request with this token as done; gives its thread. `None` if there is no such request.
    fn complete(&self, driver: &mut Driver, token: u16) -> Option<&'static KernelThread> {
        let is_it = |entry: &Option<InFlight>| entry.as_ref().is_some_and(|request| request.token == token);
        let place = driver.in_flight.iter().position(is_it)?;
        let InFlight { direction, bytes, thread, .. } = driver.in_flight[place].take()?;
        let Buffers { request, mut response, data } = self.buffers[place];
        // SAFETY: the device has completed the request of this place.
        let request = unsafe { request.as_ref() };
        // SAFETY: as above.
        let response = unsafe { response.as_mut() };
        // SAFETY: as above; it is the length that was submitted.
        let data = unsafe { slice::from_raw_parts_mut(data.as_ptr(), bytes) };
        let result = match direction {
            // SAFETY: the buffers are those of the submission.
            Direction::Read => unsafe { driver.queue.complete_read_blocks(token, request, data, response) },
            // SAFETY: as above.
            Direction::Write => unsafe { driver.queue.complete_write_blocks(token, request, data, response) },
        };
        let result = match result {
            Ok(()) => Ok(()),
            Err(virtio_drivers::Error::Unsupported) => Err(RequestError::Unsupported),
            // The used ring changed between two looks, or there is no status: the buffers may still be the device's.
            Err(virtio_drivers::Error::WrongToken | virtio_drivers::Error::NotReady) => {
                driver.in_flight[place] = Some(InFlight { token, direction, bytes, thread });
                return None;
            }
            Err(_) => Err(RequestError::Failed),
        };
        self.outcomes[place].set(result);
        Some(thread)
    }

    /// Fails everything that waits for the device, from now on for good.
    #[cold]
    fn give_up(&self, driver: &mut Driver) {
        driver.is_broken = true;
        for (place, request) in driver.in_flight.iter_mut().enumerate() {
            if let Some(request) = request.take() {
                self.outcomes[place].set(Err(RequestError::Broken));
                request.thread.unpark();
            }
        }
        while let Some(thread) = driver.admission.refuse() {
            thread.unpark();
        }
        log::error!("a block device completed a request that it was not given; it is not used any more");
    }
}
