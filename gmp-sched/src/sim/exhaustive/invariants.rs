//! The invariants that the exploration checks. Some hold in every state. The others hold only in a stable state, in
//! which no protocol is under way; see `check_stable`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ptr;

use super::state::Explorable;
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::base::list::{Linked, List};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::shared::Shared;
use crate::entities::status::Status;
use crate::sim::{Sim, oracle};

/// Checks the state that `machine` is in; returns whether that state is stable.
pub(super) fn check(machine: &Explorable) -> Result<bool, String> {
    processors_have_one_holder(machine)?;
    goroutines_are_queued_once(machine)?;
    spinners_are_counted(machine)?;
    oracle::nothing_runs_while_the_world_is_stopped(machine.scheduler)?;
    // The lists are not checked while a simulated M holds their lock, because they may be inconsistent then.
    if let Some(shared) = machine.scheduler.shared.try_lock() {
        idle_lists_are_counted(machine, &shared)?;
    }
    let now = machine.simulation.now();
    if !machine.simulation.cpus.iter().all(|cpu| cpu.is_quiet(now)) {
        return Ok(false);
    }
    if machine.simulation.threads.is_any_ready() {
        // At level 2 (kernel threads), a thread waits only while all CPUs are busy.
        let is_any_idle = machine.simulation.cpus.iter().any(|cpu| cpu.halts(now));
        return if is_any_idle { Err("lost wakeup: a thread is ready, and a CPU halts".into()) } else { Ok(false) };
    }
    check_stable(machine)?;
    Ok(true)
}

/// Checks a state in which no protocol is under way, that is, each CPU halts or runs code of a G, and each thread runs
/// or is parked.
fn check_stable(machine: &Explorable) -> Result<(), String> {
    let scheduler = machine.scheduler;
    if scheduler.spinning.load(Ordering::Relaxed) != 0 {
        return Err("an M counts as spinning for ever".into());
    }
    if scheduler.is_stopping() {
        return goroutines_stop_with_the_world(machine);
    }
    processors_are_accounted_for(machine)?;
    work_is_conserved(machine)?;
    timekeeper_covers_idle_timers(machine)?;
    oracle::dead_processors_have_nothing(scheduler)?;
    oracle::machines_are_accounted_for(scheduler)
}

/// While the world is to stop, only the stopper's G runs. In a stable state no request to stop is still on its way, so
/// every other G has received its request and has stopped.
fn goroutines_stop_with_the_world(machine: &Explorable) -> Result<(), String> {
    let stopper = machine.scheduler.shared.try_lock().and_then(|shared| shared.stopper);
    let is_stopper = |machine: &Machine<Sim>| stopper.is_some_and(|stopper| ptr::eq(stopper, machine));
    match machine.scheduler.machines().find(|machine| machine.processor().is_some() && !is_stopper(machine)) {
        Some(other) => Err(format!("the world is to stop, and a G runs on that has not been asked: {other:?}")),
        None => Ok(()),
    }
}

/// A P is held by at most one M, and by none while it is idle.
fn processors_have_one_holder(machine: &Explorable) -> Result<(), String> {
    for processor in machine.scheduler.processors_ever() {
        let holds = |machine: &&Machine<Sim>| machine.processor().is_some_and(|held| ptr::eq(held, processor));
        let holders = machine.scheduler.machines().filter(holds).count();
        if holders > 1 || holders == 1 && processor.status() == ProcessorStatus::Idle {
            return Err(format!("{processor:?} has {holders} holders"));
        }
    }
    Ok(())
}

/// Each of the scheduler's current Ps is idle, is held by an M, or belongs to an M in a system call.
fn processors_are_accounted_for(machine: &Explorable) -> Result<(), String> {
    let stray = machine.scheduler.processors().iter().find(|processor| {
        let has = |held: Option<&Processor<Sim>>| held.is_some_and(|held| ptr::eq(held, *processor));
        let mut machines = machine.scheduler.machines();
        match processor.status() {
            ProcessorStatus::Idle => false,
            ProcessorStatus::Running => !machines.any(|machine| has(machine.processor())),
            ProcessorStatus::Syscall => !machines.any(|machine| has(machine.old_processor.load(Ordering::Relaxed))),
            _ => true,
        }
    });
    stray.map_or(Ok(()), |stray| Err(format!("neither idle, nor held, nor in a system call: {stray:?}")))
}

/// The elements of a list. The caller holds the lock that guards the list.
pub(super) fn elements<T: Linked>(list: &List<T>) -> impl Iterator<Item = &'static T> {
    core::iter::successors(list.front(), |element| element.link().load(Ordering::Relaxed)).take(list.len())
}

