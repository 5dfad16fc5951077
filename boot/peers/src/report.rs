//! What the benchmarks of all libraries have in common: the lines that they print, and the parts of the workloads that
//! do not depend on a library.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The lock file of this crate, which contains the versions of all dependencies.
const LOCK: &str = include_str!("../Cargo.lock");

/// Returns the version of the dependency `name`, or "of an unknown version" if the lock file does not contain it.
pub fn version_of(name: &str) -> &'static str {
    let of = |package: &'static str| package.split_once("\nversion = \"")?.1.split('"').next();
    let package = LOCK.split("[[package]]").find(|package| package.contains(&format!("\nname = \"{name}\"\n")));
    package.and_then(of).unwrap_or("of an unknown version")
}

pub fn report(name: &str, procs: usize, value: f64, unit: &str) {
    println!("bench {name} procs={procs} {value:.1} {unit}");
}

/// Reports the time since `start`, divided by the number of operations.
pub fn report_each(name: &str, procs: usize, operations: u64, start: Instant) {
    report(name, procs, start.elapsed().as_nanos() as f64 / operations as f64, "ns/op");
}

/// Reports the mean duration of `runs` runs that began at `start`.
pub fn report_microseconds_each(name: &str, procs: usize, runs: u32, start: Instant) {
    report(name, procs, start.elapsed().as_secs_f64() * 1e6 / f64::from(runs), "us");
}

pub fn report_milliseconds(name: &str, procs: usize, start: Instant) {
    report(name, procs, start.elapsed().as_secs_f64() * 1e3, "ms");
}

/// Reports the median and the 99th percentile of `late`, which contains how late each sleep ended.
pub fn report_late(name: &str, procs: usize, mut late: Vec<Duration>) {
    late.sort_unstable();
    let quantile = |share: f64| late[(share * (late.len() - 1) as f64) as usize].as_secs_f64() * 1e6;
    report(&format!("{name}_p50"), procs, quantile(0.5), "us");
    report(&format!("{name}_p99"), procs, quantile(0.99), "us");
}

/// Returns the duration of sleep number `n` of the sleeper with the number `g`.
pub fn nap(g: u64, n: u64) -> Duration {
    Duration::from_millis(1 + (g * 7 + n * 3) % 10)
}

/// How long a G sleeps while hogs run.
pub const SHORT_NAP: Duration = Duration::from_millis(1);

/// Computes until `is_over` returns `true`.
pub fn compute_until(is_over: impl Fn() -> bool) {
    let mut x = 1_u64;
    while !is_over() {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x);
}

/// Returns how much physical memory this process uses, in bytes.
pub fn memory_in_use() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}

/// Reports how many bytes of memory each of `count` tasks, coroutines or threads takes. `before` is the memory that was
/// in use before these were started.
pub fn report_memory(procs: usize, before: usize, count: usize) {
    let bytes = memory_in_use().saturating_sub(before);
    report("bytes_per_parked_g", procs, bytes as f64 / count as f64, "B");
}

pub fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn is_prime(number: u64) -> bool {
    number > 1
        && (3..)
            .step_by(2)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

/// The number of parts into which `split_primes_64g` splits its job.
pub const PARTS: u64 = 64;

/// Runs one part of the job of `split_primes_64g`: counts primes.
pub fn count_primes(part: u64) -> usize {
    (part..500_000).step_by(PARTS as usize).filter(|n| is_prime(2 * n + 1)).count()
}

/// Returns the ids of the thread and of the CPU on which the caller runs.
pub fn place() -> [usize; 2] {
    [rustix::thread::gettid().as_raw_nonzero().get() as usize, rustix::thread::sched_getcpu()]
}

/// Reports two percentages of the round trips of a ping-pong: those with both sides on the same thread, and those with
/// both sides on the same CPU. `places` contains, for each round trip, the thread and the CPU of each side.
pub fn report_places(procs: usize, places: &[[[usize; 2]; 2]]) {
    for (index, name) in ["pingpong_one_thread", "pingpong_one_cpu"].into_iter().enumerate() {
        let equal = places.iter().filter(|[mine, theirs]| mine[index] == theirs[index]).count();
        report(name, procs, 100.0 * equal as f64 / places.len() as f64, "%");
    }
}
