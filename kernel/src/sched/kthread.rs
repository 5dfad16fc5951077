//! Kernel threads: [`gmp_sched::kthread`] on the CPUs of this computer.

use gmp_sched::kthread::{Thread, Threads};
use gmp_sched::time::Instant;
use spin::Once;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::timer;
use crate::cpu::{contexts, cpus};

/// A CPU of this computer, on which kernel threads run: see `thread_cpu`.
#[derive(Clone, Copy, Debug)]
pub struct KernelCpu;

/// A thread of [`gmp_sched::kthread`] on the CPUs of this kernel.
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

/// Returns all kernel threads.
pub(crate) fn all() -> &'static Threads<KernelCpu> {
    THREADS.get().expect("kernel threads are set up before they are used")
}

/// Blocks the calling thread until it is unparked, or until the deadline. May return early. The caller must be pinned
/// exactly once.
///
/// # Panics
/// If the caller may not block: see [`contexts`].
#[track_caller]
pub(crate) fn park(deadline: Option<Instant>) {
    contexts::assert_may_block_pinned();
    // SAFETY: the check above ensures two conditions. The caller is not in a handler, so it is on its thread's stack.
    // And the caller is not pinned more than once. Callers are pinned at least once.
    unsafe { all().park(deadline) };
}

/// Returns the current time, as an `Instant` of the scheduler.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(timer::now())
}

/// Makes this CPU's timer fire at `deadline` at the latest. Callable from interrupt handlers. Other callers must be
/// pinned.
#[inline]
pub(crate) fn arm(deadline: Instant) {
    // In most cases this CPU's timer is armed for an earlier time already. The timer may fire right after this
    // comparison. The deadline is not lost in this case, because the caller has stored, before this call, what the
    // timer's handler needs to compute the deadline. So the handler arms the timer again.
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
