//! Where the specification believes each runnable G to be, and what it remembers of each P.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::iter;
use core::time::Duration;

use crate::base::instant::Instant;
use crate::record::trace::EventKind as Kind;

/// How many Gs a ring has room for.
pub(super) const RING_CAPACITY: usize = 256;

/// The number of a G.
pub(super) type Id = u64;

/// The places in which a runnable G may be. By default it is in none, and has to go to the global queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Places {
    /// The ring of P n, if bit n is set.
    pub(super) rings: u64,
    /// The rings from which thieves must have stolen the G, because a G behind it has left.
    pub(super) passed: u64,
    pub(super) next_of: Option<usize>,
    /// The urgent queue of P n.
    pub(super) urgent_of: Option<usize>,
    pub(super) global: bool,
    /// No queue: a pick has taken the G, or an event readies it.
    pub(super) at_once: bool,
    /// None yet: the G has been preempted because its slice is over, at this time.
    pub(super) slice_over: Option<Instant>,
    /// The number of the event that brought the G here.
    pub(super) since: u64,
}

impl Places {
    /// Whether the G is in the urgent queue of a P, and the M of that P put it there before the event `before`.
    pub(super) fn is_urgent_before(&self, before: u64) -> bool {
        self.urgent_of.is_some() && !self.at_once && self.since < before
    }

    /// Whether the G has waited in another queue since before the event `before`.
    pub(super) fn is_other_before(&self, before: u64) -> bool {
        self.urgent_of.is_none() && !self.at_once && self.slice_over.is_none() && self.since < before
    }
}

/// The Gs of a queue, the first one first, with [`Places::since`]. A G that has left is removed later.
pub(super) type Queue = VecDeque<(Id, u64)>;

#[derive(Default)]
pub(super) struct Local {
    pub(super) next: Option<Id>,
    pub(super) ring: Queue,
    /// How many Gs have left the ring since a thief may have stolen Gs of the ring without having reported that yet.
    pub(super) overtakers: usize,
    pub(super) runs: Option<Id>,
    pub(super) is_in_call: bool,
    /// Whether a timer or a device is readying Gs.
    fires: bool,
    /// The Gs that the last timer or device has readied. If there is only one, and it begins to run next, it is urgent.
    pub(super) readied: Vec<Id>,
    /// Since when only urgent Gs have begun to run although other Gs waited.
    pub(super) urgent_row: Option<Instant>,
    /// Whether the last G that ran was displaced by an urgent one.
    pub(super) is_displaced: bool,
    pub(super) slice_since: Option<Instant>,
    /// Whether the slice of the next G has begun, because that of the last G was over.
    pub(super) has_begun_slice: bool,
    /// A lower bound of the time at which a G was last displaced.
    pub(super) displaced_after: Option<Instant>,
    pub(super) runs_since: Option<Instant>,
    last_event: u64,
    /// How many Gs of the ring have begun to run while Gs waited in the global queue.
    pub(super) unchecked: u64,
    /// Whether the last G that began to run came from another queue although an urgent G waited.
    pub(super) has_passed_urgent: bool,
}

impl Local {
    pub(super) fn begin_slice(&mut self, when: Instant) {
        if !core::mem::take(&mut self.has_begun_slice) {
            self.slice_since = Some(when);
        }
    }

    /// Follows the events by which timers and devices ready Gs. Returns whether this event continues a series that a
    /// timer or a device has begun. A series ends before the first event of another kind than that of a timer, of a
    /// device or of a G that becomes runnable.
    pub(super) fn follow_events(&mut self, kind: Kind) -> bool {
        let begins = matches!(kind, Kind::Timer | Kind::Device);
        let fires =
            core::mem::replace(&mut self.fires, begins) && (begins || matches!(kind, Kind::Ready | Kind::Spawn));
        self.fires |= fires;
        if begins {
            self.readied.clear();
        }
        fires
    }
}

