//! A timeline of what ran on each P, drawn in characters from a trace.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::base::id::GoroutineId;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;
use crate::record::trace::{Event, EventKind};

/// The character for a column in which no G ran.
const IDLE: char = '·';

/// A period in which one G ran on a P, in nanoseconds.
struct RunSpan {
    from: u64,
    to: u64,
    goroutine: GoroutineId,
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Draws the last trace: a line for each P, with `columns` characters for the time from the first event to the
    /// last. Each character is the `letter` of the G with the longest uninterrupted run in that column, or `·` if no G
    /// ran. The text is empty if the trace has no events. Allocates.
    ///
    /// A G for which `is_highlighted` returns `true` is shown in every column in which it ran at all. If several such
    /// Gs ran in a column, the first of them is shown.
    ///
    /// ```
    /// use gmp_sched::goroutine::GoroutineId;
    /// use gmp_sched::native::{self, Native};
    /// use gmp_sched::platform::Pinned;
    ///
    /// let timeline = unsafe { native::enter() }.run(1, || {
    ///     let scheduler = Pinned::<Native>::new().machine().scheduler();
    ///     scheduler.start_trace(1000).unwrap();
    ///     let child = native::go(|| native::sleep(std::time::Duration::from_millis(5)));
    ///     child.join().unwrap();
    ///     scheduler.stop_trace();
    ///     scheduler.timeline(40, |g| if g == GoroutineId::MAIN { 'm' } else { 'c' }, |_| true)
    /// });
    /// assert!(timeline.starts_with("P0 ") && timeline.contains('c') && timeline.contains('·'), "{timeline}");
    /// ```
    ///
    /// # Panics
    ///
    /// `columns` is 0.
    #[track_caller]
    pub fn timeline(
        &'static self,
        columns: usize,
        letter: impl Fn(GoroutineId) -> char,
        is_highlighted: impl Fn(GoroutineId) -> bool,
    ) -> String {
        assert!(columns > 0, "a timeline without columns");
        let traces: Vec<Vec<Event>> = self.processors().iter().map(|processor| processor.trace()).collect();
        let times = || traces.iter().flatten().map(|event| event.when.as_nanos());
        let (Some(begin), Some(end)) = (times().min(), times().max()) else { return String::new() };
        let mut timeline = String::new();
        for (number, trace) in traces.iter().enumerate() {
            let line = line(&spans(trace, end), begin, end, columns, &is_highlighted);
            let letters: String = line.into_iter().map(|goroutine| goroutine.map_or(IDLE, &letter)).collect();
            // Writing to a `String` does not fail.
            let _ = writeln!(timeline, "P{number:<2} {letters}");
        }
        timeline
    }
}

/// Returns the spans of time in which Gs ran on a P, derived from the events of that P.
fn spans(trace: &[Event], end: u64) -> Vec<RunSpan> {
    let mut spans = Vec::new();
    let mut running: Option<(u64, GoroutineId)> = None;
    let mut stop = |running: &mut Option<(u64, GoroutineId)>, to: u64| {
        if let Some((from, goroutine)) = running.take() {
            spans.push(RunSpan { from, to, goroutine });
        }
    };
    for event in trace {
        let when = event.when.as_nanos();
        match event.kind {
            EventKind::Start | EventKind::SyscallExit => {
                stop(&mut running, when);
                running = event.goroutine.map(|goroutine| (when, goroutine));
            }
            EventKind::Switch => {
                stop(&mut running, when);
                running = Some((when, GoroutineId(event.detail)));
            }
            EventKind::Park
            | EventKind::End
            | EventKind::Preempt
            | EventKind::HandOff
            | EventKind::Retake
            | EventKind::Stop
            | EventKind::Idle
            | EventKind::Retire => stop(&mut running, when),
            // The other events do not end the period in which a G runs. Most of them concern Gs that do not run. A G in
            // a system call still counts as running, and a G that yields counts as running until the next `Start`.
            _ => {}
        }
    }
    stop(&mut running, end);
    spans
}

/// Returns the G to show in each column: the first highlighted G that ran in the column, otherwise the G with the
/// longest uninterrupted run in the column. `None` if no G ran in the column.
fn line(
    spans: &[RunSpan],
    begin: u64,
    end: u64,
    columns: usize,
    is_highlighted: &impl Fn(GoroutineId) -> bool,
) -> Vec<Option<GoroutineId>> {
    let width = ((end - begin) / columns as u64).max(1);
    let mut line = vec![(0, None); columns];
    for span in spans {
        let first = ((span.from - begin) / width) as usize;
        // A period that ends where a column begins is not in that column.
        let last = ((span.to.max(span.from + 1) - 1 - begin) / width) as usize;
        for (column, (longest, shown)) in line.iter_mut().enumerate().take(last + 1).skip(first) {
            let (from, to) = (begin + column as u64 * width, begin + (column as u64 + 1) * width);
            let overlap = span.to.min(to).saturating_sub(span.from.max(from)).max(1);
            let weight = if is_highlighted(span.goroutine) { u64::MAX } else { overlap };
            if weight > *longest {
                (*longest, *shown) = (weight, Some(span.goroutine));
            }
        }
    }
    line.into_iter().map(|(_, shown)| shown).collect()
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::base::instant::Instant;

    fn event(when: u64, kind: EventKind, goroutine: u64) -> Event {
        Event { when: Instant::from_nanos(when), kind, goroutine: Some(GoroutineId(goroutine)), detail: 0 }
    }

    fn drawn(trace: &[Event], highlighted: u64) -> String {
        let end = trace.last().expect("an event").when.as_nanos();
        let line = line(&spans(trace, end), 0, end, 10, &|goroutine| goroutine.get() == highlighted);
        line.into_iter().map(|shown| shown.map_or('.', |goroutine| char::from(b'0' + goroutine.get() as u8))).collect()
    }

    #[test]
    fn column_shows_the_g_that_ran_longest_in_it() {
        let trace = [
            event(0, EventKind::Start, 1),
            event(300, EventKind::Preempt, 1),
            event(300, EventKind::Start, 2),
            event(340, EventKind::Park, 2),
            event(340, EventKind::Start, 3),
            event(600, EventKind::End, 3),
            event(800, EventKind::Start, 1),
            event(1000, EventKind::Park, 1),
        ];
        assert_eq!(drawn(&trace, 0), "111333..11");
        assert_eq!(drawn(&trace, 2), "111233..11");
    }

    #[test]
    fn coroutine_switch_and_stop_of_the_world_end_a_run() {
        let trace = [
            event(0, EventKind::Start, 1),
            Event { detail: 2, ..event(300, EventKind::Switch, 1) },
            event(700, EventKind::Stop, 0),
            event(900, EventKind::Start, 3),
            event(1000, EventKind::Park, 3),
        ];
        assert_eq!(drawn(&trace, 0), "1112222..3");
    }
}
