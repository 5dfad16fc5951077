//! The programs of the peers: where they come from, and how one run of each is started.

mod cache;
pub(super) mod go;
pub(super) mod host;
pub(super) mod linux;
pub(super) mod machine;

use core::time::Duration;
use std::path::PathBuf;
use std::time::Instant;

pub use cache::Cache;

use super::net::Server;
use super::setting::{Peer, Setting};
use crate::Error;

/// What is needed to run a peer in one setting.
#[derive(Debug)]
pub enum Program {
    /// Our kernel with the benchmark, on a machine: its ELF file.
    Kernel(PathBuf),
    /// Go's benchmark on Linux, on a machine.
    Linux(linux::Linux),
    /// A program of the host, with its first arguments. The number of Ps and the filters follow these arguments.
    Host(PathBuf, Vec<String>),
    /// A server, and a client that loads it.
    Server(Server),
}

/// One run of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Where the peer runs.
    pub setting: Setting,
    /// The number of Ps.
    pub procs: u32,
    /// The filters: a workload runs if its name contains one of these words, or if there are no words.
    pub filters: &'a [String],
    /// The TAP device of the host to which a machine with a server is connected, in place of QEMU's network.
    pub tap: Option<&'a str>,
    /// The time limit.
    pub limit: Duration,
}

impl Order<'_> {
    /// Returns the time at which a run that starts now must have ended. Returns `None` if the limit is too long for the
    /// clock.
    fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.limit)
    }
}

impl Program {
    /// Gets the program of a peer for a setting. Downloads and builds what is missing.
    ///
    /// # Errors
    ///
    /// A message that says what is missing and what the user can do about it.
    pub fn get(peer: Peer, setting: Setting, cache: &Cache) -> Result<Self, Error> {
        match (peer, setting) {
            (Peer::Ours, Setting::Native) => Ok(Self::Host(host::build_ours()?, Vec::new())),
            (Peer::Ours, _) => Ok(Self::Kernel(machine::build("bench")?)),
            (Peer::Go, Setting::Native) => Ok(Self::Host(go::build(cache)?, Vec::new())),
            (Peer::Go, _) => Ok(Self::Linux(linux::Linux::get(cache, go::build(cache)?)?)),
            // The other peers are Rust libraries. One program contains all of them, and its first argument selects the
            // library.
            (peer, _) => Ok(Self::Host(host::build_peers()?, vec![peer.name().to_owned()])),
        }
    }

    /// Runs the program once. Returns what it has printed, and, if it has failed, the reason.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
    pub fn run(&self, order: &Order<'_>) -> Result<(String, Option<String>), Error> {
        match self {
            Self::Kernel(elf) => machine::run(elf, order),
            Self::Linux(linux) => linux.run(order),
            Self::Host(program, words) => host::run(program, words, order),
            Self::Server(server) => server.run(order),
        }
    }
}

/// Returns the last lines of a text, indented, for a message about a program that has failed.
pub(super) fn last_lines(text: &str) -> String {
    const COUNT: usize = 10;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(COUNT)..].iter().map(|line| format!("\n    {line}")).collect()
}

/// Describes the end of a program at the time limit.
pub(super) fn timed_out(limit: Duration) -> String {
    format!("it still ran after {} s (--timeout)", limit.as_secs())
}
