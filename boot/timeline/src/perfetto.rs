//! Writes a trace as JSON, in the Trace Event Format that Perfetto and chrome://tracing open.
//!
//! | process in the viewer | tracks |
//! |---|---|
//! | P | one for each P: the Gs that ran, system calls, searches for work; counters. One for what callers without a P did |
//! | M | one for each M: the Gs that ran on it, and the calls in which it was blocked without a P |
//! | CPU | one for each CPU: the Ms and other threads that ran on it, and interrupts; the rule that the run violated |
//! | spans | one for each G with spans and marks |

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use gmp_sched::trace::{EventKind, Track};

use crate::cpus::{CpuSlice, CpuThread, InterruptSlice};
use crate::model::{Activity, ArrowKind, Model, Readied, Slice};
use crate::{Cause, Trace};

/// The numbers of the processes in the viewer.
const P: u32 = 1;
const M: u32 = 2;
const SPANS: u32 = 3;
const CPU: u32 = 4;

/// The number of the track of callers without a P. This track is in the same process of the viewer as the tracks of Ps.
const OUTSIDE: u32 = 9999;

/// The largest number of values that are written for each counter. Some viewers are slow if there are more.
const COUNTERS: u64 = 20_000;

/// Writes `trace`.
///
/// # Errors
///
/// The output cannot be written.
pub fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let model = Model::of(trace);
    let (lost, start, times) = (trace.lost(), trace.start(), times_of_processors(&model, trace.processors()));
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"lost events\":{lost},\"clock at 0 ns\":{start}{times}}},\"traceEvents\":["
    )?;
    let mut writer = Writer { trace, out, is_first: true };
    writer.tracks(&model)?;
    writer.slices(&model)?;
    writer.cpus(&model)?;
    writer.arrows(&model)?;
    writer.counters(&model)?;
    writer.instants()?;
    writeln!(writer.out, "\n]}}")
}

/// Returns, for each P, how many nanoseconds it spent on each activity, as fields of a JSON object. The file has no
/// slices of idle Ps, but these sums contain the idle times, too. So the sums of each P add up to the length of the
/// trace.
fn times_of_processors(model: &Model, processors: u32) -> String {
    let mut sums = vec![BTreeMap::new(); processors as usize];
    for slice in &model.slices {
        *sums[slice.processor as usize].entry(slice.activity.category()).or_default() += slice.to - slice.from;
    }
    let field = |(number, sums): (usize, &BTreeMap<&str, u64>)| {
        let sums: Vec<_> = sums.iter().map(|(category, sum)| format!("\"{category}\":{sum}")).collect();
        format!(",\"ns of P{number}\":{{{}}}", sums.join(","))
    };
    sums.iter().enumerate().map(field).collect()
}

struct Writer<'a, W> {
    trace: &'a Trace,
    out: &'a mut W,
    is_first: bool,
}

