//! What interrupt handlers, page faults and reports ask the scheduler: which G runs here, and which G owns a stack.

use core::fmt;

use gmp_sched::goroutine::Goroutine;
use gmp_sched::machine::Machine;
use gmp_sched::platform::Platform as _;
use x86_64::instructions::interrupts;

use crate::cpu::percpu;
use crate::mm::stack::Slot;
use crate::sched::platform::{Kernel, scheduler};

/// The current G of this CPU; `None` on g0 and in the idle loop. The scheduler also runs on the stacks of Gs: whether the G
/// is in user code depends on the preempt count, too. The caller cannot migrate.
pub(crate) fn interrupted() -> Option<&'static Goroutine<Kernel>> {
    Kernel::current_machine().and_then(Machine::current_goroutine)
}

/// The calling G, if it is in user code; `None` in the scheduler, in a driver and in a handler.
pub(crate) fn in_user_code() -> Option<&'static Goroutine<Kernel>> {
    if percpu::trap_depth() != 0 || percpu::is_preemption_off() || !interrupts::are_enabled() {
        return None;
    }
    // The caller must not move to another CPU between the loads of the M and of its G.
    let _here = percpu::PreemptGuard::new();
    interrupted()
}

/// The G whose stack is in this slot. Callable from everywhere. Searches the stacks of all Gs.
pub(crate) fn owner_of(slot: Slot) -> Option<&'static Goroutine<Kernel>> {
    scheduler()?.goroutines().find(|goroutine| goroutine.stack().contains(&slot.bottom()))
}

/// Writes a line for every G that is alive: its state, and which G spawned it.
pub(crate) fn write_list(out: &mut impl fmt::Write) -> fmt::Result {
    let Some(scheduler) = scheduler() else { return Ok(()) };
    writeln!(out, "{}", scheduler.goroutine_list())
}
