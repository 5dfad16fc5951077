//! What must hold of a simulated machine. Each oracle is named after the invariant of the design it checks.

use alloc::format;
use alloc::string::String;
use core::cell::Cell;
use core::fmt::Write;

use super::Sim;
use crate::goroutine::Status;
use crate::primitives::Ordering;
use crate::processor::ProcessorStatus;
use crate::scheduler::Scheduler;
use crate::time::Instant;

/// Asked whenever every CPU halts; `wakes` is the next interrupt.
pub(super) fn when_all_halt(scheduler: &'static Scheduler<Sim>, wakes: Instant) -> Result<(), String> {
    work_is_conserved(scheduler)?;
    no_timer_is_slept_past(scheduler, wakes)?;
    processors_have_one_holder(scheduler)
}

/// What may hold for a moment, on the way from one state to another, but not stay.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    idle_processor: Cell<u64>,
    idle_cpu: Cell<u64>,
}

impl Lasting {
    /// Asked before every turn of a CPU. Work conservation at both levels, while others run.
    ///
    /// `able` CPUs take turns at the moment, so each has had about one in `able` turns.
    pub(super) fn look(&self, scheduler: &'static Scheduler<Sim>, able: usize) -> Result<(), String> {
        let is_queued = scheduler.global_length.load(Ordering::Relaxed) != 0
            || scheduler.processors().iter().any(|processor| !processor.queue.is_empty());
        let nobody_looks = scheduler.spinning.load(Ordering::Relaxed) == 0;
        let is_idle = scheduler.idle_processors.load(Ordering::Relaxed) != 0;
        let turn = TURN / able as u64;
        if add(&self.idle_processor, turn, is_queued && is_idle && nobody_looks) > PATIENCE {
            return Err(format!("a G stays runnable, a P idle, and nobody looks: {}", goroutines(scheduler)));
        }
        let threads = super::platform::threads();
        if add(&self.idle_cpu, turn, threads.is_any_ready() && threads.is_any_idle()) > PATIENCE {
            return Err("a thread stays ready and a CPU idle".into());
        }
        Ok(())
    }
}

/// One turn of each CPU.
const TURN: u64 = 1 << 10;
/// Turns of each CPU in which whoever is on the way from one state to another gets there.
const PATIENCE: u64 = 25 * TURN;

/// Sums up the turns in a row for which something holds.
fn add(turns: &Cell<u64>, turn: u64, holds: bool) -> u64 {
    turns.set(if holds { turns.get() + turn } else { 0 });
    turns.get()
}

/// Asked when main has ended.
pub(super) fn at_the_end(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    processors_have_one_holder(scheduler)?;
    goroutines_are_conserved(scheduler)
}

/// Nothing is runnable while all CPUs halt, and no thread is ready.
fn work_is_conserved(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    let queued = scheduler.processors().iter().find(|processor| !processor.queue.is_empty());
    if queued.is_some() || scheduler.global_length.load(Ordering::Relaxed) != 0 {
        return Err(format!("lost wake-up: every CPU halts with runnable Gs: {}", goroutines(scheduler)));
    }
    if super::platform::threads().is_any_ready() {
        return Err("lost wake-up: every CPU halts with a ready thread".into());
    }
    Ok(())
}

/// All halted, the machine wakes no later than its earliest timer.
fn no_timer_is_slept_past(scheduler: &'static Scheduler<Sim>, wakes: Instant) -> Result<(), String> {
    let earliest = scheduler.processors().iter().map(|processor| processor.timers.earliest()).min();
    match earliest {
        Some(earliest) if earliest < wakes => Err(format!("a timer due at {earliest} is slept past until {wakes}")),
        _ => Ok(()),
    }
}

/// A P is held by at most one M, and by none while it is idle.
fn processors_have_one_holder(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    for processor in scheduler.processors() {
        let holders = scheduler
            .machines()
            .filter(|machine| machine.processor().is_some_and(|held| core::ptr::eq(held, processor)))
            .count();
        if holders > usize::from(processor.status() == ProcessorStatus::Running) {
            return Err(format!("{processor:?} has {holders} holders"));
        }
    }
    Ok(())
}

/// Gs spawned are finished or alive; only those on their last steps, with their result given, are neither.
fn goroutines_are_conserved(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    let counts = scheduler.counts();
    // The main G is not counted as spawned.
    let alive = scheduler.num_goroutine() as u64;
    if counts.finished > counts.spawned || counts.spawned + 1 > counts.finished + alive {
        return Err(format!("{} Gs spawned, {} finished, {alive} alive", counts.spawned, counts.finished));
    }
    Ok(())
}

/// Every G that is alive, in a line.
pub(super) fn goroutines(scheduler: &'static Scheduler<Sim>) -> String {
    let mut line = String::new();
    for goroutine in scheduler.goroutines().filter(|goroutine| goroutine.status() != Status::Dead) {
        let _ = write!(line, "{} {} {}, ", goroutine.id(), goroutine.status(), goroutine.wait_reason());
    }
    line
}
