//! Tests the drivers with devices that keep to the protocol, and with devices that violate it.

mod block;
mod fake;
mod faults;
mod fuzz;
mod lane;
mod large;
mod memory;
mod net;
pub(crate) mod races;
mod rig;
mod software;

/// Runs a test with ten million steps, which take some minutes. `GMP_FUZZ_SEED` chooses other random numbers.
fn ten_million_steps(test: impl FnOnce(u64, u64)) {
    let seed = std::env::var("GMP_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    test(10_000_000, seed);
}
