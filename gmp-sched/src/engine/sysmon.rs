//! sysmon finds what neither interrupts nor Ms notice: a P whose M stays in a system call, and a device signal that no
//! M has taken from the raised list. On platforms without timer interrupts, sysmon also finds a G that has to give way. It
//! runs on a thread of its own, without a P.
//!
//! On these platforms ([`Platform::TIMER_INTERRUPTS`] is `false`), the next check is at the latest when a slice ends or
//! when a timer of a busy P is due. If a timer is set later that is due before that check, `check_at` calls
//! [`Platform::arm_timer`], which may wake sysmon. This is another case of "Store, fence, load" in
//! [`idle`](crate::engine::idle).
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

use crate::base::atomic::{Ordering, fence};
use crate::base::instant::Instant;
use crate::base::points::Site;
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
        self.scheduler.announce_check(now + LONGEST);
        let (retaken, next) = self.check_processors(now);
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
        let delay = next.map_or(self.delay, |next| self.delay.min(next - now));
        // While all Ps are idle, the timekeeper wakes for the timers.
        self.scheduler.announce_check(if next.is_some() { now + delay } else { Instant::from_nanos(0) });
        delay
    }

    /// Returns whether a P was retaken, and when sysmon has to check the busy Ps again, if there are any.
    fn check_processors(&self, now: Instant) -> (bool, Option<Instant>) {
        let (mut retaken, mut next) = (false, None);
        for processor in self.scheduler.processors() {
            let status = processor.status();
            if !matches!(status, ProcessorStatus::Running | ProcessorStatus::Syscall) {
                continue;
            }
            if !Plat::TIMER_INTERRUPTS {
                processor.check_slice(now);
                next = Some(next_event(self.scheduler, processor, now).min(next.unwrap_or(Instant::NEVER)));
            }
            if status == ProcessorStatus::Running {
                check_running(self.scheduler, processor);
            } else {
                retaken |= check_syscall(self.scheduler, processor, now);
            }
        }
        (retaken, next)
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Announces that sysmon checks the Ps at `when`, and need not be woken for a timer that is due later.
    fn announce_check(&self, when: Instant) {
        if !Plat::TIMER_INTERRUPTS {
            self.next_check.store(when.as_nanos(), Ordering::Relaxed);
            // Ordering: partner: the fence in `Processor::check_at`.
            fence(Ordering::SeqCst);
            Plat::point(Site::Timers);
        }
    }
}

impl<Plat: Platform> Processor<Plat> {
    /// Makes sure that the timers and the urgent Gs of this P, which the caller holds, are checked at `when`: by an
    /// interrupt, or, on a platform without timer interrupts, by sysmon.
    #[inline(always)]
    pub(crate) fn check_at(&self, pinned: &Pinned<Plat>, when: Instant) {
        if !Plat::TIMER_INTERRUPTS {
            // Ordering: partner: the fence in `announce_check`.
            fence(Ordering::SeqCst);
            Plat::point(Site::Timers);
            if when.as_nanos() >= pinned.machine().scheduler().next_check.load(Ordering::Relaxed) {
                return;
            }
        }
        Plat::arm_timer(pinned, self, when);
    }

    /// Like [`check_at`](Self::check_at), for the time of the earliest timer of this P. Does nothing if there is no
    /// timer.
    #[inline(always)]
    pub(crate) fn check_when_due(&self, pinned: &Pinned<Plat>) {
        let earliest = self.timers.earliest();
        if earliest != Instant::NEVER {
            self.check_at(pinned, earliest);
        }
    }
}

/// The next time at which the G on `processor` may have to give way: at the end of its slice if others wait, when a
/// timer is due, or when an urgent G may displace it. Returns [`Instant::NEVER`] if none of these is still to come.
fn next_event<Plat: Platform>(scheduler: &Scheduler<Plat>, processor: &Processor<Plat>, now: Instant) -> Instant {
    let earliest = processor.timers.earliest();
    let is_urgent = !processor.urgent.is_empty() || earliest <= now;
    let displaced = if is_urgent { processor.undisturbed_until() } else { earliest };
    let is_alone = has_nothing_else(scheduler, processor);
    let since = Instant::from_nanos(processor.slice.since.load(Ordering::Relaxed));
    let slice_ends = if is_alone { Instant::NEVER } else { since + Plat::slice() };
    [displaced, slice_ends].into_iter().filter(|event| *event > now).min().unwrap_or(Instant::NEVER)
}

/// On platforms without timer interrupts, requests a preemption of the G on `processor` if it has to give way and others
/// wait.
fn check_running<Plat: Platform>(scheduler: &'static Scheduler<Plat>, processor: &'static Processor<Plat>) {
    if Plat::TIMER_INTERRUPTS {
        return;
    }
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
