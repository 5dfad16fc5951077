//! A fake virtio device. It is a disk, unless a test uses its queues as those of another device (`take`, `complete`).

use std::cell::RefCell;

use super::memory::Memory;
use crate::Transport;
use crate::block::SECTOR_SIZE;
use crate::device_queue::{Chain, DeviceQueue};

type Queue = DeviceQueue<Memory>;

/// The properties of the device, and the violations of the protocol that it commits.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) entries: u16,
    pub(super) queues: u16,
    /// Features that the device offers beside those of a disk.
    pub(super) features: u64,
    /// Whether the device offers indirect descriptors.
    pub(super) is_indirect: bool,
    /// The first eight bytes of the configuration: the number of sectors of a disk.
    pub(super) sectors: u64,
    pub(super) block_bytes: u32,
    /// The largest number of pieces of data in a request. `None` if the device does not offer the feature.
    pub(super) max_segments: Option<u32>,
    /// The largest number of bytes in a piece. `None` if the device does not offer the feature.
    pub(super) max_segment_bytes: Option<u32>,
    pub(super) is_legacy: bool,
    pub(super) refuses_features: bool,
    pub(super) ignores_reset: bool,
    pub(super) changes_configuration: bool,
    /// How the configuration changes between two reads of it.
    pub(super) races: Option<Races>,
    /// Reads and writes that touch this sector fail.
    pub(super) bad_sector: Option<u64>,
    /// When the device reports how many bytes it has written, it reports this many bytes too few.
    pub(super) written_less: u32,
    pub(super) writes_no_status: bool,
}

/// Changes of the configuration between any two reads of its words.
#[derive(Clone, Debug)]
pub(super) struct Races {
    pub(super) random: fastrand::Rng,
    /// On average, the configuration changes before one in this many reads.
    pub(super) one_of: u32,
    /// Whether the generation of the configuration then changes, too, as the protocol requires.
    pub(super) announces: bool,
    /// The other configuration, if there are two that alternate. Otherwise a random word changes.
    pub(super) other: Option<Configuration>,
}

/// The words of the configuration that the races change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Configuration {
    pub(super) sectors: u64,
    pub(super) block_bytes: u32,
    pub(super) max_segments: u32,
    pub(super) max_segment_bytes: u32,
    pub(super) queues: u16,
}

impl Settings {
    pub(super) fn configuration(&self) -> Configuration {
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
            0 => self.sectors = [super::rig::SECTORS, 1, random.u64(..), u64::MAX][random.usize(..4)],
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
            features: 0,
            is_indirect: true,
            sectors: super::rig::SECTORS,
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
    status: u8,
    /// The queues that the driver has set up, by number.
    queues: Vec<Option<Queue>>,
    /// Allocated when the driver has set the device up.
    content: Vec<u8>,
    generation: u8,
}

/// A fake device. The driver uses this type as its [`Transport`].
#[derive(Debug)]
pub(super) struct Fake(RefCell<State>);

/// Bits of the status.
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
const DEVICE_NEEDS_RESET: u8 = 64;

/// The device accepts a request only if it reads at most this many bytes and writes at most this many bytes.
const MOST_BYTES: usize = 4 << 20;

/// Returns a copy of the memory.
pub(super) fn content(chain: &Chain) -> Vec<u8> {
    let mut bytes = vec![0; chain.bytes()];
    chain.read(0, &mut bytes);
    bytes
}

/// Reads a number in little endian from `bytes`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    bytes.get(at..at + size).map(|bytes| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

impl State {
    /// Called before each read of a word of the configuration. At random, changes the configuration.
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
        self.generation = self.generation.wrapping_add(races.announces.into());
        self.settings.set_configuration(new);
    }

    /// Executes one request. Returns the number of written bytes that the device reports. Returns `None` if the request
    /// is malformed or extends past the end of the content.
    fn serve(&mut self, queue: &Queue, head: u16) -> Option<u32> {
        let [input, output] = queue.chains(head)?;
        // Garbage in the descriptors could otherwise exhaust the memory of the test.
        (input.bytes().max(output.bytes()) <= MOST_BYTES).then_some(())?;
        let (request, room) = (content(&input), output.bytes().checked_sub(1)?);
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
        output.write(0, &answer);
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
    pub(super) fn new(settings: Settings) -> Self {
        let queues = (0..settings.queues).map(|_| None).collect();
        Self(RefCell::new(State { settings, status: 0, queues, content: Vec::new(), generation: 0 }))
    }

    /// Changes the device while the driver uses it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.0.borrow_mut().settings);
    }

    /// Returns the content of a sector.
    pub(super) fn content(&self, sector: usize) -> Vec<u8> {
        self.0.borrow().content[sector * SECTOR_SIZE..][..SECTOR_SIZE].to_vec()
    }

    /// Executes all requests that are available in all queues.
    pub(super) fn work(&self) {
        let queues = self.0.borrow().queues.len();
        (0..queues).for_each(|queue| while self.work_once(queue).is_some() {});
    }

