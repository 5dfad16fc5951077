//! Arrows that end where a G began to run. An arrow begins where the G was made runnable, where the G was stolen, or
//! where the P on which the G then ran was handed off.

use gmp_sched::trace::Track;

/// What an arrow means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArrowKind {
    /// From the point where a G was spawned or readied, by another G or by a caller without a P, to the point where the
    /// G began to run. Also from the point where a G that found no free P returned from a system call.
    Ready,
    /// From the interrupt of the device for which a G waited to the point where the G began to run. If the trace does
    /// not contain the interrupt, the arrow begins where the G was readied.
    Device,
    /// From the P from which a G was stolen, at the time of the steal, to the point where this G began to run. There is
    /// an arrow for each G of a steal.
    Steal,
    /// From the point where a due timer readied a G to the point where the G began to run.
    Timer,
    /// From the point where a P left an M in a system call to the point where the next G began to run on this P.
    HandOff,
}

/// An arrow from a time on one track to the beginning of a slice of a P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// What the arrow means.
    pub kind: ArrowKind,
    /// When and where the arrow begins, with the time in nanoseconds.
    pub from: (u64, Track),
    /// When the arrow ends, in nanoseconds, and the number of the P on whose track it ends.
    pub to: (u64, u32),
    /// The G that begins to run where the arrow ends.
    pub goroutine: usize,
}
