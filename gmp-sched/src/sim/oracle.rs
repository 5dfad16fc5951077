//! The oracles: conditions that must hold of a simulated machine. A function that checks one invariant is named after
//! that invariant.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt::Write;

use super::Sim;
use super::slices::Waits;
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;

/// Checks what must hold while every CPU halts. `wakes` is the time of the next timer interrupt.
pub(super) fn when_all_halt(scheduler: &'static Scheduler<Sim>, wakes: Instant) -> Result<(), String> {
    work_is_conserved(scheduler)?;
    no_timer_is_slept_past(scheduler, wakes)?;
    processors_have_one_holder(scheduler)?;
    dead_processors_have_nothing(scheduler)?;
    stacks_have_one_owner(scheduler)?;
    machines_are_accounted_for(scheduler)
}

/// How long some conditions have held. Such a condition may hold for a moment, between two states of a protocol, but
/// must not persist.
#[derive(Debug, Default)]
pub(super) struct Transients {
    idle_processor: Cell<u64>,
    /// For each CPU, how long a thread has been ready for that CPU while any CPU was idle.
    idle_cpu: RefCell<Vec<Cell<u64>>>,
    waits: Waits,
}

impl Transients {
    /// Checks the conditions. Called before every step of a CPU. While CPUs run, a P or a CPU may stay idle only for a
    /// moment if a G is runnable or a thread is ready.
    ///
    /// `able` is the number of CPUs that can step now, so each of them takes about every `able`-th step.
    pub(super) fn check(&self, scheduler: &'static Scheduler<Sim>, able: usize) -> Result<(), String> {
        nothing_runs_while_the_world_is_stopped(scheduler)?;
        self.waits.check(scheduler)?;
        let is_queued = || {
            scheduler.global_length.load(Ordering::Relaxed) != 0
                || scheduler.processors().iter().any(Processor::has_queued)
        };
        let nobody_searches = scheduler.spinning.load(Ordering::Relaxed) == 0;
        let is_idle = scheduler.idle_processors.load(Ordering::Relaxed) != 0;
        let step = ROUND / able as u64;
        // A searching M takes a step for each P, and may search twice. A device's interrupt handler may also take up to
        // two steps for each P before its CPU switches to the thread that is to run. So the limit (`patience`) grows by
        // two rounds for each P.
        let patience = PATIENCE + 2 * scheduler.procs() as u64 * ROUND;
        if add(&self.idle_processor, step, is_idle && nobody_searches && is_queued()) > patience {
            return Err(format!("a G stays runnable, a P idle, and nobody searches: {}", goroutines(scheduler)));
        }
        let threads = super::platform::threads();
        let mut waiting = self.idle_cpu.borrow_mut();
        if !threads.is_any_idle() {
            waiting.clear();
            return Ok(());
        }
        for (cpu, has_ready_thread) in threads.cpus_with_ready_threads().enumerate() {
            if cpu == waiting.len() {
                waiting.push(Cell::new(0));
            }
            if add(&waiting[cpu], step, has_ready_thread) > patience {
                return Err(format!("a thread stays ready for CPU {cpu}, and a CPU idle"));
            }
        }
        Ok(())
    }
}

/// The weight of a round, in which each CPU that can step takes one step. The weight of one step is this weight divided
/// by the number of those CPUs.
const ROUND: u64 = 1 << 10;
/// How long a condition of [`Transients`] may hold, as a sum of the weights of steps. Within this time, every protocol
/// that was under way must have reached its next state.
const PATIENCE: u64 = 25 * ROUND;

/// Adds up the weights of consecutive steps while a condition holds, and resets the sum when it does not. Returns the
/// sum.
fn add(sum: &Cell<u64>, weight: u64, holds: bool) -> u64 {
    sum.set(if holds { sum.get() + weight } else { 0 });
    sum.get()
}

/// Checks what must hold when the main G has ended.
pub(super) fn at_the_end(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    processors_have_one_holder(scheduler)?;
    goroutines_are_conserved(scheduler)
}

/// While the world is stopped, one M (the stopper) holds a P, and all other Ps are stopped or not in use.
pub(super) fn nothing_runs_while_the_world_is_stopped(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    use ProcessorStatus::{Dead, Running, Stopped, StoppedInSyscall};
    if !scheduler.is_stopped() {
        return Ok(());
    }
    let holders = scheduler.machines().filter(|machine| machine.processor().is_some()).count();
    let moves = scheduler.processors().iter().find(|processor| {
        let status = processor.status();
        !matches!(status, Running | Stopped | StoppedInSyscall | Dead)
    });
    let running = scheduler.processors().iter().filter(|processor| processor.status() == Running).count();
    if holders != 1 || running > 1 || moves.is_some() {
        return Err(format!(
            "the world is stopped, and {holders} Ms hold a P, {running} Ps run, or this goes on: {moves:?}"
        ));
    }
    Ok(())
}

