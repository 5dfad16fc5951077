//! Locked Gs. A locked G runs only on its own M, and that M runs no other G. This is for code that keeps state in the
//! thread. Go: `runtime.LockOSThread`.
//!
//! Locked Gs do not slow down other Gs. A switch from G to G does not check whether the next G is locked, because a
//! locked G is never in a local queue. When it is runnable, it is on a list of its own beside the global queue
//! (`Shared::locked`). A pick checks that list on g0 only: at the beginning of the check of the global queue, every
//! 61 ticks or on request, and when a P has no other work. The M that finds a locked G on that list assigns its P to
//! the G's M and goes idle (`startlockedm`). If a locked G is readied while a P is idle, its M is assigned that P at
//! once.
//!
//! A switch does not check whether the G that leaves is locked, either. Instead, while a locked G runs, a slow pick is
//! always requested on its P, so every pick of this P is done on g0. When the locked G has left, g0 of its M hands off
//! the P (`stoplockedm`) and waits until the M is assigned a P.
//!
//! While the M waits it counts as idle for deadlock detection (`nmidlelocked`). It cannot be woken to run other Gs, so
//! the other Ms must suffice for all Ps. Therefore locking, like a blocking system call, makes sure that another M can
//! replace this one. Locking fails if another M is needed for that and cannot be created.

use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::base::points::Site;
use crate::engine::enqueue::requeue_global;
use crate::engine::switch::leave;
use crate::engine::urgent::await_next;
use crate::entities::current::{CurrentGoroutine, CurrentProcessor};
use crate::entities::events::Leave;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::{EndedMachine, Machine};
use crate::entities::processor::Processor;
use crate::entities::shared::Shared;
use crate::entities::status::Status;
use crate::platform::{Parking, Pinned, Platform};
use crate::record::trace::{EventKind, PreemptReason};

/// Keeps the calling G locked to its M until the same G drops this value. If the G holds several such values, the G is
/// unlocked when it drops the last one.
///
/// If another G drops the value, which it may find in a thread-local variable, the drop has no effect. If a G leaks
/// such a value, the G is unlocked when it ends. In Go the thread exits in this case, because the program may have
/// changed the thread's state in ways that no other G expects. Here the only such state is the thread-local variables
/// of the host.
#[must_use = "the G is unlocked when this is dropped"]
#[derive(Debug)]
pub struct LockedThread<Plat: Platform> {
    /// The slot and the id of the G that is locked. The slot may contain another G later, and Gs of different
    /// schedulers may have the same id.
    goroutine: (&'static Goroutine<Plat>, GoroutineId),
    _here: PhantomData<*mut ()>,
}

/// Locks the calling G to the M it runs on. Calls nest. Go: `runtime.LockOSThread`.
///
/// A switch from or to a locked G is a switch between threads, so it takes about ten times as long as other switches.
/// Creates an M if no other M could take over the P when this M hands it off. Does not block; not callable from
/// interrupts.
///
/// ```
/// use gmp_sched::native;
/// use std::thread;
///
/// unsafe { native::enter() }.run(2, || {
///     let locked = native::lock_thread();
///     let before = thread::current().id();
///     native::yield_now();
///     assert_eq!(thread::current().id(), before);
///     drop(locked);
/// });
/// ```
///
/// # Panics
///
/// In the cases in which [`try_lock_thread`] panics or returns an error.
#[doc(alias = "LockOSThread")]
#[track_caller]
pub fn lock_thread<Plat: Platform>() -> LockedThread<Plat> {
    match try_lock_thread() {
        Ok(locked) => locked,
        Err(error) => panic!("cannot lock a G to its thread: {error}"),
    }
}

/// Like [`lock_thread`], but returns an error if no M can be created.
///
/// # Errors
///
/// No M can be created. In this case nothing has changed.
///
/// # Panics
///
/// The caller is not a G with a P.
#[track_caller]
pub fn try_lock_thread<Plat: Platform>() -> Result<LockedThread<Plat>, OutOfResources> {
    let CurrentProcessor { mut pinned, machine, .. } = CurrentProcessor::<Plat>::new();
    machine.running_goroutine();
    if machine.locked_goroutine().is_none() {
        pinned = machine.scheduler().secure_successor(pinned)?;
    }
    let machine = pinned.machine();
    machine.lock_current();
    let me = machine.running_goroutine();
    Ok(LockedThread { goroutine: (me, me.id()), _here: PhantomData })
}

impl<Plat: Platform> Drop for LockedThread<Plat> {
    /// Undoes one lock of the calling G, if the calling G made it. Go: `runtime.UnlockOSThread`.
    fn drop(&mut self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let Some(machine) = pinned.try_machine() else { return };
        let (goroutine, id) = self.goroutine;
        if machine.current_goroutine().is_some_and(|me| core::ptr::eq(me, goroutine) && me.id() == id) {
            machine.unlock_current();
        }
    }
}

/// Functions that do not switch. Most of them are called by the locked G itself, on its own stack.
impl<Plat: Platform> Machine<Plat> {
    /// Makes sure that another M can replace this one, and locks the calling G, which is pinned, to this M.
    fn secure_and_lock_current(&'static self) -> Result<(), OutOfResources> {
        if self.locked_goroutine().is_none() {
            drop(self.scheduler().secure_successor(Pinned::of_scheduler())?);
        }
        self.lock_current();
        Ok(())
    }

