//! The scheduling policy as a specification that runs: the simulator compares every step of the scheduler with it.
//!
//! `P1`, `P2`, … are the numbers of the sentences in `docs/policy.md`. A runnable G is in one of the *places* of which
//! these sentences speak. The specification learns of the events by which Gs change their places, and fails the run at
//! an event that the policy does not allow. An event is recorded a moment before or after the queues change, and a
//! thief names only the last G that it has stolen. So the specification may not know in which of several places a G is.
//! In this case it allows all of them. It follows a run no further when a ring overflows beside other Ps, when the
//! number of Ps is lowered, and when there are more than 64 Ps.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;

use crate::base::instant::Instant;
use crate::platform::{SLICE, UNDISTURBED};
use crate::record::trace::{Event, EventKind as Kind, PreemptReason, Track};

/// How many Gs a ring has room for.
const RING_CAPACITY: usize = 256;

/// The number of a G.
type Id = u64;

/// The places in which a runnable G may be. By default it is in none, and has to go to the global queue.
#[derive(Clone, Copy, Default)]
struct Places {
    /// The ring of P n, if bit n is set.
    rings: u64,
    /// The rings from which thieves must have stolen the G, because a G behind it has left.
    passed: u64,
    next_of: Option<usize>,
    /// The urgent queue of P n.
    urgent_of: Option<usize>,
    global: bool,
    /// No queue: a pick has taken the G, or an event readies it.
    at_once: bool,
    /// None yet: the G has been preempted because its slice is over, at this time.
    slice_over: Option<Instant>,
    /// The number of the event that brought the G here.
    since: u64,
}

impl Places {
    /// Whether the G is in the urgent queue of a P, and the M of that P put it there before the event `before`.
    fn is_urgent_before(&self, before: u64) -> bool {
        self.urgent_of.is_some() && !self.at_once && self.since < before
    }

    /// Whether the G has waited in another queue since before the event `before`.
    fn is_other_before(&self, before: u64) -> bool {
        self.urgent_of.is_none() && !self.at_once && self.slice_over.is_none() && self.since < before
    }
}

/// The Gs of a queue, the first one first, with [`Places::since`]. A G that has left is removed later.
type Queue = VecDeque<(Id, u64)>;

#[derive(Default)]
struct Local {
    next: Option<Id>,
    ring: Queue,
    /// How many Gs may have left the ring after Gs that a thief has stolen, but has not reported yet.
    overtakers: usize,
    runs: Option<Id>,
    is_in_call: bool,
    /// Whether a timer or a device is readying Gs.
    fires: bool,
    /// The Gs that the last timer or device has readied. If there is only one, and it begins to run next, it is urgent.
    readied: Vec<Id>,
    /// Since when only urgent Gs have begun to run although other Gs waited.
    urgent_row: Option<Instant>,
    /// Whether the last G that ran was displaced by an urgent one.
    is_displaced: bool,
    slice_since: Option<Instant>,
    /// Whether the slice of the next G has begun, because that of the last G was over.
    has_begun_slice: bool,
    /// A lower bound of the time at which a G was last displaced.
    displaced_after: Option<Instant>,
    runs_since: Option<Instant>,
    last_event: u64,
    /// How many Gs of the ring have begun to run while Gs waited in the global queue.
    unchecked: u64,
    /// Whether the last G that began to run came from another queue although an urgent G waited.
    has_passed_urgent: bool,
}

impl Local {
    fn begin_slice(&mut self, when: Instant) {
        if !core::mem::take(&mut self.has_begun_slice) {
            self.slice_since = Some(when);
        }
    }
}

/// The state of the specification.
#[derive(Default)]
pub(super) struct Policy {
    /// Whether the run is followed no further.
    is_lost: bool,
    events: u64,
    runnable: BTreeMap<Id, Places>,
    locked: BTreeSet<Id>,
    /// When an event has readied each G, and whether the G was in an urgent queue since. (A timer may ready further Gs,
    /// which are not urgent.)
    urgent_since: BTreeMap<Id, (Instant, bool)>,
    global: Queue,
    locals: BTreeMap<usize, Local>,
}

