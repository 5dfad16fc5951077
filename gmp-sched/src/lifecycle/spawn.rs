//! Spawning Gs: `go`, `Builder`, and the first G of a scheduler.

use core::any;
use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::engine::current::CurrentProcessor;
use crate::engine::enqueue::{enqueue_next, put_next};
use crate::engine::reuse;
use crate::engine::sampling;
use crate::entities::bubble::BubblePointer;
pub use crate::entities::free_list::STACK_SIZE;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::lifecycle::children::Children;
use crate::lifecycle::closure::{self, NoScope, StackEnd};
use crate::lifecycle::join::{ATTACHED, JoinHandle};
use crate::platform::{Pinned, Platform};

/// The size in bytes of the smallest stack that a G may have: room for the largest closure or result, and for the
/// scheduler.
const SMALLEST_STACK: usize = 4 * closure::BODY_LIMIT;

/// Runs `body` as a new G. Go: the `go` statement, `newproc`.
///
/// The new G goes into `runnext` of the caller's P, and the G that was there before goes to the tail of the ring. Does
/// not block; not callable from interrupts.
///
/// # Errors
///
/// There is no memory for the G's stack. `body` has been dropped, and nothing else has changed.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "newproc")]
#[inline]
#[track_caller]
pub fn try_go<Plat, F, T>(body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let CurrentProcessor { pinned: _pinned, machine, processor } = CurrentProcessor::<Plat>::to_spawn();
    let goroutine = reuse::take(machine, processor)?;
    goroutine.set_name(None);
    let end = StackEnd::of(goroutine);
    Ok(start(machine, processor, goroutine, end, body))
}

/// Turns a slot that the caller owns into a runnable G and puts it into `runnext`.
#[inline(always)]
fn start<Plat, F, T>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
    end: StackEnd<'_, Plat>,
    body: F,
) -> JoinHandle<T, Plat>
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    closure::install(end, body, NoScope);
    let creator = begin(machine, processor, goroutine);
    enter(machine, processor, creator, goroutine, any::type_name::<F>());
    JoinHandle::new(goroutine)
}

/// Initializes a G whose closure is installed; returns the calling G, which is its creator.
#[inline(always)]
fn begin<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> &'static Goroutine<Plat> {
    let creator = machine.running_goroutine();
    goroutine.completion.store(ATTACHED, Ordering::Relaxed);
    let id = processor.next_goroutine_id(|| machine.scheduler().take_goroutine_ids());
    goroutine.begin(id, Some(creator.id()));
    creator
}

/// Makes a new G runnable and puts it into `runnext`. `creator` is the calling G. `function` is for traces.
#[inline(always)]
fn enter<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    creator: &'static Goroutine<Plat>,
    goroutine: &'static Goroutine<Plat>,
    function: &'static str,
) {
    if let Some(bubble) = creator.bubble() {
        bubble.admit(goroutine);
    }
    goroutine.set_status(Status::Runnable);
    processor.counters.spawned.add(1);
    if processor.sampler.samples_next() {
        sampling::spawned(machine, processor, goroutine, function);
    }
    put_next(machine, processor, goroutine);
}

/// Like [`try_go`], for a child of a scope. The child counts among `children` until it has run and its result has been
/// dropped or passed to the handle. If this returns an error or panics, the child has not been counted.
///
/// # Safety
///
/// `children`, and everything that `body` and its result borrow, must live until the G has been removed from
/// `children`. The handle must not live longer than that.
#[expect(unsafe_code, reason = "a G may outlive what it borrows")]
#[track_caller]
pub(crate) unsafe fn spawn_scoped<Plat, F, T>(
    body: F,
    children: &Children<Plat>,
) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let CurrentProcessor { pinned, machine, processor } = CurrentProcessor::<Plat>::to_spawn();
    let goroutine = reuse::take(machine, processor)?;
    goroutine.set_name(None);
    closure::install(StackEnd::of(goroutine), body, children);
    children.add(&pinned);
    let creator = begin(machine, processor, goroutine);
    enter(machine, processor, creator, goroutine, any::type_name::<F>());
    Ok(JoinHandle::new(goroutine))
}