/// Returns every G that is in a queue. While a simulated M holds the scheduler's lock, the Gs in the queues that this
/// lock guards are left out.
fn queued(machine: &Explorable) -> Vec<&'static Goroutine<Sim>> {
    let of_processor =
        |processor: &'static Processor<Sim>| processor.queue.elements().chain(processor.urgent.elements());
    let mut queued: Vec<_> = machine.scheduler.processors_ever().iter().flat_map(of_processor).collect();
    if let Some(shared) = machine.scheduler.shared.try_lock() {
        queued.extend(shared.global.iter().chain(elements(&shared.locked)));
    }
    queued
}

/// A G is in at most one queue. A queued G neither waits nor runs.
fn goroutines_are_queued_once(machine: &Explorable) -> Result<(), String> {
    let mut queued = queued(machine);
    if let Some(other) = queued.iter().find(|goroutine| goroutine.status() != Status::Runnable) {
        return Err(format!("in a queue, and not runnable: {other:?}"));
    }
    queued.sort_unstable_by_key(|goroutine| goroutine.id());
    match queued.windows(2).find(|pair| ptr::eq(pair[0], pair[1])) {
        Some(pair) => Err(format!("in two queues: {:?}", pair[0])),
        None => Ok(()),
    }
}

/// Every spinning M is counted. The count may be higher than the number of spinning Ms, because a waker raises it
/// before it chooses the M that will spin.
fn spinners_are_counted(machine: &Explorable) -> Result<(), String> {
    let spinning = machine.scheduler.machines().filter(|machine| machine.is_spinning()).count();
    let counted = machine.scheduler.spinning.load(Ordering::Relaxed) as usize;
    if spinning <= counted { Ok(()) } else { Err(format!("{spinning} Ms spin, {counted} are counted")) }
}

/// The count of idle Ps matches the list of idle Ps, and all Ps on that list are idle. There are at least as many idle
/// Ms as idle Ps, and no idle M has a P. While the world is to stop, no P is idle. The M that has been idle longest is
/// the timekeeper, and the M that went idle last is the poller.
fn idle_lists_are_counted(machine: &Explorable, shared: &Shared<Sim>) -> Result<(), String> {
    let counted = machine.scheduler.idle_processors.load(Ordering::Relaxed) as usize;
    let (processors, machines) = (shared.idle_processors.len(), shared.idle_machines.len());
    if counted != processors || machines < processors {
        return Err(format!("{processors} Ps and {machines} Ms are idle, {counted} Ps are counted"));
    }
    if let Some(other) = elements(&shared.idle_processors).find(|processor| processor.status() != ProcessorStatus::Idle)
    {
        return Err(format!("on the idle list, and not idle: {other:?}"));
    }
    if let Some(other) = elements(&shared.idle_machines).find(|machine| machine.processor().is_some()) {
        return Err(format!("on the idle list with a P: {other:?}"));
    }
    if machine.scheduler.is_stopping() && processors != 0 {
        return Err("the world is to stop, and a P is idle".into());
    }
    let timekeeper = machine.scheduler.timekeeper.load(Ordering::Relaxed).map(ptr::from_ref);
    if timekeeper != shared.idle_machines.back().map(ptr::from_ref) {
        return Err("the timekeeper is not the M that has been idle longest".into());
    }
    let poller = machine.scheduler.poller.load(Ordering::Relaxed).map(ptr::from_ref);
    if poller != shared.idle_machines.front().map(ptr::from_ref) {
        return Err("the poller is not the M that went idle last".into());
    }
    Ok(())
}

/// At level 1 (Gs), no G is runnable while a P is idle.
fn work_is_conserved(machine: &Explorable) -> Result<(), String> {
    let scheduler = machine.scheduler;
    if scheduler.idle_processors.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    match queued(machine).first() {
        Some(_) => Err(format!("lost wakeup: a G is runnable, a P idle: {}", oracle::goroutines(scheduler))),
        None => Ok(()),
    }
}

/// While some P is idle, the deadline of the timekeeper is no later than the earliest timer of all Ps, including those
/// that are not idle.
fn timekeeper_covers_idle_timers(machine: &Explorable) -> Result<(), String> {
    let scheduler = machine.scheduler;
    let earliest = scheduler.earliest_timekeeper_timer();
    if earliest == Instant::NEVER {
        return Ok(());
    }
    let deadline =
        scheduler.timekeeper.load(Ordering::Relaxed).map(|timekeeper| timekeeper.deadline.load(Ordering::Relaxed));
    match deadline {
        Some(deadline) if deadline <= earliest.as_nanos() => Ok(()),
        Some(_) => Err(format!("the timekeeper sleeps past {earliest}")),
        None => Err(format!("a timer is due at {earliest}, a P idle, and there is no timekeeper")),
    }
}
