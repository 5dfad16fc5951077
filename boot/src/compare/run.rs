//! Runs the peers, which are the schedulers to compare, ours included, one after the other.

use std::time::Instant;

use super::arguments::{Arguments, Format};
use super::comparison::Comparison;
use super::measurement::Printed;
use super::net::Server;
use super::peers::{Cache, Order, Program};
use super::setting::{Peer, Setting};
use super::{host, json, table};
use crate::Error;
use crate::console::say;
use crate::signals::share_signals;

/// The exit status if a peer is missing or has failed, or if there is no result.
const INCOMPLETE: u8 = 1;

/// Runs the peers in all requested settings. If there are results, passes the tables to `print`. Returns the exit
/// status.
///
/// # Errors
///
/// If the results cannot be written, if signals cannot be handled, or if the environment names no folder for downloads.
pub fn run(arguments: &Arguments, print: impl FnOnce(&str) -> Result<(), Error>) -> Result<u8, Error> {
    share_signals().map_err(|error| Error::Qemu(format!("cannot handle signals: {error}")))?;
    let cache = Cache::find()?;
    let mut status = 0;
    let mut comparisons = Vec::new();
    for setting in arguments.settings() {
        let (comparison, is_complete) = compare(setting, arguments, &cache);
        if !is_complete {
            status = INCOMPLETE;
        }
        comparisons.push(comparison);
    }
    if comparisons.iter().all(|comparison| comparison.rows.is_empty()) {
        say("compare: there is no result; the messages above say why");
        return Ok(INCOMPLETE);
    }
    print(&match arguments.format() {
        Format::Text => table::text(&comparisons),
        Format::Markdown => table::markdown(&comparisons),
        Format::Json => json::json(&comparisons),
    })?;
    Ok(status)
}

/// Compares the peers in one setting. Also returns whether all requested peers ran without a failure.
fn compare(setting: Setting, arguments: &Arguments, cache: &Cache) -> (Comparison, bool) {
    let mut comparison = Comparison::new(setting, host::describe(setting));
    let mut programs: Vec<(Peer, Program)> = Vec::new();
    let mut is_complete = true;
    for peer in arguments.peers(setting) {
        match programs_of(peer, setting, arguments, cache) {
            Ok(of_peer) => programs.extend(of_peer.into_iter().map(|program| (peer, program))),
            Err(error) => {
                say(&format!("compare: without {}: {error}", peer.name()));
                is_complete = false;
            }
        }
    }
    let filters = arguments.benchmark_filters(setting);
    let rounds = arguments.rounds(setting);
    for round in 0..rounds {
        for procs in arguments.procs(setting) {
            let tap = arguments.tap.as_deref();
            let order = Order { setting, procs, filters: &filters, tap, limit: arguments.limit() };
            // The order of the peers is reversed in every second round. So if the host becomes slower or faster, the
            // advantage does not always go to the same peer.
            let mut failed = Vec::new();
            let turn: Vec<usize> =
                if round % 2 == 0 { (0..programs.len()).collect() } else { (0..programs.len()).rev().collect() };
            for index in turn {
                let (peer, program) = &programs[index];
                let about = match setting {
                    Setting::Native => format!("{} {setting} --procs {procs}", peer.name()),
                    _ => format!("{} {setting}", peer.name()),
                };
                say(&format!("compare: {about}, round {} of {rounds}", round + 1));
                if let Err(why) = run_once(*peer, program, &order, &mut comparison) {
                    say(&format!("compare: {about} failed: {why}"));
                    failed.push(*peer);
                }
            }
            programs.retain(|(peer, _)| !failed.contains(peer));
            is_complete &= failed.is_empty();
        }
    }
    (comparison, is_complete)
}

/// Gets the programs of a peer that have some of the wanted workloads: its benchmark, its server, or both.
fn programs_of(peer: Peer, setting: Setting, arguments: &Arguments, cache: &Cache) -> Result<Vec<Program>, Error> {
    let mut programs = Vec::new();
    if arguments.filters.is_empty() || !arguments.benchmark_filters(setting).is_empty() {
        programs.push(Program::get(peer, setting, cache)?);
    }
    if arguments.has_servers(setting) {
        programs.extend(Server::get(peer, setting, cache)?.map(Program::Server));
    }
    Ok(programs)
}

/// Runs a peer once and adds its results. If the peer fails, also adds the results that it printed before the failure,
/// and returns the reason as the error.
fn run_once(peer: Peer, program: &Program, order: &Order<'_>, comparison: &mut Comparison) -> Result<(), String> {
    let start = Instant::now();
    let (output, failure) = program.run(order).map_err(|error| error.to_string())?;
    let printed = Printed::parse(&output);
    let is_complete = printed.is_complete;
    comparison.add(peer, printed);
    match failure {
        Some(failure) => Err(failure),
        None if !is_complete => {
            Err(format!("its last line is missing; it ran for {:.0} s", start.elapsed().as_secs_f64()))
        }
        None => Ok(()),
    }
}
