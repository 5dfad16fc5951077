//! The oracle about slices: a runnable G waits for a bounded number of slices, whatever other Gs do.
//!
//! The bounds are sums of slices. They need no estimate of how long an interrupt or the scheduler takes, because only
//! *run time* counts. This is the time during which the M that holds the P runs a G on a CPU, and nothing is under way
//! that ends the slice. So these times do not count:
//!
//! - while the M has no CPU: the P runs nothing, and the kernel threads decide how long the M waits for one;
//! - during a system call: sysmon takes the P away from the M, and may have to wait for a CPU itself;
//! - while the world is stopped;
//! - from the moment when the timer of the CPU is due until its handler has run, because the interrupt may be late;
//! - while an IPI or a preemption is pending, because the G may be pinned;
//! - while g0 runs, and while a G whose slice is over is in a call of the scheduler. The scheduler takes a number of
//!   steps that does not depend on other Gs. The limit of steps finds an endless loop in the scheduler.
//!
//! If the M loses its CPU, the run time since the last timer interrupt of that CPU is subtracted, because the
//! interrupt that would have ended the slice finds another thread. (If that happens again and again, no bound in
//! slices holds.)
//!
//! # How long a tick lasts
//!
//! The timer of a CPU with a thread fires at least once per slice, which this oracle checks, too. A tick of the P takes
//! at most
//!
//! - one slice until the timer's handler first sees the tick;
//! - two more slices until the slice ends. The handler ends the slice when one slice has passed since it first saw the
//!   tick. If it runs just before that moment, it does not end the slice, and it may run again only a slice later.
//!
//! The sum is [`TICK`]. Then the G in `runnext` goes to the tail of the ring, and a new tick begins.
//!
//! # How long the first G in the ring waits
//!
//! A new tick takes the first G from the ring, except in two cases:
//!
//! - It begins with an urgent G. If such a G runs at the end of the tick, one of the other Gs runs next.
//! - It begins with a G from the global queue, or with a locked G. This happens once in this number of ticks:
//!   [`GLOBAL_QUEUE_INTERVAL`](crate::entities::processor::GLOBAL_QUEUE_INTERVAL).
//!
//! So in the worst case the first G waits for the current tick, for a tick of urgent Gs and for a tick of the global
//! queue. The sum is [`RING`]. The G at position n of a ring waits n times as long, because the ring is a FIFO.
//!
//! # How long the global queue waits
//!
//! When the global queue is to be checked, the current tick ends first. Then a tick of urgent Gs may come. Then the P
//! takes a G from the global queue. The sum is [`GLOBAL_CHECK`]. The queue is checked once in 61 ticks, each of which
//! lasts at most [`TICK`].
//!
//! # Gs that keep their threads
//!
//! If a G is preempted in place, another M takes its P over. If that M has to be made first, the thread that makes it waits
//! for a CPU, and the G tries again a slice later. So a tick may last longer by [`IN_PLACE`]. While as many Gs as allowed
//! are preempted, a tick ends with an exchange, and the ring and the global queue wait without a bound.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::mem;

use super::Sim;
use super::cpu::RunTime;
use super::simulation::current;
use crate::base::atomic::Ordering;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::SLICE;

/// A slice, in ns.
const ONE: u64 = SLICE.as_nanos() as u64;
/// The longest tick while other Gs wait.
const TICK: u64 = 3 * ONE;
/// The longest time for which the same G is the first in a ring, in ticks.
const RING: u64 = 3;
/// The longest delay of a check of the global queue, in ticks.
const GLOBAL_CHECK: u64 = 2;

/// How much longer a tick lasts if Gs are preempted in place.
const IN_PLACE: u64 = 3 * ONE;

/// How long Gs have been waiting on each P.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: RefCell<Vec<Wait>>,
    /// The number of checks so far.
    checks: Cell<u64>,
}

/// The waiting times of one P, in ns of the run time of its Gs.
#[derive(Clone, Debug, Default)]
struct Wait {
    /// The CPU on which a check last found the P, and the value of that CPU's `RunTime::stay` at that check.
    stay: Option<(usize, u64)>,
    /// The number of the last check that found the P on a CPU. The next check adds the run time since then to the sums
    /// below, if it finds the P on the same CPU and no other thread has run there in between.
    running_at: u64,
    /// The total run time of the CPU in `stay` when a check last found the P on that CPU.
    counted: u64,
    /// The run time that was added to the sums below since the last timer interrupt of the P's CPU. If the M began to
    /// run on that CPU later, the time since then. If the M loses the CPU, this time is subtracted again.
    since_interrupt: u64,
    /// The tick of the P when a check last found the P on a CPU.
    tick: u64,
    /// How long the current tick of the P has lasted while other Gs waited.
    in_tick: Sum,
    /// Number of Gs taken from the ring until a check last found the P on a CPU.
    taken: u32,
    /// How long the same G has been first in the ring.
    in_ring: Sum,
    /// How long a check of the global queue has been due.
    for_global: Sum,
}

