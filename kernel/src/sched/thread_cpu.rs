//! What kernel threads need from a CPU: the hooks of [`gmp_sched::kthread`].

use gmp_sched::kthread::{Cpu, Thread, Threads};
use gmp_sched::platform::Points;
use gmp_sched::time::Instant;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::apic;
use crate::arch::x86_64::interrupts::RESCHEDULE;
use crate::cpu::percpu::{self, CpuId};
use crate::mm::tlb;
use crate::sched::kthread::{self, KernelCpu};
use crate::sched::{activity, cpu_trace, idle, platform, preemption};

impl Points for KernelCpu {}

// SAFETY: `current` returns the index of the executing CPU, which is below the number of CPUs. `without_interrupts` and
// `set_interrupts` mask interrupts as requested. No other code switches the stacks of threads. In particular, a
// preemption (`traps::divert`) continues on the interrupted G's stack, and switches only through `gmp_sched::kthread`
// and the scheduler.
unsafe impl Cpu for KernelCpu {
    fn threads() -> &'static Threads<Self> {
        kthread::all()
    }

    #[inline]
    fn current() -> usize {
        percpu::current().index()
    }

    unsafe fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
        interrupts::without_interrupts(body)
    }

    fn kick(cpu: usize) {
        apic::send(CpuId::new(cpu), RESCHEDULE);
    }

    fn request_displacement() {
        percpu::set_pending();
    }

    #[inline]
    fn withdraw_displacement() {
        percpu::clear_pending();
    }

    fn arm(deadline: Instant) {
        kthread::arm(deadline);
    }

    fn now() -> Instant {
        kthread::now()
    }

    unsafe fn switching_to(thread: &'static Thread<Self>, now: Instant) {
        debug_assert!(!tlb::is_halted(), "a CPU runs a thread before it has flushed its translations");
        percpu::set_current_machine(thread.argument());
        activity::runs_thread();
        cpu_trace::runs(now);
        kthread::arm(preemption::first_tick(now));
    }

    unsafe fn switching_to_idle() {
        percpu::set_current_machine(0);
        activity::runs_nothing();
        cpu_trace::halts();
    }

    unsafe fn ended(thread: &'static Thread<Self>, stack_end: usize) {
        // SAFETY: the caller promises what `free_thread` requires.
        unsafe { platform::free_thread(thread, stack_end) };
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
