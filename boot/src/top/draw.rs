//! The picture of the live view, as lines of text for a terminal of any size.

use super::model::{Processor, Values};

/// The number of columns of a P's bar.
const BAR: usize = 24;

/// How a line is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
}

/// A line of the picture.
pub(super) type Line = (Style, String);

/// Returns the lines of a picture for a terminal of `columns` columns and `rows` rows: the values, and the last lines
/// of the output below them. If there are no values yet, returns only a line that says that the machine starts.
pub(super) fn picture(
    columns: usize,
    rows: usize,
    title: &str,
    values: Option<&Values>,
    output: &[String],
) -> Vec<Line> {
    let mut lines = Vec::new();
    match values {
        None => lines.push((Style::Plain, format!("{title}: the machine starts"))),
        Some(values) => {
            let head = format!("{title}   {:.1} s   (Ctrl-C ends the machine)", values.time.as_secs_f64());
            lines.push((Style::Bold, head));
            lines.extend(lines_of_totals(values).map(|line| (Style::Plain, line)));
            add_processors(&mut lines, rows, &values.processors);
            add_output(&mut lines, columns, rows, output);
        }
    }
    lines.truncate(rows);
    for (_, text) in &mut lines {
        *text = text.chars().take(columns).collect();
    }
    lines
}

fn lines_of_totals(values: &Values) -> [String; 4] {
    let goroutines = &values.goroutines;
    let rates = match &values.rates {
        Some(rates) => {
            let rates = rates.iter().map(|(name, rate)| format!("{rate:.0} {name}"));
            rates.collect::<Vec<_>>().join("  ")
        }
        None => "(not known yet)".to_owned(),
    };
    [
        format!("per second: {rates}"),
        format!(
            "Gs: {} running  {} runnable  {} waiting  {} in system calls  {} not started",
            goroutines.running, goroutines.runnable, goroutines.waiting, goroutines.syscall, goroutines.idle
        ),
        format!(
            "Ms: {}, of which {} idle and {} spinning   global queue: {}",
            values.machines, values.idle_machines, values.spinning, values.global_length
        ),
        format!("longest time in a queue (of a sample of Gs, last second): {:.1?}", values.longest_wait),
    ]
}

/// Adds the table of Ps, as far as it fits in `rows` rows.
fn add_processors(lines: &mut Vec<Line>, rows: usize, processors: &[Processor]) {
    let head = format!("{:>4} {:<BAR$} {:>5} {:>6} {:>8} {:<8} G", "P", "busy", "", "queue", "slices/s", "state");
    lines.push((Style::Dim, head));
    let room = rows.saturating_sub(lines.len());
    // If not all Ps fit, the last line says how many are missing.
    let shown = if processors.len() > room { room.saturating_sub(1) } else { processors.len() };
    let all = processors.iter().enumerate().map(|(number, processor)| {
        let goroutine = processor.goroutine.map(|id| format!("G{id}")).unwrap_or_default();
        format!(
            "{:>4} {:<BAR$} {:>4.0}% {:>6} {:>8.0} {:<8} {goroutine}",
            format!("P{number}"),
            bar(processor.busy),
            processor.busy * 100.0,
            processor.queue_length,
            processor.slices,
            processor.state,
        )
    });
    lines.extend(all.take(shown).map(|line| (Style::Plain, line)));
    if shown < processors.len() {
        lines.push((Style::Plain, format!("     and {} more Ps", processors.len() - shown)));
    }
}

/// Returns a bar for a share from 0 to 1.
fn bar(share: f64) -> String {
    let length = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    "█".repeat(length) + &"·".repeat(BAR - length)
}

/// Adds a title and the last lines of the output, as far as they fit in `rows` rows.
fn add_output(lines: &mut Vec<Line>, columns: usize, rows: usize, output: &[String]) {
    let title = "output (all of it is printed at the end)";
    lines.push((Style::Plain, title.to_owned() + &"─".repeat(columns.saturating_sub(title.len()))));
    let room = rows.saturating_sub(lines.len());
    let last = &output[output.len().saturating_sub(room)..];
    lines.extend(last.iter().map(|line| (Style::Plain, line.clone())));
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use gmp_sched::snapshot::Goroutines;

    use super::*;

    fn values(processors: usize) -> Values {
        let processor = Processor { state: "running", goroutine: Some(18), queue_length: 3, busy: 0.5, slices: 120.0 };
        Values {
            time: Duration::from_millis(1500),
            processors: vec![processor; processors],
            global_length: 7,
            machines: 9,
            idle_machines: 2,
            spinning: 1,
            goroutines: Goroutines { runnable: 4, running: 2, syscall: 1, waiting: 5, idle: 0 },
            rates: Some(vec![("switches", 1234.4), ("steals", 5.0)]),
            longest_wait: Duration::from_micros(640),
        }
    }

    fn drawn(columns: usize, rows: usize, values: Option<&Values>, output: &[String]) -> Vec<String> {
        let lines = picture(columns, rows, "tour", values, output).into_iter();
        lines.map(|(_, text)| text.trim_end().to_owned()).collect()
    }

    #[test]
    fn picture_shows_all_values_and_the_last_lines_of_output() {
        let output: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        let lines = drawn(90, 12, Some(&values(2)), &output);
        assert_eq!(
            lines,
            [
                "tour   1.5 s   (Ctrl-C ends the machine)",
                "per second: 1234 switches  5 steals",
                "Gs: 2 running  4 runnable  5 waiting  1 in system calls  0 not started",
                "Ms: 9, of which 2 idle and 1 spinning   global queue: 7",
                "longest time in a queue (of a sample of Gs, last second): 640.0µs",
                "   P busy                            queue slices/s state    G",
                "  P0 ████████████············   50%      3      120 running  G18",
                "  P1 ████████████············   50%      3      120 running  G18",
                &format!("output (all of it is printed at the end){}", "─".repeat(50)),
                "line 97",
                "line 98",
                "line 99",
            ]
        );
    }

    #[test]
    fn terminal_of_any_size_is_drawn_on() {
        for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 24), (300, 100)] {
            for processors in [0, 1, 255] {
                let lines = drawn(width, height, Some(&values(processors)), &["a line".into()]);
                assert!(lines.len() <= height && lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            }
            assert_eq!(drawn(width, height, None, &[]).len(), 1);
        }
        let lines = drawn(80, 10, Some(&values(255)), &[]);
        assert!(lines.iter().any(|line| line.contains("more Ps")), "{lines:?}");
    }
}
