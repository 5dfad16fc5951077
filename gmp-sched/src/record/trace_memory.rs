//! The layout of rings in shared memory, as [`Scheduler::start_trace_in`](crate::scheduler::Scheduler) makes it, and of
//! files with a trace, as [`image`] makes them.
//!
//! The memory consists of words of 64 bits. The first [`HEADER_WORDS`] words are the header: [`MAGIC`], the number of
//! rings, and the word [`UNTIL`] for a debugger; the other words are reserved. The rings follow. A ring begins with
//! [`RING_HEADER_WORDS`] words: the number of events whose writing has begun, the number of events whose writing is
//! complete, the [track](Track::from_word), and the number of words of the whole ring. The other words at the beginning
//! are reserved. The slots follow. Event number `n` is in slot `n` modulo the number of slots, in the form of
//! [`Event::to_bytes`].
//!
//! A reader that does not stop the writers takes these steps. It loads the number of complete events, copies the events
//! that it wants, and then loads the number of events that were begun. A copied event `n` is lost, because it may have
//! been overwritten, if `n` is less than the number of begun events minus the number of slots.

use alloc::vec::Vec;

use crate::record::trace::{Event, Track, TrackTrace, WORDS};

/// The first word of the memory: the text `GMPTRAC2`. It is stored last, when the layout is complete.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GMPTRAC2");
/// The number of words before the first ring.
pub const HEADER_WORDS: usize = 8;
/// The index of the word that says where a debugger stops: the bitwise complement of an instant in nanoseconds. The
/// program that reads the trace stores this word before the trace begins. For each event at this instant, the traced
/// program calls the function `gmp_sched::record::trace_until::reached`. If the word is 0, it never calls that
/// function.
pub const UNTIL: usize = 2;
/// The number of words before the first slot of a ring.
pub const RING_HEADER_WORDS: usize = 8;
/// The number of words of an event.
pub const EVENT_WORDS: usize = WORDS;

/// Returns the words before the first slot of a ring that has `words` words in all, and in which `events` events have
/// been written.
pub(crate) fn ring_header(events: u64, track: Track, words: usize) -> [u64; RING_HEADER_WORDS] {
    [events, events, track.to_word(), words as u64, 0, 0, 0, 0]
}

/// Returns the bytes of a memory that contains `traces`, for a file.
///
/// ```
/// use gmp_sched::sim::{self, Config};
/// use gmp_sched::trace::memory;
///
/// let (result, traces) = sim::run_traced(Config::default(), 1000, || sim::go(|| ()).join().unwrap());
/// assert!(result.is_ok());
/// let image = memory::image(&traces);
/// assert_eq!(image[..8], memory::MAGIC.to_le_bytes());
/// ```
#[must_use]
pub fn image(traces: &[TrackTrace]) -> Vec<u8> {
    let mut header = [0; HEADER_WORDS];
    header[..2].copy_from_slice(&[MAGIC, traces.len() as u64]);
    let mut image: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for TrackTrace { track, events, lost } in traces {
        // A ring has at least one slot.
        let slots = events.len().max(1);
        let words = RING_HEADER_WORDS + slots * EVENT_WORDS;
        let header = ring_header(lost + events.len() as u64, *track, words);
        image.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        let begin = image.len();
        image.resize(begin + slots * Event::BYTES, 0);
        for (index, event) in events.iter().enumerate() {
            let slot = (*lost as usize + index) % slots;
            image[begin + slot * Event::BYTES..][..Event::BYTES].copy_from_slice(&event.to_bytes());
        }
    }
    image
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::vec::Vec;

    use super::{EVENT_WORDS, HEADER_WORDS, MAGIC, RING_HEADER_WORDS, image};
    use crate::base::instant::Instant;
    use crate::record::trace::{Event, EventKind, Track, TrackTrace};

    #[test]
    fn image_contains_each_event_in_the_slot_of_its_number() {
        let event = |detail| Event { when: Instant::from_nanos(9), kind: EventKind::Start, goroutine: None, detail };
        let trace = |track| TrackTrace { track, events: (5..8).map(event).collect(), lost: 5 };
        let traces = [Track::Outside, Track::Cpu(2), Track::Processor(2)].map(trace);
        let image = image(&traces);
        let words: Vec<_> = image.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        assert_eq!(words[..2], [MAGIC, 3]);
        let (rings, rest) = words[HEADER_WORDS..].as_chunks::<{ RING_HEADER_WORDS + 3 * EVENT_WORDS }>();
        assert_eq!((rings.len(), rest.len()), (3, 0));
        for (ring, trace) in rings.iter().zip(&traces) {
            let (header, slots) = ring.split_at(RING_HEADER_WORDS);
            assert_eq!([header[0], header[1], header[3]], [8, 8, ring.len() as u64]);
            assert_eq!(Track::from_word(header[2]), Some(trace.track));
            for (event, slot) in trace.events.iter().zip([2, 0, 1]) {
                assert_eq!(Event::from_words(slots.as_chunks().0[slot]), Some(*event));
            }
        }
    }
}
