//! The oracle about slices: what waits on a P that runs is served within a bounded number of slices, whatever the others do.
//!
//! Time counts for a P while the M that holds it has a CPU: without a CPU it serves nobody, and how long it waits for one is up
//! to the threads. A system call does not count either: it is sysmon that takes the P away there, and sysmon may wait for a CPU,
//! too. Nor does a stop of the world.
//!
//! # How long a tick lasts
//!
//! The timer of a CPU with a thread fires once a slice at least. Of each tick of the P
//!
//! - one slice passes at most until the handler has seen it first;
//! - then two until the slice ends: the handler may come just before it is over, and the next time a slice later;
//! - then two once more if the slice is prolonged, by the G in `runnext` or one whose timer was due. That happens once.
//!
//! After that the G in `runnext` goes behind the ring, so that whatever runs next begins a tick: [`TICK`].
//!
//! # How long the first in the ring waits
//!
//! A tick that begins takes the first G from the ring, unless it begins with
//!
//! - a G whose timer is due. Such Gs run one after the other for a row ([`BATCH_BUDGET`]) and what is left of the tick of the last one.
//!   When that ends, the others have their turn: what is in `runnext` goes behind the ring, unless it is a G that was displaced in
//!   the same tick, which did not begin with a timer, and then the next tick does;
//! - a G from the global queue, or a locked one: one tick in [`GLOBAL_QUEUE_INTERVAL`](crate::entities::processor::GLOBAL_QUEUE_INTERVAL).
//!
//! So the worst is: the present tick, a row and its last tick, the global queue, another row and its last tick: [`RING`]. A G at
//! place n of a ring waits n times as long, since the ring is a queue.
//!
//! # How long the global queue waits
//!
//! When its turn has come the present tick ends, perhaps a row and its last tick come first, and then the P takes a G from the
//! global queue: [`GLOBAL_TURN`]. Its turn comes once in 61 ticks, each of which is bounded as above.

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

/// The longest tick while others wait, in ns.
const TICK: u64 = 5 * (SLICE.as_nanos() as u64 + LATE);
/// The longest row of Gs whose timers are due, with the last of them.
const TIMERS: u64 = BATCH_BUDGET.as_nanos() as u64 + TICK;
/// The longest that the same G is the first in a ring.
const RING: u64 = TICK + TIMERS + TICK + TIMERS;
/// The longest that a P puts off the turn of the global queue.
const GLOBAL_TURN: u64 = TICK + TIMERS;
/// The longest that an interrupt comes late, or finds a G that cannot give way yet: a few hundred steps of a CPU, of which 16
/// take turns.
const LATE: u64 = 500_000;

/// How long there has been something waiting on each P, in ns of the time of that P.
#[derive(Debug, Default)]
pub(super) struct Waits {
    looked_at: Cell<u64>,
    of_processors: RefCell<Vec<Wait>>,
}

/// On one P.
#[derive(Clone, Debug, Default)]
struct Wait {
    tick: u64,
    /// Since when it is this tick and others wait.
    in_tick: u64,
    /// Gs taken from the ring so far.
    taken: u32,
    /// For how long the same G has been first in the ring.
    in_ring: u64,
    /// For how long it has been the turn of the global queue.
    for_all: u64,
}

impl Waits {
    /// Asked before every turn of a CPU.
    pub(super) fn check(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        let now = current().now();
        let passed = now - self.looked_at.replace(now);
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
    /// `processor` has run for `passed` since the last time.
    fn add(&mut self, processor: &Processor<Sim>, scheduler: &Scheduler<Sim>, passed: u64) -> Result<(), String> {
        let (tick, taken) = (processor.tick(), processor.queue.taken());
        let ring_waits = processor.queue_length() != 0;
        let all_wait = scheduler.global_length.load(Ordering::Relaxed) != 0;
        let sum = |wait: u64, goes_on: bool| if goes_on { wait + passed } else { 0 };
        self.in_tick = sum(self.in_tick, tick == self.tick && (ring_waits || all_wait));
        self.in_ring = sum(self.in_ring, taken == self.taken && ring_waits);
        self.for_all = sum(self.for_all, all_wait && processor.is_global_check_due());
        (self.tick, self.taken) = (tick, taken);
        for (what, wait, most) in [
            ("a tick goes on while others wait", self.in_tick, TICK),
            ("a G waits in the ring", self.in_ring, RING),
            ("the turn of the global queue is put off", self.for_all, GLOBAL_TURN),
        ] {
            if wait > most {
                let slices = wait as f64 / Sim::slice().as_nanos() as f64;
                return Err(format!("{what} for {slices:.1} slices of {processor:?}"));
            }
        }
        Ok(())
    }
}
