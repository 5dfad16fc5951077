//! System calls: a G keeps its M busy or blocked, while other Ms can use the P.
//!
//! There are two kinds. [`syscall`] is for work that may be short: the P is only marked, and sysmon retakes it if the
//! call lasts. [`blocking`] is for work that will block: the P goes to another M at once (see `handoff`). Go has only
//! the first kind for most calls, so its sysmon has to guess, 20 us or more after the beginning, that a call blocks.
//!
//! Both take the call as a closure, so that each system call ends when its closure returns or panics. If they returned a
//! guard instead, a G could leak the guard and continue without a P. But outside of system calls, an M without a P must
//! never run user code.
//!
//! On return the G takes its old P back if no other M took it, or else an idle P. If no P is idle, the G goes to the
//! global queue and its M to the idle list. But with timer interrupts, a G that returns from a blocking call goes to
//! the urgent queue of its old P or of another P, and displaces the G that runs there (see `urgent`).
//!
//! ```
//! use gmp_sched::native::{self, Native, go};
//! use gmp_sched::syscall;
//! use std::sync::mpsc;
//!
//! let received = unsafe { native::enter() }.run(1, || {
//!     let (sender, receiver) = mpsc::channel();
//!     let waiting = go(move || syscall::blocking::<Native, _>(|| receiver.recv()));
//!     // The only P is free again while the other G blocks its thread.
//!     native::yield_now();
//!     syscall::syscall::<Native, _>(|| sender.send(7)).unwrap();
//!     waiting.join().unwrap()
//! });
//! assert_eq!(received, Ok(7));
//! ```

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::points::Site;
use crate::engine::hooks;
use crate::engine::hooks::Window;
use crate::engine::preempt::{give_way, gives_way_to_others};
use crate::engine::switch::leave;
use crate::engine::syscall_return::{has_to_stop, requeue_to_displace, requeue_without_processor, take_processor_back};
use crate::entities::current::CurrentGoroutine;
use crate::entities::events::Leave;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// Runs `call`, which may keep this M busy for a while, as a system call. Go: `entersyscall`, `exitsyscall`.
///
/// Entering costs a few stores; the P is taken away only if sysmon finds that the call lasts. During the call the G
/// stays on its M, and must not spawn, yield or park. The G is not pinned, so where Ms are kernel threads, another
/// thread may take the CPU from a call that computes for long. On threads of a host the call may block the thread,
/// because sysmon checks at least every 10 ms. In a kernel it must not, because only the timer interrupts of CPUs that
/// run a thread wake sysmon; calls that block the thread use [`blocking`].
///
/// On return, may block the calling G until there is a P for it. Not callable from interrupts.
///
/// # Panics
///
/// The caller is not a G with a P, is pinned, has stopped the world, or is in a section that forbids waits
/// (`native::forbid_waits`). A panic of `call` is passed on where the platform unwinds.
#[doc(alias = "entersyscall")]
#[doc(alias = "exitsyscall")]
#[inline]
#[track_caller]
pub fn syscall<Plat: Platform, R>(call: impl FnOnce() -> R) -> R {
    let _syscall = enter_syscall::<Plat>();
    call()
}

/// Hands the P off, then runs `call`, which will block this M. Go: `entersyscallblock`.
///
/// Before the call begins, makes sure that the other Ms are enough for all Ps, and creates an M if necessary. So no
/// later wakeup has to create an M. `call` may block the thread on any platform. With timer interrupts, the G may
/// displace another one if there is no P for it when the call ends; see the [module](self). In all other respects this is
/// like [`syscall`].
///
/// # Panics
///
/// In the same cases as [`try_blocking`], and where [`try_blocking`] returns an error.
#[doc(alias = "entersyscallblock")]
#[inline]
#[track_caller]
pub fn blocking<Plat: Platform, R>(call: impl FnOnce() -> R) -> R {
    match try_blocking::<Plat, R>(call) {
        Ok(result) => result,
        Err(error) => panic!("cannot secure an M for a blocking call: {error}"),
    }
}

/// Like [`blocking`], but returns an error if no M can be made.
///
/// # Errors
///
/// No M can be made. `call` has been dropped, and nothing else has changed.
///
/// # Panics
///
/// In the same cases as [`syscall`].
#[inline]
#[track_caller]
pub fn try_blocking<Plat: Platform, R>(call: impl FnOnce() -> R) -> Result<R, OutOfResources> {
    let (_syscall, pinned) = enter_blocking::<Plat>()?;
    drop(pinned);
    Ok(call())
}