/// A G that begins to run.
pub(super) struct Found {
    /// Where it was.
    pub(super) places: Places,
    /// Its place in the ring of the P, if it was there.
    pub(super) place: usize,
    /// Whether it may have been in that ring.
    pub(super) is_of_ring: bool,
    pub(super) is_urgent: bool,
}

/// What the specification has learned from the events so far.
#[derive(Default)]
pub(super) struct State {
    pub(super) events: u64,
    pub(super) runnable: BTreeMap<Id, Places>,
    pub(super) locked: BTreeSet<Id>,
    /// For how long the slice of each locked G that is displaced has lasted. A G that is displaced in place continues this
    /// slice.
    pub(super) used: BTreeMap<Id, Option<Duration>>,
    /// When an event has readied each G, and whether the G was in an urgent queue since. (A timer may ready further Gs,
    /// which are not urgent.)
    pub(super) urgent_since: BTreeMap<Id, (Instant, bool)>,
    pub(super) global: Queue,
    pub(super) locals: BTreeMap<usize, Local>,
}

impl State {
    pub(super) fn local(&mut self, on: usize) -> &mut Local {
        self.locals.entry(on).or_default()
    }

    /// Returns the number of the last event of P `on`, and notes that an event of this P comes now.
    pub(super) fn next_event(&mut self, on: usize) -> u64 {
        let events = self.events;
        core::mem::replace(&mut self.local(on).last_event, events)
    }

    /// Puts a G into `places`, which it does not leave before the next event.
    pub(super) fn enter(&mut self, g: Id, places: Places) {
        self.leave(g);
        let is_locked = self.locked.contains(&g);
        self.runnable.insert(g, Places { at_once: places.at_once || is_locked, since: self.events, ..places });
        if places.global && !is_locked {
            self.global.push_back((g, self.events));
        }
    }

    pub(super) fn enter_ring(&mut self, on: usize, g: Id) {
        self.enter(g, Places { rings: 1 << on, ..Places::default() });
        let ring = &mut self.locals.entry(on).or_default().ring;
        ring.push_back((g, self.events));
        if ring.len() > 2 * RING_CAPACITY {
            ring.retain(|&(g, since)| self.runnable.get(&g).is_some_and(|places| places.since == since));
        }
    }

    /// The G that was in `runnext` before goes to the tail of the ring.
    pub(super) fn enter_next(&mut self, on: usize, g: Id) {
        if self.locked.contains(&g) {
            return self.enter(g, Places::default());
        }
        if let Some(kicked) = self.local(on).next {
            self.enter_ring(on, kicked);
        }
        self.enter(g, Places { next_of: Some(on), ..Places::default() });
        self.local(on).next = Some(g);
    }