/// Makes a G that is started later, exactly once, by [`start_prepared`] or a direct switch. Starting the G does not
/// allocate. Until the start, the status of the G is `Idle`.
///
/// # Errors
///
/// In the same cases as [`try_go`].
#[track_caller]
pub(crate) fn prepare<Plat, F, T>(body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let CurrentProcessor { pinned: _pinned, machine, processor } = CurrentProcessor::<Plat>::to_spawn();
    let goroutine = reuse::take(machine, processor)?;
    goroutine.set_name(None);
    closure::install(StackEnd::of(goroutine), body, NoScope);
    begin(machine, processor, goroutine);
    goroutine.set_status(Status::Idle);
    Ok(JoinHandle::new(goroutine))
}

/// Makes a [prepared](prepare) G runnable, in `bubble` or in none. Returns the G, which the caller must run or enqueue.
/// Returns `None` if the caller may do neither, because it is not on an M of the G's scheduler or this M holds no P. In
/// that case this function has put the G on the global queue of the G's scheduler.
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
        sampling::spawned_outside(here, goroutine, "");
        goroutine.scheduler().inject_from_outside(goroutine);
        return None;
    };
    goroutine.set_status(Status::Runnable);
    processor.counters.spawned.add(1);
    if processor.sampler.samples_next() {
        sampling::spawned(machine, processor, goroutine, "");
    }
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

/// Runs `body` as a new G. Like [`try_go`], but panics if there is no memory.
///
/// # Panics
///
/// In the cases in which [`try_go`] panics or returns an error.
#[inline]
#[track_caller]
pub fn go<Plat, F, T>(body: F) -> JoinHandle<T, Plat>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match try_go(body) {
        Ok(handle) => handle,
        Err(error) => panic!("cannot spawn a G: {error}"),
    }
}

/// Spawns a G with a name or a stack size of its own. Similar to `std::thread::Builder`.
///
/// ```
/// use gmp_sched::native;
///
/// let depth = unsafe { native::enter() }.run(1, || {
///     fn deep(levels: u64) -> u64 {
///         let room = std::hint::black_box([0u8; 1000]);
///         if levels == 0 { u64::from(room[0]) } else { 1 + deep(levels - 1) }
///     }
///     let diver = native::Builder::new().name("diver").stack_size(16 << 20);
///     diver.go(|| deep(2_000)).join().unwrap()
/// });
/// assert_eq!(depth, 2_000);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is spawned before `go`"]
pub struct Builder<'a, Plat: Platform> {
    name: Option<&'a str>,
    stack_size: usize,
    _platform: PhantomData<fn() -> Plat>,
}

impl<'a, Plat: Platform> Builder<'a, Plat> {
    /// Makes a builder for Gs without a name and with a stack of the standard size, as [`go`] spawns them.
    pub const fn new() -> Self {
        Self { name: None, stack_size: Plat::STACK_SIZE, _platform: PhantomData }
    }

    /// Sets the name of the G in lists of Gs and reports; the first [`NAME_LIMIT`](crate::NAME_LIMIT) bytes are kept.
    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the size of the stack, of at least 16 KiB: a smaller size is raised. The platform may round the size up.
    /// Without this call the size is [`Platform::STACK_SIZE`]. If the platform has no stacks of this size,
    /// [`try_go`](Self::try_go) returns an error.
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Runs `body` as a new G. Like [`try_go`](Self::try_go), but panics if there is no memory.
    ///
    /// # Panics
    ///
    /// In the same cases as [`go`], and where [`try_go`](Self::try_go) returns an error.
    #[track_caller]
    pub fn go<F, T>(self, body: F) -> JoinHandle<T, Plat>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.try_go(body) {
            Ok(handle) => handle,
            Err(error) => panic!("cannot spawn a G: {error}"),
        }
    }

    /// Runs `body` as a new G.
    ///
    /// # Errors
    ///
    /// There is no memory for the G's stack, or the platform has no stacks of that size.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_go<F, T>(self, body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let CurrentProcessor { pinned: _pinned, machine, processor } = CurrentProcessor::<Plat>::to_spawn();
        let goroutine = if self.stack_size == Plat::STACK_SIZE {
            reuse::take(machine, processor)?
        } else {
            reuse::take_with_stack(machine.scheduler(), self.stack_size.max(SMALLEST_STACK))?
        };
        goroutine.set_name(self.name);
        Ok(start(machine, processor, goroutine, StackEnd::of(goroutine), body))
    }
}

