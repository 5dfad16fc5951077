//! Draws a part of a trace as one picture in SVG, for slides and for documents that cannot show the page.
//!
//! The picture has no style sheet, script or variable, so that programs for slides can read it. It looks like the
//! page's timeline: a row for each P or M, with what it did, and arrows. Below the row of a P is the length of its run
//! queue. The last lines explain the signs that occur in the picture.

mod arrows;
mod queues;
mod signs;

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use gmp_sched::trace::Track;

use crate::Trace;
pub use crate::colors::Theme;
use crate::colors::of_goroutine;
use crate::model::{Activity, ArrowKind, Model};
use crate::page::escaped;
use signs::Sign;

const WIDTH: f64 = 1280.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const ROW: f64 = 44.0;
const QUEUE: f64 = 24.0;
const GAP: f64 = 16.0;
const FONT: f64 = 20.0;
/// The least width of what is drawn. Only periods of Gs are drawn even if they are narrower.
const LEAST: f64 = 2.0;

/// What the rows of a picture are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Ps, with their queues.
    Processors,
    /// Ms, also while they are blocked without a P.
    Machines,
}

/// Which part of a trace is drawn, and how.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// A description of the picture, for readers who cannot see it.
    pub title: &'a str,
    /// Where the picture begins and ends, in nanoseconds.
    pub period: (u64, u64),
    /// What the rows are.
    pub rows: Rows,
    /// The arrows that are drawn.
    pub arrows: &'a [ArrowKind],
}

/// A period in which the P or M of a row did one thing.
#[derive(Clone, Copy, Debug)]
struct Period {
    /// The number of the P or M.
    row: u64,
    from: u64,
    to: u64,
    sign: Sign,
    goroutine: Option<usize>,
}

struct Picture<'a> {
    trace: &'a Trace,
    model: Model,
    view: View<'a>,
    theme: Theme,
    periods: Vec<Period>,
    /// The numbers of the rows, from the top.
    rows: Vec<u64>,
    /// The greatest length of a queue in the picture. If it is 0, no queues are shown.
    longest: usize,
    /// The signs that have been drawn. The last lines of the picture explain them.
    signs: BTreeSet<Sign>,
    svg: String,
}

/// Draws a part of `trace`.
///
/// # Panics
///
/// If the period of the view ends before it begins.
#[must_use]
pub fn svg(trace: &Trace, view: View<'_>, theme: Theme) -> String {
    let mut picture = Picture::new(trace, view, theme);
    picture.draw_ruler();
    picture.draw_rows();
    picture.draw_queues();
    picture.draw_arrows();
    picture.finish()
}

impl<'a> Picture<'a> {
    fn new(trace: &'a Trace, view: View<'a>, theme: Theme) -> Self {
        let model = Model::of(trace);
        let periods: Vec<_> = periods(&model, view);
        let rows: BTreeSet<u64> = match view.rows {
            Rows::Processors => (0..u64::from(trace.processors())).collect(),
            Rows::Machines => periods.iter().map(|period| period.row).collect(),
        };
        let rows = rows.into_iter().collect();
        let mut picture =
            Self { trace, model, view, theme, periods, rows, longest: 0, signs: BTreeSet::new(), svg: String::new() };
        picture.longest = picture.longest_queue();
        picture
    }

    // The positions of rows and times.

    fn x(&self, when: u64) -> f64 {
        let (from, to) = self.view.period;
        let share = (when.clamp(from, to) - from) as f64 / (to - from).max(1) as f64;
        LEFT + share * (WIDTH - RIGHT - LEFT)
    }

    fn y(&self, row: usize) -> f64 {
        TOP + GAP + row as f64 * (ROW + self.queue() + GAP)
    }

    /// The height of the queue below a row.
    fn queue(&self) -> f64 {
        if self.longest > 0 { QUEUE } else { 0.0 }
    }

    fn bottom(&self) -> f64 {
        self.y(self.rows.len()) - GAP + if self.has_global() { QUEUE + GAP } else { 0.0 }
    }

    fn row_of(&self, number: u64) -> Option<usize> {
        self.rows.iter().position(|row| *row == number)
    }

    /// Returns the row that shows what happened on `track` at the time `when`. If the rows are Ms, this is the row of the
    /// M that held the P.
    fn row_at(&self, track: Track, when: u64) -> Option<usize> {
        let Track::Processor(processor) = track else { return None };
        let machine = || {
            let is_there = |slice: &&crate::model::Slice| slice.processor == processor && slice.machine.is_some();
            let slices = self.model.slices.iter().filter(is_there);
            slices.filter(|slice| slice.from <= when).max_by_key(|slice| slice.from)?.machine
        };
        self.row_of(if self.view.rows == Rows::Processors { u64::from(processor) } else { machine()? })
    }

    // The parts of the picture.

