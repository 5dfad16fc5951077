//! The lengths of the run queues, below the rows of the Ps, and a row for the global queue.

use super::signs::Sign;
use super::{LEAST, LEFT, Picture, QUEUE, ROW, Rows};

/// A part of the picture in which a run queue has one length.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    left: f64,
    right: f64,
    length: usize,
}

impl Picture<'_> {
    pub(super) fn draw_queues(&mut self) {
        if self.longest == 0 {
            return;
        }
        self.signs.insert(Sign::Queue);
        for (row, number) in self.rows.clone().into_iter().enumerate() {
            self.draw_queue(Some(number as u32), self.y(row) + ROW + QUEUE);
        }
        if self.has_global() {
            let base = self.y(self.rows.len()) + QUEUE;
            self.text((LEFT - 12.0, base - 4.0), "end", self.theme.color("front"), "global");
            self.draw_queue(None, base);
        }
    }

    /// Draws the lengths of the queue of a P, or of the global one, above the line `base`.
    fn draw_queue(&mut self, queue: Option<u32>, base: f64) {
        for Stretch { left, right, length } in self.stretches(queue) {
            let height = (length as f64 / self.longest as f64 * (QUEUE - 4.0)).max(2.0);
            self.rectangle((left, base - height), (right - left, height), self.theme.color("line"));
            if right - left > 30.0 {
                self.text((left + 4.0, base - 3.0), "start", self.theme.color("front"), length);
            }
        }
    }

    /// The greatest length of a queue that is shown.
    pub(super) fn longest_queue(&self) -> usize {
        if self.view.rows == Rows::Machines {
            return 0;
        }
        let queues = (0..self.trace.processors()).map(Some).chain([None]);
        queues.flat_map(|queue| self.stretches(queue)).map(|stretch| stretch.length).max().unwrap_or_default()
    }

    /// Whether there is a row for the global queue.
    pub(super) fn has_global(&self) -> bool {
        self.longest > 0 && !self.stretches(None).is_empty()
    }

    /// Where in the picture this queue is not empty.
    fn stretches(&self, queue: Option<u32>) -> Vec<Stretch> {
        let changes: Vec<_> = self.model.queue_lengths.iter().filter(|entry| entry.processor == queue).collect();
        let ends = changes.iter().skip(1).map(|entry| entry.when).chain([self.trace.duration()]);
        let stretch = |(entry, end): (&&crate::model::QueueLength, u64)| Stretch {
            left: self.x(entry.when),
            right: self.x(end),
            length: entry.length,
        };
        let stretches = changes.iter().zip(ends).map(stretch);
        stretches.filter(|stretch| stretch.length > 0 && stretch.right - stretch.left >= LEAST).collect()
    }
}
