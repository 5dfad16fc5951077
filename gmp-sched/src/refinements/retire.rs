//! Idle Ms end: an M without work ends its thread if there have been more Ms than needed for some time. If the platform
//! has a [scavenger](Platform::scavenger), the background G asks for this; otherwise each idle M checks it by itself
//! after [`Platform::idle_limit`]. (In Go an M without work stays for ever.)

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::machine::{EndedMachine, Machine};
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::{Pinned, Platform};

/// Returns the time until which `machine`, which becomes idle, may park before it calls [`retire_if_unneeded`]. Returns
/// `None` if it may park for ever.
pub(crate) fn end_of_idleness<Plat: Platform>(machine: &Machine<Plat>) -> Option<Instant> {
    machine.end_of_idleness()
}

/// Called by `machine`, which is on the idle list. If the time `ends_at` has come or the background G has asked for it,
/// and if the M is not needed, ends its thread and does not return. Otherwise returns the `ends_at` of the next call.
pub(crate) fn retire_if_unneeded<Plat: Platform>(
    machine: &'static Machine<Plat>,
    ends_at: Option<Instant>,
) -> Option<Instant> {
    if ends_at.is_none_or(|ends_at| Plat::now() < ends_at) && !machine.take_request_to_end() {
        return ends_at;
    }
    if machine.retire() {
        Plat::exit_thread(EndedMachine::new(machine));
    }
    machine.end_of_idleness()
}

/// Called when an M has returned from a blocking call. Makes the background G due if there are so many Ms that one
/// should end.
pub(crate) fn note_surplus<Plat: Platform>(scheduler: &Scheduler<Plat>, shared: &Shared<Plat>) {
    if Plat::scavenger().is_some() && shared.has_much_surplus() {
        scheduler.note_growth();
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Asks one idle M to end, if there are at least two more Ms than needed. When that M ends, it asks the next one.
    /// Called by a [scavenger](Platform::scavenger). Does not block or allocate.
    pub fn end_surplus_machine(&'static self) {
        let _pinned = Pinned::<Plat>::of_scheduler();
        let shared = self.shared.lock();
        let idle = shared.idle_machines.front().filter(|_| shared.has_much_surplus());
        drop(shared);
        // The M may have left the idle list meanwhile. Then it notices the request when it next goes idle.
        if let Some(machine) = idle.filter(|machine| !machine.is_asked_to_end.swap(true, Ordering::Relaxed)) {
            Plat::unpark_thread(machine);
        }
    }
}

impl<Plat: Platform> Machine<Plat> {
    /// Returns the time at which an M that becomes idle now must check whether it is still needed. Returns `None` if
    /// the platform never ends idle Ms, or if its scavenger ends them.
    fn end_of_idleness(&self) -> Option<Instant> {
        if Plat::scavenger().is_some() {
            return None;
        }
        let limit = Plat::idle_limit()?;
        let now = Plat::now();
        let mut shared = self.scheduler().shared.lock();
        shared.update_surplus(now);
        Some(shared.surplus_since.min(now) + limit)
    }

    /// Whether the background G has asked this M to end. Clears the request.
    fn take_request_to_end(&self) -> bool {
        Plat::scavenger().is_some()
            && self.is_asked_to_end.load(Ordering::Relaxed)
            && self.is_asked_to_end.swap(false, Ordering::Relaxed)
    }

    /// Removes this M from the idle list if a surplus of Ms has lasted for at least [`Platform::idle_limit`], unless a
    /// P is assigned to the M or the world is to stop. Returns whether the M was removed. If so, its thread must end.
    ///
    /// How long this M itself has been idle does not matter. Each timer of an idle P that becomes due wakes an idle M,
    /// so with many such timers no M is idle for long, even if there are far more Ms than needed.
    fn retire(&'static self) -> bool {
        let scheduler = self.scheduler();
        let now = Plat::now();
        let mut shared = scheduler.shared.lock();
        shared.update_surplus(now);
        let is_needed = Plat::idle_limit().is_none_or(|limit| shared.surplus_since + limit > now);
        let is_assigned = self.assigned_processor.load(Ordering::Relaxed).is_some();
        if is_needed || is_assigned || scheduler.is_stopping() {
            return false;
        }
        self.leave_idle_list(&mut shared);
        shared.machines -= 1;
        shared.update_surplus(now);
        self.set_retired(true);
        drop(shared);
        Self::end_poll_duty();
        if scheduler.signals.is_ready() {
            scheduler.wake_poller();
        }
        // If this M has just made its P idle, the timekeeper may not know the timers of that P yet.
        scheduler.wake_timekeeper(scheduler.earliest_timekeeper_timer());
        if Plat::scavenger().is_some() {
            scheduler.end_surplus_machine();
        }
        true
    }
}
