//! A trace: the events of all tracks in one list, and what is known about the Gs.

use std::collections::{HashMap, HashSet};

use gmp_sched::goroutine::GoroutineId;
use gmp_sched::trace::{EventKind, Track, TrackTrace};

/// Why a G became runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The G with this index in [`Trace::goroutines`] spawned or readied the G that became runnable.
    Goroutine(usize),
    /// A due timer readied the G.
    Timer,
    /// A device for which the G waited became ready.
    Device,
    /// The G returned from a system call, and there was no free P for it.
    Return,
    /// The trace names no cause.
    Unknown,
}

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the event happened, in nanoseconds since the first event.
    pub when: u64,
    /// What happened.
    pub kind: EventKind,
    /// The track on which the event happened.
    pub track: Track,
    /// The index in [`Trace::goroutines`] of the G to which the event happened.
    pub goroutine: Option<usize>,
    /// More about the event; see [`EventKind`]. If the detail is a text, this is the index of the text in
    /// [`Trace::texts`]. For a `Switch`, the detail is the index of the other G.
    pub detail: u64,
    /// Why a G became runnable, if the event is a `Spawn`, a `Ready` or a `SyscallReturn`.
    pub cause: Cause,
}

impl Entry {
    /// Returns the P on which the event happened, if it happened on a P.
    #[must_use]
    pub fn processor(&self) -> Option<u32> {
        match self.track {
            Track::Processor(number) => Some(number),
            Track::Cpu(_) | Track::Outside => None,
        }
    }
}

/// A G that occurs in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goroutine {
    /// The number of the G.
    pub id: u64,
    /// The name that the spawner has chosen for the G; empty if the G has no name.
    pub name: String,
    /// The function that the G executes; empty if this is unknown.
    pub function: String,
    /// The index of the G that spawned this G.
    pub creator: Option<usize>,
}

impl Goroutine {
    /// Returns the number of the G and its name or function, such as `G7 worker`.
    #[must_use]
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { short(&self.function) } else { self.name.clone() };
        format!("G{} {name}", self.id).trim_end().to_owned()
    }
}

/// Returns a function's path without the crate and without the names of closures.
fn short(function: &str) -> String {
    let path: Vec<_> = function.split("::").filter(|part| *part != "{{closure}}").collect();
    path.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&path).join("::")
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    start: u64,
    processors: u32,
    cpus: u32,
    events: Vec<Entry>,
    goroutines: Vec<Goroutine>,
    texts: Vec<String>,
    lost: u64,
}

impl Trace {
    /// Merges the events of all tracks, which [`Scheduler::traces`](gmp_sched::scheduler::Scheduler::traces) returns.
    /// Events with the same time are in the order of [`Track`], and those of one track keep their order. The only
    /// exception is a violation, which comes after all other events with the same time.
    #[must_use]
    pub fn new(mut tracks: Vec<TrackTrace>) -> Self {
        tracks.sort_by_key(|trace| trace.track);
        let mut reader = Reader::default();
        for trace in &tracks {
            reader.read_texts(trace);
        }
        let start = tracks.iter().filter_map(|trace| trace.events.first()).map(|event| event.when.as_nanos()).min();
        let mut events = Vec::new();
        for trace in &tracks {
            reader.read_events(trace, start.unwrap_or_default(), &mut events);
        }
        // A violation comes after other events of the same time, because they have led to it.
        events.sort_by_key(|entry| (entry.when, entry.kind == EventKind::Violation));
        let count = |number: fn(Track) -> Option<u32>| {
            tracks.iter().filter_map(|trace| number(trace.track)).map(|number| number + 1).max().unwrap_or_default()
        };
        Self {
            start: start.unwrap_or_default(),
            processors: count(|track| if let Track::Processor(number) = track { Some(number) } else { None }),
            cpus: count(|track| if let Track::Cpu(number) = track { Some(number) } else { None }),
            events,
            goroutines: reader.goroutines,
            texts: reader.texts,
            lost: tracks.iter().map(|trace| trace.lost).fold(0, u64::saturating_add),
        }
    }

    /// Returns the time of the first event by the clock of the scheduler, in nanoseconds. All other times are relative
    /// to this one.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the number of Ps.
    #[must_use]
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// Returns the number of CPUs with a track.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// If the trace is that of a failed run of the simulator, returns the index of the event that records the violation
    /// of a rule, and the rule. Otherwise returns `None`.
    #[must_use]
    pub fn violation(&self) -> Option<(usize, &str)> {
        let index = self.events.iter().position(|entry| entry.kind == EventKind::Violation)?;
        Some((index, self.texts.get(self.events[index].detail as usize)?))
    }

