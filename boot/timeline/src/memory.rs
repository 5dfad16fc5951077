//! Reads a trace from memory into which another program writes it, such as the kernel in a virtual machine. The layout
//! of the memory is described in [`gmp_sched::trace::memory`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use gmp_sched::scheduler::PROCESSOR_LIMIT;
use gmp_sched::trace::memory::{EVENT_WORDS, HEADER_WORDS, MAGIC, RING_HEADER_WORDS};
use gmp_sched::trace::{Event, Track, TrackTrace};

/// The largest number of events that a reader keeps, of all tracks together. The reader counts later events as lost.
pub const LIMIT: usize = 16_000_000;

/// The number of CPUs that the page can number: see `track_number` in `page.rs`.
const CPU_LIMIT: u32 = 0x7fff;

/// Copies the events out of the shared memory, which is a file. This works while the machine writes the events, and
/// also later.
#[derive(Debug)]
pub struct Reader {
    file: File,
    traces: Vec<TrackTrace>,
    /// The number of the next event to copy from each ring.
    next: Vec<u64>,
    kept: usize,
}

/// The size of a word in bytes.
const WORD: u64 = 8;

impl Reader {
    /// Makes a reader of the shared memory, which is the file `file`. The machine need not have begun to write.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file, traces: Vec::new(), next: Vec::new(), kept: 0 }
    }

    /// Copies the events that were written since the last call. Counts the events that were overwritten before they
    /// could be copied.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or it contains an impossible size or an unknown track.
    pub fn poll(&mut self) -> io::Result<()> {
        if self.word(0)? != MAGIC {
            // The machine has not started the trace.
            return Ok(());
        }
        let words_in_all = self.file.metadata()?.len() / WORD;
        let mut at = HEADER_WORDS as u64;
        for ring in 0..self.word(1)? {
            if at + RING_HEADER_WORDS as u64 > words_in_all {
                return Err(unknown_layout());
            }
            let track = Track::from_word(self.word(at + 2)?).filter(is_possible).ok_or_else(unknown_layout)?;
            let words = self.word(at + 3)?;
            let capacity = words.saturating_sub(RING_HEADER_WORDS as u64) / EVENT_WORDS as u64;
            let end = at.checked_add(words).filter(|&end| capacity > 0 && end <= words_in_all);
            let end = end.ok_or_else(unknown_layout)?;
            if self.traces.len() as u64 == ring {
                self.traces.push(TrackTrace { track, events: Vec::new(), lost: 0 });
                self.next.push(0);
            }
            self.copy(ring as usize, at, capacity)?;
            at = end;
        }
        Ok(())
    }

    /// Copies the new events of the ring that begins at the word `at`.
    fn copy(&mut self, ring: usize, at: u64, capacity: u64) -> io::Result<()> {
        // The number of events never becomes less, unless the memory is damaged.
        let written = self.word(at + 1)?.max(self.next[ring]);
        let begin = self.next[ring].max(written.saturating_sub(capacity));
        let slots = at + RING_HEADER_WORDS as u64;
        let mut bytes = vec![0; (written - begin) as usize * Event::BYTES];
        // If the events reach the end of the ring, they continue at its beginning.
        let until_end = ((capacity - begin % capacity).min(written - begin)) as usize * Event::BYTES;
        let (first, rest) = bytes.split_at_mut(until_end);
        self.file.read_exact_at(first, slots * WORD + begin % capacity * Event::BYTES as u64)?;
        self.file.read_exact_at(rest, slots * WORD)?;
        let overwritten = self.word(at)?.saturating_sub(capacity).max(begin).min(written);
        let trace = &mut self.traces[ring];
        let whole = bytes.as_chunks::<{ Event::BYTES }>().0[(overwritten - begin) as usize..].iter();
        let events: Vec<_> = whole.take(LIMIT - self.kept).filter_map(|bytes| Event::from_bytes(*bytes)).collect();
        trace.lost += written - self.next[ring] - events.len() as u64;
        self.kept += events.len();
        trace.events.extend(events);
        self.next[ring] = written;
        Ok(())
    }

    fn word(&self, number: u64) -> io::Result<u64> {
        let mut bytes = [0; WORD as usize];
        self.file.read_exact_at(&mut bytes, number * WORD)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns the events of each track so far.
    #[must_use]
    pub fn into_traces(self) -> Vec<TrackTrace> {
        self.traces
    }
}

/// Returns whether a scheduler can have this track. Readers of a trace keep a list of all Ps and one of all CPUs, which
/// an impossible number would make too long.
fn is_possible(track: &Track) -> bool {
    match *track {
        Track::Processor(number) => (number as usize) < PROCESSOR_LIMIT,
        Track::Cpu(number) => number < CPU_LIMIT,
        Track::Outside => true,
    }
}

fn unknown_layout() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the trace has an unknown layout")
}

