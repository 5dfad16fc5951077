//! The kernel thread of sysmon, which runs while an M is in a system call. (In the kernel, timer interrupts end slices.
//! So sysmon only retakes Ps, and readies Gs whose device signals no M has taken.)

use gmp_sched::scheduler::Scheduler;
use gmp_sched::sysmon::Sysmon;
use spin::Once;

use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::{make_thread, scheduler};

static THREAD: Once<&'static KernelThread> = Once::new();

/// Makes the thread of sysmon.
///
/// # Panics
/// If there is no memory for the thread.
pub(super) fn init() {
    let thread = make_thread(run, 0).expect("memory for sysmon");
    THREAD.call_once(|| thread);
}

/// Unparks the thread of sysmon if an M is in a system call. Called in the timer interrupt of each CPU that runs a
/// thread.
pub(super) fn unpark_if_needed() {
    if scheduler().is_some_and(Scheduler::is_any_in_syscall)
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

/// Checks all Ps repeatedly, as long as an M is in a system call. Then parks until a timer tick finds an M in a system
/// call. The thread begins to run when the first such tick unparks it.
fn run(_: usize) -> ! {
    let scheduler = scheduler().expect("sysmon starts after the scheduler");
    let mut sysmon = Sysmon::new(scheduler);
    loop {
        while scheduler.is_any_in_syscall() {
            let delay = sysmon.check();
            kthread::park(Some(kthread::now() + delay));
        }
        kthread::park(None);
    }
}