impl Policy {
    /// Checks an event and follows it. `procs` is the number of Ps in use. Returns the rule that the event violates.
    pub(super) fn check(&mut self, track: Track, event: Event, procs: usize) -> Result<(), String> {
        self.is_lost |= procs > u64::BITS as usize;
        if self.is_lost {
            return Ok(());
        }
        let Event { when, kind, detail, .. } = event;
        let g = event.goroutine.map_or(0, |goroutine| goroutine.get());
        self.events += 1;
        match (kind, track) {
            (Kind::Ready | Kind::Spawn | Kind::SyscallReturn, _) if self.runnable.contains_key(&g) => {
                return Err(format!("goroutine {g} becomes runnable twice"));
            }
            // P7. A G that is readied without a P goes to the global queue, or to the urgent queue of a P.
            (Kind::Ready | Kind::Spawn | Kind::SyscallReturn, Track::Outside) => {
                self.urgent_since.remove(&g);
                self.enter(g, Places::default());
            }
            (Kind::UrgentPut, _) => return self.enter_urgent(g, detail as usize, when, track == Track::Outside),
            (Kind::GlobalPut, _) => {
                let places = self.runnable.get(&g).copied().unwrap_or_default();
                if places.next_of.is_some() {
                    return Err(format!("P5: goroutine {g}, in runnext, goes to the global queue"));
                }
                let urgent = self.urgent_since.get(&g).filter(|urgent| urgent.1 && !self.locked.contains(&g));
                if places.slice_over.zip(urgent).is_some_and(|(over, urgent)| over - urgent.0 < SLICE / 2) {
                    return Err(format!("P9: goroutine {g}, which is urgent, goes to the global queue"));
                }
                self.enter(g, Places { global: true, ..Places::default() });
            }
            (Kind::LockThread, _) => _ = self.locked.insert(g),
            (Kind::UnlockThread, _) => _ = self.locked.remove(&g),
            (_, Track::Processor(on)) => return self.check_on(on as usize, kind, g, detail, when, procs),
            _ => {}
        }
        Ok(())
    }

    fn check_on(
        &mut self,
        on: usize,
        kind: Kind,
        g: Id,
        detail: u64,
        when: Instant,
        procs: usize,
    ) -> Result<(), String> {
        let is_locked = self.locked.contains(&g);
        let last = self.locals.get(&on).map_or(0, |local| local.last_event);
        let is_global_waiting = self.is_global_waiting(last);
        let local = self.locals.entry(on).or_default();
        local.last_event = self.events;
        let fires = core::mem::replace(&mut local.fires, matches!(kind, Kind::Timer | Kind::Device))
            && matches!(kind, Kind::Ready | Kind::Spawn | Kind::Timer | Kind::Device);
        local.fires |= fires;
        if matches!(kind, Kind::Timer | Kind::Device) {
            local.readied.clear();
        }
        let leaves = matches!(kind, Kind::Yield | Kind::Preempt | Kind::Park | Kind::End | Kind::HandOff);
        if leaves && local.runs.take() != Some(g) {
            return Err(format!("goroutine {g} leaves P{on}, on which it does not run"));
        }
        match kind {
            // P1. The G runs at once, or goes to a queue behind the G that does.
            Kind::Ready | Kind::Spawn if fires => {
                local.readied.push(g);
                self.urgent_since.insert(g, (when, false));
                self.enter_unknown(on, g);
            }
            // P5.
            Kind::Ready | Kind::Spawn => {
                self.urgent_since.remove(&g);
                self.enter_next(on, g);
            }
            Kind::Start => return self.start(on, g, when, last, procs),
            Kind::Steal => return self.steal(on, g, detail as u32 as usize, (detail >> 32) as usize, when),
            Kind::GlobalTake => return self.take_global(on, g, detail as usize, procs, when),
            // P8.
            Kind::Yield if is_global_waiting => self.enter(g, Places::default()),
            Kind::Yield => self.enter_ring(on, g),
            // P9 and P12.
            Kind::Preempt if detail == PreemptReason::Slice as u64 => {
                if local.slice_since.is_some_and(|since| when - since < SLICE / 2) {
                    return Err(format!("P12: goroutine {g} is preempted before the slice of P{on} is over"));
                }
                (local.slice_since, local.has_begun_slice, local.has_passed_urgent) = (Some(when), true, false);
                self.enter(g, Places { slice_over: Some(when), ..Places::default() });
            }
            // P10 and P13.
            Kind::Preempt => {
                local.is_displaced = detail != PreemptReason::WorldStop as u64;
                if detail != PreemptReason::WorldStop as u64 && !is_locked {
                    local.displaced_after = local.displaced_after.map(|then| then + UNDISTURBED).max(local.runs_since);
                    if local.displaced_after.is_some_and(|earliest| when < earliest) {
                        return Err(format!("P13: goroutine {g} is displaced in the undisturbed time of P{on}"));
                    }
                }
                self.enter_next(on, g);
            }
            Kind::Kick => self.enter_ring(on, g),
            // P6.
            Kind::Overflow if detail as usize != RING_CAPACITY / 2 => {
                return Err(format!("P6: {detail} Gs of a full ring go to the global queue"));
            }
            Kind::Overflow if procs > 1 => self.is_lost = true,
            Kind::Overflow => self.overflow(on),
            Kind::Retire => self.is_lost = true,
            Kind::SyscallEnter => local.is_in_call = true,
            Kind::SyscallExit => (local.is_in_call, local.runs) = (false, Some(g)),
            Kind::Switch => local.runs = Some(detail),
            // P15.
            Kind::Retake if !local.is_in_call => return Err(format!("P15: P{on} is retaken outside of a system call")),
            Kind::Retake => (local.is_in_call, local.runs) = (false, None),
            Kind::Idle if local.next.is_some() => return Err(format!("P1: P{on} goes idle with a G in runnext")),
            _ => {}
        }
        Ok(())
    }