    /// Returns the events, oldest first. Events that only define names, functions and texts are left out, and so are
    /// the events for profiles.
    #[must_use]
    pub fn events(&self) -> &[Entry] {
        &self.events
    }

    /// Returns the Gs that occur in the events.
    #[must_use]
    pub fn goroutines(&self) -> &[Goroutine] {
        &self.goroutines
    }

    /// Returns the names of spans, marks and interrupts, and violated rules.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns how many events of all tracks were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the time of the last event, in nanoseconds since the first one.
    #[must_use]
    pub fn duration(&self) -> u64 {
        self.events.last().map_or(0, |entry| entry.when)
    }
}

/// Collects the Gs and the texts that occur in the events.
#[derive(Default)]
struct Reader {
    goroutines: Vec<Goroutine>,
    index_of: HashMap<u64, usize>,
    /// The text that the trace defines for each number.
    defined: HashMap<u64, String>,
    texts: Vec<String>,
    index_of_text: HashMap<String, usize>,
}

impl Reader {
    fn index(&mut self, id: u64) -> usize {
        *self.index_of.entry(id).or_insert_with(|| {
            let name = if id == GoroutineId::MAIN.get() { "main" } else { "" };
            self.goroutines.push(Goroutine { id, name: name.to_owned(), function: String::new(), creator: None });
            self.goroutines.len() - 1
        })
    }

    fn text(&mut self, number: u64) -> usize {
        let text = self.defined.get(&number).cloned().unwrap_or_else(|| "(lost)".to_owned());
        *self.index_of_text.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            self.texts.len() - 1
        })
    }

    /// Reads the definitions of texts.
    fn read_texts(&mut self, trace: &TrackTrace) {
        let mut bytes = Vec::new();
        let mut number = None;
        for event in &trace.events {
            match event.kind {
                EventKind::TextBegin => {
                    self.define(number.replace(event.detail), &mut bytes);
                }
                EventKind::TextBytes => bytes.extend(text_bytes(event.detail)),
                _ => self.define(number.take(), &mut bytes),
            }
        }
        self.define(number, &mut bytes);
    }

    fn define(&mut self, number: Option<u64>, bytes: &mut Vec<u8>) {
        if let Some(number) = number {
            self.defined.insert(number, String::from_utf8_lossy(bytes).into_owned());
        }
        bytes.clear();
    }

    /// Reads the events of one track, and the names and functions of the Gs.
    fn read_events(&mut self, trace: &TrackTrace, start: u64, entries: &mut Vec<Entry>) {
        let mut last = None;
        // The Gs for which a `Device` event has been read, but not yet the `Ready` event that follows it.
        let mut by_device = HashSet::new();
        let mut name: (Option<usize>, Vec<u8>) = (None, Vec::new());
        for event in &trace.events {
            let goroutine = event.goroutine.map(|id| self.index(id.get()));
            if event.kind == EventKind::Name {
                name.0 = goroutine;
                name.1.extend(text_bytes(event.detail));
                continue;
            }
            self.set_name(&mut name);
            let mut entry = Entry {
                // In a damaged trace, an event may be earlier than the first one of its track.
                when: event.when.as_nanos().saturating_sub(start),
                kind: event.kind,
                track: trace.track,
                goroutine,
                detail: event.detail,
                cause: Cause::Unknown,
            };
            match event.kind {
                EventKind::Function => {
                    let function = self.defined.get(&event.detail).cloned().unwrap_or_default();
                    if let Some(goroutine) = goroutine {
                        self.goroutines[goroutine].function = function;
                    }
                    continue;
                }
                EventKind::TextBegin | EventKind::TextBytes => continue,
                // These events are for profiles.
                EventKind::CallStack
                | EventKind::CallStackBegin
                | EventKind::CallStackFrame
                | EventKind::LockWait
                | EventKind::Unlock => continue,
                EventKind::SpanBegin
                | EventKind::SpanEnd
                | EventKind::Mark
                | EventKind::Interrupt
                | EventKind::Violation => entry.detail = self.text(event.detail) as u64,
                EventKind::Switch => entry.detail = self.index(event.detail) as u64,
                EventKind::SyscallReturn => entry.cause = Cause::Return,
                EventKind::Device => by_device.extend(goroutine),
                EventKind::Spawn | EventKind::Ready => {
                    let by = (event.detail != 0).then(|| self.index(event.detail));
                    entry.cause = match last {
                        Some(EventKind::Timer) => Cause::Timer,
                        _ if goroutine.is_some_and(|goroutine| by_device.remove(&goroutine)) => Cause::Device,
                        _ => by.map_or(Cause::Unknown, Cause::Goroutine),
                    };
                    if event.kind == EventKind::Spawn
                        && let Some(goroutine) = goroutine
                    {
                        self.goroutines[goroutine].creator = by;
                    }
                }
                _ => {}
            }
            last = Some(event.kind);
            entries.push(entry);
        }
        self.set_name(&mut name);
    }

    fn set_name(&mut self, name: &mut (Option<usize>, Vec<u8>)) {
        if let Some(goroutine) = name.0.take() {
            self.goroutines[goroutine].name = String::from_utf8_lossy(&name.1).into_owned();
        }
        name.1.clear();
    }
}

