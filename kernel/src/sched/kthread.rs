//! Kernel threads on this machine: the hardware's half of [`gmp_sched::kthread`].

use gmp_sched::kthread::{Cpu, Thread, Threads};
use gmp_sched::platform::Points;
use gmp_sched::time::Instant;
use spin::Once;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::{apic, interrupts as vectors, timer};
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::{contexts, cpus};
use crate::mm::tlb;
use crate::sched::{activity, idle, platform};

/// The CPUs of this machine, for kernel threads.
#[derive(Clone, Copy, Debug)]
pub struct KernelCpu;

/// A kernel thread of this machine.
pub(crate) type KernelThread = Thread<KernelCpu>;

static THREADS: Once<&'static Threads<KernelCpu>> = Once::new();

impl Points for KernelCpu {}

// SAFETY: the index is that of the executing CPU and below the number of CPUs; interrupts are masked as asked; the
// preemption entry runs on the interrupted G's stack and switches only through this module and the scheduler.
unsafe impl Cpu for KernelCpu {
    fn threads() -> &'static Threads<Self> {
        threads()
    }

    #[inline]
    fn current() -> usize {
        percpu::current().index()
    }

    fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
        interrupts::without_interrupts(body)
    }

    fn kick(cpu: usize) {
        apic::send(CpuId::new(cpu), vectors::RESCHEDULE);
    }

    fn request_displacement() {
        percpu::set_pending();
    }

    fn arm(deadline: Instant) {
        arm(deadline);
    }

    fn now() -> Instant {
        now()
    }

    unsafe fn switching_to(thread: &'static Thread<Self>, now: Instant) {
        debug_assert!(!tlb::is_halted(), "a CPU runs a thread before it has flushed its translations");
        percpu::set_current_machine(thread.argument());
        activity::runs_thread();
        arm(platform::first_tick(now));
    }

    unsafe fn switching_to_idle() {
        percpu::set_current_machine(0);
        activity::runs_nothing();
    }

    unsafe fn halt() {
        idle::wait_for_interrupt();
    }

    unsafe fn set_interrupts(on: bool) {
        if on {
            interrupts::enable();
        } else {
            interrupts::disable();
        }
    }
}

fn threads() -> &'static Threads<KernelCpu> {
    THREADS.get().expect("kernel threads are set up before they are used")
}

/// Sets kernel threads up. Called by the boot CPU when the number of CPUs is known.
pub(crate) fn init() {
    THREADS.call_once(|| Threads::new(cpus::count()));
}

/// Whether [`init`] has been called.
pub(crate) fn is_up() -> bool {
    THREADS.is_completed()
}

/// The machine's threads.
pub(crate) fn all() -> &'static Threads<KernelCpu> {
    threads()
}

/// Blocks the calling thread until it is unparked, or until the deadline. The caller has pinned itself once. May return
/// early.
///
/// # Panics
/// If the caller may not block: see [`contexts`].
#[track_caller]
pub(crate) fn park(deadline: Option<Instant>) {
    contexts::assert_may_block_pinned();
    // SAFETY: not in a handler, as was just checked, so on the thread's own stack. Whoever calls this has a thread, hence
    // runs pinned at least once, and was checked not to be more than that.
    unsafe { all().park(deadline) };
}

/// The clock, in the scheduler's terms.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(timer::now())
}

/// Has this CPU's timer fire at `deadline` at the latest. Callable from interrupts; else the caller is pinned.
#[inline]
pub(crate) fn arm(deadline: Instant) {
    // Most often it fires sooner. If it does so right after this look, its handler goes by what the caller has said why.
    if deadline.as_nanos() < timer::deadline() {
        arm_sooner(deadline);
    }
}

#[cold]
fn arm_sooner(deadline: Instant) {
    interrupts::without_interrupts(|| {
        if deadline.as_nanos() < timer::deadline() {
            timer::arm(deadline.as_nanos());
        }
    });
}