    /// P1 and P3. A G begins to run.
    fn start(&mut self, on: usize, g: Id, when: Instant, last: u64, procs: usize) -> Result<(), String> {
        let Some(places) = self.leave(g) else { return Err(format!("goroutine {g} runs and is not runnable")) };
        let is_global_waiting = self.is_global_waiting(self.events);
        let local = self.locals.entry(on).or_default();
        (local.runs_since, local.last_event) = (Some(when), self.events);
        local.runs = Some(g);
        let has_left = |&(g, since): &(Id, u64)| self.runnable.get(&g).is_none_or(|places| places.since != since);
        while local.ring.front().is_some_and(|first| first.0 != g && has_left(first)) {
            local.ring.pop_front();
        }
        let may_be_behind = places.rings & 1 << on != 0;
        let place = local.ring.iter().position(|&(other, since)| other == g && since == places.since).unwrap_or(0);
        if may_be_behind {
            local.overtakers = if place == 0 && !places.at_once { 0 } else { local.overtakers + 1 };
        }
        let is_urgent = core::mem::take(&mut local.readied) == [g] || places.urgent_of.is_some();
        if is_urgent {
            self.urgent_since.entry(g).and_modify(|urgent| urgent.1 = true);
        }
        // P2. (With other Ps, a thief may be about to run one of the other Gs or the urgent G.)
        let is_other_waiting = procs == 1 && self.runnable.values().any(|places| places.is_other_before(last));
        local.urgent_row = local.urgent_row.filter(|_| is_urgent && is_other_waiting).or(is_urgent.then_some(when));
        let is_displaced = core::mem::take(&mut local.is_displaced);
        if local.urgent_row.is_some_and(|since| !is_displaced && when - since > SLICE / 2) {
            return Err(format!("P2: only urgent Gs run on P{on}, although other Gs wait"));
        }
        let is_urgent_waiting = procs == 1 && self.runnable.values().any(|places| places.is_urgent_before(last));
        let passes_urgent = is_urgent_waiting && places.urgent_of.is_none() && !places.at_once;
        if core::mem::replace(&mut local.has_passed_urgent, passes_urgent) && passes_urgent {
            return Err(format!("P2: P{on} runs two Gs one after the other while an urgent G waits"));
        }
        if places.at_once || places.urgent_of.is_some() || places.next_of == Some(on) || self.locked.contains(&g) {
            return Ok(());
        }
        if !may_be_behind {
            return Err(format!("P1: P{on} runs goroutine {g}, which is neither in its queues nor found by its pick"));
        }
        if let Some(next) = local.next {
            return Err(format!("P1: P{on} runs goroutine {g} of its ring before goroutine {next} in runnext"));
        }
        local.begin_slice(when);
        local.unchecked = if is_global_waiting { local.unchecked + 1 } else { 0 };
        if local.unchecked > 61 + 1 {
            return Err(format!(
                "P3: P{on} runs {} Gs of its ring and does not check the global queue",
                local.unchecked
            ));
        }
        if places.passed & 1 << on != 0 {
            return Err(format!("P1: P{on} runs goroutine {g} after a G that was behind it in the ring"));
        }
        for (other, since) in local.ring.range(..place) {
            let there = self.runnable.get_mut(other).filter(|places| places.since == *since);
            there.into_iter().for_each(|places| places.passed |= 1 << on);
        }
        Ok(())
    }