/// Returns the bytes of a text that are in the detail of one event.
fn text_bytes(detail: u64) -> impl Iterator<Item = u8> {
    detail.to_le_bytes().into_iter().take_while(|&byte| byte != 0)
}

#[cfg(test)]
mod tests {
    use gmp_sched::trace::Event;

    use super::*;

    /// Makes an event from the words of its binary form.
    fn event(when: u64, kind: EventKind, goroutine: u64, detail: u64) -> Event {
        let mut bytes = [0; Event::BYTES];
        let words = [when, goroutine, (kind as u64) << 56 | detail];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        Event::from_bytes(bytes).expect("a known kind")
    }

    fn text(text: &str) -> u64 {
        text.bytes().rev().fold(0, |detail, byte| detail << 8 | u64::from(byte))
    }

    #[test]
    fn event_earlier_than_the_first_one_of_its_track_is_at_the_start() {
        let events = vec![event(100, EventKind::Busy, 0, 0), event(90, EventKind::Idle, 0, 0)];
        let trace = Trace::new(vec![TrackTrace { track: Track::Processor(0), events, lost: 0 }]);
        let times: Vec<_> = trace.events().iter().map(|entry| entry.when).collect();
        assert_eq!((trace.start(), times), (100, vec![0, 0]));
    }

    #[test]
    fn names_functions_and_causes_are_collected() {
        let first = vec![
            event(100, EventKind::Spawn, 16, 1),
            event(100, EventKind::TextBegin, 0, 9),
            event(100, EventKind::TextBytes, 0, text("a::b::{")),
            event(100, EventKind::TextBytes, 0, text("{closur")),
            event(100, EventKind::TextBytes, 0, text("e}}")),
            event(100, EventKind::Function, 16, 9),
            event(101, EventKind::Spawn, 17, 1),
            event(101, EventKind::Function, 17, 9),
            event(101, EventKind::Name, 17, text("product")),
            event(101, EventKind::Name, 17, text("ion")),
        ];
        let second = vec![
            event(90, EventKind::Timer, 0, 1),
            event(90, EventKind::Ready, 1, 17),
            event(120, EventKind::Ready, 17, 1),
            event(130, EventKind::Ready, 16, 0),
        ];
        let outside = vec![
            event(131, EventKind::Device, 16, 0),
            event(131, EventKind::Ready, 17, 0),
            event(131, EventKind::Ready, 16, 0),
        ];
        let track = |track, events| TrackTrace { track, events, lost: 3 };
        let processor = |number, events| track(Track::Processor(number), events);
        let trace = Trace::new(vec![processor(0, first), processor(1, second), track(Track::Outside, outside)]);
        let mut labels: Vec<_> = trace.goroutines().iter().map(Goroutine::label).collect();
        labels.sort();
        assert_eq!(labels, ["G1 main", "G16 b", "G17 production"]);
        let main = trace.goroutines().iter().position(|goroutine| goroutine.id == 1).expect("main");
        let causes: Vec<_> = trace.events().iter().map(|entry| (entry.when, entry.cause)).collect();
        assert_eq!(
            causes,
            [
                (0, Cause::Unknown),
                (0, Cause::Timer),
                (10, Cause::Goroutine(main)),
                (11, Cause::Goroutine(main)),
                (30, Cause::Goroutine(main)),
                (40, Cause::Unknown),
                (41, Cause::Unknown),
                (41, Cause::Unknown),
                (41, Cause::Device),
            ]
        );
        assert_eq!((trace.processors(), trace.lost(), trace.duration()), (2, 9, 41));
    }
}
