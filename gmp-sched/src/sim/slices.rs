//! The oracle about slices: a runnable G waits for a bounded number of slices, whatever other Gs do.
//!
//! Time counts for a P only while the M that holds it has a CPU. Without a CPU the P runs nothing, and the kernel
//! threads decide how long its M waits for one. Time in a system call does not count either, because sysmon takes the P
//! away from the M then, and may have to wait for a CPU itself. Time while the world is stopped does not count.
//!
//! # How long a tick lasts
//!
//! The timer of a CPU with a thread fires at least once per slice. A tick of the P takes at most
//!
//! - one slice until the handler first sees it;
//! - two more slices until the slice ends: the handler may run just before the end of the slice, and the next time only
//!   another slice later;
//! - two more slices if the slice is prolonged, for the G in `runnext` or for a G whose timer was due. This happens
//!   once.
//!
//! After that the G in `runnext` goes behind the ring, so that the G that runs next begins a new tick. The sum is
//! [`TICK`].
//!
//! # How long the first G in the ring waits
//!
//! A new tick takes the first G from the ring, unless it begins with
//!
//! - a G whose timer is due. Such Gs run one after the other until the batch budget ([`BATCH_BUDGET`]) is used up, and
//!   the last of them runs to the end of its tick. Then the other Gs run, and the G in `runnext` goes behind the ring.
//!   If that G was displaced in the same tick, and the tick did not begin with a timer, it goes behind the ring one
//!   tick later;
//! - a G from the global queue, or a locked one: one tick in
//!   [`GLOBAL_QUEUE_INTERVAL`](crate::entities::processor::GLOBAL_QUEUE_INTERVAL).
//!
//! So in the worst case the first G waits for the current tick, for a batch of due timers and its last tick, for a
//! tick of the global queue, and for another batch and its last tick. The sum is [`RING`]. The G at position n of a
//! ring waits n times as long, because the ring is a FIFO.
//!
//! # How long the global queue waits
//! When the global queue is to be checked, the current tick ends first. Then a batch of due timers, with its last
//! tick, may come. Then the P takes a G from the global queue. The sum is [`GLOBAL_CHECK`]. The queue is checked once
//! in 61 ticks, each of which is bounded as above.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::Sim;
use super::simulation::current;
use crate::base::atomic::Ordering;
use crate::engine::due_timers::BATCH_BUDGET;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Platform, SLICE};

/// The longest tick while other Gs wait, in ns.
const TICK: u64 = 5 * (SLICE.as_nanos() as u64 + LATE);
/// The longest batch of Gs whose timers are due, with the last tick of the batch.
const TIMERS: u64 = BATCH_BUDGET.as_nanos() as u64 + TICK;
/// The longest time for which the same G is the first in a ring.
const RING: u64 = TICK + TIMERS + TICK + TIMERS;
/// The longest delay of a check of the global queue.
const GLOBAL_CHECK: u64 = TICK + TIMERS;
/// The longest delay of an interrupt, or of a preemption while a G cannot give way yet. This is enough for a few
/// hundred steps of a CPU while 16 CPUs step in turn.
const LATE: u64 = 500_000;

/// How long Gs have been waiting on each P, in ns during which the P runs.
#[derive(Debug, Default)]
pub(super) struct Waits {
    checked_at: Cell<u64>,
    of_processors: RefCell<Vec<Wait>>,
}

/// The waiting times of one P.
#[derive(Clone, Debug, Default)]
struct Wait {
    tick: u64,
    /// How long this tick has lasted while others wait.
    in_tick: u64,
    /// Number of Gs taken from the ring so far.
    taken: u32,
    /// How long the same G has been first in the ring.
    in_ring: u64,
    /// How long a check of the global queue has been due.
    for_global: u64,
}

impl Waits {
    /// Checks the bounds. Called before every step of a CPU.
    pub(super) fn check(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        let now = current().now();
        let passed = now - self.checked_at.replace(now);
        if scheduler.is_stopping() {
            return Ok(());
        }
        let mut waits = self.of_processors.borrow_mut();
        waits.resize_with(scheduler.processors_ever().len(), Wait::default);
        let machines = current().cpus.iter().filter_map(|cpu| cpu.machine.get());
        for processor in machines.filter_map(Machine::processor) {
            waits[processor.id().get() as usize].add(processor, scheduler, passed)?;
        }
        Ok(())
    }
}

impl Wait {
    /// Adds the time `passed` since the last call, during which `processor` ran.
    fn add(&mut self, processor: &Processor<Sim>, scheduler: &Scheduler<Sim>, passed: u64) -> Result<(), String> {
        let (tick, taken) = (processor.tick(), processor.queue.taken());
        let ring_waits = processor.queue_length() != 0;
        let global_waits = scheduler.global_length.load(Ordering::Relaxed) != 0;
        let sum = |wait: u64, goes_on: bool| if goes_on { wait + passed } else { 0 };
        self.in_tick = sum(self.in_tick, tick == self.tick && (ring_waits || global_waits));
        self.in_ring = sum(self.in_ring, taken == self.taken && ring_waits);
        self.for_global = sum(self.for_global, global_waits && processor.is_global_check_due());
        (self.tick, self.taken) = (tick, taken);
        for (what, wait, most) in [
            ("a tick goes on while others wait", self.in_tick, TICK),
            ("a G waits in the ring", self.in_ring, RING),
            ("the check of the global queue is put off", self.for_global, GLOBAL_CHECK),
        ] {
            if wait > most {
                let slices = wait as f64 / Sim::slice().as_nanos() as f64;
                return Err(format!("{what} for {slices:.1} slices of {processor:?}"));
            }
        }
        Ok(())
    }
}