    /// Locks the calling G, which is pinned, to this M. If the G is already locked, only counts one more lock.
    /// If not, the caller has called [`secure_successor`](crate::scheduler::Scheduler::secure_successor) before, which has
    /// counted this M as blocked. The M holds a P, or its G is at the end of a system call.
    pub(crate) fn lock_current(&'static self) {
        let me = self.running_goroutine();
        if self.locked_goroutine().is_none() {
            me.set_locked_machine(Some(self));
            self.locked.goroutine.store(Some(me), Ordering::Relaxed);
            self.note_lock(EventKind::LockThread, me);
            if let Some(processor) = self.processor() {
                processor.request_slow_pick();
            }
        }
        let depth = self.locked.depth.load(Ordering::Relaxed);
        self.locked.depth.store(depth + 1, Ordering::Relaxed);
    }

    /// Undoes one [`lock_current`](Self::lock_current) of the calling G, which is pinned.
    pub(crate) fn unlock_current(&'static self) {
        let depth = self.locked.depth.load(Ordering::Relaxed) - 1;
        self.locked.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.unlock();
        }
    }

    /// Unlocks the G that is locked to this M, if there is one, so that the M runs other Gs again. Called by that G, at
    /// the latest when it ends.
    fn unlock(&'static self) {
        let Some(goroutine) = self.locked_goroutine() else { return };
        goroutine.set_locked_machine(None);
        self.locked.goroutine.store(None, Ordering::Relaxed);
        self.locked.depth.store(0, Ordering::Relaxed);
        self.locked.unwinds.store(false, Ordering::Relaxed);
        self.note_lock(EventKind::UnlockThread, goroutine);
        self.scheduler().shared.lock().blocked_machines -= 1;
    }

    pub(super) fn note_lock(&self, kind: EventKind, goroutine: &'static Goroutine<Plat>) {
        let number = self.id().get().into();
        match self.processor() {
            Some(processor) => processor.tracer.note::<Plat>(kind, Some(goroutine.id()), number),
            None => self.scheduler().note_outside(kind, goroutine, number),
        }
    }
}

/// If a G is locked to `machine`, waits until the M may run that G, and returns the G. Called on g0.
#[inline(always)]
pub(crate) fn wait_for_locked<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    let locked = machine.locked_goroutine()?;
    machine.wait_for_locked(pinned, locked);
    Some(locked)
}

