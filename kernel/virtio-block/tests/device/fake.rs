//! A virtio block device in the memory of the test.

use std::cell::RefCell;

use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{Error, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use kernel_virtio_block::SECTOR_SIZE;

use crate::memory::Memory;
use crate::virtqueue::{Chain, Queue};

/// The properties of the device, and the violations of the protocol that it commits.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) entries: u32,
    pub(crate) queues: u16,
    /// Whether the device offers indirect descriptors.
    pub(crate) is_indirect: bool,
    pub(crate) sectors: u64,
    pub(crate) block_bytes: u32,
    /// The largest number of pieces of data in a request. `None` if the device does not offer the feature.
    pub(crate) max_segments: Option<u32>,
    /// The largest number of bytes in a piece. `None` if the device does not offer the feature.
    pub(crate) max_segment_bytes: Option<u32>,
    pub(crate) is_legacy: bool,
    pub(crate) refuses_features: bool,
    pub(crate) ignores_reset: bool,
    pub(crate) changes_configuration: bool,
    /// How the configuration changes between two reads of it.
    pub(crate) races: Option<Races>,
    /// Reads and writes that touch this sector fail.
    pub(crate) bad_sector: Option<u64>,
    /// When the device reports how many bytes it has written, it reports this many bytes too few.
    pub(crate) written_less: u32,
    pub(crate) writes_no_status: bool,
}

/// Changes of the configuration between any two reads of its words.
#[derive(Clone, Debug)]
pub(crate) struct Races {
    pub(crate) random: fastrand::Rng,
    /// The configuration changes before one of this many reads.
    pub(crate) one_of: u32,
    /// Whether the generation of the configuration then changes, too, as the protocol requires.
    pub(crate) announces: bool,
    /// The other configuration, if there are two that alternate. Otherwise a random word changes.
    pub(crate) other: Option<Configuration>,
}

/// The words of the configuration that the races change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Configuration {
    pub(crate) sectors: u64,
    pub(crate) block_bytes: u32,
    pub(crate) max_segments: u32,
    pub(crate) max_segment_bytes: u32,
    pub(crate) queues: u16,
}

impl Settings {
    pub(crate) fn configuration(&self) -> Configuration {
        let (max_segments, max_segment_bytes) = (self.max_segments.unwrap_or(0), self.max_segment_bytes.unwrap_or(0));
        let Self { sectors, block_bytes, queues, .. } = *self;
        Configuration { sectors, block_bytes, max_segments, max_segment_bytes, queues }
    }

    /// Changes the words, but not whether the device offers them.
    fn set_configuration(&mut self, new: Configuration) {
        (self.sectors, self.block_bytes, self.queues) = (new.sectors, new.block_bytes, new.queues);
        self.max_segments = self.max_segments.map(|_| new.max_segments);
        self.max_segment_bytes = self.max_segment_bytes.map(|_| new.max_segment_bytes);
    }
}

impl Configuration {
    /// Changes a random word. Some of the values make no sense.
    fn change(&mut self, random: &mut fastrand::Rng) {
        let any = random.u32(..);
        match random.u32(..5) {
            0 => self.sectors = [crate::rig::SECTORS, 1, random.u64(..), u64::MAX][random.usize(..4)],
            1 => self.block_bytes = [512, 4_096, 1 << 16, any][random.usize(..4)],
            2 => self.max_segments = [0, 1, 254, any][random.usize(..4)],
            3 => self.max_segment_bytes = [0, 1_040, 1 << 16, any][random.usize(..4)],
            _ => self.queues = [0, 1, 4, any as u16][random.usize(..4)],
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            entries: 256,
            queues: 1,
            is_indirect: true,
            sectors: crate::rig::SECTORS,
            block_bytes: 512,
            max_segments: Some(254),
            max_segment_bytes: None,
            is_legacy: false,
            refuses_features: false,
            ignores_reset: false,
            changes_configuration: false,
            races: None,
            bad_sector: None,
            written_less: 0,
            writes_no_status: false,
        }
    }
}

#[derive(Debug)]
struct State {
    settings: Settings,
    status: DeviceStatus,
    /// The queues that the driver has set up, by number.
    queues: Vec<Option<Queue>>,
    /// Allocated when the driver has set the device up, because the driver never drops a device that it refuses.
    content: Vec<u8>,
    generation: u32,
}

/// A fake device. The driver uses this type as its [`Transport`].
#[derive(Debug)]
pub(crate) struct Fake(RefCell<State>);

/// The device accepts a request only if it reads at most this many bytes and writes at most this many bytes.
const MOST_BYTES: usize = 4 << 20;

/// Reads a number in little endian from `bytes`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    bytes.get(at..at + size).map(|bytes| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

