//! Asking the [policy](crate::policy) that a program has installed in place of Go's rules.
//!
//! Each P has one more queue, ordered by rank (`RankedGoroutines`). The queues of Go's rules are then only places
//! through which a G passes. Code that enqueues a G there has the G placed at once if it runs on the M that holds the P
//! (`place_queued`). Otherwise the next pick places the G (`place_all`). The fast paths need no check of their own for
//! this: a P with a policy is never alone (`Processor::is_alone`), and each of its picks is a slow one.
//!
//! | in place of | is called |
//! |---|---|
//! | steps 1 to 5 of `pick` | `next` |
//! | the displacement by an urgent G (`preempt`) | `displace`, which ends the slice if a G is to be preempted |

use core::ptr;
use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::engine::preempt::{preempt, request};
use crate::engine::ready::make_runnable;
use crate::engine::steal::steal_order;
use crate::engine::urgent::{await_next, take_urgent};
use crate::engine::wake::Assignment;
use crate::engine::wake::try_start_spinning;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::policy::{Begun, Cause, Policy, ProcessorState, Ready};

/// Sets the parameter of the calling G: a number whose meaning the [policy](crate::policy) defines, such as a priority.
/// The policy reads it when the G next has to wait for a P. Without a policy, it has no effect. The parameter of a new G
/// is 0, unless [`Builder::parameter`](crate::spawn::Builder::parameter) sets it.
///
/// # Panics
///
/// The caller is not a G.
#[track_caller]
pub fn set_parameter<Plat: Platform>(parameter: u64) {
    let pinned = Pinned::<Plat>::of_scheduler();
    pinned.machine().running_goroutine().set_parameter(parameter);
}

/// Asks the policy where `goroutine` waits, puts it there, and makes sure that an M notices it. The caller owns the G,
/// which is runnable, not locked and on no queue; `processor` is the P of the caller's M.
#[cold]
#[inline(never)]
fn place<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
    cause: Cause,
) {
    let scheduler = machine.scheduler();
    let Some(policy) = scheduler.policy() else { return };
    let now = Plat::now();
    let placed = goroutine.placed();
    let ready = Ready {
        goroutine: goroutine.id(),
        cause: if placed.is_none() { Cause::Spawned } else { cause },
        parameter: goroutine.parameter(),
        rank: placed.map_or(0, |(rank, _)| rank),
        processor: processor.id(),
        now,
    };
    let processors = scheduler.processors();
    let place = policy.place(&ready, &mut processors.iter().map(|processor| state(scheduler, processor)));
    let to = processors.get(place.processor.get() as usize).unwrap_or(processor);
    // A displaced G continues its slice. Otherwise a G that is displaced often would never give way to its equals.
    let used = if cause == Cause::Displaced { now - processor.slice.began() } else { Duration::ZERO };
    goroutine.set_used(used);
    to.ranked.push(goroutine, place.rank, now);
    if ptr::eq(to, processor) || !scheduler.wake_for(to) {
        scheduler.submitted();
    }
    if let Some(holder) = scheduler.holder_of(to)
        && let Some(running) = holder.observe_current().and_then(Goroutine::placed)
        && policy.preempts(place.rank, running.0)
    {
        request(holder);
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// If `processor` is idle, assigns it to an idle M, which runs the G that the caller has placed there. Returns
    /// whether it was idle.
    fn wake_for(&'static self, processor: &'static Processor<Plat>) -> bool {
        if processor.status() != ProcessorStatus::Idle {
            return false;
        }
        let woken = {
            let mut shared = self.shared.lock();
            // The status is exact under the lock.
            if processor.status() != ProcessorStatus::Idle {
                return false;
            }
            self.take_idle_processor_preferring(&mut shared, Some(processor)).map(|processor| {
                // The M counts as spinning until it runs a G, and then wakes another M. Otherwise the placed G would wait
                // although Ps are idle, if the M ran a locked G first or got no CPU.
                self.spinning.fetch_add(1, Ordering::SeqCst);
                self.assign_to_idle(&mut shared, processor, Assignment::Search)
            })
        };
        if let Some(machine) = woken {
            Plat::unpark_thread(machine);
        }
        woken.is_some()
    }
}

/// Returns what the policy may know about a P.
fn state<Plat: Platform>(scheduler: &'static Scheduler<Plat>, processor: &'static Processor<Plat>) -> ProcessorState {
    let running = scheduler.holder_of(processor).and_then(Machine::observe_current);
    ProcessorState {
        id: processor.id(),
        waiting: processor.ranked.len(),
        first: processor.ranked.first(),
        running: running.and_then(Goroutine::placed).map(|(rank, _)| rank),
    }
}

/// Places the Gs that the caller has put into the local queue.
#[cold]
#[inline(never)]
pub(crate) fn place_queued<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    cause: Cause,
) {
    while let Some((goroutine, _)) = processor.queue.pop(true) {
        place(machine, processor, goroutine, cause);
    }
}

/// Places `goroutine`, which has been preempted, if a policy is installed and the G is not locked. Returns whether it
/// did.
#[inline(always)]
pub(crate) fn place_displaced<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) -> bool {
    let machine = pinned.machine();
    if machine.scheduler().policy().is_none() || goroutine.is_locked() {
        return false;
    }
    place_after_running(machine, goroutine);
    true
}

