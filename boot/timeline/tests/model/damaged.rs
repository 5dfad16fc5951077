//! Traces that no scheduler has recorded, such as those of a machine whose memory was overwritten.

use std::io;

use gmp_sched::trace::{Event, EventKind, Track, TrackTrace};
use timeline::{Trace, page, perfetto};

const TRACKS: [Track; 5] = [Track::Processor(0), Track::Processor(1), Track::Cpu(0), Track::Cpu(1), Track::Outside];

/// Returns numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    /// Returns a number of any size. Small and very large numbers are frequent.
    fn any(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(4),
            1 => self.below(40),
            2 => self.below(1 << 31) << 32 | self.below(1 << 31),
            _ => u64::MAX >> self.below(10),
        }
    }

    fn event(&mut self) -> Option<Event> {
        let kind = EventKind::ALL[self.below(EventKind::ALL.len() as u64) as usize];
        let when = if self.below(4) == 0 { self.any() } else { self.below(20) };
        let goroutine = if self.below(4) == 0 { self.any() } else { self.below(6) };
        let detail = self.any() & ((1 << 56) - 1);
        let mut bytes = [0; Event::BYTES];
        for (part, word) in bytes.chunks_exact_mut(8).zip([when, goroutine, (kind as u64) << 56 | detail]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        Event::from_bytes(bytes)
    }
}

/// The events of each track have any times and details, and are not in the order of their times.
#[test]
fn timeline_of_any_events_is_written() {
    for seed in 0..1000 {
        let mut random = Random(seed);
        let mut track = |track| {
            let count = random.below(30);
            let events = (0..count).filter_map(|_| random.event()).collect();
            TrackTrace { track, events, lost: random.any() }
        };
        let trace = Trace::new(TRACKS.map(&mut track).into());
        perfetto::write(&trace, &mut io::sink()).expect("a sink");
        page::write(&trace, "run", &mut io::sink()).expect("a sink");
    }
}
