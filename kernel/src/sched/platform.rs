//! Implements the platform that [`gmp_sched`] needs. Also has the aliases of the scheduler's types and functions that
//! programs use.

mod counts;

use core::fmt::Arguments;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::debugger::Layout;
use gmp_sched::goroutine::Goroutine;
use gmp_sched::machine::{EndedMachine, Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points, SLICE, Scavenged, Site, UNDISTURBED};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::time::Instant;
use gmp_sched::trace::CpuTracer;
use kernel_heap::classes::is_size;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::apic;
use crate::arch::x86_64::interrupts::RESCHEDULE;
use crate::cpu::contexts::Act;
use crate::cpu::percpu::{self, CpuId, PreemptGuard};
use crate::cpu::{contexts, sync};
use crate::mm;
use crate::mm::stack::Stack;
use crate::sched::kthread::{self, KernelThread};
use crate::sched::{call_stack, cpu_trace};

pub use self::counts::{num_cpu, num_goroutine, procs};

/// The kernel, as the platform of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

gmp_sched::platform_aliases!(Kernel);

#[doc(no_inline)]
pub use crate::select;

/// The size of a kernel thread's stack, in bytes. The stack of an M's thread is the M's g0.
const THREAD_STACK: usize = 64 * 1024;

static SCHEDULER: spin::Once<&'static Scheduler<Kernel>> = spin::Once::new();
/// The seed of random choices. Set once, before the scheduler is made.
static SEED: AtomicU64 = AtomicU64::new(0);
/// The slice of a G, in nanoseconds. Set once, before the scheduler is made.
static SLICE_NS: AtomicU64 = AtomicU64::new(SLICE.as_nanos() as u64);
/// The undisturbed time after a displacement, in nanoseconds. Set once, before the scheduler is made.
static UNDISTURBED_NS: AtomicU64 = AtomicU64::new(UNDISTURBED.as_nanos() as u64);
/// The offsets of the fields that gdb reads; see `scripts/gmp.py`.
#[used]
#[unsafe(no_mangle)]
static GMP_LAYOUT: Layout = Layout::of::<Kernel>();
/// The scheduler, for gdb.
#[used]
#[unsafe(no_mangle)]
static GMP_SCHEDULER: AtomicPtr<Scheduler<Kernel>> = AtomicPtr::new(core::ptr::null_mut());
/// The function that ends the kernel when the program cannot continue. Set once, before the scheduler is made.
static FATAL: spin::Once<fn(Arguments<'_>) -> !> = spin::Once::new();

impl Points for Kernel {
    #[inline(always)]
    fn point(site: Site) {
        // Many functions of the scheduler call `point`. Of these, a handler may call only the one that raises a signal.
        if site == Site::DeviceSignal {
            contexts::assert_may_raise();
        }
    }

    #[inline(always)]
    #[track_caller]
    fn assert_not_preemptible() {
        #[cfg(debug_assertions)]
        contexts::assert_may_take_scheduler_lock();
        debug_assert!(
            percpu::is_preemption_off() || !interrupts::are_enabled(),
            "a lock of the scheduler is taken by a G that may be preempted"
        );
    }

    #[inline]
    fn relax() {
        sync::relax();
    }
}

const _: () = assert!(is_size(size_of::<Goroutine<Kernel>>()), "Gs are to have a size class of their own");

// SAFETY: the promises of `Platform` are kept as follows. Pinned code stays on its M, because a pinned CPU does not
// switch threads. The current M is a per-CPU word, which the thread switch sets and which is loaded at each use. Stacks
// are in slots with guard pages. A thread begins to run when it is first unparked, and is pinned at that time.
unsafe impl Platform for Kernel {
    type Thread = &'static KernelThread;

    const TIMER_INTERRUPTS: bool = true;
    const COUNTS_PINS: bool = true;

    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    unsafe fn raise_pin() {
        percpu::preempt_disable();
    }

    #[inline(always)]
    #[track_caller]
    fn raise_checked_pin() {
        percpu::preempt_disable_checked();
    }

    #[inline(always)]
    unsafe fn lower_pin() {
        percpu::preempt_enable();
    }

    #[inline(always)]
    fn is_pinned_once() -> bool {
        contexts::may_block_pinned()
    }

    #[cold]
    #[track_caller]
    fn refuse_to_block() -> ! {
        contexts::refuse(Act::Block)
    }

    #[cold]
    #[track_caller]
    fn misuse(message: Arguments<'_>) -> ! {
        contexts::misuse(message)
    }

    #[inline(always)]
    #[track_caller]
    fn assert_may_spawn() {
        contexts::assert_may_spawn();
    }

    #[inline(always)]
    fn current_machine() -> Option<&'static Machine<Self>> {
        let machine = core::ptr::with_exposed_provenance::<Machine<Self>>(percpu::current_machine());
        // SAFETY: the word is 0 or the address of an M, which `start_thread` passed to the M's thread. Ms are never
        // freed.
        unsafe { machine.as_ref() }
    }

    fn now() -> Instant {
        kthread::now()
    }

    fn slice() -> Duration {
        Duration::from_nanos(SLICE_NS.load(Ordering::Relaxed))
    }

    fn undisturbed() -> Duration {
        Duration::from_nanos(UNDISTURBED_NS.load(Ordering::Relaxed))
    }

    fn seed(index: usize) -> u64 {
        0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index as u64 + 1) ^ SEED.load(Ordering::Relaxed)
    }

    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources> {
        match machine.machine().thread() {
            None => make_thread(run_machine, machine.into_raw()),
            Some(thread) => restart_thread(thread, machine),
        }
    }

    fn scavenger() -> Option<fn() -> Scavenged> {
        Some(scavenge)
    }

    fn idle_limit() -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn exit_thread(ended: EndedMachine<Self>) -> ! {
        // `free_thread` makes the `EndedMachine` again, from the thread's argument, which is the same word.
        let _ = ended.into_raw();
        // SAFETY: the scheduler calls this on the thread's own stack, pinned once, and nothing on that stack is used
        // any more.
        unsafe { kthread::all().end() }
    }

    fn park_thread(_: Parking<'_, Self>, deadline: Option<Instant>) {
        kthread::park(deadline);
    }

    #[track_caller]
    fn unpark_thread(machine: &'static Machine<Self>) {
        contexts::assert_may_unpark();
        if let Some(thread) = machine.thread() {
            thread.unpark();
        }
    }

    #[track_caller]
    fn request_preemption(machine: &'static Machine<Self>) {
        contexts::assert_may_unpark();
        let _here = PreemptGuard::of_kernel();
        if Self::current_machine().is_some_and(|current| core::ptr::eq(current, machine)) {
            // The M is on this CPU, so no interrupt is needed. If the caller is a handler, the preemption happens when
            // the handler returns. Otherwise it happens when `_here` is dropped or, if the caller has turned preemption
            // off, when preemption is on again.
            percpu::set_pending();
        } else if let Some(thread) = machine.thread() {
            apic::send(CpuId::new(thread.last_cpu()), RESCHEDULE);
        }
    }

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, when: Instant) {
        kthread::arm(when);
    }

    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources> {
        let stack = Stack::allocate(size).map_err(|_| OutOfResources)?;
        let bottom = stack.bottom();
        Ok(bottom..stack.into_raw())
    }

    unsafe fn release_stack(stack: Range<usize>) {
        // SAFETY: the caller promises that `stack` comes from `allocate_stack` and is released only once.
        drop(unsafe { Stack::from_raw(stack.end) });
    }

    fn cpu_tracer(cpu: u32) -> Option<&'static CpuTracer> {
        cpu_trace::of(cpu)
    }

    #[track_caller]
    fn with_cpu_tracer(record: impl FnOnce(&'static CpuTracer)) {
        cpu_trace::with_own(record);
    }

    fn call_stack(addresses: &mut [u64]) -> usize {
        call_stack::read(addresses)
    }

    fn fatal(_: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        fatal(message)
    }
}