/// Whether the G in `runnext` of the P runs before the first runnable locked G. It does if that locked G was displaced in
/// place (see `preempt_in_place`), because the urgent G that has displaced it may have readied the G in `runnext`.
pub(crate) fn lets_next_run_first<Plat: Platform>(processor: &Processor<Plat>, shared: &Shared<Plat>) -> bool {
    let machine = shared.locked.front().and_then(Goroutine::locked_machine);
    // Ordering: the M has stored this before it put its G on the list, under the lock.
    let is_displaced = machine.is_some_and(|machine| machine.locked.used.load(Ordering::Relaxed) != 0);
    is_displaced && processor.queue.next().is_some()
}

/// If `goroutine`, which `machine` has picked, is locked to another M, lets that M run the G and returns `true`.
#[inline(always)]
pub(crate) fn start_elsewhere<Plat: Platform>(
    machine: &'static Machine<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> bool {
    let is_locked = goroutine.is_locked();
    if is_locked {
        machine.start_locked(goroutine);
    }
    is_locked
}

/// Locks the calling G, which is at the end of a system call in which it has begun a section that forbids waits, to
/// `machine` until the G ends.
#[cold]
#[inline(never)]
pub(crate) fn stay_on<Plat: Platform>(machine: &'static Machine<Plat>) {
    if machine.secure_and_lock_current().is_err() {
        let why =
            "a section that forbids waits is open at the end of a system call, and there is no thread to take over";
        Plat::fatal(machine.scheduler(), format_args!("{why}"));
    }
}

