//! What the two benchmark programs print: a line about the program and the computer, a line for each result, and a last
//! line. With `--json` all lines together are one JSON object.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::platform::{now_ns, println, procs};

/// Whether the results are printed as JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Whether a result has been printed.
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

/// The computer on which the program runs.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The number of CPUs.
    pub(crate) cpus: usize,
    /// The memory in MiB, if it is known.
    pub(crate) memory_mib: Option<usize>,
    /// The name that the processor reports.
    pub(crate) processor: String,
}

/// The name of the build profile, which `boot` passes in the variable `GMP_BUILD` when it builds a program. Without
/// this variable, only `debug` or `optimised`.
fn build() -> &'static str {
    option_env!("GMP_BUILD").unwrap_or(if cfg!(debug_assertions) { "debug" } else { "optimised" })
}

/// Prints the line about the program and the computer.
pub(crate) fn begin(setting: &Setting, json: bool) {
    let Setting { cpus, memory_mib, processor } = setting;
    let (version, build) = (env!("CARGO_PKG_VERSION"), build());
    IS_JSON.store(json, Ordering::Relaxed);
    if json {
        let processor: String = processor.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect();
        let memory = memory_mib.map_or_else(|| "null".into(), |mib| format!("{mib}"));
        println!(
            "{{\"program\": \"gmp-sched {version}\", \"build\": \"{build}\", \"cpus\": {cpus}, \"memory_mib\": {memory}, \
             \"processor\": \"{processor}\", \"results\": ["
        );
    } else {
        let memory = memory_mib.map(|mib| format!(", {mib} MiB")).unwrap_or_default();
        let plural = if *cpus == 1 { "" } else { "s" };
        println!("gmp-sched {version}, {build} build, on {cpus} CPU{plural}{memory}: {processor}");
    }
}

/// Prints one result, which was measured with the current number of Ps.
pub(crate) fn report(name: &str, value: f64, unit: &str) {
    let procs = procs();
    if !IS_JSON.load(Ordering::Relaxed) {
        println!("bench {name} procs={procs} {value:.1} {unit}");
        return;
    }
    let comma = if HAS_RESULT.swap(true, Ordering::Relaxed) { "," } else { " " };
    println!("{comma} {{\"name\": \"{name}\", \"procs\": {procs}, \"value\": {value:.1}, \"unit\": \"{unit}\"}}");
}

/// Prints the line that ends the output.
pub(crate) fn end() {
    println!("{}", if IS_JSON.load(Ordering::Relaxed) { "]}" } else { "bench done" });
}

/// Runs `body`, which performs `operations` operations, and reports the nanoseconds per operation.
pub(crate) fn measure(name: &str, operations: u64, body: impl FnOnce()) {
    let start = now_ns();
    body();
    report(name, (now_ns() - start) as f64 / operations as f64, "ns/op");
}

/// Returns the quantile `share` (from 0 to 1) of the times `sorted`. The times are in nanoseconds, and the result is in
/// microseconds.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64) as usize] as f64 / 1e3
}

/// Reports the median and the 99th percentile of times in nanoseconds.
pub(crate) fn report_late(name: &str, mut late: Vec<u64>) {
    late.sort_unstable();
    report(&format!("{name}_p50"), percentile(&late, 0.5), "us");
    report(&format!("{name}_p99"), percentile(&late, 0.99), "us");
}