#[cold]
#[inline(never)]
fn place_after_running<Plat: Platform>(machine: &'static Machine<Plat>, goroutine: &'static Goroutine<Plat>) {
    let processor = machine.held_processor();
    let has_run = Plat::now() - processor.slice.began();
    let cause = if has_run < Plat::slice() { Cause::Displaced } else { Cause::SliceOver };
    place(machine, processor, goroutine, cause);
}

/// Called in place of a displacement, if a timer is due, a device is ready or a blocking call has ended. The calling G
/// gives way if one of the Gs that are placed preempts it.
#[cold]
#[inline(never)]
pub(crate) fn displace<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    place_events(&caller.pinned, caller.machine, caller.processor);
    if caller.processor.is_slice_over() { preempt(caller) } else { caller.pinned }
}

/// Places the Gs whose timers are due, whose devices are ready or whose blocking calls have ended. Ends the slice of
/// the current P if one of them is to preempt the G that runs there.
fn place_events<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) {
    let now = Plat::now();
    processor.set_clock(now);
    while let Some(goroutine) = take_urgent(pinned, processor) {
        place(machine, processor, goroutine, Cause::Event);
    }
    machine.scheduler().poll_each(pinned, |goroutine| {
        if let Some(goroutine) = make_runnable(pinned, goroutine) {
            place(machine, processor, goroutine, Cause::Event);
        }
    });
    await_next(pinned, processor, now);
}

/// Places all Gs that are in a queue of Go's rules, and those of events.
fn place_all<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) {
    place_events(pinned, machine, processor);
    place_queued(machine, processor, Cause::Readied);
    let scheduler = machine.scheduler();
    while scheduler.global_length.load(Ordering::Relaxed) != 0 {
        // Each G is taken by itself, because the lock has to be free while a G is placed: `place` may wake an M, and
        // takes the lock for that.
        let Some(goroutine) = scheduler.take_global(&mut scheduler.shared.lock()) else { break };
        processor.note_global_take(goroutine, 1);
        place(machine, processor, goroutine, Cause::Readied);
    }
}

/// Returns the G to run next, if there is one; the caller runs it. If `checks_locked`, a locked G comes first. Called
/// on g0.
#[cold]
#[inline(never)]
pub(crate) fn next<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    policy: &'static dyn Policy,
    checks_locked: bool,
) -> Option<&'static Goroutine<Plat>> {
    let scheduler = machine.scheduler();
    place_all(pinned, machine, processor);
    // Each pick is a slow one.
    processor.request_slow_pick();
    let locked = || {
        let is_any = scheduler.global_length.load(Ordering::Relaxed) != 0;
        is_any.then(|| scheduler.take_locked(&mut scheduler.shared.lock())).flatten()
    };
    let next =
        (checks_locked.then(locked).flatten()).or_else(|| processor.ranked.pop()).or_else(locked).or_else(|| {
            let is_found = try_start_spinning(scheduler, machine, processor) && steal(pinned, processor);
            is_found.then(|| processor.ranked.pop()).flatten()
        })?;
    let now = Plat::now();
    processor.advance_tick();
    processor.slice.begin(processor.tick(), now);
    if let Some((rank, since)) = next.placed().filter(|_| !next.is_locked()) {
        processor.slice.begin(processor.tick(), now - next.used());
        policy.begins(&Begun { goroutine: next.id(), processor: processor.id(), rank, waited: now - since, now });
    }
    Some(next)
}

/// Takes Gs from other Ps, as many as the policy says, and puts them into the queue of `processor`. Returns whether it
/// found any.
#[cold]
#[inline(never)]
pub(crate) fn steal<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) -> bool {
    let scheduler = pinned.machine().scheduler();
    let processors = scheduler.processors();
    let mut victims = steal_order(processors.len(), processor.random())
        .map(|index| &processors[index])
        .filter(|victim| !ptr::eq(*victim, processor) && !victim.ranked.is_empty())
        .map(|victim| state(scheduler, victim));
    let theft = scheduler.policy().and_then(|policy| policy.steal(&mut victims));
    let wanted = theft.and_then(|theft| Some((processors.get(theft.from.get() as usize)?, theft.count)));
    // If the policy wants nothing that is there, one G of any P is taken, because no G may wait while a P is idle.
    for (victim, count) in wanted.into_iter().chain(processors.iter().map(|victim| (victim, 1))) {
        if let Some(goroutine) = take_urgent(pinned, victim) {
            place(pinned.machine(), processor, goroutine, Cause::Event);
        } else if !ptr::eq(victim, processor) {
            steal_from(processor, victim, count.max(1));
        }
        if !processor.ranked.is_empty() {
            processor.counters.steals.add(1);
            return true;
        }
    }
    processor.counters.steal_misses.add(1);
    false
}

/// Moves the first `count` Gs of `victim`, or all if there are fewer, to `processor`. They keep their ranks.
fn steal_from<Plat: Platform>(processor: &'static Processor<Plat>, victim: &'static Processor<Plat>, count: usize) {
    for stolen in 1..=count {
        let Some(goroutine) = victim.ranked.pop() else { return };
        processor.note_steal(victim, goroutine, stolen);
        let (rank, since) = goroutine.placed().unwrap_or((u64::MAX, Plat::now()));
        processor.ranked.push(goroutine, rank, since);
    }
}
