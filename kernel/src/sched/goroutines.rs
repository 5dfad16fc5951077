//! Queries of the scheduler, for reports and for the handlers of interrupts and page faults. They return which G runs
//! on this CPU, which G's park this CPU commits, and which G owns a stack.

use gmp_sched::goroutine::Goroutine;
use gmp_sched::machine::Machine;
use gmp_sched::platform::Platform as _;
use x86_64::instructions::interrupts;
use x86_64::registers::rflags::RFlags;

use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::percpu;
use crate::mm::stack::Slot;
use crate::sched::platform::{Kernel, scheduler};

/// Returns the current G of this CPU, or `None` if there is none, for example on a g0 or in the idle loop. The G need
/// not be in user code, because the scheduler also runs on the stacks of Gs. A caller that must know whether the G is
/// in user code must also check the preempt count. The caller must not be able to migrate.
pub(crate) fn interrupted() -> Option<&'static Goroutine<Kernel>> {
    Kernel::current_machine().and_then(Machine::current_goroutine)
}

/// Returns the G whose own code has raised the exception that this CPU is handling, or `None` if the scheduler, a
/// driver or a handler has raised it.
pub(crate) fn interrupted_in_user_code(frame: &TrapFrame) -> Option<&'static Goroutine<Kernel>> {
    let is_in_user_code = percpu::trap_depth() == 1
        && !percpu::is_preemption_off()
        && RFlags::from_bits_truncate(frame.rflags).contains(RFlags::INTERRUPT_FLAG);
    if is_in_user_code { interrupted() } else { None }
}

/// Returns the calling G if it is in user code. Returns `None` in the scheduler, in a driver and in a handler.
pub(crate) fn in_user_code() -> Option<&'static Goroutine<Kernel>> {
    if percpu::trap_depth() != 0 || percpu::is_preemption_off() || !interrupts::are_enabled() {
        return None;
    }
    // The caller must not move to another CPU between the loads of the M and of its G.
    let _here = percpu::PreemptGuard::of_kernel();
    interrupted()
}

/// Returns the G whose park this CPU is committing, if the commit is a function of the program. Such a commit runs on
/// the stack of another G or of g0. The caller must not be able to migrate.
pub(crate) fn committing() -> Option<&'static Goroutine<Kernel>> {
    Kernel::current_machine().and_then(Machine::committing)
}

/// Returns the G whose stack is in this slot, or `None` if no G has this slot. Callable from everywhere. Searches the
/// stacks of all Gs.
pub(crate) fn owner_of(slot: Slot) -> Option<&'static Goroutine<Kernel>> {
    scheduler()?.goroutines().find(|goroutine| goroutine.stack().contains(&slot.bottom()))
}
