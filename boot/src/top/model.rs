//! Computes what the view shows from the numbers that the machine has published in about the last second. This module
//! has no input and no output.

use core::time::Duration;
use std::collections::VecDeque;

use gmp_sched::snapshot::{Goroutines, Snapshot, Totals};

/// The time over which rates and shares are averaged, in nanoseconds of the machine's clock.
const WINDOW: u64 = 1_000_000_000;

/// The snapshots of about the last second, oldest first.
#[derive(Debug, Default)]
pub(super) struct Model {
    past: VecDeque<Snapshot>,
}

/// The values that are shown.
#[derive(Debug, PartialEq)]
pub(super) struct Values {
    /// The time since the machine was started.
    pub(super) time: Duration,
    pub(super) processors: Vec<Processor>,
    pub(super) global_length: u64,
    pub(super) machines: u64,
    pub(super) idle_machines: u64,
    pub(super) spinning: u64,
    pub(super) goroutines: Goroutines,
    /// For each kind of event, its name and the number of such events per second. `None` until two snapshots have been
    /// added.
    pub(super) rates: Option<Vec<(&'static str, f64)>>,
    /// The longest time for which a sampled G was runnable.
    pub(super) longest_wait: Duration,
}

/// The values of a P.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Processor {
    pub(super) state: &'static str,
    /// The G that runs.
    pub(super) goroutine: Option<u64>,
    pub(super) queue_length: u64,
    /// The share of the time for which the P was not idle, from 0 to 1.
    pub(super) busy: f64,
    /// Slices per second.
    pub(super) slices: f64,
}

impl Model {
    /// Adds the newest snapshot. Ignores this snapshot if the machine has published nothing since the snapshot that was
    /// added last.
    pub(super) fn add(&mut self, snapshot: Snapshot) {
        if self.past.back().is_some_and(|last| last.observations == snapshot.observations) {
            return;
        }
        let now = snapshot.when;
        self.past.push_back(snapshot);
        // Rates are computed from the oldest and the newest snapshot. If the second oldest one is at least `WINDOW`
        // old, the oldest one is no longer needed.
        while self.past.get(1).is_some_and(|second| now.saturating_sub(second.when) >= WINDOW) {
            self.past.pop_front();
        }
    }

    /// Returns what to show. `None` if the machine has published nothing yet.
    pub(super) fn values(&self) -> Option<Values> {
        let (first, last) = (self.past.front()?, self.past.back()?);
        let seconds = last.when.saturating_sub(first.when) as f64 / 1e9;
        let per_second = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let observations = last.observations.saturating_sub(first.observations);
        let processors = last.processors.iter().enumerate().map(|(index, now)| {
            // If a P was not in use at the time of the first snapshot, that snapshot has no sums for the P. The current
            // sums are used instead, so the P is shown without activity.
            let before = first.processors.get(index).unwrap_or(now);
            Processor {
                state: state(now.status),
                goroutine: (now.goroutine != 0).then_some(now.goroutine),
                queue_length: now.queue_length,
                busy: if observations == 0 {
                    0.0
                } else {
                    now.busy.saturating_sub(before.busy) as f64 / observations as f64
                },
                slices: if seconds > 0.0 { per_second(before.tick, now.tick) } else { 0.0 },
            }
        });
        let rates = (seconds > 0.0).then(|| {
            let pairs = named(&first.totals).into_iter().zip(named(&last.totals));
            pairs.map(|((name, before), (_, now))| (name, per_second(before, now))).collect()
        });
        Some(Values {
            time: Duration::from_nanos(last.when),
            processors: processors.collect(),
            global_length: last.global_length,
            machines: last.machines,
            idle_machines: last.idle_machines,
            spinning: last.spinning,
            goroutines: last.goroutines,
            rates,
            longest_wait: Duration::from_nanos(
                self.past.iter().map(|past| past.longest_wait).max().unwrap_or_default(),
            ),
        })
    }
}

fn named(totals: &Totals) -> [(&'static str, u64); 7] {
    [
        ("switches", totals.switches),
        ("spawns", totals.spawns),
        ("readies", totals.readies),
        ("preemptions", totals.preemptions),
        ("steals", totals.steals),
        ("wakes", totals.wakes),
        ("handoffs", totals.handoffs),
    ]
}

/// Returns the word for the status of a P. `number` is the status as the machine publishes it.
fn state(number: u64) -> &'static str {
    match number {
        0 => "idle",
        1 => "running",
        2 => "syscall",
        3 | 4 => "stopped",
        _ => "unused",
    }
}

#[cfg(test)]
mod tests {
    use gmp_sched::snapshot::ProcessorNumbers;

    use super::*;

    /// The `number`-th snapshot of a machine with one P. The machine publishes a snapshot every 100 ms, and its P is
    /// busy in one of four observations.
    fn snapshot(number: u64) -> Snapshot {
        Snapshot {
            when: number * 100_000_000,
            observations: number,
            totals: Totals { switches: number * 50, ..Totals::default() },
            longest_wait: if number == 20 { 9000 } else { 10 },
            processors: vec![ProcessorNumbers {
                status: 1,
                goroutine: 7,
                busy: number / 4,
                tick: 3 * number,
                ..Default::default()
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_and_shares_are_those_of_the_last_second() {
        let mut model = Model::default();
        assert_eq!(model.values(), None);
        model.add(snapshot(0));
        let values = model.values().expect("a snapshot");
        assert_eq!((values.rates, values.processors[0].busy), (None, 0.0));
        (1..=40).for_each(|number| model.add(snapshot(number)));
        let values = model.values().expect("snapshots");
        assert_eq!(values.time, Duration::from_secs(4));
        let rates = values.rates.expect("two snapshots");
        assert_eq!(rates[0], ("switches", 500.0));
        // Between the snapshots 30 and 40, the P was busy three times.
        let processor = Processor { state: "running", goroutine: Some(7), queue_length: 0, busy: 0.3, slices: 30.0 };
        assert_eq!(values.processors, [processor]);
        assert_eq!(values.longest_wait, Duration::from_nanos(10));
    }

    #[test]
    fn longest_wait_is_shown_for_a_second() {
        let mut model = Model::default();
        (0..=30).for_each(|number| model.add(snapshot(number)));
        assert_eq!(model.values().expect("snapshots").longest_wait, Duration::from_nanos(9000));
        model.add(snapshot(31));
        assert_eq!(model.values().expect("snapshots").longest_wait, Duration::from_nanos(10));
    }

    #[test]
    fn snapshot_that_was_seen_before_and_new_ps_do_not_disturb_the_values() {
        let mut model = Model::default();
        model.add(snapshot(1));
        model.add(snapshot(1));
        assert_eq!(model.past.len(), 1);
        let mut grown = snapshot(5);
        grown.processors.push(ProcessorNumbers { busy: 1000, ..grown.processors[0] });
        model.add(grown);
        let values = model.values().expect("snapshots");
        assert_eq!((values.processors.len(), values.processors[1].busy), (2, 0.0));
    }
}