    /// The G runs at once, or is in `runnext` or in the ring. The same holds for the G that was in `runnext` before.
    pub(super) fn enter_unknown(&mut self, on: usize, g: Id) {
        for g in self.local(on).next.into_iter().chain([g]) {
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

    /// The G begins to run on P `on`. Returns `None` if it is not runnable.
    pub(super) fn begin(&mut self, on: usize, g: Id, when: Instant) -> Option<Found> {
        let places = self.leave(g)?;
        let local = self.locals.entry(on).or_default();
        (local.runs_since, local.last_event, local.runs) = (Some(when), self.events, Some(g));
        let has_left = |&(g, since): &(Id, u64)| self.runnable.get(&g).is_none_or(|places| places.since != since);
        while local.ring.front().is_some_and(|first| first.0 != g && has_left(first)) {
            local.ring.pop_front();
        }
        let is_of_ring = places.rings & 1 << on != 0;
        let place = local.ring.iter().position(|&(other, since)| other == g && since == places.since).unwrap_or(0);
        if is_of_ring {
            local.overtakers = if place == 0 && !places.at_once { 0 } else { local.overtakers + 1 };
        }
        let is_urgent = core::mem::take(&mut local.readied) == [g] || places.urgent_of.is_some();
        if is_urgent {
            self.urgent_since.entry(g).and_modify(|urgent| urgent.1 = true);
        }
        Some(Found { places, place, is_of_ring, is_urgent })
    }

    /// The Gs before `place` in the ring of P `on` must have been stolen.
    pub(super) fn pass(&mut self, on: usize, place: usize) {
        let local = self.locals.entry(on).or_default();
        for (other, since) in local.ring.range(..place) {
            let there = self.runnable.get_mut(other).filter(|places| places.since == *since);
            there.into_iter().for_each(|places| places.passed |= 1 << on);
        }
    }

    /// The Gs that may be in the ring of P `of`.
    pub(super) fn in_ring(&mut self, of: usize) -> Queue {
        let ring = self.local(of).ring.clone();
        let is_there = |&&(other, since): &&(Id, u64)| {
            self.runnable.get(&other).is_some_and(|places| places.since == since && places.rings & 1 << of != 0)
        };
        ring.iter().filter(is_there).copied().collect()
    }

    /// How many of the Gs that may be in the ring of P `of` were put there before the event `before`, and are nowhere else.
    pub(super) fn certainly_in_ring(&mut self, of: usize, before: u64, ring: &Queue) -> usize {
        let before = before.min(self.local(of).last_event);
        let is_certain = |&&(g, since): &&(Id, u64)| {
            let is_sole = |it: &Places| it.rings == 1 << of && it.passed == 0 && !it.at_once && !it.global;
            since < before && self.runnable.get(&g).is_some_and(is_sole)
        };
        ring.iter().filter(is_certain).count()
    }

    /// Each G of `stolen` except `last` may now be in the ring of P `thief`.
    pub(super) fn may_have_been_stolen(&mut self, stolen: Queue, last: Id, thief: usize) {
        for (other, since) in stolen.into_iter().filter(|&(other, _)| other != last) {
            self.runnable.entry(other).and_modify(|places| {
                (places.rings, places.passed) = (places.rings | 1 << thief, places.passed & !(1 << thief));
            });
            self.local(thief).ring.push_back((other, since));
        }
    }

    /// Whether `g` may be the first G of the global queue.
    pub(super) fn may_be_first(&mut self, g: Id) -> bool {
        let runnable = &self.runnable;
        let is_there = |&(other, since): &(Id, u64)| {
            runnable.get(&other).is_some_and(|places| places.since == since && places.global)
        };
        self.global.retain(is_there);
        let place = self.global.iter().position(|&(other, _)| other == g);
        let is_certain = |&(other, _): &(Id, u64)| runnable.get(&other).is_some_and(|places| places.rings == 0);
        place.is_some_and(|place| !self.global.range(..place).any(is_certain))
    }

    /// The first `count` Gs of the global queue other than `g` go to the ring of P `on`.
    pub(super) fn take_batch(&mut self, on: usize, g: Id, count: usize) {
        for _ in 0..count {
            let next = iter::from_fn(|| self.global.pop_front()).find(|&(other, _)| other != g);
            if let Some((other, since)) = next
                && self.runnable.get(&other).is_some_and(|places| places.since == since)
            {
                self.enter_ring(on, other);
            }
        }
    }

    /// The first half of a ring goes to the global queue.
    pub(super) fn overflow(&mut self, on: usize) {
        let local = self.locals.entry(on).or_default();
        local.ring.retain(|&(g, since)| self.runnable.get(&g).is_some_and(|places| places.since == since));
        for (g, since) in local.ring.drain(..(RING_CAPACITY / 2).min(local.ring.len())) {
            self.runnable.insert(g, Places { global: true, since, ..Places::default() });
            self.global.push_back((g, since));
        }
    }

    /// Whether a G certainly waits in the global queue, and did so at the event `before`.
    pub(super) fn is_global_waiting(&mut self, before: u64) -> bool {
        while let Some(&(g, since)) = self.global.front() {
            match self.runnable.get(&g) {
                Some(places) if places.since == since && places.global => return places.rings == 0 && since < before,
                _ => self.global.pop_front(),
            };
        }
        false
    }
}