impl<Plat: Platform> Default for Builder<'_, Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes one M for each P, and runs `main` as the main G, number 1. The caller is not an M. It is a thread of the
    /// operating system, or the boot CPU while it is pinned. Allocates.
    ///
    /// # Errors
    ///
    /// The platform has no thread for one of the Ms, or no stack for the main G. In this case no G runs, now or later.
    ///
    /// # Safety
    ///
    /// This is called once for each scheduler. From here on Gs run on the platform's threads and move between them. The
    /// caller guarantees that the code of the Gs meets the platform's requirements for code that moves. (The kernel and
    /// the simulator have no such requirements; see `native::enter` for threads of an operating system.)
    #[expect(unsafe_code, reason = "Gs move between threads, which the platform may restrict")]
    pub unsafe fn start<F>(&'static self, main: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() + Send + 'static,
    {
        // SAFETY: the requirements of `start_with_stack` are those of this function, which the caller meets.
        unsafe { self.start_with_stack(Plat::STACK_SIZE, main) }
    }

    /// Like [`start`](Self::start), with a stack of at least `bytes` bytes for the main G.
    ///
    /// # Errors
    ///
    /// In the same cases as [`start`](Self::start), or if the platform has no stacks of that size.
    ///
    /// # Safety
    ///
    /// The requirements of [`start`](Self::start) apply.
    #[expect(unsafe_code, reason = "Gs move between threads, which the platform may restrict")]
    pub unsafe fn start_with_stack<F>(&'static self, bytes: usize, main: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() + Send + 'static,
    {
        for _ in 0..self.procs() {
            self.add_machine()?;
        }
        let goroutine = reuse::take_with_stack(self, bytes.max(SMALLEST_STACK))?;
        inject_new(self, goroutine, GoroutineId::MAIN, main);
        Ok(())
    }
}

/// Runs `body` as a detached G of `scheduler`, for a caller that is not an M of `scheduler`. Does not block; allocates.
#[cfg(feature = "std")]
pub(crate) fn spawn_from_outside<Plat, F>(scheduler: &'static Scheduler<Plat>, body: F) -> Result<(), OutOfResources>
where
    Plat: Platform,
    F: FnOnce() + Send + 'static,
{
    let free = scheduler.free.lock().pop_with_stack().inspect(|free| crate::engine::stacks::check_poison(*free));
    let goroutine = free.map_or_else(|| reuse::take_with_stack(scheduler, Plat::STACK_SIZE), Ok)?;
    goroutine.set_name(None);
    inject_new(scheduler, goroutine, GoroutineId(scheduler.take_goroutine_ids()), body);
    scheduler.started_without_processor.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Turns a slot that the caller owns into a detached G on the global queue.
fn inject_new<Plat, F>(
    scheduler: &'static Scheduler<Plat>,
    goroutine: &'static Goroutine<Plat>,
    id: GoroutineId,
    body: F,
) where
    Plat: Platform,
    F: FnOnce() + Send + 'static,
{
    closure::install(StackEnd::of(goroutine), body, NoScope);
    goroutine.completion.store(ATTACHED, Ordering::Relaxed);
    goroutine.begin(id, None);
    JoinHandle::<(), Plat>::new(goroutine).detach();
    sampling::spawned_outside(None, goroutine, any::type_name::<F>());
    scheduler.inject_from_outside(goroutine);
}