/// The time for which a condition has held.
#[derive(Clone, Debug, Default)]
struct Sum {
    holds: bool,
    time: u64,
}

impl Sum {
    /// Adds the `passed` ns since the last call, or resets the time to zero. The time is added if the condition held at
    /// the last call, holds now (`holds`), and still concerns the same tick or G (`is_same`).
    fn add(&mut self, passed: u64, holds: bool, is_same: bool) {
        self.time = if holds && self.holds && is_same { self.time + passed } else { 0 };
        self.holds = holds;
    }
}

impl Waits {
    /// Checks the bounds, unless the world is to stop. Called before every step of a CPU.
    pub(super) fn check(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        let mut waits = self.waits.borrow_mut();
        waits.resize_with(scheduler.processors_ever().len(), Wait::default);
        let this = self.checks.get() + 1;
        self.checks.set(this);
        if scheduler.is_stopping() {
            return Ok(());
        }
        for (index, cpu) in current().cpus.iter().enumerate() {
            if let Some(processor) = cpu.machine.get().and_then(Machine::processor) {
                let id = processor.id().get() as usize;
                let was_running = mem::replace(&mut waits[id].running_at, this) == this - 1;
                let passed = waits[id].advance(index, &cpu.run_time, was_running);
                waits[id].add(processor, scheduler, passed)?;
            }
            if cpu.run_time.since_interrupt() > ONE {
                return Err(format!("no timer interrupt for a slice on CPU {index}"));
            }
        }
        Ok(())
    }
}

impl Wait {
    /// Returns the run time of `cpu` since the last check, or 0 if the P has not been on this CPU since then. If the P
    /// is on another CPU than before, or its M has lost the CPU and come back, subtracts `since_interrupt` from the
    /// sums. `was_running` is whether the last check found the P on a CPU.
    fn advance(&mut self, cpu: usize, run_time: &RunTime, was_running: bool) -> u64 {
        let stay = Some((cpu, run_time.stay()));
        if self.stay != stay {
            for sum in [&mut self.in_tick, &mut self.in_ring, &mut self.for_global] {
                sum.time = sum.time.saturating_sub(self.since_interrupt);
            }
            self.since_interrupt = 0;
        }
        let is_counted = was_running && self.stay == stay;
        let passed = if is_counted { run_time.total() - self.counted } else { 0 };
        self.since_interrupt = (self.since_interrupt + passed).min(run_time.since_interrupt());
        (self.stay, self.counted) = (stay, run_time.total());
        passed
    }

    /// Adds `passed` to the waiting times and compares them with their bounds.
    fn add(
        &mut self,
        processor: &Processor<Sim>,
        scheduler: &'static Scheduler<Sim>,
        passed: u64,
    ) -> Result<(), String> {
        let (tick, taken) = (processor.tick(), processor.queue.taken());
        let ring_waits = processor.queue_length() != 0;
        let ranked_waits = !processor.ranked.is_empty();
        let global_waits = scheduler.global_length.load(Ordering::Relaxed) != 0;
        self.in_tick.add(passed, ring_waits || ranked_waits || global_waits, tick == self.tick);
        self.in_ring.add(passed, ring_waits, taken == self.taken);
        self.for_global.add(passed, global_waits && processor.is_global_check_due(), true);
        (self.tick, self.taken) = (tick, taken);
        let limit = current().config().preempted_limit;
        let tick = if limit.is_some() { TICK + IN_PLACE } else { TICK };
        let reaches_limit = limit.is_some_and(|limit| scheduler.num_goroutine() > limit as usize);
        let others = |ticks| if reaches_limit { u64::MAX } else { ticks * tick };
        for (what, wait, most) in [
            ("a tick goes on while others wait", &self.in_tick, tick),
            ("a G waits in the ring", &self.in_ring, others(RING)),
            ("the check of the global queue is put off", &self.for_global, others(GLOBAL_CHECK)),
        ] {
            if wait.time > most {
                let slices = wait.time as f64 / ONE as f64;
                return Err(format!("{what} for {slices:.1} slices of {processor:?}"));
            }
        }
        Ok(())
    }
}
