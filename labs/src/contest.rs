//! The contest of a lab: the submissions that pass all checks, in the order of their scores.
//!
//! A figure is a time on the simulated machine or, with `--icount`, a number of instructions, so it is the same in each run.
//! A figure that is equal to its par gets 100 points, and one that is half its par gets 200. The score is the mean of the
//! points, weighted by the weights of the figures.

use std::fmt::Write as _;

use crate::class::{STYLE, escaped, quoted};
use crate::error::{Error, Result};
use crate::lab::{Figure, Lab, Source};
use crate::program::{failure, has_qemu, on_machine};
use crate::run::answer;
use crate::tree::{NotBuilt, Program, Tree};

/// The most points that a figure gets, so that none decides alone.
const MOST: u64 = 400;

/// The figure of a policy whose run fails. It gets no points. If it did not count at all, as a missing figure does, a policy
/// would gain by a failure in a run in which others are better.
const FAILED: u64 = u64::MAX;

/// Returns the figures of the policy in `tree`, in the order of `lab`. A figure that this computer cannot measure is `None`.
pub(crate) fn measure(lab: &Lab, tree: &Tree) -> Result<Vec<Option<u64>>> {
    lab.figures.iter().map(|figure| value(lab, figure, tree)).collect()
}

fn value(lab: &Lab, figure: &Figure, tree: &Tree) -> Result<Option<u64>> {
    let build = |program| match tree.build(program) {
        Ok(built) => Ok(Some(built.path)),
        Err(NotBuilt::DoesNotCompile(_)) => Ok(None),
        Err(NotBuilt::Error(error)) => Err(error),
    };
    let printed = match &figure.source {
        Source::Run(test) => match build(lab.checks())? {
            Some(path) => answer(&path, test, None)?,
            None => None,
        },
        Source::Machine(_) if !has_qemu() => return Ok(None),
        Source::Machine(arguments) => match build(Program::Boot)? {
            Some(boot) => {
                let output = on_machine(&boot, tree, &["--smp", "1", "--icount"], "contest", arguments)?;
                if let Some(reason) = failure(&output) {
                    return Err(Error::new(format!("the contest cannot be run on the machine: {reason}")));
                }
                output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
            }
            None => None,
        },
    };
    Ok(Some(printed.and_then(|printed| printed.parse().ok()).unwrap_or(FAILED)))
}

/// Returns the score: the mean of the points of the figures, by their weights. Missing figures do not count, because they are
/// missing for all.
fn score(figures: &[Figure], values: &[Option<u64>]) -> u64 {
    let (mut sum, mut weights) = (0u64, 0);
    for (figure, value) in figures.iter().zip(values) {
        let Some(value) = value else { continue };
        sum += figure.weight * (100 * figure.par / (*value).max(1)).min(MOST);
        weights += figure.weight;
    }
    sum.checked_div(weights).unwrap_or(0)
}

/// Someone who takes part.
#[derive(Debug)]
pub(crate) struct Entry {
    name: String,
    score: u64,
    values: Vec<Option<u64>>,
}

impl Entry {
    pub(crate) fn new(lab: &Lab, name: &str, values: Vec<Option<u64>>) -> Self {
        Self { name: name.to_string(), score: score(&lab.figures, &values), values }
    }
}

/// The entries with their places, the best first. Equal scores have the same place.
fn places(entries: &[Entry]) -> Vec<(usize, &Entry)> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| (core::cmp::Reverse(entry.score), entry.name.clone()));
    let place = |entry: &Entry| 1 + entries.iter().filter(|other| other.score > entry.score).count();
    sorted.into_iter().map(|entry| (place(entry), entry)).collect()
}

