//! Tests the driver with the device in software.

use std::cell::RefCell;
use std::rc::Rc;

use super::block::pattern;
use super::memory::Memory;
use crate::OpenError;
use crate::block::software::{Access, Connection, Fault, Faults, Latency, SoftwareDevice};
use crate::block::{Completion, Device, MAX_QUEUES, MAX_REQUEST_BYTES, Queue, Request, RequestError, SECTOR_SIZE};

const SECTORS: usize = 8_192;
/// The access time of the device.
const ACCESS: u64 = 1_000;
/// The longest time from the submission of a request of one sector to its answer, if the device has nothing else to do.
const LONGEST: u64 = ACCESS + ACCESS / 2 + 2 * SECTOR_SIZE as u64;

#[derive(Clone, Debug)]
struct Shared(Rc<RefCell<SoftwareDevice<Memory>>>);

impl Access for Shared {
    type Memory = Memory;

    fn access<R>(&self, body: impl FnOnce(&mut SoftwareDevice<Memory>) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

/// The driver, the device and a clock.
struct Machine {
    device: Device<Connection<Shared>>,
    queues: Vec<Queue>,
    shared: Shared,
    now: u64,
}

impl Machine {
    fn new(is_read_only: bool) -> Self {
        Self::open(pattern(SECTORS * SECTOR_SIZE, 1), is_read_only, Faults::NONE).expect("the device can be used")
    }

    /// Makes a device whose request with the number `number` has a fault.
    fn with_fault(fault: Fault, number: u64) -> Self {
        let faults = Faults::new(fault, Some(number), 0);
        Self::open(pattern(SECTORS * SECTOR_SIZE, 1), false, faults).expect("the device can be used")
    }

    fn open(content: Vec<u8>, is_read_only: bool, faults: Faults) -> Result<Self, OpenError> {
        let device = SoftwareDevice::new(content.leak(), is_read_only, Latency::new(ACCESS, 0), faults);
        let shared = Shared(Rc::new(RefCell::new(device)));
        let (device, queues) = Device::open::<Memory>(Connection(shared.clone()), usize::MAX, usize::MAX)?;
        Ok(Self { device, queues, shared, now: 0 })
    }

    /// Submits a request, and lets the device take and finish it. Returns the number by which the answer names it.
    fn submit(&mut self, queue: usize, request: Request, data: &[u8]) -> u16 {
        let bytes = match request {
            Request::Read { bytes, .. } | Request::Write { bytes, .. } => bytes,
            Request::Flush | Request::Discard { .. } => 0,
        };
        let count = self.device.properties().buffers_for(bytes);
        let mut buffers = self.queues[queue].take_buffers(count).expect("free buffers");
        buffers.write(0, data);
        let slot = buffers.slot();
        self.queues[queue].submit(request, buffers, self.now).expect("the request is allowed");
        self.notify(queue);
        slot
    }

    fn notify(&mut self, queue: usize) {
        while let Some(mut work) = self.shared.access(|device| device.take(queue as u16, self.now)) {
            while self.shared.access(|device| device.transfer(&mut work)) {}
            self.shared.access(|device| device.finish(work, queue));
        }
    }

    /// Lets the time pass until the next answer is due, and returns this answer.
    fn next(&mut self, queue: usize) -> Completion {
        let due = self.shared.access(|device| device.next_due(queue)).expect("a pending request");
        assert_eq!(self.shared.access(|device| device.complete(due - 1)), None, "before the answer is due");
        self.now = due;
        assert_eq!(self.shared.access(|device| device.complete(due)), Some(queue as u16));
        self.queues[queue].complete().expect("an answer")
    }

    fn run(&mut self, queue: usize, request: Request, data: &[u8]) -> Result<Vec<u8>, RequestError> {
        let submitted = self.submit(queue, request, data);
        let Completion { slot, buffers, result } = self.next(queue);
        assert_eq!(slot, submitted);
        let buffers = buffers.expect("the buffers come back");
        let mut found = vec![0; if let Request::Read { bytes, .. } = request { bytes } else { 0 }];
        buffers.read(0, &mut found);
        self.queues[queue].put_buffers(buffers);
        result.map(|()| found)
    }
}

#[test]
fn data_is_read_as_it_was_written() {
    let mut machine = Machine::new(false);
    assert_eq!(machine.queues.len(), MAX_QUEUES);
    let mut content = pattern(SECTORS * SECTOR_SIZE, 1);
    let least = MAX_REQUEST_BYTES.min(machine.device.properties().segment_bytes * 8);
    for (seed, (sector, bytes)) in (2..).zip([(0, 512), (3, 4_096), (9, 4_608), (100, least), (SECTORS - 1, 512)]) {
        let (queue, start) = (seed as usize % MAX_QUEUES, sector * SECTOR_SIZE);
        let data = pattern(bytes, seed);
        content[start..start + bytes].copy_from_slice(&data);
        assert_eq!(machine.run(queue, Request::Write { sector: sector as u64, bytes }, &data), Ok(Vec::new()));
    }
    machine.run(0, Request::Discard { sector: 5, sectors: 2 }, &[]).expect("discarded");
    content[5 * SECTOR_SIZE..7 * SECTOR_SIZE].fill(0);
    machine.run(0, Request::Flush, &[]).expect("flushed");
    for sector in (0..SECTORS).step_by(64) {
        let bytes = 64 * SECTOR_SIZE;
        let found = machine.run(1, Request::Read { sector: sector as u64, bytes }, &[]).expect("read");
        assert!(found == content[sector * SECTOR_SIZE..][..bytes], "64 sectors from {sector} on");
    }
    Memory::check_surroundings();
}

#[test]
fn requests_are_answered_when_they_are_due() {
    let mut machine = Machine::new(false);
    for sector in 0..5 {
        machine.submit(0, Request::Read { sector, bytes: SECTOR_SIZE }, &[]);
    }
    let mut answers: Vec<(u16, u64)> = (0..5).map(|_| (machine.next(0).slot, machine.now)).collect();
    assert!(answers.is_sorted_by_key(|answer| answer.1));
    // The access times differ, so the requests overtake each other.
    assert!(!answers.is_sorted_by_key(|answer| answer.0), "{answers:?}");
    assert!(answers.iter().all(|answer| (ACCESS..=LONGEST).contains(&answer.1)), "{answers:?}");
    answers.sort_unstable();
    assert!(answers.iter().map(|answer| answer.0).eq(0..5));
}

#[test]
fn each_timer_fires_for_its_own_requests() {
    let mut machine = Machine::new(false);
    machine.submit(2, Request::Flush, &[]);
    assert_eq!(machine.shared.access(|device| device.next_due(1)), None);
    assert!(machine.shared.access(|device| device.next_due(2)).is_some());
    machine.next(2);
    assert_eq!(machine.shared.access(|device| device.next_due(2)), None);
}

#[test]
fn read_only_device_offers_no_writes() {
    let mut machine = Machine::new(true);
    let properties = machine.device.properties();
    assert!(properties.is_read_only && properties.max_discard_sectors == 0);
    let found = machine.run(0, Request::Read { sector: 0, bytes: SECTOR_SIZE }, &[]);
    assert_eq!(found.expect("read"), pattern(SECTOR_SIZE, 1));
}

#[test]
fn device_has_whole_sectors() {
    for (bytes, sectors) in [(0, 0), (511, 0), (512, 1), (5_000, 9)] {
        let machine = Machine::open(vec![0; bytes], false, Faults::NONE).expect("the device can be used");
        assert_eq!(machine.device.properties().sectors, sectors);
    }
}

#[test]
fn request_in_flight_is_answered_once_after_a_reset() {
    let mut machine = Machine::new(false);
    let data = pattern(SECTOR_SIZE, 9);
    machine.submit(0, Request::Write { sector: 1, bytes: SECTOR_SIZE }, &data);
    // The reset also drops a request that the device has taken, but not finished. The driver submits it again.
    let buffers = machine.queues[0].take_buffers(1).expect("a free buffer");
    machine.queues[0].submit(Request::Flush, buffers, machine.now).expect("the request is allowed");
    let work = machine.shared.access(|device| device.take(0, 0)).expect("a request");
    let mut queues: Vec<_> = machine.queues.iter_mut().collect();
    machine.device.reset(1, &mut queues, |_, ended| panic!("{ended:?}"));
    assert_eq!(machine.shared.access(|device| device.finish(work, 0)), None);
    assert_eq!(machine.shared.access(|device| device.next_due(0)), None);
    machine.notify(0);
    let mut slots = [machine.next(0).slot, machine.next(0).slot];
    slots.sort_unstable();
    assert_eq!((slots, machine.shared.access(|device| device.next_due(0))), ([0, 1], None));
    assert_eq!(machine.run(1, Request::Read { sector: 1, bytes: SECTOR_SIZE }, &[]).expect("read"), data);
}

#[test]
fn faults_of_a_request_do_not_concern_the_others() {
    for (fault, failure) in [(Fault::Short, RequestError::Short), (Fault::Error, RequestError::Failed)] {
        let mut machine = Machine::with_fault(fault, 2);
        let (data, write) = (pattern(SECTOR_SIZE, 9), Request::Write { sector: 1, bytes: SECTOR_SIZE });
        machine.run(0, write, &data).expect("written");
        assert_eq!(machine.run(0, write, &pattern(SECTOR_SIZE, 8)), Err(failure));
        let found = machine.run(0, Request::Read { sector: 1, bytes: SECTOR_SIZE }, &[]).expect("read");
        assert_eq!(found == data, fault == Fault::Error, "a short answer comes after the data was transferred");
    }
}

#[test]
fn lost_request_is_answered_after_a_reset() {
    let mut machine = Machine::with_fault(Fault::Lost, 1);
    let lost = machine.submit(0, Request::Flush, &[]);
    assert_eq!(machine.shared.access(|device| device.next_due(0)), None);
    let mut queues: Vec<_> = machine.queues.iter_mut().collect();
    machine.device.reset(1, &mut queues, |_, ended| panic!("{ended:?}"));
    machine.notify(0);
    assert_eq!(machine.next(0).slot, lost);
}

#[test]
fn wrong_completions_break_the_device() {
    for (fault, is_answered) in [(Fault::WrongId, false), (Fault::Twice, true)] {
        let mut machine = Machine::with_fault(fault, 2);
        machine.run(0, Request::Flush, &[]).expect("flushed");
        machine.submit(0, Request::Flush, &[]);
        let due = machine.shared.access(|device| device.next_due(0)).expect("a pending request");
        machine.shared.access(|device| device.complete(due));
        assert_eq!(machine.queues[0].complete().is_some(), is_answered);
        assert!(machine.queues[0].complete().is_none());
        assert_eq!(machine.queues[0].broken(), Some(RequestError::Broken));
    }
}
