//! The sentences of `docs/policy.md`, in their order: "P1" is sentence 1. Each function checks an event, and follows it.

use alloc::format;
use core::mem::{replace, take};

use super::places::{Found, Id, Places, RING_CAPACITY, State};
use super::{Allowed, Step};
use crate::base::instant::Instant;
use crate::platform::{SLICE, UNDISTURBED};
use crate::record::trace::PreemptReason;

impl State {
    /// P1. A P runs the first G of the first queue that is not empty. (Called if the G was neither urgent nor in
    /// `runnext`.)
    pub(super) fn p1(&mut self, step: &Step, found: &Found) -> Allowed {
        let &Step { on, g, .. } = step;
        if !found.is_of_ring {
            return Err(format!("P1: P{on} runs goroutine {g}, which is neither in its queues nor found by its pick"));
        }
        if let Some(next) = self.local(on).next {
            return Err(format!("P1: P{on} runs goroutine {g} of its ring before goroutine {next} in runnext"));
        }
        if found.places.passed & 1 << on != 0 {
            return Err(format!("P1: P{on} runs goroutine {g} after a G that was behind it in the ring"));
        }
        self.pass(on, found.place);
        Ok(())
    }

    /// P1. A P becomes idle only if there is no G for it.
    pub(super) fn p1_idle(&mut self, step: &Step) -> Allowed {
        let local = self.local(step.on);
        local.urgent_row = None;
        let is_empty = local.next.is_none();
        is_empty.then_some(()).ok_or_else(|| format!("P1: P{} goes idle with a G in runnext", step.on))
    }

    /// P2. Urgent Gs run first, but not for long in a row while others wait. (With other Ps, a thief may be about to
    /// run one of the other Gs or the urgent G.)
    pub(super) fn p2(&mut self, step: &Step, found: &Found) -> Allowed {
        let &Step { on, when, last, .. } = step;
        let waits = |is: fn(&Places, u64) -> bool| step.procs == 1 && self.runnable.values().any(|it| is(it, last));
        let (other_waits, urgent_waits) = (waits(Places::is_other_before), waits(Places::is_urgent_before));
        let local = self.local(on);
        let row = local.urgent_row.filter(|_| found.is_urgent && other_waits);
        local.urgent_row = row.or(found.is_urgent.then_some(when));
        let is_displaced = take(&mut local.is_displaced);
        if local.urgent_row.is_some_and(|since| !is_displaced && when - since > SLICE / 2) {
            return Err(format!("P2: only urgent Gs run on P{on}, although other Gs wait"));
        }
        let passes_urgent = urgent_waits && found.places.urgent_of.is_none() && !found.places.at_once;
        if replace(&mut local.has_passed_urgent, passes_urgent) && passes_urgent {
            return Err(format!("P2: P{on} runs two Gs one after the other while an urgent G waits"));
        }
        Ok(())
    }

    /// P2. A G is preempted. If it is no longer urgent, the urgent Gs before it and after it are not in a row.
    fn end_urgent_row(&mut self, &Step { on, g, when, .. }: &Step) {
        if self.urgent_since.get(&g).is_none_or(|urgent| when - urgent.0 > SLICE) {
            self.local(on).urgent_row = None;
        }
    }

    /// P3. At most 61 slices with Gs of the ring while Gs wait in the global queue, and the slice that is under way.
    pub(super) fn p3(&mut self, step: &Step) -> Allowed {
        let is_global_waiting = self.is_global_waiting(self.events);
        let local = self.local(step.on);
        local.unchecked = if is_global_waiting { local.unchecked + 1 } else { 0 };
        let allowed = local.unchecked <= 61 + 1;
        let forbidden = || format!("P3: P{} begins {} slices without the global queue", step.on, local.unchecked);
        allowed.then_some(()).ok_or_else(forbidden)
    }

    /// P4. A P takes `count` Gs from the global queue, of which `g` is the first.
    pub(super) fn take_global(&mut self, step: &Step) -> Allowed {
        let &Step { on, g, when, procs, .. } = step;
        let count = step.detail as usize;
        let local = self.local(on);
        local.unchecked = 0;
        local.begin_slice(when);
        let has_next = local.next.is_some();
        if !self.locked.contains(&g) && !self.may_be_first(g) {
            return Err(format!("P4: P{on} takes goroutine {g}, which is not the first of the global queue"));
        }
        let length = self.global.len();
        if count > 1 && (has_next || count > 1 + (RING_CAPACITY / 2 - 1).min(length / procs)) {
            return Err(format!("P4: P{on} takes {count} of {length} Gs of the global queue"));
        }
        self.enter(g, Places { at_once: true, ..Places::default() });
        self.take_batch(on, g, count - 1);
        Ok(())
    }

    /// P5. A G that is readied goes to `runnext`; but one that an event readies runs at once, or is urgent.
    pub(super) fn p5(&mut self, step: &Step, fires: bool) {
        let &Step { on, g, when, .. } = step;
        if fires {
            self.local(on).readied.push(g);
            self.urgent_since.insert(g, (when, false));
            self.enter_unknown(on, g);
        } else {
            self.urgent_since.remove(&g);
            self.enter_next(on, g);
        }
    }

    /// P5. A G is urgent for one slice. (The events of a trace are recorded a moment after the decision.)
    pub(super) fn p5_urgent(&mut self, g: Id, of: usize, when: Instant, at_once: bool) -> Allowed {
        let urgent = self.urgent_since.entry(g).or_insert((when, true));
        urgent.1 = true;
        let since = urgent.0;
        let slice_over = self.runnable.get(&g).and_then(|places| places.slice_over);
        if slice_over.is_some_and(|over| over - since > SLICE + SLICE / 4) {
            return Err(format!("P5: goroutine {g} stays urgent for more than a slice after its event"));
        }
        self.enter(g, Places { urgent_of: Some(of), at_once, ..Places::default() });
        Ok(())
    }

