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
        match Self::pin() {
            Ok(caller) => caller,
            Err(pinned) => refuse(pinned, ()),
        }
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
        match Self::find(pinned, Plat::is_pinned_once()) {
            Ok(caller) => (caller, held),
            Err(pinned) => refuse(pinned, held),
        }
    }

    /// Like [`new`](Self::new), for a G whose closure has ended. If the G may not end, no code is left that could catch
    /// a panic, so the program ends.
    #[inline(always)]
    pub(crate) fn to_end() -> Self {
        match Self::pin() {
            Ok(caller) => caller,
            Err(pinned) => refuse_to_end(pinned),
        }
    }

    /// Pins the calling G, which spawns a G, and looks up its M and the P of that M. The caller may be pinned already.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, or the platform does not let the caller spawn a G (see
    /// [`Platform::assert_may_spawn`]).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn to_spawn() -> Self {
        Plat::assert_may_spawn();
        let CurrentProcessor { pinned, machine, processor } = CurrentProcessor::new();
        let Some(me) = machine.current_goroutine() else { refuse(pinned, ()) };
        Self { pinned, machine, processor, me }
    }

    /// Like [`new`](Self::new), but returns `None` where that panics.
    pub(crate) fn if_may_block() -> Option<Self> {
        Self::pin().ok()
    }

    /// Like [`new`](Self::new), but returns the pin as an error instead of panicking.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    fn pin() -> Result<Self, Pinned<Plat>> {
        let (pinned, is_pinned_once) = Pinned::of_scheduler_and_check();
        Self::find(pinned, is_pinned_once)
    }

    /// Like [`pin`](Self::pin), for a caller that is pinned already.
    #[inline(always)]
    fn find(pinned: Pinned<Plat>, is_pinned_once: bool) -> Result<Self, Pinned<Plat>> {
        if is_pinned_once {
            // This comes first, because the G may hold another P afterwards.
            Plat::may_migrate();
        }
        if is_pinned_once
            && let Some(machine) = pinned.try_machine()
            && let Some(me) = machine.current_goroutine()
            && let Some(processor) = machine.processor()
            && (Plat::COUNTS_PINS || !machine.are_waits_forbidden())
        {
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
}

/// Ends the program because the calling G ends where it may not, for example in a section that forbids waits and whose
/// guard has been forgotten. Prints the reason by a panic. If panics are caught, the fatal error follows.
#[cold]
#[inline(never)]
fn refuse_to_end<Plat: Platform>(pinned: Pinned<Plat>) -> ! {
    let machine = pinned.machine();
    let (scheduler, me) = (machine.scheduler(), machine.running_goroutine());
    let _ = Plat::run_body(|| refuse(pinned, ()));
    Plat::fatal(scheduler, format_args!("goroutine {} has ended where it may not end", me.id()))
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
        Some(machine) if machine.current_goroutine().is_none() => machine.why_no_goroutine(),
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
