//! The calling G and where it runs, looked up once for all that it does on its way out.

use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::platform::{Pinned, Platform};

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
    /// The caller is not a G with a P, or was pinned before, as it is while it has stopped the world.
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
        match Self::find(pinned) {
            Ok(caller) => (caller, held),
            Err(pinned) => refuse(pinned, held),
        }
    }

    /// Whether the caller may block: [`new`](Self::new) would not panic.
    pub(crate) fn may_block() -> bool {
        Self::find(Pinned::new()).is_ok()
    }

    /// [`of`](Self::of), or the pin where that panics.
    #[inline(always)]
    fn find(pinned: Pinned<P>) -> Result<Self, Pinned<P>> {
        if P::is_pinned_once()
            && let Some(machine) = pinned.try_machine()
            && let Some(me) = machine.current_goroutine()
            && let Some(processor) = machine.processor()
            && (P::COUNTS_PINS || !machine.scheduler().is_stopped())
        {
            return Ok(Self { pinned, machine, processor, me });
        }
        Err(pinned)
    }
}

/// Where the caller runs: an M that holds a P. For what has to be done there, but needs no G.
#[derive(Debug)]
pub(crate) struct Here<P: Platform> {
    pub(crate) pinned: Pinned<P>,
    pub(crate) machine: &'static Machine<P>,
    pub(crate) processor: &'static Processor<P>,
}

impl<P: Platform> Here<P> {
    /// Pins the caller.
    ///
    /// # Panics
    ///
    /// The caller is not on an M with a P, and not pinned any more then.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new() -> Self {
        let pinned = Pinned::new();
        let Some(machine) = pinned.try_machine() else { refuse(pinned, ()) };
        let Some(processor) = machine.processor() else { refuse(pinned, ()) };
        Self { pinned, machine, processor }
    }

    /// [`new`](Self::new) for a caller that spawns a G.
    ///
    /// # Panics
    ///
    /// As `new`; or the caller is where no G may be spawned.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn to_spawn() -> Self {
        P::assert_may_spawn();
        Self::new()
    }
}

/// Panics because the caller may not do this, without the lock and the pin that were taken for it: this is the program's fault,
/// and a panic with the pin raised would look like one of the scheduler's.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse<P: Platform, H>(pinned: Pinned<P>, held: H) -> ! {
    let may_block = P::is_pinned_once();
    let why = match pinned.try_machine() {
        Some(machine) if machine.current_goroutine().is_none() => "called on g0: only a G may do this",
        Some(machine) if machine.processor().is_none() => "an M without a P may not do this: it is in a system call",
        Some(machine) if machine.scheduler().is_stopped() => {
            "the world is stopped, by the caller itself: it may not block, yield, end or make a system call"
        }
        None if may_block => "called outside the scheduler: only a G may do this",
        _ => {
            drop(held);
            drop(pinned);
            P::refuse_to_block()
        }
    };
    drop(held);
    drop(pinned);
    panic!("{why}");
}
