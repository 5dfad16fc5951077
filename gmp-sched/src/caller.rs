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

    /// For a caller that has pinned itself, once.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, or was pinned before.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn of(pinned: Pinned<P>) -> Self {
        Self::holding(pinned, ()).0
    }

    /// [`of`](Self::of) for a caller that holds a lock: a caller that may not block panics without it. Returns `held` to one
    /// that may.
    ///
    /// # Panics
    ///
    /// As [`of`](Self::of).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn holding<H>(pinned: Pinned<P>, held: H) -> (Self, H) {
        if P::is_pinned_once()
            && let Some(machine) = pinned.try_machine()
            && let Some(me) = machine.current_goroutine()
            && let Some(processor) = machine.processor()
        {
            return (Self { pinned, machine, processor, me }, held);
        }
        refuse(pinned, held)
    }
}

/// Panics because the caller may not block, without the lock and the pin that were taken for that.
#[cold]
#[inline(never)]
#[track_caller]
fn refuse<P: Platform, H>(pinned: Pinned<P>, held: H) -> ! {
    let is_pinned_once = P::is_pinned_once();
    let goroutine = pinned.try_machine().map(Machine::current_goroutine);
    drop(held);
    drop(pinned);
    assert!(is_pinned_once, "a G blocks, yields or ends with preemption turned off");
    match goroutine {
        None => panic!("called outside the scheduler: only a G may do this"),
        Some(None) => panic!("called on g0: only a G may do this"),
        Some(Some(_)) => panic!("an M without a P may not do this: it is in a system call"),
    }
}