impl State {
    /// Called before each read of the configuration. At random, changes it.
    fn race(&mut self) {
        let mut new = self.settings.configuration();
        let Some(races) = &mut self.settings.races else { return };
        if races.random.u32(..races.one_of) != 0 {
            return;
        }
        match &mut races.other {
            Some(other) => std::mem::swap(&mut new, other),
            None => new.change(&mut races.random),
        }
        self.generation += u32::from(races.announces);
        self.settings.set_configuration(new);
    }

    /// Executes one request. Returns the number of written bytes that the device reports. Returns `None` if the request
    /// is malformed or extends past the end of the content.
    fn serve(&mut self, queue: &Queue, head: u16) -> Option<u32> {
        let [input, output] = queue.pieces(head)?;
        // Garbage in the descriptors could otherwise exhaust the memory of the test.
        (input.bytes().max(output.bytes()) <= MOST_BYTES).then_some(())?;
        let (request, room) = (input.read()?, output.bytes().checked_sub(1)?);
        let (kind, sector) = (number(&request, 0, 4)?, number(&request, 8, 8)?);
        let start = usize::try_from(sector).ok()?.checked_mul(SECTOR_SIZE)?;
        let data = request.get(16..)?;
        let touched = sector..sector + (data.len().max(room) / SECTOR_SIZE) as u64;
        let mut answer = Vec::new();
        let status = match kind {
            _ if !self.accepts(&input, &output) => 1,
            _ if self.settings.bad_sector.is_some_and(|bad| touched.contains(&bad)) => 1,
            0 => {
                answer.extend_from_slice(self.content.get(start..start.checked_add(room)?)?);
                0
            }
            1 => {
                self.content.get_mut(start..start.checked_add(data.len())?)?.copy_from_slice(data);
                0
            }
            4 => 0,
            11 => {
                let first = usize::try_from(number(data, 0, 8)?).ok()?.checked_mul(SECTOR_SIZE)?;
                let bytes = number(data, 8, 4)? as usize * SECTOR_SIZE;
                self.content.get_mut(first..first.checked_add(bytes)?)?.fill(0);
                0
            }
            _ => 2,
        };
        answer.resize(room, 0);
        if !self.settings.writes_no_status {
            answer.push(status);
        }
        output.write(&answer);
        Some((room as u32 + 1).saturating_sub(self.settings.written_less))
    }

    /// Whether a request keeps to the limits that the device has offered. If the device offers no limit for the number
    /// of pieces, a request may have only one piece that the device reads and one that it writes.
    fn accepts(&self, input: &Chain, output: &Chain) -> bool {
        let pieces = input.lengths().len().max(output.lengths().len());
        let mut lengths = input.lengths().chain(output.lengths());
        pieces <= self.settings.max_segments.unwrap_or(1) as usize
            && lengths.all(|bytes| bytes <= self.settings.max_segment_bytes.unwrap_or(u32::MAX) as usize)
    }
}

impl Fake {
    pub(crate) fn new(settings: Settings) -> Self {
        let queues = vec![None; settings.queues.into()];
        Self(RefCell::new(State {
            settings,
            status: DeviceStatus::empty(),
            queues,
            content: Vec::new(),
            generation: 0,
        }))
    }

    /// Frees the content. The driver never drops its transport, so a test with many devices needs this.
    pub(crate) fn free_content(&self) {
        self.0.borrow_mut().content = Vec::new();
    }

    /// Changes the device while the driver uses it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.0.borrow_mut().settings);
    }

    /// Returns the content of a sector.
    pub(crate) fn content(&self, sector: usize) -> Vec<u8> {
        self.0.borrow().content[sector * SECTOR_SIZE..][..SECTOR_SIZE].to_vec()
    }

    /// Executes all requests that are available in all queues.
    pub(crate) fn work(&self) {
        let queues = self.0.borrow().queues.len();
        (0..queues).for_each(|queue| while self.work_once(queue).is_some() {});
    }

    fn work_once(&self, number: usize) -> Option<()> {
        let state = &mut *self.0.borrow_mut();
        let mut queue = state.queues[number]?;
        let head = queue.take()?;
        if let Some(written) = state.serve(&queue, head) {
            queue.complete(head.into(), written);
        }
        state.queues[number] = Some(queue);
        Some(())
    }

    /// Reports the request `token` as completed, whether or not this request is in flight.
    pub(crate) fn complete_wrongly(&self, queue: usize, token: u32) {
        self.complete(queue, token, 1);
    }

    /// Reports the request `token` as completed, with this number of written bytes.
    pub(crate) fn complete(&self, queue: usize, token: u32, written: u32) {
        if let Some(queue) = &mut self.0.borrow_mut().queues[queue] {
            queue.complete(token, written);
        }
    }

    /// Takes the next request from a queue, as a device of another kind than a disk does. Returns its token, and its
    /// memory: what the device may read, and then what it may write.
    pub(crate) fn take(&self, queue: usize) -> Option<(u16, [Chain; 2])> {
        let queue = self.0.borrow_mut().queues[queue].as_mut().and_then(|queue| Some((*queue, queue.take()?)));
        let (queue, token) = queue?;
        Some((token, queue.pieces(token)?))
    }

    /// Takes the next request from a queue, and never completes it.
    pub(crate) fn lose_request(&self, queue: usize) {
        if let Some(queue) = &mut self.0.borrow_mut().queues[queue] {
            let _ = queue.take();
        }
    }

    /// Executes a request of a queue. Rarely loses the request instead, reports a wrong completion, or changes how the
    /// device violates the protocol from now on.
    pub(crate) fn work_at_random(&self, queue: usize, random: &mut fastrand::Rng) {
        match random.u32(..2_000) {
            0 => {
                let bits = random.u32(1..32);
                self.complete_wrongly(queue, random.u32(..1 << bits));
            }
            1 => self.change(|settings| settings.written_less ^= 1),
            2 => self.change(|settings| settings.writes_no_status ^= true),
            3 => self.lose_request(queue),
            4 => self.change(|settings| settings.ignores_reset = random.u32(..4) == 0),
            _ => drop(self.work_once(queue)),
        }
    }

    /// Overwrites random bytes of the shared memory, as a broken device might.
    pub(crate) fn scribble(&self, random: &mut fastrand::Rng, writes: usize) {
        Memory::scribble(random, writes);
    }
}