    /// P11. A P has stolen `count` Gs, of which `g` is the last.
    fn steal(&mut self, on: usize, g: Id, victim: usize, count: usize, when: Instant) -> Result<(), String> {
        let places = self.runnable.get(&g).copied().unwrap_or_default();
        let victims = self.locals.entry(victim).or_default();
        let (of_ring, overtakers) = (victims.ring.clone(), victims.overtakers);
        victims.overtakers += 1;
        let is_there = |&&(other, since): &&(Id, u64)| {
            self.runnable.get(&other).is_some_and(|places| places.since == since && places.rings & 1 << victim != 0)
        };
        let of_ring: Queue = of_ring.iter().filter(is_there).copied().collect();
        let most = if places.next_of == Some(victim) { 1 } else { (of_ring.len() + overtakers).div_ceil(2) };
        if places.next_of != Some(victim) && places.rings & 1 << victim == 0 || count > most {
            return Err(format!(
                "P11: P{on} steals {count} Gs up to goroutine {g} of P{victim}, which has {}",
                of_ring.len()
            ));
        }
        let thief = self.locals.entry(on).or_default();
        if let Some(next) = thief.next {
            return Err(format!("P11: P{on} steals although goroutine {next} is in its runnext"));
        }
        thief.begin_slice(when);
        for (other, since) in of_ring {
            if count > 1 && other != g {
                self.runnable.entry(other).and_modify(|places| {
                    (places.rings, places.passed) = (places.rings | 1 << on, places.passed & !(1 << on));
                });
                thief.ring.push_back((other, since));
            }
        }
        self.enter(g, Places { at_once: true, rings: 1 << on, ..Places::default() });
        Ok(())
    }

    /// P3 and P4. A P takes `count` Gs from the global queue, of which `g` is the first.
    fn take_global(&mut self, on: usize, g: Id, count: usize, procs: usize, when: Instant) -> Result<(), String> {
        let local = self.locals.entry(on).or_default();
        local.unchecked = 0;
        local.begin_slice(when);
        let runnable = &self.runnable;
        if !self.locked.contains(&g) {
            let is_there = |&(other, since): &(Id, u64)| {
                runnable.get(&other).is_some_and(|places| places.since == since && places.global)
            };
            self.global.retain(is_there);
            let place = self.global.iter().position(|&(other, _)| other == g);
            let is_certain = |&(other, _): &(Id, u64)| runnable.get(&other).is_some_and(|places| places.rings == 0);
            if place.is_none_or(|place| self.global.range(..place).any(is_certain)) {
                return Err(format!("P4: P{on} takes goroutine {g}, which is not the first of the global queue"));
            }
        }
        let length = self.global.len();
        if count > 1 && (local.next.is_some() || count > 1 + (RING_CAPACITY / 2 - 1).min(length / procs)) {
            return Err(format!("P4: P{on} takes {count} of {length} Gs of the global queue"));
        }
        self.enter(g, Places { at_once: true, ..Places::default() });
        for _ in 1..count {
            let next = iter::from_fn(|| self.global.pop_front()).find(|&(other, _)| other != g);
            if let Some((other, since)) = next {
                self.runnable
                    .entry(other)
                    .and_modify(|places| (places.rings, places.passed, places.global) = (1 << on, 0, false));
                self.locals.entry(on).or_default().ring.push_back((other, since));
            }
        }
        Ok(())
    }