    fn work_once(&self, number: usize) -> Option<()> {
        let state = &mut *self.0.borrow_mut();
        let mut queue = state.queues[number].take()?;
        let head = queue.take();
        if let Some(head) = head
            && let Some(written) = state.serve(&queue, head)
        {
            queue.complete(head.into(), written);
        }
        state.queues[number] = Some(queue);
        head.map(|_| ())
    }

    /// Reports the request `token` as completed, whether or not this request is in flight.
    pub(super) fn complete_wrongly(&self, queue: usize, token: u32) {
        self.complete(queue, token, 1);
    }

    /// Reports the request `token` as completed, with this number of written bytes.
    pub(super) fn complete(&self, queue: usize, token: u32, written: u32) {
        if let Some(queue) = &mut self.0.borrow_mut().queues[queue] {
            queue.complete(token, written);
        }
    }

    /// Takes the next request from a queue, as a device of another kind than a disk does. Returns its token, and its
    /// memory: what the device may read, and then what it may write.
    pub(super) fn take(&self, queue: usize) -> Option<(u16, [Chain; 2])> {
        let state = &mut *self.0.borrow_mut();
        let queue = state.queues[queue].as_mut()?;
        let token = queue.take()?;
        Some((token, queue.chains(token)?))
    }

    /// Takes the next request from a queue, and never completes it.
    pub(super) fn lose_request(&self, queue: usize) {
        if let Some(queue) = &mut self.0.borrow_mut().queues[queue] {
            let _ = queue.take();
        }
    }

    /// Executes a request of a queue. Rarely loses the request instead, reports a wrong completion, or changes how the
    /// device violates the protocol from now on.
    pub(super) fn work_at_random(&self, queue: usize, random: &mut fastrand::Rng) {
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

    /// Says that the device needs a reset.
    pub(super) fn need_reset(&self) {
        self.0.borrow_mut().status |= DEVICE_NEEDS_RESET;
    }

    /// Overwrites random bytes of the shared memory, as a broken device might.
    pub(super) fn scribble(&self, random: &mut fastrand::Rng, writes: usize) {
        Memory::scribble(random, writes);
    }
}

impl Transport for Fake {
    fn offered_features(&mut self) -> u64 {
        let modern = if self.0.borrow().settings.is_legacy { 0 } else { 1 << 32 };
        let settings = &self.0.get_mut().settings;
        let size = u64::from(settings.max_segment_bytes.is_some()) << 1;
        let segments = u64::from(settings.max_segments.is_some()) << 2;
        let indirect = u64::from(settings.is_indirect) << 28;
        settings.features | modern | size | segments | indirect | 1 << 6 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 29
    }

    fn accept_features(&mut self, features: u64) {
        assert_eq!(features & 1 << 29, 0, "features that the driver does not implement");
    }

    fn status(&self) -> u8 {
        self.0.borrow().status
    }

    fn set_status(&mut self, status: u8) {
        let state = self.0.get_mut();
        if status == 0 {
            if state.settings.ignores_reset {
                state.status = DRIVER;
                return;
            }
            state.queues.iter_mut().for_each(|queue| *queue = None);
        }
        if status & DRIVER_OK != 0 {
            state.content.resize(super::rig::SECTORS as usize * SECTOR_SIZE, 0);
        }
        state.status = if state.settings.refuses_features { status & !FEATURES_OK } else { status };
    }

    fn generation(&self) -> u8 {
        let mut state = self.0.borrow_mut();
        let changes = u8::from(state.settings.changes_configuration);
        state.generation = state.generation.wrapping_add(changes);
        state.generation
    }

    fn configuration(&self, offset: usize) -> Option<u32> {
        let mut state = self.0.borrow_mut();
        state.race();
        Some(match offset {
            0 => state.settings.sectors as u32,
            4 => (state.settings.sectors >> 32) as u32,
            8 => state.settings.max_segment_bytes.unwrap_or(0),
            12 => state.settings.max_segments.unwrap_or(0),
            20 => state.settings.block_bytes,
            32 => u32::from(state.settings.queues) << 16,
            36 => 1_000,
            _ => return None,
        })
    }

    /// The configuration may contain another number of queues than the device has.
    fn queue_entries(&mut self, queue: u16) -> u16 {
        let state = self.0.borrow();
        if usize::from(queue) < state.queues.len() { state.settings.entries } else { 0 }
    }

    fn is_queue_set(&mut self, queue: u16) -> bool {
        self.0.get_mut().queues[usize::from(queue)].is_some()
    }

    fn set_queue(&mut self, queue: u16, entries: u16, addresses: [u64; 3]) {
        let queue = &mut self.0.get_mut().queues[usize::from(queue)];
        assert!(queue.is_none(), "a queue is set up again only after a reset");
        *queue = Some(Queue::new(entries, addresses));
    }
}
