//! Makes a G: a slot, with its stack (see [`free_slots`]), gets a closure and becomes a runnable G. The G first runs in
//! [`closure`].

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::engine::enqueue::{enqueue_next, put_next};
use crate::engine::hooks;
use crate::entities::bubble::BubblePointer;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::status::Status;
use crate::lifecycle::children::Children;
use crate::lifecycle::closure::{self, NoScope, StackEnd};
use crate::lifecycle::free_slots;
use crate::lifecycle::join::{ATTACHED, JoinHandle};
use crate::lifecycle::storage::BODY_LIMIT;
use crate::platform::{Pinned, Platform};

/// The size in bytes of the smallest stack that a G may have: room for the largest closure or result, and for the
/// scheduler.
pub(crate) const SMALLEST_STACK: usize = 4 * BODY_LIMIT;

/// Turns a slot that the caller owns into a runnable G and puts it into `runnext`. Traces name the function `N` (see
/// [`closure::install`]). Go: `newproc`.
#[doc(alias = "newproc")]
#[inline(always)]
pub(crate) fn new_goroutine<Plat, N, F, T>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    creator: &'static Goroutine<Plat>,
    goroutine: &'static Goroutine<Plat>,
    bubble_of: Option<&'static Goroutine<Plat>>,
    end: StackEnd<'_, Plat>,
    body: F,
) -> JoinHandle<T, Plat>
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    closure::install::<Plat, N, F, T, _>(end, body, NoScope);
    initialize(machine, processor, creator, goroutine);
    make_runnable(machine, processor, bubble_of, goroutine);
    JoinHandle::new(goroutine)
}

/// Initializes a G whose closure is installed. `creator` is the calling G.
#[inline(always)]
fn initialize<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    creator: &'static Goroutine<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    goroutine.completion.store(ATTACHED, Ordering::Relaxed);
    let id = processor.next_goroutine_id(|| machine.scheduler().take_goroutine_ids());
    goroutine.begin(id, Some(creator.id()));
}

/// Makes a new G runnable, in the bubble of `bubble_of` if that G is in one, and puts it into `runnext`.
#[inline(always)]
fn make_runnable<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    bubble_of: Option<&'static Goroutine<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) {
    if let Some(bubble) = bubble_of.and_then(Goroutine::bubble) {
        bubble.admit(goroutine);
    }
    goroutine.set_status(Status::Runnable);
    processor.counters.spawned.add(1);
    hooks::spawned(machine, processor, goroutine);
    put_next(machine, processor, goroutine);
}

/// Like [`try_go`](crate::spawn::try_go), for a child of a scope. The child counts among `children` until it has run
/// and its result has been dropped or passed to the handle. If this returns an error or panics, the child has not been
/// counted. Traces name the function `N`.
///
/// # Safety
///
/// `children`, and everything that `body` and its result borrow, must live until the G has been removed from
/// `children`. The handle must not live longer than that.
#[expect(unsafe_code, reason = "a G may outlive what it borrows")]
#[track_caller]
pub(crate) unsafe fn spawn_scoped<Plat, N, F, T>(
    body: F,
    children: &Children<Plat>,
) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let (caller, goroutine) = free_slots::take_to_spawn::<Plat>(Plat::STACK_SIZE)?;
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    goroutine.set_name(None);
    closure::install::<Plat, N, F, T, _>(StackEnd::of(goroutine), body, children);
    children.add(&pinned);
    initialize(machine, processor, me, goroutine);
    make_runnable(machine, processor, Some(me), goroutine);
    Ok(JoinHandle::new(goroutine))
}

/// Makes a G that is started later, exactly once, by [`start_prepared`] or a direct switch. Starting the G does not
/// allocate. Until the start, the status of the G is `Idle`. Traces name the function `N`.
///
/// # Errors
///
/// In the same cases as [`try_go`](crate::spawn::try_go).
#[track_caller]
pub(crate) fn prepare<Plat, N, F, T>(body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (caller, goroutine) = free_slots::take_to_spawn::<Plat>(Plat::STACK_SIZE)?;
    let CurrentGoroutine { pinned: _pinned, machine, processor, me } = caller;
    goroutine.set_name(None);
    closure::install::<Plat, N, F, T, _>(StackEnd::of(goroutine), body, NoScope);
    initialize(machine, processor, me, goroutine);
    goroutine.set_status(Status::Idle);
    Ok(JoinHandle::new(goroutine))
}

/// Makes a [prepared](prepare) G runnable, in `bubble` or, if `bubble` is `None`, in no bubble. Returns the G, which
/// the caller must run or enqueue. Returns `None` if the caller may do neither, because it is not on an M of the G's
/// scheduler, or is on such an M that holds no P. In that case this function has put the G on the global queue of the
/// G's scheduler.
///
/// Callable on any thread. Does not block or allocate.
pub(crate) fn start_prepared<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
    bubble: Option<BubblePointer<Plat>>,
) -> Option<&'static Goroutine<Plat>> {
    assert_eq!(goroutine.status(), Status::Idle, "started a G twice: {goroutine:?}");
    if let Some(bubble) = bubble {
        bubble.admit(goroutine);
    }
    let here = pinned.try_machine().filter(|machine| machine.is_of_scheduler_of(goroutine));
    let Some((machine, processor)) = here.and_then(|machine| Some((machine, machine.processor()?))) else {
        goroutine.scheduler().started_without_processor.fetch_add(1, Ordering::Relaxed);
        hooks::spawned_outside(here, goroutine);
        goroutine.scheduler().inject_from_outside(goroutine);
        return None;
    };
    goroutine.set_status(Status::Runnable);
    processor.counters.spawned.add(1);
    hooks::spawned(machine, processor, goroutine);
    Some(goroutine)
}

/// Like [`start_prepared`], but starts the G in the bubble of `starter`. If this M may enqueue the G, puts the G into
/// `runnext` of the current P.
pub(crate) fn start_next<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
    starter: Option<&'static Goroutine<Plat>>,
) {
    if let Some(goroutine) = start_prepared(pinned, goroutine, starter.and_then(Goroutine::bubble)) {
        enqueue_next(pinned, goroutine);
    }
}
