//! The rings in which the events of a trace are stored, one for each track.

use alloc::vec::Vec;
use core::fmt;

use crate::base::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;
use crate::base::id::GoroutineId;
use crate::base::instant::Instant;
use crate::base::points::Points;
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::record::trace::{DETAIL, Event, EventKind, TEXT_BYTES, Track, WORDS};
use crate::record::trace_memory as memory;
use crate::record::trace_until::Until;

/// The last events of one track, in memory that is never freed.
pub(crate) struct Ring {
    /// [`memory::RING_HEADER_WORDS`] words, then the slots.
    memory: &'static [AtomicU64],
    /// The number of the observer and the track, if the events of a G or a P are only shown to the platform: see
    /// [`observer`](Self::observer).
    pub(crate) observer: Option<(u64, Track)>,
    capacity: u64,
    /// Number of events whose writing has begun. This count and the next one are copied to the header of shared memory,
    /// but never read from there, because other code may write to that memory.
    begun: AtomicU64,
    /// Number of events whose writing is complete.
    written: AtomicU64,
    /// Where a debugger stops. `None` if the memory is not shared with another program.
    until: Option<Until>,
    /// Number of events written before the trace was last started.
    start: AtomicU64,
    texts: Definitions<64>,
    call_stacks: Definitions<256>,
    /// Whether the trace that is being taken is a profile.
    records_call_stacks: AtomicBool,
}

/// A hash table of the definitions in a ring, for example of texts. An entry contains the number of a definition, and
/// the number of the event with which this definition begins. A new definition may replace an old one in the table. If
/// the old definition is needed again, it is written to the ring again.
struct Definitions<const ENTRIES: usize>([[AtomicU64; 2]; ENTRIES]);

impl<const ENTRIES: usize> Definitions<ENTRIES> {
    fn none() -> Self {
        Self(core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0))))
    }

    fn clear(&self) {
        self.0.iter().for_each(|[number, _]| number.store(0, Ordering::Relaxed));
    }

    /// Returns whether `number`, whose hash is `hash`, has been defined recently in a ring of `capacity` events. If
    /// not, adds `number` to the table, and the caller must write the definition as event number `now`.
    fn has_recent(&self, number: u64, hash: u64, now: u64, capacity: u64) -> bool {
        let [known, defined_at] = &self.0[hash as usize % ENTRIES];
        // A definition in the older half of the ring may soon be overwritten.
        let is_recent = now - defined_at.load(Ordering::Relaxed) < capacity / 2;
        if known.load(Ordering::Relaxed) == number && is_recent {
            return true;
        }
        known.store(number, Ordering::Relaxed);
        defined_at.store(now, Ordering::Relaxed);
        false
    }
}

