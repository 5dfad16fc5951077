//! The trace of each CPU: which threads it runs, and the interrupts that it takes. While no trace is taken, each thread
//! switch and each interrupt costs only one test, which is four instructions.

use gmp_sched::platform::Platform as _;
use gmp_sched::time::Instant;
use gmp_sched::trace::CpuTracer;

use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::with_interrupts_off;
use crate::sched::kthread;
use crate::sched::platform::Kernel;

cpu_local! {
    static TRACER: CpuTracer = CpuTracer::new();
}

/// Returns the tracer of a CPU, or `None` if that CPU is not up.
pub(super) fn of(cpu: u32) -> Option<&'static CpuTracer> {
    let cpu = cpu as usize;
    if cpu < cpus::count() { TRACER.of(CpuId::new(cpu)) } else { None }
}

/// Calls `record` with the tracer of this CPU, with interrupts off. `record` may do what the holder of an
/// `InterruptMutex` may do.
#[track_caller]
pub(super) fn with_own(record: impl FnOnce(&'static CpuTracer)) {
    with_interrupts_off(|| record(TRACER.here()));
}

/// Whether this CPU records a trace. The caller must not be able to migrate.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    TRACER.here().is_on()
}

/// Records that this CPU begins to run the thread of the current M, or another thread if there is no current M. The
/// caller is pinned.
#[inline(always)]
pub(super) fn runs(now: Instant) {
    if is_on() {
        note_run(now);
    }
}

#[cold]
#[inline(never)]
fn note_run(now: Instant) {
    with_own(|tracer| match Kernel::current_machine() {
        Some(machine) => tracer.runs_machine(machine.id(), now),
        None => tracer.runs_thread(now),
    });
}

/// Records that this CPU has nothing to run. The caller is pinned.
#[inline(always)]
pub(super) fn halts() {
    if is_on() {
        note_halt();
    }
}

#[cold]
#[inline(never)]
fn note_halt() {
    with_own(|tracer| tracer.halts(kthread::now()));
}

/// Records that this CPU takes the interrupt with this `name`. Called with interrupts off.
pub(crate) fn interrupt(name: &'static str) {
    TRACER.here().interrupt(name, kthread::now());
}

/// Whether this CPU records call stacks, because a profile is taken. Called with interrupts off.
pub(crate) fn records_call_stacks() -> bool {
    TRACER.here().records_call_stacks()
}

/// Records the call stack of the code that the last interrupt has interrupted. Called with interrupts off.
pub(crate) fn call_stack(addresses: &[u64]) {
    TRACER.here().call_stack(addresses, kthread::now());
}

/// Records that the handler of an interrupt returns. Called with interrupts off.
pub(crate) fn interrupt_end() {
    TRACER.here().interrupt_end(kthread::now());
}
