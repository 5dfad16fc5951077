//! What the scheduler records while it runs: counters, scheduling latencies, and the trace ring of each P.

pub(crate) mod counters;
pub mod latency;
pub(crate) mod trace;
pub(crate) mod trace_ring;
