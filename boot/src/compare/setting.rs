//! Where the peers run, and which peers there are.

use core::fmt;

use clap::ValueEnum;

/// A scheduler or a library of channels that is compared. The libraries of Rust are all in the program `boot/peers`,
/// which has a module for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Peer {
    /// This project's scheduler.
    Ours,
    /// Go's scheduler.
    Go,
    /// tokio, a runtime for futures.
    Tokio,
    /// may, a library for coroutines with stacks.
    May,
    /// The threads of Rust's standard library, which the operating system schedules.
    Threads,
    /// crossbeam-channel: channels between threads.
    Crossbeam,
    /// flume: channels between threads.
    Flume,
}

impl Peer {
    /// Returns the peer's name on the command line, in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Go => "go",
            Self::Tokio => "tokio",
            Self::May => "may",
            Self::Threads => "threads",
            Self::Crossbeam => "crossbeam",
            Self::Flume => "flume",
        }
    }

    /// Returns the names of the peers that run only on threads of the host, separated by commas.
    pub fn names_on_threads() -> String {
        let is_other = |peer: &&Self| !Setting::Instructions.peers().contains(peer);
        Self::value_variants().iter().filter(is_other).map(|peer| peer.name()).collect::<Vec<_>>().join(",")
    }
}

/// Where the peers run, and what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// On a machine with one CPU, in QEMU, which counts instructions. All runs of our scheduler have the same results.
    Instructions,
    /// On a machine with this many CPUs, in QEMU, by the clock.
    Machine(u32),
    /// On this computer, by the clock.
    Native,
}

impl Setting {
    /// Returns the peers that run in this setting.
    pub fn peers(self) -> &'static [Peer] {
        match self {
            Self::Instructions | Self::Machine(_) => &[Peer::Ours, Peer::Go],
            Self::Native => Peer::value_variants(),
        }
    }

    /// Returns the unit in which a result is shown. If instructions are counted, each of them takes one nanosecond of the
    /// machine's clock, so a result in nanoseconds per operation is a number of instructions.
    pub fn unit(self, unit: &str) -> &str {
        if self == Self::Instructions && unit == "ns/op" { "instructions" } else { unit }
    }

    /// Returns what a table of this setting shows, as a heading.
    pub fn title(self) -> String {
        match self {
            Self::Instructions => "Instructions, on a machine with one CPU (1 ns is one instruction)".to_owned(),
            Self::Machine(1) => "Time, on a machine with one CPU".to_owned(),
            Self::Machine(cpus) => format!("Time, on a machine with {cpus} CPUs"),
            Self::Native => "Time, on threads of the host".to_owned(),
        }
    }
}

impl fmt::Display for Setting {
    /// Writes the option that selects the setting.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions => formatter.write_str("--icount"),
            Self::Machine(cpus) => write!(formatter, "--smp {cpus}"),
            Self::Native => formatter.write_str("--native"),
        }
    }
}
