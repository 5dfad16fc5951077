//! The calling G and where it runs, looked up once for all that it does on its way out.

use crate::goroutine::Goroutine;
use crate::machine::Machine;
use crate::platform::{Pinned, Platform};
use crate::processor::Processor;

/// The calling G, pinned, on the M that runs it and with the P which that one holds.
///
/// Whoever leaves takes it along, for when the G goes on it may be on another M, with another P. It is for functions that are
/// inlined; those that are kept apart take the pin and look again, which costs less there than to put three words in
/// memory for them would cost here.
#[derive(Debug)]
pub(crate) struct Caller<P: Platform> {
    pub(crate) pinned: Pinned<P>,
    pub(crate) machine: &'static Machine<P>,
    pub(crate) processor: &'static Processor<P>,
    pub(crate) me: &'static Goroutine<P>,
}

impl<P: Platform> Caller<P> {
    /// Pins the caller.
    ///
    /// # Panics
    ///
    /// As [`of`](Self::of).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self::of(Pinned::new())
    }

    /// For a caller that has pinned itself.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn of(pinned: Pinned<P>) -> Self {
        let machine = pinned.machine();
        let (me, processor) = (machine.running_goroutine(), machine.held_processor());
        Self { pinned, machine, processor, me }
    }
}