fn shown(value: Option<u64>) -> String {
    match value {
        Some(FAILED) => "failed".to_string(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// The board as comma-separated values.
pub(crate) fn table(lab: &Lab, entries: &[Entry]) -> String {
    let heads = lab.figures.iter().map(|figure| quoted(&format!("{} ({})", figure.name, figure.unit)));
    let mut table =
        ["place", "name", "score"].into_iter().map(quoted).chain(heads).collect::<Vec<_>>().join(",") + "\n";
    for (place, entry) in places(entries) {
        let values = entry.values.iter().map(|value| shown(*value));
        let fields = [place.to_string(), quoted(&entry.name), entry.score.to_string()].into_iter().chain(values);
        table += &(fields.collect::<Vec<_>>().join(",") + "\n");
    }
    table
}

/// The board as a page.
pub(crate) fn page(lab: &Lab, entries: &[Entry]) -> String {
    let mut rows = String::from("<tr><th>place<th>name<th>score");
    for figure in &lab.figures {
        let _ = write!(
            rows,
            "<th>{}<br><small>{}, counts {}</small>",
            escaped(&figure.name),
            escaped(&figure.unit),
            figure.weight
        );
    }
    for (place, entry) in places(entries) {
        let _ = write!(rows, "\n<tr><td>{place}<td>{}<td>{}", escaped(&entry.name), entry.score);
        for value in &entry.values {
            let _ = write!(rows, "<td>{}", shown(*value));
        }
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Lab {number}: the board</title><style>{STYLE}body{{max-width:70em}}th{{vertical-align:bottom}}\
         th:nth-child(2),td:nth-child(2){{text-align:left}}</style>\n\
         <h1>Lab {number}: {title}</h1>\n\
         <p>In each column, a lower number is better. A number that equals the par gets 100 points.</p>\n\
         <div style=\"overflow-x:auto\"><table>\n{rows}\n</table></div>\n</html>\n",
        number = lab.number,
        title = escaped(&lab.title),
    )
}

#[cfg(test)]
mod tests {
    use super::{Entry, FAILED, page, score, table};
    use crate::lab::Lab;

    const LAB: &str = "title = 'One'\ntask = ''\nhole = []\ncheck = []\n\
                       [[figure]]\nname = 'delay'\nunit = 'us'\nrun = 'a'\npar = 100\nweight = 3\n\
                       [[figure]]\nname = 'work'\nunit = 'instructions'\nmachine = ['yields']\npar = 900\nweight = 1\n";

    #[test]
    fn score_is_a_mean_by_weights() {
        let lab: Lab = toml::from_str(LAB).unwrap();
        assert_eq!(score(&lab.figures, &[Some(100), Some(900)]), 100);
        assert_eq!(score(&lab.figures, &[Some(50), Some(900)]), (3 * 200 + 100) / 4);
        assert_eq!(score(&lab.figures, &[Some(200), None]), 50, "there is no QEMU");
        assert_eq!(score(&lab.figures, &[Some(FAILED), Some(450)]), 200 / 4);
        assert_eq!(score(&lab.figures, &[Some(0), Some(1)]), 400, "no figure decides alone");
        assert_eq!(score(&lab.figures, &[None, None]), 0);
    }

    #[test]
    fn board_has_the_best_first() {
        let lab: Lab = toml::from_str(LAB).unwrap();
        let entry = |name: &str, score| Entry { name: name.to_string(), score, values: vec![Some(7), None] };
        let eve = Entry { values: vec![Some(FAILED), None], ..entry("<Eve>", 90) };
        let entries = [entry("Ann", 90), entry("Bob", 120), eve];
        assert_eq!(
            table(&lab, &entries),
            "\"place\",\"name\",\"score\",\"delay (us)\",\"work (instructions)\"\n\
             1,\"Bob\",120,7,\n2,\"<Eve>\",90,failed,\n2,\"Ann\",90,7,\n"
        );
        let page = page(&lab, &entries);
        assert!(page.contains("<td>1<td>Bob<td>120<td>7<td>") && page.contains("&lt;Eve&gt;"), "{page}");
    }
}