impl Transport for Fake {
    fn device_type(&self) -> DeviceType {
        DeviceType::Block
    }

    fn read_device_features(&mut self) -> u64 {
        let modern = if self.0.borrow().settings.is_legacy { 0 } else { 1 << 32 };
        let settings = &self.0.get_mut().settings;
        let size = u64::from(settings.max_segment_bytes.is_some()) << 1;
        let segments = u64::from(settings.max_segments.is_some()) << 2;
        let indirect = u64::from(settings.is_indirect) << 28;
        modern | size | segments | indirect | 1 << 6 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 29
    }

    fn write_driver_features(&mut self, features: u64) {
        assert_eq!(features & 1 << 29, 0, "features that the driver does not implement");
    }

    /// The configuration may contain another number of queues than the device has.
    fn max_queue_size(&mut self, queue: u16) -> u32 {
        let state = self.0.borrow();
        if usize::from(queue) < state.queues.len() { state.settings.entries } else { 0 }
    }

    fn notify(&mut self, _: u16) {}

    fn get_status(&self) -> DeviceStatus {
        self.0.borrow().status
    }

    fn set_status(&mut self, status: DeviceStatus) {
        let state = self.0.get_mut();
        if status == DeviceStatus::empty() {
            if state.settings.ignores_reset {
                state.status = DeviceStatus::DRIVER;
                return;
            }
            state.queues.fill(None);
        }
        if status.contains(DeviceStatus::DRIVER_OK) {
            state.content.resize(crate::rig::SECTORS as usize * SECTOR_SIZE, 0);
        }
        let refused = if state.settings.refuses_features { DeviceStatus::FEATURES_OK } else { DeviceStatus::empty() };
        state.status = status - refused;
    }

    fn set_guest_page_size(&mut self, _: u32) {}

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(&mut self, queue: u16, entries: u32, descriptors: u64, available: u64, used: u64) {
        let entries = entries as u16;
        let queue = &mut self.0.get_mut().queues[usize::from(queue)];
        assert!(queue.is_none(), "a queue is set up again only after a reset");
        *queue = Some(Queue::new(entries, descriptors, available, used));
    }

    fn queue_unset(&mut self, queue: u16) {
        self.0.get_mut().queues[usize::from(queue)] = None;
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.get_mut().queues[usize::from(queue)].is_some()
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }

    fn read_config_generation(&self) -> u32 {
        let mut state = self.0.borrow_mut();
        state.generation += u32::from(state.settings.changes_configuration);
        state.generation
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T> {
        let mut state = self.0.borrow_mut();
        state.race();
        let word = match offset {
            0 => state.settings.sectors as u32,
            4 => (state.settings.sectors >> 32) as u32,
            8 => state.settings.max_segment_bytes.unwrap_or(0),
            12 => state.settings.max_segments.unwrap_or(0),
            20 => state.settings.block_bytes,
            32 => u32::from(state.settings.queues) << 16,
            36 => 1_000,
            _ => return Err(Error::ConfigSpaceTooSmall),
        };
        T::read_from_bytes(word.as_bytes()).map_err(|_| Error::ConfigSpaceTooSmall)
    }

    fn write_config_space<T: IntoBytes + Immutable>(&mut self, _: usize, _: T) -> Result<()> {
        Err(Error::ConfigSpaceTooSmall)
    }
}