    fn draw_ruler(&mut self) {
        let (from, to) = self.view.period;
        let step = step((to - from) / 8);
        let (line, dim) = (self.theme.color("line"), self.theme.color("dim"));
        for when in (from.div_ceil(step)..=to / step).map(|count| count * step) {
            let (x, bottom) = (self.x(when), self.bottom());
            let _ = writeln!(self.svg, "<path d=\"M{x:.1} {TOP:.1}V{bottom:.1}\" stroke=\"{line}\"/>");
            if x < WIDTH - 3.0 * FONT {
                self.text((x, TOP - 10.0), "middle", dim, duration(when, step));
            }
        }
    }

    fn draw_rows(&mut self) {
        let letter = if self.view.rows == Rows::Processors { "P" } else { "M" };
        let (front, idle) = (self.theme.color("front"), self.theme.color("idle"));
        for (row, number) in self.rows.clone().into_iter().enumerate() {
            let y = self.y(row);
            self.rectangle((LEFT, y), (WIDTH - RIGHT - LEFT, ROW), idle);
            self.text((LEFT - 12.0, y + ROW / 2.0 + 7.0), "end", front, format_args!("{letter}{number}"));
        }
        for period in self.periods.clone() {
            self.draw_period(period);
        }
    }

    fn draw_period(&mut self, period: Period) {
        let Some(row) = self.row_of(period.row) else { return };
        let (left, right, y) = (self.x(period.from), self.x(period.to), self.y(row));
        if right - left < LEAST && period.goroutine.is_none() {
            return;
        }
        // A gap separates adjacent periods of Gs that have the same color.
        let width = (right - left - 1.0).max(1.0);
        self.signs.insert(period.sign);
        if matches!(period.sign, Sign::Search | Sign::Stopped) {
            let color = self.theme.color(if period.sign == Sign::Search { "search" } else { "stopped" });
            self.rectangle((left, y + ROW * 0.3), (width, ROW * 0.4), color);
            return;
        }
        let Some(goroutine) = period.goroutine else { return };
        self.rectangle((left, y), (width, ROW), &of_goroutine(goroutine));
        if period.sign == Sign::Call {
            self.rectangle((left, y + ROW * 0.75), (width, ROW * 0.25), self.theme.color("blocked"));
        }
        let known = &self.trace.goroutines()[goroutine];
        let names = [known.label(), format!("G{}", known.id)];
        if let Some(name) = names.into_iter().find(|name| name.len() as f64 * FONT * 0.6 + 10.0 < width) {
            self.text((left + 6.0, y + ROW / 2.0 + 5.0), "start", "#ffffff", escaped(&name));
        }
    }

    // The elements of SVG.

    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), color: &str) {
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>"
        );
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, color: &str, text: impl Display) {
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{text}</text>"
        );
    }

    fn finish(mut self) -> String {
        let bottom = self.draw_signs(self.bottom() + 2.0 * GAP);
        let (title, back) = (escaped(self.view.title), self.theme.color("back"));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {bottom:.0}\" width=\"{WIDTH}\" \
             height=\"{bottom:.0}\" role=\"img\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" \
             font-size=\"{FONT}\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{bottom:.0}\" fill=\"{back}\"/>\n{}</svg>\n",
            self.svg
        )
    }
}

/// Returns the periods of `model` that a picture with this view shows, in the order in which they are drawn.
fn periods(model: &Model, view: View<'_>) -> Vec<Period> {
    let of_slice = |slice: &crate::model::Slice| {
        let (sign, goroutine) = match slice.activity {
            Activity::Run(goroutine) => (Sign::Run, Some(goroutine)),
            Activity::Syscall(goroutine) => (Sign::Call, Some(goroutine)),
            Activity::Search => (Sign::Search, None),
            Activity::Stopped => (Sign::Stopped, None),
            Activity::Schedule | Activity::Idle => return None,
        };
        let row = if view.rows == Rows::Processors { Some(u64::from(slice.processor)) } else { slice.machine };
        Some(Period { row: row?, from: slice.from, to: slice.to, sign, goroutine })
    };
    let blocked = model.blocked.iter().filter(|_| view.rows == Rows::Machines).map(|blocked| Period {
        row: blocked.machine,
        from: blocked.from,
        to: blocked.to,
        sign: Sign::Call,
        goroutine: Some(blocked.goroutine),
    });
    let is_shown = |period: &Period| period.to > view.period.0 && period.from < view.period.1;
    let mut periods: Vec<_> = model.slices.iter().filter_map(of_slice).chain(blocked).filter(is_shown).collect();
    // A period that begins later is drawn over an earlier one, so a long period does not hide a short one within it.
    periods.sort_by_key(|period| (period.row, period.from));
    periods
}

/// Returns the smallest number that is at least `least` and is 1, 2 or 5 times a power of ten.
fn step(least: u64) -> u64 {
    let powers = (0..18).map(|exponent| 10_u64.pow(exponent));
    powers.flat_map(|power| [power, 2 * power, 5 * power]).find(|size| *size >= least).unwrap_or(u64::MAX)
}

/// Returns a time as text, in a unit that suits the distance between the lines of the ruler.
fn duration(when: u64, step: u64) -> String {
    let (unit, name) = match step {
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    format!("{} {name}", when / unit)
}
