//! The comparison as tables, in aligned text or in Markdown.

use super::comparison::{Comparison, Row};
use super::kind::Kind;
use super::measurement::Samples;
use super::setting::Peer;

/// The number of columns to the left of the results. Two of them, the name and the unit, are aligned to the left.
const FIXED: usize = 3;

/// Returns the tables in aligned text.
pub fn text(comparisons: &[Comparison]) -> String {
    let table = |comparison: &Comparison| {
        let cells = cells(comparison);
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..cells[0].len()).map(width).collect();
        let mut text = format!("{}\n", comparison.setting.title());
        for (peer, identity) in &comparison.peers {
            text += &format!("  {:8} {identity}\n", peer.name());
        }
        text += &format!("  {:8} {}\n", "host", comparison.host);
        text += "\n";
        for row in &cells {
            let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if is_left(column) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
            });
            text += padded.collect::<Vec<_>>().join("  ").trim_end();
            text += "\n";
        }
        text + &summaries(comparison, "")
    };
    comparisons.iter().filter(|each| !each.rows.is_empty()).map(table).collect::<Vec<_>>().join("\n")
}

/// Returns the tables in Markdown.
pub fn markdown(comparisons: &[Comparison]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let table = |comparison: &Comparison| {
        let cells = cells(comparison);
        let rule: Vec<String> =
            (0..cells[0].len()).map(|column| if is_left(column) { "---" } else { "---:" }.to_owned()).collect();
        let mut text = format!("**{}**\n\n", comparison.setting.title());
        text += &line(&cells[0]);
        text += &line(&rule);
        text.extend(cells[1..].iter().map(|row| line(row)));
        text += "\n";
        for (peer, identity) in &comparison.peers {
            text += &format!("- {}: {identity}\n", peer.name());
        }
        text += &format!("- host: {}\n", comparison.host);
        text + &summaries(comparison, "- ")
    };
    comparisons.iter().filter(|each| !each.rows.is_empty()).map(table).collect::<Vec<_>>().join("\n")
}

fn is_left(column: usize) -> bool {
    column == 0 || column == FIXED - 1
}

/// Returns the cells of all rows. The first row is the heading.
fn cells(comparison: &Comparison) -> Vec<Vec<String>> {
    let peers: Vec<Peer> = comparison.peers.iter().map(|(peer, _)| *peer).collect();
    // Without our own results there are no ratios.
    let with_ratio = |peer: &&Peer| **peer != Peer::Ours && peers.contains(&Peer::Ours);
    let compared: Vec<Peer> = peers.iter().filter(with_ratio).copied().collect();
    let names = peers.iter().map(|peer| peer.name().to_owned());
    let ratios = compared.iter().map(|peer| format!("{}/ours", peer.name()));
    let heading = ["workload", "Ps", "unit"].map(str::to_owned).into_iter().chain(names).chain(ratios).collect();
    let line = |row: &Row| {
        let unit = comparison.setting.unit(&row.unit).to_owned();
        let results = peers.iter().map(|&peer| row.samples(peer).map(shown).unwrap_or_default());
        let ratios = compared.iter().map(|&peer| row.ratio(peer).map(ratio).unwrap_or_default());
        [row.name.clone(), row.procs.to_string(), unit].into_iter().chain(results).chain(ratios).collect()
    };
    [heading].into_iter().chain(comparison.rows.iter().map(line)).collect()
}

/// Returns the lines that summarise the ratios of each peer: one for all rows, and one for each kind of rows if there
/// are several kinds. Each line begins with `bullet`.
fn summaries(comparison: &Comparison, bullet: &str) -> String {
    let line = |peer: Peer, kind: Option<Kind>| {
        let summary = comparison.summary(peer, kind)?;
        let (median, least, row) = (ratio(summary.median), ratio(summary.least), summary.least_row);
        let rows = if summary.rows == 1 { "1 row".to_owned() } else { format!("{} rows", summary.rows) };
        let kind = kind.map(|kind| format!(", {}", kind.title())).unwrap_or_default();
        Some(format!(
            "{bullet}{}/ours{kind}: median {median} of {rows}, least {least} ({}, Ps: {})\n",
            peer.name(),
            row.name,
            row.procs
        ))
    };
    let of_peer = |peer: Peer| {
        let of_kinds: Vec<String> = Kind::ALL.into_iter().filter_map(|kind| line(peer, Some(kind))).collect();
        let of_kinds = if of_kinds.len() > 1 { of_kinds.concat() } else { String::new() };
        Some(line(peer, None)? + &of_kinds)
    };
    comparison.peers.iter().filter_map(|(peer, _)| of_peer(*peer)).collect()
}