/// Like [`try_blocking`], but the caller stays pinned until its G has a P again or has been enqueued. This is for
/// drivers of a kernel, whose `call` parks only the thread. Without the pin, another thread could displace the caller's
/// thread for up to a slice, before the driver has made its request or after the call.
///
/// # Errors
///
/// In the same cases as [`try_blocking`].
///
/// # Panics
///
/// In the same cases as [`syscall`].
#[inline]
#[track_caller]
pub fn try_blocking_pinned<Plat: Platform, R>(call: impl FnOnce(&Pinned<Plat>) -> R) -> Result<R, OutOfResources> {
    let (syscall, pinned) = enter_blocking::<Plat>()?;
    let result = call(&pinned);
    syscall.end(pinned);
    Ok(result)
}

/// Keeps the calling G in a system call until the same G drops this value. Not public, because a program could leak it.
///
/// During a system call a G stays on its M, so the M and the G need not be looked up again at the end.
#[must_use = "the system call ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Syscall<Plat: Platform> {
    machine: &'static Machine<Plat>,
    me: &'static Goroutine<Plat>,
    /// The commit that enqueues the G if there is no P for it after the call.
    requeue: fn(&Pinned<Plat>, &'static Goroutine<Plat>),
    /// The raw pointer prevents `Send` and `Sync`.
    _here: PhantomData<*mut ()>,
}

/// Begins a system call as [`syscall`] does. The call ends when the returned value is dropped.
#[inline(always)]
#[track_caller]
pub(crate) fn enter_syscall<Plat: Platform>() -> Syscall<Plat> {
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::<Plat>::new();
    let window = Window::<Plat>::open(At::SyscallEntry);
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    processor.syscall_tick.store(tick.wrapping_add(1), Ordering::Relaxed);
    machine.begin_call(processor, me, EventKind::SyscallEnter);
    Plat::point(Site::Syscall);
    // From here on sysmon, or the M that stops the world, may claim the P by its status word. The timekeeper need not
    // learn of the timers of this P now; see `timekeeper`.
    processor.status.set(ProcessorStatus::Syscall);
    window.close();
    drop(pinned);
    Syscall { machine, me, requeue: requeue_without_processor, _here: PhantomData }
}

/// Begins a system call as [`blocking`] does. The caller ends the call in one of two ways: it passes the pin to
/// [`Syscall::end`], or it drops the pin and then the [`Syscall`].
#[track_caller]
pub(crate) fn enter_blocking<Plat: Platform>() -> Result<(Syscall<Plat>, Pinned<Plat>), OutOfResources> {
    let CurrentGoroutine { pinned, machine, .. } = CurrentGoroutine::<Plat>::new();
    let scheduler = machine.scheduler();
    // ANCHOR: enter_blocking
    let pinned = scheduler.secure_successor(pinned)?;
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::HandOff);
    processor.counters.handoffs.add(1);
    scheduler.hand_off(processor);
    window.close();
    // ANCHOR_END: enter_blocking
    Ok((Syscall { machine, me, requeue: requeue_to_displace, _here: PhantomData }, pinned))
}

impl<Plat: Platform> Syscall<Plat> {
    /// Ends the system call for a caller that is pinned once.
    fn end(self, pinned: Pinned<Plat>) {
        ManuallyDrop::new(self).end_pinned(pinned);
    }

    /// Ends the system call. Go: `exitsyscall`.
    #[inline(always)]
    fn end_pinned(&self, pinned: Pinned<Plat>) {
        let Self { machine, me, requeue, .. } = *self;
        // The call may have begun a section that forbids waits and has not ended yet. The G then stays on this M.
        let has_to_stay = !Plat::COUNTS_PINS && machine.are_waits_forbidden();
        let window = Window::<Plat>::open(At::SyscallExit);
        let Some(processor) = take_processor_back(&pinned, machine, me) else {
            // The M got no P, so the G is enqueued. Go: `exitsyscallNoP`.
            if has_to_stay {
                hooks::stay_on(machine);
            }
            Plat::may_migrate();
            drop(leave(pinned, machine, me, None, Leave::Recorded, requeue));
            window.close();
            return;
        };
        window.close();
        let scheduler = machine.scheduler();
        // If preemption was requested during the call, the G could not give way until now.
        if (has_to_stop(scheduler) || gives_way_to_others(scheduler, processor)) && !has_to_stay {
            drop(give_way(pinned));
        }
    }
}

impl<Plat: Platform> Drop for Syscall<Plat> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end_pinned(Pinned::of_scheduler());
    }
}