#[cfg(test)]
mod tests {
    use gmp_sched::trace::EventKind;

    use super::*;

    const CAPACITY: u64 = 4;
    const RING: u64 = RING_HEADER_WORDS as u64 + CAPACITY * EVENT_WORDS as u64;

    /// Makes a memory with the rings of P0 and CPU 1.
    fn memory() -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len((HEADER_WORDS as u64 + 2 * RING) * WORD).expect("room");
        put(&file, 1, 2);
        for (ring, track) in [0, 1 << 32 | 1].into_iter().enumerate() {
            put(&file, HEADER_WORDS as u64 + ring as u64 * RING + 2, track);
            put(&file, HEADER_WORDS as u64 + ring as u64 * RING + 3, RING);
        }
        file
    }

    fn put(file: &File, word: u64, value: u64) {
        file.write_all_at(&value.to_le_bytes(), word * WORD).expect("written");
    }

    /// Writes the events with these numbers into a ring.
    fn write(file: &File, ring: u64, numbers: std::ops::Range<u64>) {
        let at = HEADER_WORDS as u64 + ring * RING;
        put(file, at, numbers.end);
        for number in numbers.clone() {
            let slot = at + RING_HEADER_WORDS as u64 + number % CAPACITY * EVENT_WORDS as u64;
            put(file, slot, number);
            put(file, slot + 2, (EventKind::Idle as u64) << 56);
        }
        put(file, at + 1, numbers.end);
    }

    fn numbers(reader: &Reader, ring: usize) -> Vec<u64> {
        reader.traces[ring].events.iter().map(|event| event.when.as_nanos()).collect()
    }

    #[test]
    fn events_are_copied_across_the_end_of_a_ring_and_lost_ones_are_counted() {
        let file = memory();
        let mut reader = Reader::new(file.try_clone().expect("a handle"));
        reader.poll().expect("an empty memory");
        assert!(reader.traces.is_empty());
        put(&file, 0, MAGIC);
        write(&file, 1, 0..3);
        reader.poll().expect("a memory");
        assert_eq!([reader.traces[0].track, reader.traces[1].track], [Track::Processor(0), Track::Cpu(1)]);
        write(&file, 1, 3..6);
        reader.poll().expect("a memory");
        assert_eq!(numbers(&reader, 1), [0, 1, 2, 3, 4, 5]);
        assert_eq!((reader.traces[0].lost, reader.traces[1].lost), (0, 0));
        write(&file, 1, 6..13);
        reader.poll().expect("a memory");
        assert_eq!(numbers(&reader, 1), [0, 1, 2, 3, 4, 5, 9, 10, 11, 12]);
        assert_eq!(reader.traces[1].lost, 3);
        // The machine has begun to overwrite two events that it had completed.
        write(&file, 0, 0..4);
        put(&file, HEADER_WORDS as u64, 6);
        reader.poll().expect("a memory");
        assert_eq!(numbers(&reader, 0), [2, 3]);
        assert_eq!(reader.traces[0].lost, 2);
        // The number of events becomes less only if the memory is damaged.
        put(&file, HEADER_WORDS as u64 + 1, 1);
        reader.poll().expect("a memory");
        assert_eq!((numbers(&reader, 0), reader.traces[0].lost), (vec![2, 3], 2));
    }

    #[test]
    fn image_of_a_trace_is_read_back() {
        let event = |when| Event {
            when: gmp_sched::time::Instant::from_nanos(when),
            kind: EventKind::Idle,
            goroutine: None,
            detail: 0,
        };
        let traces = vec![
            TrackTrace { track: Track::Outside, events: Vec::new(), lost: 0 },
            TrackTrace { track: Track::Cpu(3), events: (7..10).map(event).collect(), lost: 7 },
        ];
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&gmp_sched::trace::memory::image(&traces), 0).expect("written");
        let mut reader = Reader::new(file);
        reader.poll().expect("a memory");
        assert_eq!(reader.into_traces(), traces);
    }

    #[test]
    fn memory_with_impossible_sizes_or_tracks_is_refused() {
        let ring = HEADER_WORDS as u64;
        let (processor, cpu) = (PROCESSOR_LIMIT as u64, 1 << 32 | u64::from(CPU_LIMIT));
        let tracks =
            [9 << 32, u64::from(u32::MAX), processor, cpu, 1 << 32 | 0xffff_ffff].map(|track| (ring + 2, track));
        // Too many rings, rings that are too small or too large, an unknown track, and numbers of Ps and CPUs that are
        // too large.
        let sizes = [(1, 3), (1, u64::MAX), (ring + 3, 5), (ring + 3, u64::MAX)];
        for (word, value) in sizes.into_iter().chain(tracks) {
            let file = memory();
            put(&file, word, value);
            put(&file, 0, MAGIC);
            assert_eq!(Reader::new(file).poll().expect_err("refused").kind(), io::ErrorKind::InvalidData);
        }
    }
}