impl<W: Write> Writer<'_, W> {
    /// Writes an event of this phase (the format's word for the kind of an event). `fields` are its other fields, as
    /// JSON.
    fn event(&mut self, phase: &str, fields: std::fmt::Arguments<'_>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\n{{\"ph\":\"{phase}\",{fields}}}")
    }

    fn label(&self, goroutine: usize) -> String {
        quoted(&self.trace.goroutines()[goroutine].label())
    }

    /// Writes the names of the processes and threads that the viewer shows.
    fn tracks(&mut self, model: &Model) -> io::Result<()> {
        let processes = [(P, "P"), (M, "M"), (SPANS, "spans"), (CPU, "CPU")];
        let shown = if self.trace.cpus() > 0 { processes.len() } else { processes.len() - 1 };
        for (process, name) in &processes[..shown] {
            self.name("process_name", *process, 0, name)?;
        }
        for cpu in 0..self.trace.cpus() {
            self.name("thread_name", CPU, cpu.into(), &format!("CPU {cpu}"))?;
        }
        self.name("thread_name", P, OUTSIDE.into(), "without a P")?;
        for processor in 0..self.trace.processors() {
            self.name("thread_name", P, processor.into(), &format!("P{processor}"))?;
        }
        let machines: BTreeSet<_> = model.slices.iter().filter_map(|slice| slice.machine).collect();
        for machine in machines {
            self.name("thread_name", M, machine, &format!("M{machine}"))?;
        }
        for goroutine in self.trace.goroutines() {
            self.name("thread_name", SPANS, goroutine.id, &goroutine.label())?;
        }
        Ok(())
    }

    fn name(&mut self, what: &str, process: u32, thread: u64, name: &str) -> io::Result<()> {
        let name = quoted(name);
        self.event(
            "M",
            format_args!("\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\"args\":{{\"name\":{name}}}"),
        )
    }

    fn slices(&mut self, model: &Model) -> io::Result<()> {
        for slice in &model.slices {
            let category = slice.activity.category();
            let name = match slice.activity {
                Activity::Run(goroutine) | Activity::Syscall(goroutine) => self.label(goroutine),
                Activity::Search => quoted(category),
                Activity::Stopped if slice.to > slice.from => quoted(category),
                Activity::Stopped | Activity::Schedule | Activity::Idle => continue,
            };
            let arguments = self.arguments(slice);
            let times = times(slice.from, slice.to);
            let fields = format!("\"name\":{name},\"cat\":\"{category}\",{times},\"args\":{arguments}");
            self.event("X", format_args!("\"pid\":{P},\"tid\":{},{fields}", slice.processor))?;
            if let Some(machine) = slice.machine {
                self.event("X", format_args!("\"pid\":{M},\"tid\":{machine},{fields}"))?;
            }
        }
        for blocked in &model.blocked {
            let (name, times) = (self.label(blocked.goroutine), times(blocked.from, blocked.to));
            let machine = blocked.machine;
            let fields = format_args!("\"pid\":{M},\"tid\":{machine},\"name\":{name},\"cat\":\"blocked\",{times}");
            self.event("X", fields)?;
        }
        Ok(())
    }

    /// Writes what the CPUs and the callers without a P did.
    fn cpus(&mut self, model: &Model) -> io::Result<()> {
        for CpuSlice { cpu, thread, from, to } in &model.cpus {
            let name = match thread {
                CpuThread::Machine(number) => format!("M{number}"),
                CpuThread::Other => "thread without Gs".to_owned(),
            };
            let (name, times) = (quoted(&name), times(*from, *to));
            self.event("X", format_args!("\"pid\":{CPU},\"tid\":{cpu},\"name\":{name},\"cat\":\"thread\",{times}"))?;
        }
        for InterruptSlice { cpu, name, from, to } in &model.interrupts {
            let (name, times) = (quoted(&self.trace.texts()[*name]), times(*from, *to));
            let fields = format_args!("\"pid\":{CPU},\"tid\":{cpu},\"name\":{name},\"cat\":\"interrupt\",{times}");
            self.event("X", fields)?;
        }
        for entry in self.trace.events().iter().filter(|entry| entry.track == Track::Outside) {
            let Some(goroutine) = entry.goroutine else { continue };
            let name = quoted(&format!("{:?} {}", entry.kind, self.trace.goroutines()[goroutine].label()));
            // A viewer attaches an arrow to a slice. So the event is shown as the shortest possible slice.
            let times = times(entry.when, entry.when.saturating_add(1));
            let fields = format_args!("\"pid\":{P},\"tid\":{OUTSIDE},\"name\":{name},\"cat\":\"outside\",{times}");
            self.event("X", fields)?;
        }
        Ok(())
    }

    /// Returns what the viewer shows about a slice, as JSON.
    fn arguments(&self, slice: &Slice) -> String {
        let end = quoted(&slice.end.to_string());
        let migrated = slice.migrated_from.map_or_else(String::new, |from| format!("\"migrated from\":\"P{from}\","));
        let Some(Readied { at, track, cause }) = slice.readied else { return format!("{{{migrated}\"then\":{end}}}") };
        let by = match cause {
            Some(Cause::Goroutine(by)) => self.label(by),
            Some(Cause::Timer) => quoted("a timer"),
            Some(Cause::Device) => quoted("a device"),
            Some(Cause::Return) => quoted("returns from a call"),
            Some(Cause::Unknown) if track == Some(Track::Outside) => quoted("a thread that is not an M"),
            Some(Cause::Unknown) => quoted("unknown"),
            None => quoted("gave way"),
        };
        let runnable = slice.from.saturating_sub(at);
        format!("{{{migrated}\"readied by\":{by},\"runnable for ns\":{runnable},\"then\":{end}}}")
    }

    fn arrows(&mut self, model: &Model) -> io::Result<()> {
        for (number, arrow) in model.arrows.iter().enumerate() {
            let name = match arrow.kind {
                ArrowKind::Ready => "ready",
                ArrowKind::Device => "device",
                ArrowKind::Steal => "steal",
                ArrowKind::HandOff => "handoff",
                ArrowKind::Timer => "timer",
            };
            let end = |(when, track): (u64, Track)| {
                let (process, thread) = match track {
                    Track::Processor(processor) => (P, processor),
                    Track::Cpu(cpu) => (CPU, cpu),
                    Track::Outside => (P, OUTSIDE),
                };
                let ts = micros(when);
                format!(
                    "\"name\":\"{name}\",\"cat\":\"{name}\",\"id\":{number},\"pid\":{process},\"tid\":{thread},\"ts\":{ts}"
                )
            };
            self.event("s", format_args!("{}", end(arrow.from)))?;
            self.event("f", format_args!("\"bp\":\"e\",{}", end((arrow.to.0, Track::Processor(arrow.to.1)))))?;
        }
        Ok(())
    }

    fn counters(&mut self, model: &Model) -> io::Result<()> {
        let interval = self.trace.duration() / COUNTERS + 1;
        for numbers in model.numbers.chunk_by(|left, right| left.when / interval == right.when / interval) {
            let Some(numbers) = numbers.last() else { continue };
            let ts = micros(numbers.when);
            self.counter("running Gs", &ts, numbers.running)?;
            self.counter("runnable Gs", &ts, numbers.runnable)?;
            self.counter("idle Ps", &ts, numbers.idle)?;
            self.counter("spinning Ms", &ts, numbers.spinning)?;
        }
        let queues = (0..self.trace.processors()).map(Some).chain([None]);
        for queue in queues {
            let name = queue.map_or("global queue".to_owned(), |number| format!("queue of P{number}"));
            let lengths: Vec<_> = model.queue_lengths.iter().filter(|length| length.processor == queue).collect();
            for lengths in lengths.chunk_by(|left, right| left.when / interval == right.when / interval) {
                let Some(last) = lengths.last() else { continue };
                self.counter(&name, &micros(last.when), last.length)?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, ts: &str, value: usize) -> io::Result<()> {
        let fields = format_args!("\"name\":\"{name}\",\"pid\":{P},\"ts\":{ts},\"args\":{{\"count\":{value}}}");
        self.event("C", fields)
    }

    /// Writes the spans and marks of the program, the stops of the world, and the violated rule.
    fn instants(&mut self) -> io::Result<()> {
        let trace = self.trace;
        if let Some((index, rule)) = trace.violation()
            && let Track::Cpu(cpu) = trace.events()[index].track
        {
            let (name, ts) = (quoted(rule), micros(trace.events()[index].when));
            // The mark extends over all tracks.
            let fields = format_args!(
                "\"s\":\"g\",\"name\":{name},\"cat\":\"violation\",\"pid\":{CPU},\"tid\":{cpu},\"ts\":{ts}"
            );
            self.event("i", fields)?;
        }
        for entry in trace.events() {
            let (phase, name) = match entry.kind {
                EventKind::SpanBegin => ("b", quoted(&trace.texts()[entry.detail as usize])),
                EventKind::SpanEnd => ("e", quoted(&trace.texts()[entry.detail as usize])),
                EventKind::Mark => ("n", quoted(&trace.texts()[entry.detail as usize])),
                EventKind::WorldStop => ("b", quoted("the world is stopped")),
                EventKind::WorldStart => ("e", quoted("the world is stopped")),
                _ => continue,
            };
            let thread = entry.goroutine.map_or(0, |goroutine| trace.goroutines()[goroutine].id);
            let ts = micros(entry.when);
            let fields = format_args!(
                "\"name\":{name},\"cat\":\"span\",\"id\":{thread},\"pid\":{SPANS},\"tid\":{thread},\"ts\":{ts}"
            );
            self.event(phase, fields)?;
        }
        Ok(())
    }
}

/// Converts nanoseconds to microseconds, the unit of the format.
fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

fn times(from: u64, to: u64) -> String {
    format!("\"ts\":{},\"dur\":{}", micros(from), micros(to - from))
}

/// Returns `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // The string may be in a script of an HTML page, where `</script>` would end it.
            '<' => quoted.push_str("\\u003c"),
            character if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quoted_text_is_read_back_unchanged() {
        for text in ["", "G1 main", "a\"b\\c", "</script>\u{2028}\n\u{1}", "ö"] {
            let quoted = quoted(text);
            assert!(!quoted.contains('<'));
            assert_eq!(serde_json::from_str::<String>(&quoted).expect("JSON"), text);
        }
    }
}
