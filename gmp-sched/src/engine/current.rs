//! The calling G, its M and its P, looked up once for a whole operation.

use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::platform::{Pinned, Platform};

/// The calling G, pinned, with the M that runs it and the P that this M holds.
///
/// A switch consumes this value, because the G may be resumed by another M that holds another P. Functions that are
/// inlined pass this value on. Functions that are not inlined take only the pin, and look up the G, the M and the P
/// again, because passing these three in memory would cost the fast path three stores.
#[derive(Debug)]
pub(crate) struct CurrentGoroutine<Plat: Platform> {
    pub(crate) pinned: Pinned<Plat>,
    pub(crate) machine: &'static Machine<Plat>,
    pub(crate) processor: &'static Processor<Plat>,
    pub(crate) me: &'static Goroutine<Plat>,
}

impl<Plat: Platform> CurrentGoroutine<Plat> {
    /// Pins the calling G and looks up its M and the P of that M.
    ///
    /// # Panics
    ///
    /// In the same cases as [`of`](Self::of).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self::of(Pinned::of_scheduler())
    }

    /// Like [`new`](Self::new), for a caller that is already pinned exactly once.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, is pinned more than once, has stopped the world, or is in a section that forbids
    /// waits (`native::forbid_waits`).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn of(pinned: Pinned<Plat>) -> Self {
        Self::holding(pinned, ()).0
    }

    /// Like [`of`](Self::of), for a caller that holds a lock, `held`. Returns `held` if the caller may block; otherwise
    /// releases `held` before the panic.
    ///
    /// # Panics
    ///
    /// In the same cases as [`of`](Self::of).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn holding<H>(pinned: Pinned<Plat>, held: H) -> (Self, H) {
        match Self::find(pinned) {
            Ok(caller) => (caller, held),
            Err(pinned) => refuse(pinned, held),
        }
    }

    /// Whether the caller may block, so that [`new`](Self::new) would not panic.
    #[cfg(feature = "extras")]
    pub(crate) fn may_block() -> bool {
        Self::find(Pinned::of_scheduler()).is_ok()
    }

    /// Like [`of`](Self::of), but returns the pin as an error instead of panicking.
    #[inline(always)]
    fn find(pinned: Pinned<Plat>) -> Result<Self, Pinned<Plat>> {
        if Plat::is_pinned_once()
            && let Some(machine) = pinned.try_machine()
            && let Some(me) = machine.current_goroutine()
            && let Some(processor) = machine.processor()
            && (Plat::COUNTS_PINS || !machine.are_waits_forbidden())
        {
            Plat::may_migrate();
            return Ok(Self { pinned, machine, processor, me });
        }
        Err(pinned)
    }
}

/// The calling M and the P that it holds. Operations that need a P but no G use this type, so that g0 may call them,
/// too.
#[derive(Debug)]
pub(crate) struct CurrentProcessor<Plat: Platform> {
    pub(crate) pinned: Pinned<Plat>,
    pub(crate) machine: &'static Machine<Plat>,
    pub(crate) processor: &'static Processor<Plat>,
}

impl<Plat: Platform> CurrentProcessor<Plat> {
    /// Pins the caller and looks up its M and the P of that M.
    ///
    /// # Panics
    ///
    /// The caller is not on an M that holds a P.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new() -> Self {
        let pinned = Pinned::of_scheduler();
        let Some(machine) = pinned.try_machine() else { refuse(pinned, ()) };
        let Some(processor) = machine.processor() else { refuse(pinned, ()) };
        Self { pinned, machine, processor }
    }

    /// Like [`new`](Self::new), for a caller that spawns a G.
    ///
    /// # Panics
    ///
    /// In the same cases as [`new`](Self::new), and if the platform does not let the caller spawn a G (see
    /// [`Platform::assert_may_spawn`]).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn to_spawn() -> Self {
        Plat::assert_may_spawn();
        Self::new()
    }
}

/// Panics with the reason why the caller may not perform its operation. Releases `held` and the pin before the panic,
/// because on some platforms the panic ends only the calling G. Other pins of the program stay raised, for example that
/// of a G that has stopped the world; see [`Platform::misuse`].
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse<Plat: Platform, H>(pinned: Pinned<Plat>, held: H) -> ! {
    let may_block = Plat::is_pinned_once();
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
            Plat::refuse_to_block()
        }
    };
    drop(held);
    drop(pinned);
    Plat::misuse(format_args!("{why}"))
}
