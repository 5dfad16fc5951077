//! The arguments of the two benchmark programs: `[--json] [--list] [procs=N,...] [FILTER]...`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Workload;

/// The largest number of Ps that can be requested.
const MOST_PROCS: usize = 64;

/// What the user requests.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// The workloads whose names contain one of the filters; all workloads if there is no filter.
    pub(crate) workloads: Vec<&'static Workload>,
    /// Whether to print the results as JSON.
    pub(crate) json: bool,
    /// Whether to print only the names of the workloads.
    pub(crate) list: bool,
    /// The numbers of Ps with which the workloads run. If empty, the program chooses.
    pub(crate) procs: Vec<usize>,
}

impl Arguments {
    /// Parses the words of the command line.
    ///
    /// # Errors
    ///
    /// A message, if an option is unknown, a number of Ps is not allowed, or a filter matches none of the workloads
    /// `all`.
    pub(crate) fn parse<'a>(
        words: impl Iterator<Item = &'a str>,
        all: impl Iterator<Item = &'static Workload> + Clone,
    ) -> Result<Self, String> {
        let mut arguments = Self::default();
        let mut filters = Vec::new();
        for word in words {
            match word {
                "--json" => arguments.json = true,
                "--list" => arguments.list = true,
                // `cargo bench` adds this option.
                "--bench" => {}
                _ if word.starts_with('-') => {
                    return Err(format!("unknown option {word}: the options are --json, --list and procs=N,..."));
                }
                _ => match word.strip_prefix("procs=") {
                    Some(list) => arguments.procs = parse_procs(list)?,
                    None => filters.push(word),
                },
            }
        }
        for filter in &filters {
            if !all.clone().any(|(name, _)| name.contains(filter)) {
                return Err(format!("no workload is named `{filter}`; --list prints the names"));
            }
        }
        let is_selected = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
        arguments.workloads = all.filter(|(name, _)| is_selected(name)).collect();
        Ok(arguments)
    }
}

fn parse_procs(list: &str) -> Result<Vec<usize>, String> {
    let parse = |word: &str| word.parse().ok().filter(|procs| (1..=MOST_PROCS).contains(procs));
    let procs: Option<Vec<usize>> = list.split(',').map(parse).collect();
    procs.ok_or_else(|| format!("procs={list}: expected numbers from 1 to {MOST_PROCS}, separated by commas"))
}
