//! Interrupts that a G waits for, in place of those of a device.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gmp_sched::device_signals::Signal;
use gmp_sched::native::assert_may_wait;
use gmp_sched::scheduler::Scheduler;

use crate::host::platform::{Kernel, scheduler};

/// The signals of the schedulers of this process, which has several while its tests run in parallel. The key is the
/// address of the scheduler. No scheduler is ever freed.
static SIGNALS: Mutex<BTreeMap<usize, &'static Signal<Kernel>>> = Mutex::new(BTreeMap::new());

/// Locks [`SIGNALS`]. Poisoning is ignored, because nothing panics while the lock is held.
fn signals() -> MutexGuard<'static, BTreeMap<usize, &'static Signal<Kernel>>> {
    SIGNALS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(scheduler: &'static Scheduler<Kernel>) -> usize {
    ptr::from_ref(scheduler).addr()
}

/// Returns the signal of a scheduler. The first call makes it.
fn signal(scheduler: &'static Scheduler<Kernel>) -> &'static Signal<Kernel> {
    signals().entry(key(scheduler)).or_insert_with(|| Box::leak(Box::new(Signal::new())))
}

/// Begins a run of `scheduler`. An earlier run of this scheduler may have called [`interrupt`] when no G waited. That
/// call has no effect on the new run.
pub(in crate::host) fn forget_interrupts(scheduler: &'static Scheduler<Kernel>) {
    signals().remove(&key(scheduler));
}

/// Readies the G that waits in [`wait_for_interrupt`]. Does nothing if the caller is not a G. The machine does this in
/// the handler of an interrupt that the CPU sends to itself. Callable from everywhere.
pub fn interrupt() {
    if let Some(scheduler) = scheduler() {
        signal(scheduler).raise();
    }
}

/// Waits until [`interrupt`] is called. Returns at once if [`interrupt`] has been called since the last wait ended.
/// Blocks the calling G, not its thread. Not callable from interrupt handlers.
///
/// # Panics
///
/// If the caller is not a G, or must not block. If another G waits.
#[track_caller]
pub fn wait_for_interrupt() {
    assert_may_wait();
    let Some(scheduler) = scheduler() else { panic!("the caller is not a G") };
    signal(scheduler).wait();
}
