//! Kernel threads: [`gmp_sched::kthread`] on the CPUs of this computer.

use gmp_sched::kthread::{Thread, Threads};
use gmp_sched::time::Instant;
use spin::Once;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::timer;
use crate::cpu::{contexts, cpus};

/// A CPU, as what kernel threads run on: see `thread_cpu`.
#[derive(Clone, Copy, Debug)]
pub struct KernelCpu;

/// A kernel thread.
pub(crate) type KernelThread = Thread<KernelCpu>;

static THREADS: Once<&'static Threads<KernelCpu>> = Once::new();

/// Sets kernel threads up. Called by the boot CPU when the number of CPUs is known.
pub(crate) fn init() {
    THREADS.call_once(|| Threads::new(cpus::count()));
}

/// Whether [`init`] has been called.
pub(crate) fn is_up() -> bool {
    THREADS.is_completed()
}

/// All kernel threads.
pub(crate) fn all() -> &'static Threads<KernelCpu> {
    THREADS.get().expect("kernel threads are set up before they are used")
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