/// Locks the calling G, which unwinds and is pinned, to `machine` until its closure has ended. The standard library
/// counts the panics in progress per thread. So until then no other G may run on this thread, and this G may run on no
/// other thread.
#[cfg(feature = "std")]
pub(crate) fn stay_to_unwind<Plat: Platform>(machine: &'static Machine<Plat>) -> Result<(), OutOfResources> {
    if machine.locked_goroutine().is_none() {
        machine.secure_and_lock_current()?;
        machine.locked.unwinds.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Ends [`stay_to_unwind`] for the calling G, which is pinned and no longer unwinds.
#[cfg(feature = "std")]
pub(crate) fn unlock_after_unwinding<Plat: Platform>(machine: &'static Machine<Plat>) {
    if machine.locked.unwinds.swap(false, Ordering::Relaxed) {
        machine.unlock_current();
    }
}

/// Called when an urgent G is to displace the calling G, which is locked to its M. This M runs no other G, so g0 hands
/// the P to another M, which picks the urgent G.
#[cold]
#[inline(never)]
pub(crate) fn displace_locked<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    let CurrentGoroutine { pinned, machine, me, .. } = caller;
    leave(pinned, machine, me, None, Leave::GiveWay(PreemptReason::Urgent), requeue_global)
}

/// Called when the calling G ends: unlocks it from its M, if it is locked.
#[inline(always)]
pub(crate) fn unlock<Plat: Platform>(machine: &'static Machine<Plat>) {
    machine.unlock();
}

/// Functions that the M calls on g0, and `assign_to_locked`, which other Ms call.
impl<Plat: Platform> Machine<Plat> {
    /// Called when the G locked to this M has left. If the G can continue at once, returns. Otherwise hands off the P
    /// and waits until the M is assigned a P to run the G. Go: `stoplockedm`.
    #[doc(alias = "stoplockedm")]
    #[cold]
    pub(crate) fn wait_for_locked(&'static self, pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
        let scheduler = self.scheduler();
        if let Some(processor) = self.processor() {
            if self.continues_at_once(processor, goroutine) {
                return;
            }
            self.set_processor(None);
            scheduler.hand_off(processor);
        }
        Plat::point_before_lock(Site::Idle);
        self.begin_to_wait(&mut scheduler.shared.lock());
        loop {
            Plat::point(Site::Idle);
            if self.take_assigned() {
                break;
            }
            if scheduler.is_shut_down() {
                Plat::exit_thread(EndedMachine::new(self));
            }
            scheduler.check_dead();
            Plat::park_thread(Parking::new(pinned), None);
        }
        if let Some(processor) = self.processor() {
            processor.advance_tick();
            await_next(pinned, processor, Plat::now());
            processor.request_slow_pick();
        }
    }

    /// If the G is the first of the list of locked Gs and there is nothing else to run, takes the G off that list and
    /// keeps the P. Returns whether the M keeps the P.
    fn continues_at_once(&self, processor: &'static Processor<Plat>, goroutine: &'static Goroutine<Plat>) -> bool {
        let scheduler = self.scheduler();
        if scheduler.global_length.load(Ordering::Relaxed) == 0 || processor.has_work() {
            return false;
        }
        let mut shared = scheduler.shared.lock();
        let is_next = shared.global.is_empty()
            && !scheduler.is_stopping()
            && shared.locked.front().is_some_and(|first| core::ptr::eq(first, goroutine));
        if is_next {
            scheduler.take_locked(&mut shared);
            processor.advance_tick();
        }
        is_next
    }

    /// Called when the G that this M has picked is locked to another M. Assigns the P to that M, and makes this M idle.
    /// Go: `startlockedm`.
    #[doc(alias = "startlockedm")]
    #[cold]
    pub(crate) fn start_locked(&'static self, goroutine: &'static Goroutine<Plat>) {
        let scheduler = self.scheduler();
        let (Some(processor), Some(to)) = (self.processor(), goroutine.locked_machine()) else {
            unreachable!("a locked G is found by an M with a P, and has an M of its own: {goroutine:?}")
        };
        {
            let mut shared = scheduler.shared.lock();
            self.set_processor(None);
            scheduler.put_idle_machine(&mut shared, self);
            to.assign_to_locked(&mut shared, processor);
        }
        Plat::unpark_thread(to);
    }

    /// Assigns `processor` to this M, which waits for a P or is about to wait. The caller must unpark the M.
    pub(super) fn assign_to_locked(&self, shared: &mut Shared<Plat>, processor: &'static Processor<Plat>) {
        if self.locked.waits.swap(false, Ordering::Relaxed) {
            shared.idle_locked -= 1;
        }
        // Ordering: Release; partner: the Acquire in `take_assigned`.
        self.assigned_processor.store(Some(processor), Ordering::Release);
    }
}

/// If the parked G `goroutine` is locked to its M, readies it for that M and returns `true`.
#[inline(always)]
pub(crate) fn ready_elsewhere<Plat: Platform>(
    here: Option<&'static Machine<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) -> bool {
    let is_locked = goroutine.is_waiting_locked();
    if is_locked {
        ready_locked(here, goroutine);
    }
    is_locked
}

/// Readies a parked G that is locked to its M, by assigning an idle P to that M. If no P is idle, puts the G on the
/// list of locked Gs, which the next pick of the calling M checks if this M holds a P. `here` is the calling M, or
/// `None` if the caller is not an M of the G's scheduler. Go: `ready`.
#[cold]
#[inline(never)]
fn ready_locked<Plat: Platform>(here: Option<&'static Machine<Plat>>, goroutine: &'static Goroutine<Plat>) {
    let scheduler = goroutine.scheduler();
    let processor = here.and_then(Machine::processor);
    if let Some(processor) = processor {
        processor.counters.readies.add(1);
    }
    Plat::point_before_lock(Site::Idle);
    let mut shared = scheduler.shared.lock();
    // The status changes in the same critical section as the assignment or the enqueueing, for the reason given in
    // `inject_from_outside`.
    goroutine.set_status(Status::Runnable);
    if let Some(to) = goroutine.locked_machine()
        && let Some(idle) = scheduler.take_idle_processor(&mut shared)
    {
        to.assign_to_locked(&mut shared, idle);
        drop(shared);
        Plat::unpark_thread(to);
        return;
    }
    scheduler.put_global_one(&mut shared, None, goroutine);
    // No P is idle, so no M has to be woken. An M that makes a P idle checks the list of locked Gs in the same critical
    // section.
    drop(shared);
    if let Some(processor) = processor {
        processor.request_global_check();
    }
}