/// Registers the function that ends the kernel when the program cannot continue.
pub(super) fn set_fatal(end: fn(Arguments<'_>) -> !) {
    FATAL.call_once(|| end);
}

/// Ends the kernel with a message.
pub(super) fn fatal(message: Arguments<'_>) -> ! {
    let end = FATAL.get().expect("registered before the scheduler is made");
    end(message)
}

/// Sets the seed of random choices, the slice, and the undisturbed time after a displacement.
pub(super) fn configure(seed: u64, slice: Duration, undisturbed: Duration) {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    SEED.store(seed, Ordering::Relaxed);
    SLICE_NS.store(nanos(slice), Ordering::Relaxed);
    UNDISTURBED_NS.store(nanos(undisturbed), Ordering::Relaxed);
}

/// Makes `scheduler` the scheduler of the kernel, and stores its address for gdb.
pub(super) fn install(scheduler: &'static Scheduler<Kernel>) {
    SCHEDULER.call_once(|| scheduler);
    GMP_SCHEDULER.store(core::ptr::from_ref(scheduler).cast_mut(), Ordering::Relaxed);
}

/// Returns the kernel's scheduler, or `None` if it has not been made yet.
pub fn scheduler() -> Option<&'static Scheduler<Kernel>> {
    SCHEDULER.get().copied()
}

