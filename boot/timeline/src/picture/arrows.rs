//! The arrows of a picture.

use gmp_sched::trace::Track;

use super::signs::Sign;
use super::{GAP, Picture, ROW};
use crate::model::Arrow;

impl Picture<'_> {
    pub(super) fn draw_arrows(&mut self) {
        let (from, to) = self.view.period;
        let is_shown = |arrow: &&Arrow| {
            self.view.arrows.contains(&arrow.kind) && arrow.from.0 >= from && (from..=to).contains(&arrow.to.0)
        };
        let mut arrows: Vec<Arrow> = self.model.arrows.iter().filter(is_shown).copied().collect();
        // A steal of several Gs is shown as one arrow, which leads to the first of these Gs that ran.
        arrows.sort_by_key(|arrow| (arrow.kind, arrow.from, arrow.to));
        arrows.dedup_by_key(|arrow| (arrow.kind, arrow.from, arrow.to.1));
        for arrow in arrows {
            self.draw_arrow(arrow);
        }
    }

    /// Draws an arrow between the edges of two rows. If the arrow begins on the row where it ends, or on a track without a
    /// row, it comes from just above the row where it ends.
    fn draw_arrow(&mut self, arrow: Arrow) {
        let Some(target) = self.row_at(Track::Processor(arrow.to.1), arrow.to.0) else { return };
        let source = self.row_at(arrow.from.1, arrow.from.0);
        let (left, right, top) = (self.x(arrow.from.0), self.x(arrow.to.0), self.y(target));
        let begin = match source.map(|row| (row, self.y(row))) {
            Some((row, y)) if row < target => (left, y + ROW),
            Some((row, y)) if row > target => (left, y),
            _ => (left, top - GAP + 2.0),
        };
        let end = if source.is_some_and(|row| row > target) { (right, top + ROW) } else { (right, top) };
        let (across, down) = (end.0 - begin.0, end.1 - begin.1);
        let length = across.hypot(down);
        let direction = (across / length, down / length);
        let path = format!(
            "M{:.1} {:.1}L{:.1} {:.1}",
            begin.0,
            begin.1,
            end.0 - 10.0 * direction.0,
            end.1 - 10.0 * direction.1
        );
        self.signs.insert(Sign::Arrow(arrow.kind));
        self.arrow(arrow.kind, &path, end, direction);
    }
}