impl Ring {
    /// Makes a ring for `capacity` events, in memory of its own.
    pub(crate) fn allocate(track: Track, capacity: usize) -> Result<&'static Self, OutOfResources> {
        let words = capacity.checked_mul(WORDS).and_then(|words| words.checked_add(memory::RING_HEADER_WORDS));
        let words = words.ok_or(OutOfResources)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(words).map_err(|_| OutOfResources)?;
        memory.resize_with(words, || AtomicU64::new(0));
        Self::over(track, memory.leak(), None)
    }

    /// Makes a ring that keeps no events of Gs and Ps. They are only shown to the platform, by
    /// [`Platform::observe`](crate::platform::Platform::observe). Several schedulers may use the ring at once.
    #[cfg(feature = "std")]
    pub(crate) fn observer(number: u64, track: Track) -> Result<&'static Self, OutOfResources> {
        let memory: Vec<_> = (0..memory::RING_HEADER_WORDS + WORDS).map(|_| AtomicU64::new(0)).collect();
        make_forever(|| Ok(Self { observer: Some((number, track)), ..Self::new(memory.leak(), None) }))
    }

    /// Makes a ring in `memory`, whose content becomes that of an empty ring. `until` is `None` if the memory is not
    /// shared with another program.
    pub(crate) fn over(
        track: Track,
        memory: &'static [AtomicU64],
        until: Option<Until>,
    ) -> Result<&'static Self, OutOfResources> {
        for (word, value) in memory.iter().zip(memory::ring_header(0, track, memory.len())) {
            word.store(value, Ordering::Relaxed);
        }
        make_forever(|| Ok(Self::new(memory, until)))
    }

    fn new(memory: &'static [AtomicU64], until: Option<Until>) -> Self {
        let capacity = (memory.len().saturating_sub(memory::RING_HEADER_WORDS) / WORDS) as u64;
        assert!(capacity > 0, "a ring without slots");
        Self {
            memory,
            observer: None,
            capacity,
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            until,
            start: AtomicU64::new(0),
            texts: Definitions::none(),
            call_stacks: Definitions::none(),
            records_call_stacks: AtomicBool::new(false),
        }
    }

    /// The number of events for which the ring has room.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    fn slot(&self, index: u64) -> &[AtomicU64] {
        &self.memory[memory::RING_HEADER_WORDS + (index % self.capacity) as usize * WORDS..][..WORDS]
    }

    /// Whether the memory is shared with another program.
    pub(crate) fn is_shared(&self) -> bool {
        self.until.is_some()
    }

    /// Forgets all events so far. Called while no trace is taken, or when one is restarted.
    pub(crate) fn restart(&self) {
        self.start.store(self.written.load(Ordering::Relaxed), Ordering::Relaxed);
        self.texts.clear();
        self.call_stacks.clear();
    }

    /// Whether call stacks are to be recorded.
    pub(crate) fn records_call_stacks(&self) -> bool {
        self.records_call_stacks.load(Ordering::Relaxed)
    }

    /// Sets whether call stacks are to be recorded.
    pub(crate) fn record_call_stacks(&self, records: bool) {
        self.records_call_stacks.store(records, Ordering::Relaxed);
    }

    /// Appends an event. Only one caller at a time may do so: the M that holds the P of the ring, the CPU of the ring
    /// with interrupts off, or the holder of the lock of a [`SharedTracer`].
    pub(crate) fn write(&self, event: Event) {
        let index = self.written.load(Ordering::Relaxed);
        let count = index + 1;
        // Ordering: Release, so that a reader that sees one of the stores below also sees the new value of `begun`
        // after its own fence. Partner: the fence in `read`, or that of the program that reads shared memory.
        self.begun.store(count, Ordering::Relaxed);
        if self.is_shared() {
            self.memory[0].store(count, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        for (cell, word) in self.slot(index).iter().zip(event.to_words()) {
            cell.store(word, Ordering::Relaxed);
        }
        // Ordering: Release publishes the event. Partner: the Acquire load of `written` in `read`, or in the program
        // that reads shared memory.
        self.written.store(count, Ordering::Release);
        if let Some(until) = self.until {
            self.memory[1].store(count, Ordering::Release);
            until.check(event);
        }
    }

    /// Returns the number of `text`. If the ring has no recent definition of the text, writes one. Only the callers of
    /// [`write`](Self::write) may call this.
    pub(crate) fn number_of(&self, text: &'static str, when: Instant) -> u64 {
        // The address alone does not identify a text, because two texts of different lengths may begin at the same
        // address.
        let number = (text.as_ptr().addr() as u64 ^ (text.len() as u64) << 48) & DETAIL;
        if !self.texts.has_recent(number, number >> 3, self.written.load(Ordering::Relaxed), self.capacity) {
            self.write(Event { when, kind: EventKind::TextBegin, goroutine: None, detail: number });
            for detail in details_of(text) {
                self.write(Event { when, kind: EventKind::TextBytes, goroutine: None, detail });
            }
        }
        number
    }

    /// Appends a call stack, which belongs to the last event with this `goroutine` in the ring. If the ring has no
    /// recent definition of the call stack, writes one first. Only the callers of [`write`](Self::write) may call this.
    pub(crate) fn write_call_stack(&self, addresses: &[u64], when: Instant, goroutine: Option<GoroutineId>) {
        let hash = addresses.iter().fold(0, |hash: u64, address| (hash.rotate_left(5) ^ address).wrapping_mul(MIX));
        // The number consists of the upper bits of the hash, because these depend on all addresses. No call stack has
        // the number 0, because 0 marks free entries.
        let number = (hash >> (64 - DETAIL.count_ones())).max(1);
        let now = self.written.load(Ordering::Relaxed);
        if !self.call_stacks.has_recent(number, number >> 32, now, self.capacity) {
            self.write(Event { when, kind: EventKind::CallStackBegin, goroutine: None, detail: number });
            for &detail in addresses {
                self.write(Event { when, kind: EventKind::CallStackFrame, goroutine: None, detail });
            }
        }
        self.write(Event { when, kind: EventKind::CallStack, goroutine, detail: number });
    }

    /// Returns the events that have not been overwritten, oldest first, and how many were overwritten.
    pub(crate) fn read(&self) -> (Vec<Event>, u64) {
        let end = self.written.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let begin = start.max(end.saturating_sub(self.capacity));
        let words: Vec<[u64; WORDS]> = (begin..end)
            .map(|index| {
                let slot = self.slot(index);
                core::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
            })
            .collect();
        // Ordering: Acquire orders the loads of the slots before the load of `begun`. Partner: the fence in `write`.
        fence(Ordering::Acquire);
        // The writer of the ring may have begun further events since `end` was loaded. These overwrite the oldest of
        // the events read above.
        let lost = self.begun.load(Ordering::Relaxed).saturating_sub(self.capacity).saturating_sub(begin);
        let events = words.into_iter().skip(lost as usize).filter_map(Event::from_words).collect();
        (events, begin - start + lost)
    }
}

/// The maximum number of frames of a call stack that are recorded. The outermost frames of a deeper stack are left out.
pub(crate) const FRAMES: usize = 64;

/// An odd factor with bits that look random, by which the hash of a call stack is multiplied: the golden ratio.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Splits a text into the details of the events that contain it.
pub(crate) fn details_of(text: &str) -> impl Iterator<Item = u64> {
    text.as_bytes()
        .chunks(TEXT_BYTES)
        .map(|part| part.iter().rev().fold(0, |detail, &byte| detail << 8 | u64::from(byte)))
}

/// What a track needs for a trace: its ring, and whether events are to be written to the ring.
pub(crate) struct Tracer {
    /// The ring into which events go; `None` while no trace is taken.
    pub(crate) active: AtomicRef<Ring>,
    /// The ring of this track; `None` before the first trace. A ring is never freed, even if a later run replaces it by
    /// one of another capacity.
    pub(crate) ring: AtomicRef<Ring>,
    /// Whether `ring` was made for a run of the scheduler that has ended.
    is_ring_of_last_run: AtomicBool,
}

impl Tracer {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self { active: AtomicRef::none(), ring: AtomicRef::none(), is_ring_of_last_run: AtomicBool::new(false) }
        }
    }

    /// Called after a run of the scheduler, before the next run begins. Stops the trace if one is being taken, and
    /// records that `ring` was made for a run that has ended.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn renew(&self) {
        self.active.store(None, Ordering::Relaxed);
        self.is_ring_of_last_run.store(true, Ordering::Relaxed);
    }

    /// Makes a ring for the track if it has none.
    pub(crate) fn make_ring(&self, track: Track, capacity: usize) -> Result<(), OutOfResources> {
        if self.ring.load(Ordering::Acquire).is_none() {
            // If another G has stored its ring first, the track uses that ring, and the ring made here is leaked.
            let ring = Some(Ring::allocate(track, capacity)?);
            self.ring.replace(None, ring, Ordering::AcqRel, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Starts to record events, if the track has a ring.
    pub(crate) fn begin(&self, records_call_stacks: bool) {
        let ring = self.ring.load(Ordering::Acquire);
        if let Some(ring) = ring {
            ring.restart();
            // If another program reads a profile in shared memory, that program needs the call stacks even while this
            // program takes a trace without call stacks.
            ring.record_call_stacks(records_call_stacks || ring.is_shared() && ring.records_call_stacks());
        }
        // Ordering: Release publishes the ring to the writers. Partners: the Acquire loads of `active`.
        self.active.store(ring, Ordering::Release);
    }

    /// Whether events are recorded.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.active.load(Ordering::Relaxed).is_some()
    }

    /// If `ring` was made for a run that has ended, drops the reference to the ring. The reference is kept if the ring
    /// can be reused, because its capacity is `capacity` and its memory is not shared.
    pub(crate) fn forget_last_run(&self, capacity: usize) {
        if self.is_ring_of_last_run.swap(false, Ordering::Relaxed)
            && self
                .ring
                .load(Ordering::Acquire)
                .is_some_and(|ring| ring.is_shared() || ring.capacity != capacity as u64)
        {
            self.ring.store(None, Ordering::Release);
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.load(Ordering::Relaxed).is_some();
        f.debug_struct("Tracer").field("active", &active).finish_non_exhaustive()
    }
}

/// The [`Tracer`] of the callers that hold no P. Its ring has many writers, so each of them takes a lock.
pub(crate) struct SharedTracer<Plat: Points> {
    pub(crate) tracer: Tracer,
    pub(crate) writer: Lock<(), Plat>,
}

impl<Plat: Points> SharedTracer<Plat> {
    pub(crate) fn new() -> Self {
        Self { tracer: Tracer::new(), writer: Lock::new(()) }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn text_is_defined_once_until_its_definition_is_old() {
        let ring = Ring::allocate(Track::Processor(0), 16).expect("memory");
        let now = Instant::from_nanos(1);
        let number = ring.number_of("eight or more", now);
        assert_eq!(ring.number_of("eight or more", now), number);
        let (events, lost) = ring.read();
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        assert_eq!((&kinds[..], lost), (&[EventKind::TextBegin, EventKind::TextBytes, EventKind::TextBytes][..], 0));
        assert_eq!(events[1].detail, u64::from_le_bytes(*b"eight o\0"));
        assert_eq!(events[2].detail, u64::from_le_bytes(*b"r more\0\0"));
        let filler = Event { when: now, kind: EventKind::Yield, goroutine: None, detail: 0 };
        (0..14).for_each(|_| ring.write(filler));
        assert_eq!(ring.read().1, 1);
        let text = "eight or more";
        let number = ring.number_of(text, now);
        assert_eq!(ring.read().0[13].kind, EventKind::TextBegin);
        assert_ne!(ring.number_of(&text[..5], now), number, "a shorter text at the same address");
    }

    #[test]
    fn call_stack_is_defined_once_until_its_definition_is_old() {
        let ring = Ring::allocate(Track::Processor(0), 16).expect("memory");
        let now = Instant::from_nanos(1);
        let record = |addresses: &[u64]| ring.write_call_stack(addresses, now, Some(GoroutineId::MAIN));
        record(&[5, 6]);
        record(&[5, 6]);
        record(&[6, 5]);
        let (events, _) = ring.read();
        let (begin, frame, stack) = (EventKind::CallStackBegin, EventKind::CallStackFrame, EventKind::CallStack);
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [begin, frame, frame, stack, stack, begin, frame, frame, stack]);
        let details: Vec<_> = events.iter().map(|event| event.detail).collect();
        assert_eq!((&details[1..3], &details[6..8]), (&[5, 6][..], &[6, 5][..]));
        assert_eq!([details[3], details[4], details[5]], [details[0], details[0], details[8]]);
        assert_ne!(details[0], details[5], "the order of the frames counts");
        record(&[5, 6]);
        assert_eq!(ring.read().0[9].kind, begin, "the first definition is in the older half");
    }
}