/// Makes a kernel thread with a stack of its own. The thread starts when it is first unparked.
pub(super) fn make_thread(entry: fn(usize) -> !, argument: usize) -> Result<&'static KernelThread, OutOfResources> {
    let stack = Stack::allocate_whole(THREAD_STACK).map_err(|_| OutOfResources)?;
    // SAFETY: only this thread uses the stack. If the thread is made, the stack is never freed.
    let thread = unsafe { kthread::all().create(stack.bottom()..stack.top(), entry, argument) }?;
    stack.into_raw();
    Ok(thread)
}

/// Makes the thread of an M, which has ended, begin anew with a new stack.
fn restart_thread(
    thread: &'static KernelThread,
    machine: NewMachine<Kernel>,
) -> Result<&'static KernelThread, OutOfResources> {
    let stack = Stack::allocate_whole(THREAD_STACK).map_err(|_| OutOfResources)?;
    // `run_machine` makes the `NewMachine` again, from the thread's argument, which is the same word.
    let _ = machine.into_raw();
    // SAFETY: the M is used again, so `free_thread` was called for its thread. Only this thread uses the stack until
    // `free_thread` is called again.
    unsafe { kthread::all().restart(thread, stack.bottom()..stack.top()) };
    stack.into_raw();
    Ok(thread)
}

/// Frees the stack of an M's thread that has ended and has left the stack. Allows the scheduler to use the M again.
///
/// # Safety
/// Must be called once each time that the thread has ended, with the upper end of its stack.
pub(super) unsafe fn free_thread(thread: &'static KernelThread, stack_end: usize) {
    // SAFETY: the thread had a stack with this end, which was leaked when the thread got it. The thread does not run
    // any more, as the caller promises.
    unsafe { Stack::from_raw(stack_end) }.free_with_frames();
    // SAFETY: only the threads of Ms end, by `exit_thread`, which has converted the value to the thread's argument.
    unsafe { EndedMachine::<Kernel>::from_raw(thread.argument()) }.reuse();
}

/// The first function of an M's thread.
fn run_machine(machine: usize) -> ! {
    // SAFETY: the argument comes from `start_thread`. The thread calls its first function once after each call of
    // `start_thread`.
    let machine = unsafe { NewMachine::<Kernel>::from_raw(machine) };
    while !machine.is_ready() {
        kthread::park(None);
    }
    machine.run()
}

/// The work of the background G: frees memory that caches keep, and asks Ms to end that no P needs.
fn scavenge() -> Scavenged {
    if let Some(scheduler) = scheduler() {
        scheduler.end_surplus_machine();
    }
    if mm::scavenge() { Scavenged::InPart } else { Scavenged::Completely }
}
