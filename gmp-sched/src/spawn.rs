//! Making Gs and ending them: `go`, the first and the last steps of a G.

use crate::body;
use crate::goroutine::{Goroutine, GoroutineId, Status};
use crate::join::{ATTACHED, Audience, JoinHandle, finished, left};
use crate::park::put_next;
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::primitives::Ordering;
use crate::scheduler::Scheduler;
use crate::slots;
use crate::switch::{Commit, arrive_words, leave};

/// Stack of a G in bytes, unless chosen otherwise; committed by the platform as it is touched, where it can.
pub const STACK_SIZE: usize = 64 * 1024;

/// Runs `body` as a new G. Go: the `go` statement, `newproc`.
///
/// The new G is next on the caller's P; what was next goes to the tail of the ring. Does not block; not callable from
/// interrupts.
///
/// # Errors
///
/// There is no memory for its stack; nothing has happened, except that `body` is dropped.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "newproc")]
#[inline]
pub fn spawn<P, F, T>(body: F) -> Result<JoinHandle<T, P>, OutOfResources>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let pinned = Pinned::<P>::new();
    let machine = pinned.machine();
    let processor = machine.held_processor();
    let scheduler = machine.scheduler();
    let goroutine = slots::take(scheduler, processor)?;
    body::install(goroutine, body);
    goroutine.completion.store(ATTACHED, Ordering::Relaxed);
    let id = processor.next_goroutine_id(|| scheduler.take_goroutine_ids());
    goroutine.begin(id, Some(machine.running_goroutine().id()));
    goroutine.set_status(Status::Runnable);
    processor.counters.spawned.add(1);
    put_next(machine, processor, goroutine);
    Ok(JoinHandle::new(goroutine))
}

/// [`spawn`] for those who cannot go on without memory.
///
/// # Panics
///
/// As [`spawn`]; and where that gives an error.
#[inline]
#[track_caller]
pub fn go<P, F, T>(body: F) -> JoinHandle<T, P>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match spawn(body) {
        Ok(handle) => handle,
        Err(error) => panic!("cannot spawn a G: {error}"),
    }
}

impl<P: Platform> Scheduler<P> {
    /// Runs `body` as the main G, number 1. Called once, pinned, from outside or from the boot CPU.
    ///
    /// # Errors
    ///
    /// There is no memory for its stack.
    pub fn spawn_main<F>(&'static self, body: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() + Send + 'static,
    {
        let goroutine = slots::take_with_stack(self, STACK_SIZE)?;
        body::install(goroutine, body);
        goroutine.completion.store(ATTACHED, Ordering::Relaxed);
        goroutine.begin(GoroutineId(1), None);
        goroutine.set_status(Status::Runnable);
        self.inject(goroutine);
        Ok(())
    }
}

/// The first function of every G: completes the switch that brought it here, then runs its body.
pub(crate) extern "sysv64" fn goroutine_main<P: Platform>(function: usize, subject: usize, argument: usize) -> ! {
    let pinned = arrive_words::<P>(function, subject, argument);
    let me = pinned.goroutine();
    drop(pinned);
    body::start(me)
}

/// The last steps of the calling G: its result is in place.
pub(crate) fn finish<P: Platform>(
    pinned: Pinned<P>,
    me: &'static Goroutine<P>,
    died: bool,
    drop_result: impl FnOnce(&'static Goroutine<P>),
) -> ! {
    let pinned = match finished(&pinned, me) {
        Audience::Handle => return_never(pinned, me, Audience::Handle),
        Audience::Nobody => pinned,
    };
    // Drops run as the G itself, which may do anything.
    drop(pinned);
    if died {
        let scheduler = Pinned::<P>::new().machine().scheduler();
        P::fatal(scheduler, format_args!("panic in goroutine {}, which nobody joins", me.id()));
    }
    drop_result(me);
    return_never(Pinned::new(), me, Audience::Nobody)
}

fn return_never<P: Platform>(pinned: Pinned<P>, me: &'static Goroutine<P>, audience: Audience) -> ! {
    let machine = pinned.machine();
    let processor = machine.held_processor();
    processor.counters.finished.add(1);
    let commit = match audience {
        Audience::Handle => Commit::new(bury::<P>, 1),
        Audience::Nobody => Commit::new(bury::<P>, 0),
    };
    drop(leave(pinned, machine, processor, me, commit));
    unreachable!("a finished G was resumed: {me:?}")
}

/// Far side of a G's last switch.
pub(crate) fn bury<P: Platform>(pinned: Pinned<P>, goroutine: &'static Goroutine<P>, has_handle: usize) -> Pinned<P> {
    goroutine.set_status(Status::Dead);
    let audience = if has_handle == 1 { Audience::Handle } else { Audience::Nobody };
    if left(goroutine, audience) {
        slots::recycle(&pinned, goroutine);
    }
    pinned
}