/// Returns the median of results and, if there are several, the least and the greatest.
fn shown(samples: &Samples) -> String {
    let median = number(samples.median());
    if samples.all().len() == 1 {
        return median;
    }
    format!("{median} ({} to {})", number(samples.least()), number(samples.greatest()))
}

/// Formats a number: below 100 with one decimal place, otherwise as an integer with commas between thousands.
fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let first = (digits.len() - 1) % 3 + 1;
    let groups = (first..digits.len()).step_by(3).map(|begin| format!(",{}", &digits[begin..begin + 3]));
    format!("{sign}{}{}", &digits[..first], groups.collect::<String>())
}

/// Formats a ratio: below 10 with two decimal places, otherwise like [`number`].
fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { number(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::tests::example;
    use crate::compare::setting::Setting;

    #[test]
    fn text_has_aligned_columns_and_a_summary() {
        let expected = "\
Time, on threads of the host
  ours     gmp-sched <0.1>
  go       go1.27.3
  tokio    tokio 1
  host     a computer

workload  Ps  unit                  ours    go  tokio  go/ours  tokio/ours
yield      1  ns/op  20.0 (10.0 to 30.0)   100            5.00
ring       1  ns/op                  100  50.0            0.50
ring       2  ns/op                 80.0
stay       1  %                     90.0          100
read       1  MiB/s                 30.0         10.0                 3.00
go/ours: median 2.75 of 2 rows, least 0.50 (ring, Ps: 1)
tokio/ours: median 3.00 of 1 row, least 3.00 (read, Ps: 1)
";
        assert_eq!(text(&[example()]), expected);
    }

    #[test]
    fn each_of_several_kinds_has_a_summary_after_that_of_all_rows() {
        let mut comparison = example();
        comparison.rows[0].name = "yield_cold".to_owned();
        let expected = "\
- go/ours: median 2.75 of 2 rows, least 0.50 (ring, Ps: 1)
- go/ours, operations: median 0.50 of 1 row, least 0.50 (ring, Ps: 1)
- go/ours, first runs: median 5.00 of 1 row, least 5.00 (yield_cold, Ps: 1)
- tokio/ours: median 3.00 of 1 row, least 3.00 (read, Ps: 1)
";
        assert!(markdown(&[comparison]).ends_with(expected));
    }

    #[test]
    fn markdown_has_a_rule_with_alignments() {
        let markdown = markdown(&[example()]);
        let lines: Vec<&str> = markdown.lines().collect();
        assert_eq!(lines[2], "| workload | Ps | unit | ours | go | tokio | go/ours | tokio/ours |");
        assert_eq!(lines[3], "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |");
        assert_eq!(lines[5], "| ring | 1 | ns/op | 100 | 50.0 |  | 0.50 |  |");
        assert!(lines.contains(&"- go: go1.27.3"));
    }

    #[test]
    fn instructions_have_their_own_unit_and_one_peer_has_no_ratios() {
        let mut comparison = example();
        comparison.setting = Setting::Instructions;
        comparison.peers.retain(|(peer, _)| *peer == Peer::Ours);
        let text = text(&[comparison]);
        assert!(text.contains("yield      1  instructions  20.0 (10.0 to 30.0)\n"), "{text}");
        assert!(!text.contains("/ours"), "{text}");
    }

    #[test]
    fn numbers_have_about_four_digits() {
        for (value, expected) in [
            (0.04, "0.0"),
            (9.95, "9.9"),
            (99.94, "99.9"),
            (280.4, "280"),
            (1234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(value), expected);
        }
        assert_eq!([0.5, 9.994, 10.12, 14_702.9].map(ratio), ["0.50", "9.99", "10.1", "14,703"]);
    }
}