    /// Puts a G into `places`, which it has not left before the next event.
    fn enter(&mut self, g: Id, places: Places) {
        self.leave(g);
        let is_locked = self.locked.contains(&g);
        self.runnable.insert(g, Places { at_once: places.at_once || is_locked, since: self.events, ..places });
        if places.global && !is_locked {
            self.global.push_back((g, self.events));
        }
    }

    /// P2 and P7. An event readies a G, or the G has to give way less than a slice after its event. (The events of a trace
    /// are recorded a moment after the decision.)
    fn enter_urgent(&mut self, g: Id, of: usize, when: Instant, at_once: bool) -> Result<(), String> {
        let urgent = self.urgent_since.entry(g).or_insert((when, true));
        urgent.1 = true;
        let since = urgent.0;
        if self
            .runnable
            .get(&g)
            .and_then(|places| places.slice_over)
            .is_some_and(|over| over - since > SLICE + SLICE / 4)
        {
            return Err(format!("P2: goroutine {g} stays urgent for more than a slice after its event"));
        }
        self.enter(g, Places { urgent_of: Some(of), at_once, ..Places::default() });
        Ok(())
    }

    fn enter_ring(&mut self, on: usize, g: Id) {
        self.enter(g, Places { rings: 1 << on, ..Places::default() });
        let ring = &mut self.locals.entry(on).or_default().ring;
        ring.push_back((g, self.events));
        if ring.len() > 2 * RING_CAPACITY {
            ring.retain(|&(g, since)| self.runnable.get(&g).is_some_and(|places| places.since == since));
        }
    }

    /// The G that was in `runnext` before goes to the tail of the ring.
    fn enter_next(&mut self, on: usize, g: Id) {
        if self.locked.contains(&g) {
            return self.enter(g, Places::default());
        }
        if let Some(kicked) = self.locals.entry(on).or_default().next {
            self.enter_ring(on, kicked);
        }
        self.enter(g, Places { next_of: Some(on), ..Places::default() });
        self.locals.entry(on).or_default().next = Some(g);
    }

    /// The G runs at once, or is in `runnext` or in the ring, and so is the G that was in `runnext` before.
    fn enter_unknown(&mut self, on: usize, g: Id) {
        for g in self.locals.entry(on).or_default().next.into_iter().chain([g]) {
            self.enter_ring(on, g);
            self.runnable.entry(g).and_modify(|places| places.at_once = true);
        }
    }

    fn leave(&mut self, g: Id) -> Option<Places> {
        let places = self.runnable.remove(&g)?;
        if let Some(local) = places.next_of.and_then(|on| self.locals.get_mut(&on)) {
            local.next = None;
        }
        Some(places)
    }

    /// P6. The first half of a ring goes to the global queue.
    fn overflow(&mut self, on: usize) {
        let local = self.locals.entry(on).or_default();
        local.ring.retain(|&(g, since)| self.runnable.get(&g).is_some_and(|places| places.since == since));
        for (g, since) in local.ring.drain(..(RING_CAPACITY / 2).min(local.ring.len())) {
            self.runnable.insert(g, Places { global: true, since, ..Places::default() });
            self.global.push_back((g, since));
        }
    }

    /// Whether a G certainly waits in the global queue, and did so at the event `before`.
    fn is_global_waiting(&mut self, before: u64) -> bool {
        while let Some(&(g, since)) = self.global.front() {
            match self.runnable.get(&g) {
                Some(places) if places.since == since && places.global => return places.rings == 0 && since < before,
                _ => self.global.pop_front(),
            };
        }
        false
    }
}
