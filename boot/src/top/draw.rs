//! Draws the live view on a terminal of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};

use super::model::{Processor, Values};

/// The number of columns of a P's bar.
const BAR: usize = 24;
/// The number of lines for the values of the whole scheduler, above the table of Ps.
const TOTALS: u16 = 4;

/// Draws the values, and the last lines of the output below them. If there are no values yet, draws only a line that
/// says that the machine starts.
pub(super) fn draw(frame: &mut Frame<'_>, title: &str, values: Option<&Values>, output: &[String]) {
    let area = frame.area();
    let Some(values) = values else {
        let text = format!("{title}: the machine starts");
        return frame.render_widget(Paragraph::new(text), area);
    };
    let processors = values.processors.len().min(usize::from(u16::MAX)) as u16 + 1;
    let rows = [Constraint::Length(1), Constraint::Length(TOTALS), Constraint::Max(processors), Constraint::Fill(1)];
    let [head, totals, table, rest] = Layout::vertical(rows).areas::<4>(area);
    let head_text = format!("{title}   {:.1} s   (Ctrl-C ends the machine)", values.time.as_secs_f64());
    frame.render_widget(Paragraph::new(head_text).style(Style::new().add_modifier(Modifier::BOLD)), head);
    frame.render_widget(Paragraph::new(lines_of_totals(values)), totals);
    draw_processors(frame, table, &values.processors);
    draw_output(frame, rest, output);
}

fn lines_of_totals(values: &Values) -> Vec<Line<'static>> {
    let goroutines = &values.goroutines;
    let rates = match &values.rates {
        Some(rates) => {
            let rates = rates.iter().map(|(name, rate)| format!("{rate:.0} {name}"));
            rates.collect::<Vec<_>>().join("  ")
        }
        None => "(not known yet)".to_owned(),
    };
    vec![
        Line::from(format!("per second: {rates}")),
        Line::from(format!(
            "Gs: {} running  {} runnable  {} waiting  {} in system calls  {} not started",
            goroutines.running, goroutines.runnable, goroutines.waiting, goroutines.syscall, goroutines.idle
        )),
        Line::from(format!(
            "Ms: {}, of which {} idle and {} spinning   global queue: {}",
            values.machines, values.idle_machines, values.spinning, values.global_length
        )),
        Line::from(format!("longest time in a queue (of a sample of Gs, last second): {:.1?}", values.longest_wait)),
    ]
}

fn draw_processors(frame: &mut Frame<'_>, area: Rect, processors: &[Processor]) {
    let head = format!("{:>4} {:<BAR$} {:>5} {:>6} {:>8} {:<8} G", "P", "busy", "", "queue", "slices/s", "state");
    let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::DIM))];
    let room = usize::from(area.height.saturating_sub(1));
    // If not all Ps fit, the last line says how many are missing.
    let shown = if processors.len() > room { room.saturating_sub(1) } else { processors.len() };
    lines.extend(processors[..shown].iter().enumerate().map(|(number, processor)| {
        let goroutine = processor.goroutine.map(|id| format!("G{id}")).unwrap_or_default();
        Line::from(format!(
            "{:>4} {:<BAR$} {:>4.0}% {:>6} {:>8.0} {:<8} {goroutine}",
            format!("P{number}"),
            bar(processor.busy),
            processor.busy * 100.0,
            processor.queue_length,
            processor.slices,
            processor.state,
        ))
    }));
    if shown < processors.len() {
        lines.push(Line::from(format!("     and {} more Ps", processors.len() - shown)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns a bar for a share from 0 to 1.
fn bar(share: f64) -> String {
    let length = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    "█".repeat(length) + &"·".repeat(BAR - length)
}

fn draw_output(frame: &mut Frame<'_>, area: Rect, output: &[String]) {
    let block = Block::new().borders(Borders::TOP).title("output (all of it is printed at the end)");
    let room = usize::from(block.inner(area).height);
    let last = &output[output.len().saturating_sub(room)..];
    let lines: Vec<_> = last.iter().map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use gmp_sched::snapshot::Goroutines;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

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

    fn drawn(width: u16, height: u16, values: Option<&Values>, output: &[String]) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, "tour", values, output)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
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
                drawn(width, height, Some(&values(processors)), &["a line".into()]);
            }
            drawn(width, height, None, &[]);
        }
        let lines = drawn(80, 10, Some(&values(255)), &[]);
        assert!(lines.iter().any(|line| line.contains("more Ps")), "{lines:?}");
    }
}
