//! What the scheduler records while it runs: counters, run-queue latencies, the trace ring of each P.

pub(crate) mod counters;
pub mod latency;
pub mod trace;