/// No two Gs, dead or alive, have the same stack.
fn stacks_have_one_owner(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    let mut tops: Vec<_> =
        scheduler.goroutines().map(|goroutine| goroutine.stack_top()).filter(|&top| top != 0).collect();
    tops.sort_unstable();
    match tops.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two Gs have the stack that ends at {:#x}", pair[0])),
        None => Ok(()),
    }
}

/// Every M is idle, holds a P, has left its P in a system call, or is counted as blocked. The Ms that are not blocked
/// are enough for all Ps; otherwise a waker could find an idle P without an M to run it.
pub(super) fn machines_are_accounted_for(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    use ProcessorStatus::{StoppedInSyscall, Syscall};
    let holders = scheduler.machines().filter(|machine| machine.processor().is_some()).count();
    let in_calls = scheduler
        .processors()
        .iter()
        .filter(|processor| matches!(processor.status(), Syscall | StoppedInSyscall))
        .count();
    // No CPU may hold the lock while all CPUs halt.
    let Some(shared) = scheduler.shared.try_lock() else { return Err("every CPU halts under a lock".into()) };
    let (machines, blocked) = (shared.machines as usize, shared.blocked_machines as usize);
    let idle = shared.idle_machines.len();
    // `blocked` includes each M with a locked G. While such an M waits for a P to run that G, it is in no other group.
    // Otherwise it is counted twice, because it also holds a P or is in a call. `locked` is the number of the Ms that
    // are counted twice.
    let locked = scheduler.machines().filter(|machine| machine.locked_goroutine().is_some()).count();
    let locked = locked - shared.idle_locked as usize;
    if machines + locked != idle + holders + in_calls + blocked || machines - blocked < scheduler.procs() {
        return Err(format!(
            "{machines} Ms, {idle} idle, {holders} with a P, {in_calls} with one left in a system call, {blocked} blocked, \
             {locked} at work for a locked G"
        ));
    }
    Ok(())
}

/// A P that is not in use is dead and empty.
pub(super) fn dead_processors_have_nothing(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    let dead = scheduler.processors_ever().iter().skip(scheduler.procs()).find(|processor| {
        let is_empty = !processor.has_queued() && processor.timers.earliest() == Instant::NEVER;
        processor.status() != ProcessorStatus::Dead || !is_empty
    });
    dead.map_or(Ok(()), |processor| Err(format!("not in use, and not empty: {processor:?}")))
}

/// While all CPUs halt, no G is runnable, no thread is ready, and no device signal is raised.
fn work_is_conserved(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    let queued = scheduler.processors().iter().find(|processor| processor.has_queued());
    if queued.is_some() || scheduler.global_length.load(Ordering::Relaxed) != 0 {
        return Err(format!("lost wakeup: every CPU halts with runnable Gs: {}", goroutines(scheduler)));
    }
    if super::platform::threads().is_any_ready() {
        return Err("lost wakeup: every CPU halts with a ready thread".into());
    }
    if scheduler.signals.is_ready() {
        return Err(format!("lost wakeup: every CPU halts with a raised signal: {}", goroutines(scheduler)));
    }
    Ok(())
}

/// While all CPUs halt, the next timer interrupt (at `wakes`) comes no later than the earliest timer of a P, and no
/// later than the background G is due.
fn no_timer_is_slept_past(scheduler: &'static Scheduler<Sim>, wakes: Instant) -> Result<(), String> {
    let timers = scheduler.processors().iter().map(|processor| processor.timers.earliest());
    let earliest = timers.fold(scheduler.background_due(), Instant::min);
    if earliest < wakes {
        return Err(format!("a timer due at {earliest} is slept past until {wakes}"));
    }
    Ok(())
}

/// A P whose status is `Running` is held by at most one M. A P with any other status is held by no M.
fn processors_have_one_holder(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    for processor in scheduler.processors_ever() {
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

/// Each spawned G is counted as finished or as alive. A G that is just ending may be counted as both.
fn goroutines_are_conserved(scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
    let counts = scheduler.counts();
    // The main G is not counted as spawned.
    let alive = scheduler.num_goroutine() as u64;
    if counts.finished > counts.spawned || counts.spawned + 1 > counts.finished + alive {
        return Err(format!("{} Gs spawned, {} finished, {alive} alive", counts.spawned, counts.finished));
    }
    Ok(())
}

/// Returns a line that lists every G that is alive.
pub(super) fn goroutines(scheduler: &'static Scheduler<Sim>) -> String {
    let mut line = String::new();
    for goroutine in scheduler.goroutines().filter(|goroutine| goroutine.status() != Status::Dead) {
        let _ = write!(line, "{} {} {}, ", goroutine.id(), goroutine.status(), goroutine.wait_reason());
    }
    line
}
