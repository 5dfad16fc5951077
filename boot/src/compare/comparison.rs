//! The results of all peers in one setting, joined by workload.

use super::kind::Kind;
use super::measurement::{Measurement, Printed, Samples, median};
use super::setting::{Peer, Setting};

/// The results of all peers in one setting.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Where the peers ran.
    pub setting: Setting,
    /// What the host is, and how busy it was.
    pub host: String,
    /// The peers that have results, each with the line in which it identifies itself.
    pub peers: Vec<(Peer, String)>,
    /// One row for each workload and number of Ps.
    pub rows: Vec<Row>,
}

/// The results of one workload.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name of the workload. If the workload has several results, this is the name of one result, such as
    /// `sleep_overshoot_p50`.
    pub name: String,
    /// The number of Ps.
    pub procs: u32,
    /// The unit of the results.
    pub unit: String,
    /// The results of each peer that has this workload.
    pub results: Vec<(Peer, Samples)>,
}

impl Comparison {
    /// Returns a comparison without results.
    pub fn new(setting: Setting, host: String) -> Self {
        Self { setting, host, peers: Vec::new(), rows: Vec::new() }
    }

    /// Adds the results that a peer has printed in one run. A peer without results is not added.
    pub fn add(&mut self, peer: Peer, printed: Printed) {
        if printed.measurements.is_empty() {
            return;
        }
        if !self.peers.iter().any(|(known, _)| *known == peer) {
            self.peers.push((peer, printed.identity));
            self.peers.sort_by_key(|(peer, _)| *peer);
        }
        for measurement in printed.measurements {
            let value = measurement.value;
            let results = &mut self.row(measurement).results;
            match results.iter_mut().find(|(known, _)| *known == peer) {
                Some((_, samples)) => samples.add(value),
                None => results.push((peer, Samples::new(value))),
            }
        }
    }

    /// Returns the row for a measurement. Adds the row if it does not exist yet. The rows of one workload are next to
    /// each other.
    fn row(&mut self, measurement: Measurement) -> &mut Row {
        let Measurement { name, procs, unit, .. } = measurement;
        let index = match self.rows.iter().position(|row| row.name == name && row.procs == procs && row.unit == unit) {
            Some(index) => index,
            None => {
                let after = self.rows.iter().rposition(|row| row.name == name).map_or(self.rows.len(), |last| last + 1);
                self.rows.insert(after, Row { name, procs, unit, results: Vec::new() });
                after
            }
        };
        &mut self.rows[index]
    }

    /// Summarises a peer's ratios in the rows of one kind, or in all rows if `kind` is `None`. Returns `None` if the
    /// peer has no ratio in these rows.
    pub fn summary(&self, peer: Peer, kind: Option<Kind>) -> Option<Summary<'_>> {
        let rows = self.rows.iter().filter(|row| kind.is_none_or(|kind| row.kind() == kind));
        let ratios: Vec<(f64, &Row)> = rows.filter_map(|row| row.ratio(peer).map(|ratio| (ratio, row))).collect();
        let &(least, row) = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let values: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
        Some(Summary { rows: values.len(), median: median(&values), least, least_row: row })
    }
}

/// A summary of a peer's ratios in the rows of one kind, or in all rows.
#[derive(Debug)]
pub struct Summary<'a> {
    /// How many rows have a ratio.
    pub rows: usize,
    /// The median of the ratios.
    pub median: f64,
    /// The least ratio.
    pub least: f64,
    /// The row with the least ratio.
    pub least_row: &'a Row,
}

