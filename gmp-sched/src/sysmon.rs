//! sysmon: the watch over what neither an interrupt nor the scheduler itself comes upon: a P left behind in a system
//! call that lasts, a G that runs on past its slice. Runs on a thread of its own, without a P.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::platform::Platform;
use crate::preempt;
use crate::primitives::Ordering;
use crate::processor::{Processor, ProcessorStatus};
use crate::scheduler::Scheduler;
use crate::switch::has_due_timer;
use crate::time::Instant;

/// Shortest time between two looks.
const SHORTEST: Duration = Duration::from_micros(20);
/// Longest time between two looks.
const LONGEST: Duration = Duration::from_millis(10);
/// Looks in a row that found nothing before the time between them is doubled each time.
const PATIENCE: u32 = 50;

/// What sysmon saw of a P when it last changed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    syscall_tick: u32,
    syscall_since: Instant,
}

/// The watch over one scheduler. Go: `sysmon`, `retake`.
#[doc(alias = "sysmon")]
#[derive(Debug)]
pub struct Sysmon<P: Platform> {
    scheduler: &'static Scheduler<P>,
    seen: Box<[Seen]>,
    looks_for_nothing: u32,
    /// The last look found a raised signal that nobody had taken.
    saw_ready: bool,
    delay: Duration,
}

impl<P: Platform> Sysmon<P> {
    /// A watch that has seen nothing yet. Allocates.
    #[must_use]
    pub fn new(scheduler: &'static Scheduler<P>) -> Self {
        let never = Instant::from_nanos(0);
        let seen = Seen { syscall_tick: 0, syscall_since: never };
        Self {
            scheduler,
            seen: scheduler.processors().iter().map(|_| seen).collect::<Vec<_>>().into_boxed_slice(),
            looks_for_nothing: 0,
            saw_ready: false,
            delay: SHORTEST,
        }
    }

    /// Looks at every P once; gives the time until the next look. Called pinned. Does not block.
    pub fn look(&mut self) -> Duration {
        let now = P::now();
        let mut retaken = false;
        for (processor, seen) in self.scheduler.processors().iter().zip(&mut self.seen) {
            match processor.status() {
                ProcessorStatus::Idle => {}
                ProcessorStatus::Running => watch_slice(self.scheduler, processor, now),
                ProcessorStatus::Syscall => retaken |= watch_syscall(self.scheduler, processor, seen, now),
            }
        }
        let ready = self.scheduler.poller.is_ready();
        if ready && self.saw_ready {
            self.scheduler.poll_without_processor();
        }
        self.saw_ready = ready;
        if retaken {
            self.looks_for_nothing = 0;
            self.delay = SHORTEST;
        } else {
            self.looks_for_nothing = self.looks_for_nothing.saturating_add(1);
            if self.looks_for_nothing > PATIENCE {
                self.delay = LONGEST.min(self.delay * 2);
            }
        }
        self.delay
    }
}

/// Asks for a preemption if one slice has gone on too long, where no tick does.
fn watch_slice<P: Platform>(scheduler: &'static Scheduler<P>, processor: &'static Processor<P>, now: Instant) {
    if P::TIMER_INTERRUPTS {
        return;
    }
    processor.watch_slice(now);
    let holder =
        scheduler.machines().find(|machine| machine.processor().is_some_and(|held| core::ptr::eq(held, processor)));
    if let Some(machine) = holder.filter(|machine| preempt::is_wanted(machine)) {
        P::request_preemption(machine);
    }
}

/// Takes a P away from a system call that has gone on since the last look; tells whether it did.
fn watch_syscall<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
    seen: &mut Seen,
    now: Instant,
) -> bool {
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    if tick != seen.syscall_tick {
        seen.syscall_tick = tick;
        seen.syscall_since = now;
        return false;
    }
    let others_can_take_work =
        scheduler.idle_processors.load(Ordering::Relaxed) != 0 || scheduler.spinning.load(Ordering::Relaxed) != 0;
    let has_work = !processor.queue.is_empty() || has_due_timer(processor);
    if !has_work && others_can_take_work && now.since(seen.syscall_since) < P::slice() {
        return false;
    }
    // Without a thread for the P it stays where it is; the next look tries again.
    scheduler.retake(processor)
}
