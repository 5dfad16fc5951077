//! The signs of a picture, and the lines that explain them.

use std::fmt::Write as _;

use super::{FONT, GAP, LEFT, Picture, RIGHT, WIDTH};
use crate::colors::of_goroutine;
use crate::model::ArrowKind;

/// A sign that a picture may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    Run,
    Call,
    Search,
    Stopped,
    Queue,
    Arrow(ArrowKind),
}

impl Sign {
    fn words(self) -> &'static str {
        match self {
            Self::Run => "runs a G",
            Self::Call => "in a blocking call",
            Self::Search => "searches for work",
            Self::Stopped => "the world is stopped",
            Self::Queue => "Gs in the run queue",
            Self::Arrow(ArrowKind::Ready) => "readied, then runs",
            Self::Arrow(ArrowKind::Device) => "readied by a device",
            Self::Arrow(ArrowKind::Steal) => "stolen",
            Self::Arrow(ArrowKind::Timer) => "readied by a timer",
            Self::Arrow(ArrowKind::HandOff) => "the P is handed off",
        }
    }
}

impl Picture<'_> {
    /// Explains the signs that were drawn, below `top`. Returns where the lines end.
    pub(super) fn draw_signs(&mut self, top: f64) -> f64 {
        let (mut x, mut y) = (LEFT, top);
        for sign in std::mem::take(&mut self.signs) {
            let width = 44.0 + sign.words().len() as f64 * FONT * 0.52 + 20.0;
            if x + width > WIDTH - RIGHT {
                (x, y) = (LEFT, y + 1.6 * FONT);
            }
            self.draw_sign(sign, x, y);
            self.text((x + 44.0, y + 7.0), "start", self.theme.color("dim"), sign.words());
            x += width;
        }
        y + FONT + GAP / 2.0
    }

    fn draw_sign(&mut self, sign: Sign, x: f64, y: f64) {
        match sign {
            Sign::Run => self.rectangle((x, y - 9.0), (34.0, 18.0), &of_goroutine(0)),
            Sign::Call => {
                self.rectangle((x, y - 9.0), (34.0, 18.0), &of_goroutine(0));
                self.rectangle((x, y + 3.0), (34.0, 6.0), self.theme.color("blocked"));
            }
            Sign::Search => self.rectangle((x, y - 5.0), (34.0, 10.0), self.theme.color("search")),
            Sign::Stopped => self.rectangle((x, y - 5.0), (34.0, 10.0), self.theme.color("stopped")),
            Sign::Queue => self.rectangle((x, y - 9.0), (34.0, 18.0), self.theme.color("line")),
            Sign::Arrow(kind) => {
                let path = format!("M{x:.1} {y:.1}H{:.1}", x + 24.0);
                self.arrow(kind, &path, (x + 34.0, y), (1.0, 0.0));
            }
        }
    }

    /// Draws an arrow along `path`, with its point at `(x, y)`, in the direction of a vector of length 1.
    pub(super) fn arrow(&mut self, kind: ArrowKind, path: &str, (x, y): (f64, f64), (right, down): (f64, f64)) {
        let (dashes, width) = match kind {
            ArrowKind::Ready => ("none", 2.0),
            ArrowKind::Steal => ("none", 4.0),
            ArrowKind::HandOff => ("10 5", 3.0),
            ArrowKind::Timer => ("2 4", 2.5),
            ArrowKind::Device => ("10 4 2 4", 2.5),
        };
        let color = self.theme.color("arrow");
        let at = |back: f64, aside: f64| (x - back * right - aside * down, y - back * down + aside * right);
        let [(a, b), (c, d)] = [at(12.0, 7.0), at(12.0, -7.0)];
        let _ = writeln!(
            self.svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>\n\
             <path d=\"M{x:.1} {y:.1}L{a:.1} {b:.1}L{c:.1} {d:.1}Z\" fill=\"{color}\"/>"
        );
    }
}