    /// P6. Half of a full ring goes to the global queue.
    pub(super) fn p6(&mut self, step: &Step) -> Allowed {
        if step.detail as usize != RING_CAPACITY / 2 {
            return Err(format!("P6: {} Gs of a full ring go to the global queue", step.detail));
        }
        self.overflow(step.on);
        Ok(())
    }

    /// P7. A G that is readied without a P goes to the global queue. (Or, by P5, to the urgent queue of a P.)
    pub(super) fn p7(&mut self, g: Id) {
        self.urgent_since.remove(&g);
        self.enter(g, Places::default());
    }

    /// P8. A G that yields goes to the ring, or to the global queue if that has Gs.
    pub(super) fn p8(&mut self, step: &Step) {
        if self.is_global_waiting(step.last) {
            self.enter(step.g, Places::default());
        } else {
            self.enter_ring(step.on, step.g);
        }
    }

    /// P9. A G whose slice is over goes to the global queue or, if it is urgent, to the urgent queue.
    pub(super) fn p9(&mut self, step: &Step) {
        self.enter(step.g, Places { slice_over: Some(step.when), ..Places::default() });
    }

    /// P5 and P9. Which Gs do not go to the global queue.
    pub(super) fn put_global(&mut self, g: Id) -> Allowed {
        let places = self.runnable.get(&g).copied().unwrap_or_default();
        if places.next_of.is_some() {
            return Err(format!("P5: goroutine {g}, in runnext, goes to the global queue"));
        }
        let urgent = self.urgent_since.get(&g).filter(|urgent| urgent.1 && !self.locked.contains(&g));
        if places.slice_over.zip(urgent).is_some_and(|(over, urgent)| over - urgent.0 < SLICE / 2) {
            return Err(format!("P9: goroutine {g}, which is urgent, goes to the global queue"));
        }
        self.enter(g, Places { global: true, ..Places::default() });
        Ok(())
    }

    /// P11. A P without Gs has stolen half of a ring, or the G in `runnext`. (One G may have left the ring unreported. With
    /// more Ps, another thief may have taken some, too.)
    pub(super) fn p11(&mut self, step: &Step) -> Allowed {
        let &Step { on, g, when, detail, .. } = step;
        let (victim, count) = (detail as u32 as usize, (detail >> 32) as usize);
        let places = self.runnable.get(&g).copied().unwrap_or_default();
        let of_ring = self.in_ring(victim);
        let overtakers = replace(&mut self.local(victim).overtakers, 0);
        self.local(victim).overtakers = overtakers + count;
        let is_next = places.next_of == Some(victim);
        let most = if is_next { 1 } else { (of_ring.len() + overtakers).div_ceil(2) };
        if !is_next && places.rings & 1 << victim == 0 || count > most {
            let length = of_ring.len();
            return Err(format!("P11: P{on} steals {count} Gs up to goroutine {g} of P{victim}, which has {length}"));
        }
        let certain = self.certainly_in_ring(victim, step.last, &of_ring);
        if step.procs == 2 && !is_next && of_ring.len() < RING_CAPACITY / 2 && count < certain / 2 {
            return Err(format!("P11: P{on} steals only {count} Gs of P{victim}, which has at least {certain}"));
        }
        let thief = self.local(on);
        if let Some(next) = thief.next {
            return Err(format!("P11: P{on} steals although goroutine {next} is in its runnext"));
        }
        thief.begin_slice(when);
        if count > 1 {
            self.may_have_been_stolen(of_ring, g, on);
        }
        self.enter(g, Places { at_once: true, rings: 1 << on, ..Places::default() });
        Ok(())
    }

    /// P12. A G is preempted when the slice is over. (The next slice begins.)
    pub(super) fn p12(&mut self, step: &Step) -> Allowed {
        let &Step { on, g, when, .. } = step;
        self.end_urgent_row(step);
        let local = self.local(on);
        if local.slice_since.is_some_and(|since| when - since < SLICE / 2) {
            return Err(format!("P12: goroutine {g} is preempted before the slice of P{on} is over"));
        }
        (local.slice_since, local.has_begun_slice, local.has_passed_urgent) = (Some(when), true, false);
        Ok(())
    }

    /// P13. An urgent G displaces another one at most once in 50 us.
    pub(super) fn p13(&mut self, step: &Step) -> Allowed {
        let &Step { on, g, when, .. } = step;
        self.end_urgent_row(step);
        let is_locked = self.locked.contains(&g);
        let local = self.local(on);
        if is_locked {
            let used = local.slice_since.map(|since| when - since);
            self.used.insert(g, used);
        }
        let local = self.local(on);
        local.is_displaced = step.detail != PreemptReason::WorldStop as u64;
        if local.is_displaced && !is_locked {
            local.displaced_after = local.displaced_after.map(|then| then + UNDISTURBED).max(local.runs_since);
            if local.displaced_after.is_some_and(|earliest| when < earliest) {
                return Err(format!("P13: goroutine {g} is displaced in the undisturbed time of P{on}"));
            }
        }
        Ok(())
    }

    /// P15. A P is taken from a G only while the G is in a system call.
    pub(super) fn p15(&mut self, step: &Step) -> Allowed {
        let local = self.local(step.on);
        local.runs = None;
        let was_in_call = take(&mut local.is_in_call);
        let forbidden = || format!("P15: P{} is retaken outside of a system call", step.on);
        was_in_call.then_some(()).ok_or_else(forbidden)
    }
}
