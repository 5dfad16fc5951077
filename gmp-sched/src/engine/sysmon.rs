//! sysmon finds what neither interrupts nor Ms notice: a P whose M stays in a system call, and a device signal that no
//! M has taken from the raised list. On platforms without timer interrupts, sysmon also finds a G that runs beyond its
//! slice. It runs on a thread of its own, without a P.
//!
//! ```
//! use gmp_sched::platform::Platform;
//! use gmp_sched::scheduler::Scheduler;
//! use gmp_sched::sysmon::Sysmon;
//!
//! /// The body of a thread that is not an M.
//! fn monitor<Plat: Platform>(scheduler: &'static Scheduler<Plat>, sleep: fn(core::time::Duration)) -> ! {
//!     let mut sysmon = Sysmon::new(scheduler);
//!     loop {
//!         sleep(sysmon.check());
//!     }
//! }
//! # let _ = monitor::<gmp_sched::native::Native>;
//! ```

use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::preempt;
use crate::engine::yield_now::has_nothing_else;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Shortest delay between two checks.
const SHORTEST: Duration = Duration::from_micros(20);
/// Longest delay between two checks.
const LONGEST: Duration = Duration::from_millis(10);
/// After this many checks in a row without a retake, each further check doubles the delay.
const CHECKS_BEFORE_BACKOFF: u32 = 50;

/// sysmon of one scheduler. Go: `sysmon`, `retake`.
#[doc(alias = "sysmon")]
#[derive(Debug)]
pub struct Sysmon<Plat: Platform> {
    scheduler: &'static Scheduler<Plat>,
    idle_checks: u32,
    /// Whether the last check found a device signal on the raised list: raised, but not yet taken by an M. If the next
    /// check finds one, too, sysmon readies the waiting Gs itself.
    saw_ready: bool,
    delay: Duration,
}

impl<Plat: Platform> Sysmon<Plat> {
    /// Creates the sysmon of `scheduler`. A scheduler must have only one.
    #[must_use]
    pub fn new(scheduler: &'static Scheduler<Plat>) -> Self {
        Self { scheduler, idle_checks: 0, saw_ready: false, delay: SHORTEST }
    }

    /// Checks every P and the raised list of device signals once; returns the delay until the next check. Does not
    /// block.
    pub fn check(&mut self) -> Duration {
        let _pinned = Pinned::<Plat>::of_scheduler();
        let now = Plat::now();
        let mut retaken = false;
        for processor in self.scheduler.processors() {
            match processor.status() {
                ProcessorStatus::Running => check_running(self.scheduler, processor, now),
                ProcessorStatus::Syscall => {
                    if !Plat::TIMER_INTERRUPTS {
                        processor.check_slice(now);
                    }
                    retaken |= check_syscall(self.scheduler, processor, now);
                }
                _ => {}
            }
        }
        let ready = self.scheduler.signals.is_ready();
        if ready && self.saw_ready {
            self.scheduler.poll_from_outside(&Pinned::of_scheduler());
        }
        self.saw_ready = ready;
        if retaken {
            self.idle_checks = 0;
            self.delay = SHORTEST;
        } else {
            self.idle_checks = self.idle_checks.saturating_add(1);
            if self.idle_checks > CHECKS_BEFORE_BACKOFF {
                self.delay = LONGEST.min(self.delay * 2);
            }
        }
        self.delay
    }
}

/// On platforms without timer interrupts, requests a preemption of the G on `processor` if it has to give way and others
/// wait.
fn check_running<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
    now: Instant,
) {
    if Plat::TIMER_INTERRUPTS {
        return;
    }
    processor.check_slice(now);
    if let Some(machine) = scheduler.holder_of(processor).filter(|machine| preempt::must_give_way(machine))
        && !has_nothing_else(scheduler, processor)
    {
        Plat::request_preemption(machine);
    }
}

/// Retakes a P from a system call that has lasted since the last check, or in which the slice has ended. A P without
/// work is left to its M for up to a slice, as long as an idle P or a spinning M can take new work. Returns whether the
/// P was retaken. Go: `retake`, which sets `sysretake` if the slice has ended.
fn check_syscall<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
    now: Instant,
) -> bool {
    // ANCHOR: check_syscall
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    let call = &processor.call;
    if tick != call.seen.load(Ordering::Relaxed) {
        call.seen.store(tick, Ordering::Relaxed);
        call.since.store(now.as_nanos(), Ordering::Relaxed);
        // The call has begun after the last check. So the P is left to its M, except if the slice is over. Otherwise a
        // G that makes short calls in a loop would keep the P.
        if !processor.is_slice_over() {
            return false;
        }
    }
    let since = Instant::from_nanos(call.since.load(Ordering::Relaxed));
    let others_can_take_work =
        scheduler.idle_processors.load(Ordering::Relaxed) != 0 || scheduler.spinning.load(Ordering::Relaxed) != 0;
    if !processor.has_work() && others_can_take_work && now - since < Plat::slice() {
        return false;
    }
    // If there is no thread for another M, the P is not retaken, and the next check tries again.
    scheduler.retake(processor)
    // ANCHOR_END: check_syscall
}
