//! Traces with a million events, as a scheduler could have recorded them.

use std::collections::VecDeque;

use gmp_sched::trace::{Event, EventKind, Track, TrackTrace};
use timeline::Trace;

/// The number of events of a generated trace. A few more may follow.
pub(crate) const EVENTS: usize = 1_000_000;
const PROCESSORS: usize = 8;
/// The number of the text that names all spans and interrupts.
const TEXT: u64 = 9;

/// What a P does in a generated trace.
#[derive(Clone, Default)]
struct Local {
    runs: Option<u64>,
    /// The Gs that this P has parked, in the order in which they were parked.
    parked: VecDeque<u64>,
    now: u64,
}

/// Generates events that a scheduler could have recorded.
struct Generator {
    tracks: Vec<TrackTrace>,
    count: usize,
    random: u64,
    /// The next G of the global queue, and the number after the last one.
    fresh: std::ops::Range<u64>,
}

impl Generator {
    fn new(goroutines: u64) -> Self {
        let tracks = (0..PROCESSORS as u32).flat_map(|number| [Track::Processor(number), Track::Cpu(number)]);
        let tracks = tracks.chain([Track::Outside]).map(|track| TrackTrace { track, events: Vec::new(), lost: 0 });
        Self { tracks: tracks.collect(), count: 0, random: 1, fresh: 16..16 + goroutines }
    }

    fn add(&mut self, track: usize, when: u64, kind: EventKind, goroutine: u64, detail: u64) {
        let mut bytes = [0; Event::BYTES];
        let words = [when, goroutine, (kind as u64) << 56 | detail];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        self.tracks[track].events.push(Event::from_bytes(bytes).expect("a known kind"));
        self.count += 1;
    }

    /// Returns a number below `limit` that looks random.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % limit
    }

    /// Adds the next events of one P. On average, a G ends after it has parked `parks` times. If `parks` is 0, no G ends.
    fn step(&mut self, p: usize, local: &mut Local, window: usize, parks: u64) {
        let track = 2 * p;
        local.now += 50 + self.below(1000);
        let Some(current) = local.runs else {
            match self.fresh.next() {
                Some(goroutine) => {
                    self.add(track, local.now, EventKind::GlobalTake, goroutine, 1);
                    self.start(track, local, goroutine);
                }
                None => match local.parked.pop_front() {
                    Some(goroutine) => {
                        self.add(track, local.now, EventKind::Ready, goroutine, 0);
                        self.start(track, local, goroutine);
                    }
                    None => self.add(track, local.now, EventKind::Spin, 0, 0),
                },
            }
            return;
        };
        match self.below(40) {
            0 => {
                self.add(track, local.now, EventKind::SpanBegin, current, TEXT);
                local.now += 30;
                self.add(track, local.now, EventKind::SpanEnd, current, TEXT);
            }
            1 => {
                self.add(track + 1, local.now, EventKind::Interrupt, 0, TEXT);
                self.add(track + 1, local.now + 20, EventKind::InterruptEnd, 0, 0);
                let machine = self.below(20);
                self.add(track + 1, local.now + 20, EventKind::RunMachine, 0, machine);
            }
            2 if p == 0 => {
                self.add(track, local.now, EventKind::WorldStop, current, 0);
                self.add(track, local.now + 10, EventKind::WorldStart, current, 0);
            }
            _ => {}
        }
        local.now += 20;
        if parks > 0 && self.below(parks + 1) == 0 {
            self.add(track, local.now, EventKind::End, current, 0);
            local.runs = None;
            return;
        }
        let next = if local.parked.len() >= window { local.parked.pop_front() } else { None };
        if let Some(next) = next {
            self.add(track, local.now, EventKind::Ready, next, current);
        }
        self.add(track, local.now + 10, EventKind::Park, current, 5);
        local.parked.push_back(current);
        local.runs = None;
        local.now += 40;
        if let Some(next) = next {
            self.start(track, local, next);
        }
    }

    fn start(&mut self, track: usize, local: &mut Local, goroutine: u64) {
        self.add(track, local.now, EventKind::Start, goroutine, 30);
        local.runs = Some(goroutine);
    }
}

/// Makes a trace with this number of Gs, which all wait in the global queue first. P0 keeps only one G parked, so two Gs
/// alternate on it and start very often.
pub(crate) fn generated(goroutines: u64, parks: u64) -> Trace {
    let mut generator = Generator::new(goroutines);
    for goroutine in generator.fresh.clone() {
        generator.add(2 * PROCESSORS, goroutine, EventKind::Spawn, goroutine, 0);
    }
    let mut locals = vec![Local { now: 16 + goroutines, ..Local::default() }; PROCESSORS];
    for p in 0..PROCESSORS {
        generator.add(2 * p, 16 + goroutines, EventKind::TextBegin, 0, TEXT);
        generator.add(2 * p, 16 + goroutines, EventKind::TextBytes, 0, u64::from_le_bytes(*b"work\0\0\0\0"));
        generator.add(2 * p, 16 + goroutines, EventKind::Busy, 0, p as u64);
    }
    let window = |p| if p == 0 { 1 } else { goroutines as usize / PROCESSORS };
    while generator.count < EVENTS + 2 * PROCESSORS {
        for (p, local) in locals.iter_mut().enumerate() {
            generator.step(p, local, window(p), parks);
        }
    }
    Trace::new(generator.tracks)
}
