//! What the scheduler records while it runs: counters, scheduling latencies, and the trace ring of each P.

pub(crate) mod counters;
pub mod latency;
pub mod trace;
