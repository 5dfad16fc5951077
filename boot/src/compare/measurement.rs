//! What a peer prints, and the median, the least and the greatest of the results that it has printed.

use core::cmp::Ordering;

/// One result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The name of the workload. If the workload has several results, this is the name of one result, such as
    /// `sleep_overshoot_p50`.
    pub name: String,
    /// The number of Ps.
    pub procs: u32,
    /// The result, as a number.
    pub value: f64,
    /// The unit of the result.
    pub unit: String,
}

/// What a peer has printed in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Printed {
    /// The first line, in which the peer identifies itself.
    pub identity: String,
    /// The results.
    pub measurements: Vec<Measurement>,
    /// Whether the peer has printed its last line, `bench done`. If this line is missing, the run has failed.
    pub is_complete: bool,
}

impl Printed {
    /// Parses what a peer has printed. The first line that is neither empty nor about the benchmark is the identity.
    /// Other lines that are not about the benchmark are skipped.
    pub fn parse(text: &str) -> Self {
        let mut printed = Self::default();
        for line in text.lines().map(str::trim_end) {
            if line == "bench done" {
                printed.is_complete = true;
            } else if let Some(measurement) = Measurement::parse(line) {
                printed.measurements.push(measurement);
            } else if printed.identity.is_empty() && !line.is_empty() {
                printed.identity = line.to_owned();
            }
        }
        printed
    }
}

impl Measurement {
    /// Parses a line `bench NAME procs=N VALUE UNIT`. Returns `None` if the line has another form.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        if next()? != "bench" {
            return None;
        }
        let (name, procs, value, unit) = (next()?, next()?, next()?, next()?);
        if next().is_some() {
            return None;
        }
        let procs = procs.strip_prefix("procs=")?.parse().ok()?;
        let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some(Self { name: name.to_owned(), procs, value, unit: unit.to_owned() })
    }
}

/// The results of one workload in all runs of one peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Makes samples that consist of one result.
    pub fn new(value: f64) -> Self {
        Self(vec![value])
    }

    /// Adds a result.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns all results, in the order of the runs.
    pub fn all(&self) -> &[f64] {
        &self.0
    }

    /// Returns the median. With an even number of results, it is the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        median(&self.0)
    }

    /// Returns the least result.
    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the greatest result.
    pub fn greatest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Returns the median of `values`, which must not be empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_and_others_are_skipped() {
        let text = "go1.27.3 for linux/amd64, on 2 CPUs\r\n[    1.5] random: crng init done\r\n\
                    bench yield procs=1 79.5 ns/op\r\nbench fib27_cut12 procs=2 7.5 ms\r\nbench done\r\n";
        let printed = Printed::parse(text);
        assert_eq!(printed.identity, "go1.27.3 for linux/amd64, on 2 CPUs");
        assert!(printed.is_complete);
        let [first, second] = &printed.measurements[..] else { panic!("{printed:?}") };
        assert_eq!((first.name.as_str(), first.procs, first.value, first.unit.as_str()), ("yield", 1, 79.5, "ns/op"));
        assert_eq!((second.procs, second.unit.as_str()), (2, "ms"));
    }

    #[test]
    fn lines_of_another_form_are_no_measurements() {
        for line in [
            "",
            "bench done",
            "bench yield procs=1 79.5",
            "bench yield procs=x 79.5 ns/op",
            "bench yield procs=1 fast ns/op",
            "bench yield procs=1 NaN ns/op",
            "bench yield procs=1 79.5 ns/op and more",
            "bunch yield procs=1 79.5 ns/op",
        ] {
            assert_eq!(Measurement::parse(line), None, "{line}");
        }
    }

    #[test]
    fn output_that_was_cut_is_incomplete() {
        assert!(!Printed::parse("gmp-sched\nbench yield procs=1 79.5 ns/op\nbench spa").is_complete);
    }

    #[test]
    fn median_and_spread_do_not_depend_on_the_order() {
        let mut samples = Samples::new(9.0);
        [1.0, 5.0].into_iter().for_each(|value| samples.add(value));
        assert_eq!((samples.median(), samples.least(), samples.greatest()), (5.0, 1.0, 9.0));
        samples.add(7.0);
        assert_eq!(samples.median(), 6.0);
        assert_eq!(samples.all(), [9.0, 1.0, 5.0, 7.0]);
    }
}