impl Row {
    /// Returns what the row mostly measures.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.name)
    }

    /// Returns the results of a peer.
    pub fn samples(&self, peer: Peer) -> Option<&Samples> {
        self.results.iter().find(|(known, _)| *known == peer).map(|(_, samples)| samples)
    }

    /// Returns the ratio of a peer's median cost to ours. `None` if `peer` is ours, if one of the two has no result, if
    /// the results are percentages, or if the ratio is zero or infinite.
    pub fn ratio(&self, peer: Peer) -> Option<f64> {
        if peer == Peer::Ours || self.unit == "%" {
            return None;
        }
        let (ours, theirs) = (self.samples(Peer::Ours)?.median(), self.samples(peer)?.median());
        // A rate is the inverse of a cost.
        let ratio = if self.unit.ends_with("/s") { ours / theirs } else { theirs / ours };
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A comparison of three peers: three runs of ours, and one run of each other peer.
    pub(in crate::compare) fn example() -> Comparison {
        let mut comparison = Comparison::new(Setting::Native, "a computer".to_owned());
        for (peer, text) in [
            (Peer::Go, "go1.27.3\nbench yield procs=1 100.0 ns/op\nbench ring procs=1 50.0 ns/op\nbench done"),
            (Peer::Ours, "gmp-sched <0.1>\nbench yield procs=1 10.0 ns/op\nbench ring procs=1 100.0 ns/op\nbench done"),
            (Peer::Ours, "gmp-sched <0.1>\nbench yield procs=1 30.0 ns/op\nbench ring procs=2 80.0 ns/op\nbench done"),
            (Peer::Tokio, "tokio 1\nbench stay procs=1 100.0 %\nbench read procs=1 10.0 MiB/s\nbench done"),
            (Peer::Ours, "gmp-sched <0.1>\nbench stay procs=1 90.0 %\nbench read procs=1 30.0 MiB/s\nbench done"),
        ] {
            comparison.add(peer, Printed::parse(text));
        }
        comparison
    }

    #[test]
    fn results_are_joined_by_workload_and_number_of_ps() {
        let comparison = example();
        let rows: Vec<_> = comparison.rows.iter().map(|row| (row.name.as_str(), row.procs)).collect();
        assert_eq!(rows, [("yield", 1), ("ring", 1), ("ring", 2), ("stay", 1), ("read", 1)]);
        let peers: Vec<_> = comparison.peers.iter().map(|(peer, _)| *peer).collect();
        assert_eq!(peers, [Peer::Ours, Peer::Go, Peer::Tokio]);
    }

    #[test]
    fn ratio_compares_medians_of_costs_and_of_rates() {
        let ratios = |peer| example().rows.iter().map(|row| row.ratio(peer)).collect::<Vec<_>>();
        assert_eq!(ratios(Peer::Go), [Some(5.0), Some(0.5), None, None, None]);
        assert_eq!(ratios(Peer::Tokio), [None, None, None, None, Some(3.0)]);
        assert_eq!(ratios(Peer::Ours), [None; 5]);
    }

    #[test]
    fn summary_has_all_rows_or_those_of_a_kind_and_names_the_row_with_the_least_ratio() {
        let mut comparison = example();
        comparison.add(Peer::Ours, Printed::parse("ours\nbench ring_cold procs=1 10.0 ns/op\nbench done"));
        comparison.add(Peer::Go, Printed::parse("go\nbench ring_cold procs=1 20.0 ns/op\nbench done"));
        let summary = comparison.summary(Peer::Go, None).expect("three ratios");
        assert_eq!((summary.rows, summary.median, summary.least), (3, 2.0, 0.5));
        let summary = comparison.summary(Peer::Go, Some(Kind::Operation)).expect("two ratios");
        assert_eq!((summary.rows, summary.median, summary.least), (2, 2.75, 0.5));
        assert_eq!(summary.least_row.name, "ring");
        let summary = comparison.summary(Peer::Go, Some(Kind::FirstRun)).expect("a ratio");
        assert_eq!((summary.rows, summary.median, summary.least), (1, 2.0, 2.0));
        assert!(comparison.summary(Peer::Go, Some(Kind::Resource)).is_none());
        assert!(comparison.summary(Peer::May, None).is_none());
    }

    #[test]
    fn peer_without_results_is_left_out() {
        let mut comparison = Comparison::new(Setting::Native, "a computer".to_owned());
        comparison.add(Peer::May, Printed::parse("may 0.3\n"));
        assert!(comparison.peers.is_empty() && comparison.rows.is_empty());
    }
}
