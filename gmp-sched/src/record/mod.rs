//! What the scheduler records while it runs: counters, scheduling latencies, and the trace rings.

pub(crate) mod counters;
pub(crate) mod cpu_tracer;
pub mod latency;
pub(crate) mod trace;
pub mod trace_memory;
pub(crate) mod trace_ring;
pub(crate) mod trace_until;
