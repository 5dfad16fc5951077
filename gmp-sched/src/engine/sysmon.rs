//! sysmon: the watch over what neither an interrupt nor the scheduler itself comes upon: a P left behind in a system
//! call that lasts, a G that runs on past its slice. Runs on a thread of its own, without a P.

use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::preempt;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Shortest time between two looks.
const SHORTEST: Duration = Duration::from_micros(20);
/// Longest time between two looks.
const LONGEST: Duration = Duration::from_millis(10);
/// Looks in a row that found nothing before the time between them is doubled each time.
const PATIENCE: u32 = 50;

/// The watch over one scheduler. Go: `sysmon`, `retake`.
#[doc(alias = "sysmon")]
#[derive(Debug)]
pub struct Sysmon<P: Platform> {
    scheduler: &'static Scheduler<P>,
    looks_for_nothing: u32,
    /// The last look found a raised signal that nobody had taken.
    saw_ready: bool,
    delay: Duration,
}

impl<P: Platform> Sysmon<P> {
    /// The scheduler's watch; there is one.
    #[must_use]
    pub fn new(scheduler: &'static Scheduler<P>) -> Self {
        Self { scheduler, looks_for_nothing: 0, saw_ready: false, delay: SHORTEST }
    }

    /// Checks every P once; returns the time until the next check. Does not block.
    pub fn look(&mut self) -> Duration {
        let _pinned = Pinned::<P>::new();
        let now = P::now();
        let mut retaken = false;
        for processor in self.scheduler.processors() {
            match processor.status() {
                ProcessorStatus::Running => watch_slice(self.scheduler, processor, now),
                ProcessorStatus::Syscall => {
                    if !P::TIMER_INTERRUPTS {
                        processor.watch_slice(now, None);
                    }
                    retaken |= watch_syscall(self.scheduler, processor, now);
                }
                _ => {}
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
    processor.watch_slice(now, None);
    let holder =
        scheduler.machines().find(|machine| machine.processor().is_some_and(|held| core::ptr::eq(held, processor)));
    if let Some(machine) = holder.filter(|machine| preempt::is_wanted(machine)) {
        P::request_preemption(machine);
    }
}

/// Takes a P away from a system call that has gone on since the last look, or whose slice is over; tells whether it did. Go:
/// `sysretake` for the latter.
fn watch_syscall<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
    now: Instant,
) -> bool {
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    let watch = &processor.call;
    if tick != watch.seen.load(Ordering::Relaxed) {
        watch.seen.store(tick, Ordering::Relaxed);
        watch.since.store(now.as_nanos(), Ordering::Relaxed);
        // The call has just begun. But if each look finds another one, they are to share the P all the same.
        if !processor.is_slice_over() {
            return false;
        }
    }
    let since = Instant::from_nanos(watch.since.load(Ordering::Relaxed));
    let others_can_take_work =
        scheduler.idle_processors.load(Ordering::Relaxed) != 0 || scheduler.spinning.load(Ordering::Relaxed) != 0;
    if !processor.has_work() && others_can_take_work && now.since(since) < P::slice() {
        return false;
    }
    // Without a thread for the P it stays where it is; the next look tries again.
    scheduler.retake(processor)
}
