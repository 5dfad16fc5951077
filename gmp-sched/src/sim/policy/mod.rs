//! The scheduling policy as a specification that runs: the simulator compares every step of the scheduler with it.
//!
//! [`sentences`] has a function for nearly every sentence of `docs/policy.md`. (Sentence 10 is a line of `check_on`.
//! Sentence 14 is about Ms, which the specification does not follow.) A runnable G is in one of the *places* of which
//! these sentences speak. The specification learns of the events by which Gs change their places, and fails the run at
//! an event that the policy does not allow. An event is recorded a moment before or after the queues change, and a
//! thief names only the last G that it has stolen. So the specification may not know in which of several places a G is.
//! In this case it allows all of them. It follows a run no further when a ring overflows beside other Ps, when the
//! number of Ps is lowered, and when there are more than 64 Ps.

mod places;
mod sentences;

use alloc::format;
use alloc::string::String;

use places::{Id, Places, State};

use crate::base::instant::Instant;
use crate::record::trace::{Event, EventKind as Kind, PreemptReason, Track};

/// Whether the policy allows an event; if not, the sentence that forbids it, and why.
type Allowed = Result<(), String>;

/// An event on P `on`.
struct Step {
    on: usize,
    kind: Kind,
    g: Id,
    detail: u64,
    when: Instant,
    procs: usize,
    /// The number of the last event on this P.
    last: u64,
}

/// The state of the specification.
#[derive(Default)]
pub(super) struct Policy {
    /// Whether the run is followed no further.
    is_lost: bool,
    state: State,
}

impl Policy {
    /// Checks an event and follows it. `procs` is the number of Ps in use. Returns the sentence that the event
    /// violates.
    pub(super) fn check(&mut self, track: Track, event: Event, procs: usize) -> Allowed {
        self.is_lost |= procs > u64::BITS as usize;
        if self.is_lost {
            return Ok(());
        }
        let Event { when, kind, detail, .. } = event;
        let g = event.goroutine.map_or(0, |goroutine| goroutine.get());
        let state = &mut self.state;
        state.events += 1;
        let becomes_runnable = matches!(kind, Kind::Ready | Kind::Spawn | Kind::SyscallReturn);
        if becomes_runnable && state.runnable.contains_key(&g) {
            return Err(format!("goroutine {g} becomes runnable twice"));
        }
        match (kind, track) {
            (_, Track::Outside) if becomes_runnable => state.p7(g),
            (Kind::UrgentPut, _) => return state.p5_urgent(g, detail as usize, when, track == Track::Outside),
            (Kind::GlobalPut, _) => return state.put_global(g),
            (Kind::LockThread, _) => _ = state.locked.insert(g),
            (Kind::UnlockThread, _) => _ = state.locked.remove(&g),
            (Kind::Retire, _) => self.is_lost = true,
            (_, Track::Processor(on)) => {
                let on = on as usize;
                let step = Step { on, kind, g, detail, when, procs, last: state.next_event(on) };
                state.check_on(&step)?;
                self.is_lost = kind == Kind::Overflow && procs > 1;
            }
            _ => {}
        }
        Ok(())
    }
}

impl State {
    fn check_on(&mut self, step: &Step) -> Allowed {
        let &Step { on, kind, g, detail, .. } = step;
        let local = self.local(on);
        let fires = local.follow_events(kind);
        let leaves = matches!(kind, Kind::Yield | Kind::Preempt | Kind::Park | Kind::End | Kind::HandOff);
        if leaves && local.runs.take() != Some(g) {
            return Err(format!("goroutine {g} leaves P{on}, on which it does not run"));
        }
        match kind {
            Kind::Start => return self.start(step),
            Kind::Idle => return self.p1_idle(step),
            Kind::GlobalTake => return self.take_global(step),
            Kind::Ready | Kind::Spawn => self.p5(step, fires),
            Kind::Overflow => return self.p6(step),
            Kind::Yield => self.p8(step),
            Kind::Preempt if detail == PreemptReason::Slice as u64 => {
                self.p12(step)?;
                self.p9(step);
            }
            Kind::Preempt => {
                self.p13(step)?;
                self.enter_next(on, g); // P10
            }
            Kind::Kick => self.enter_ring(on, g),
            Kind::Steal => return self.p11(step),
            Kind::Retake => return self.p15(step),
            Kind::SyscallEnter => local.is_in_call = true,
            Kind::SyscallExit => (local.is_in_call, local.runs) = (false, Some(g)),
            Kind::Switch => local.runs = Some(detail),
            _ => {}
        }
        Ok(())
    }

    /// A G begins to run.
    fn start(&mut self, step: &Step) -> Allowed {
        let &Step { on, g, when, .. } = step;
        if let Some(used) = self.used.remove(&g) {
            self.local(on).slice_since = used.map(|used| when - used);
        }
        let Some(found) = self.begin(on, g, when) else {
            return Err(format!("goroutine {g} runs and is not runnable"));
        };
        self.p2(step, &found)?;
        let Places { at_once, urgent_of, next_of, .. } = found.places;
        if at_once || urgent_of.is_some() || next_of == Some(on) || self.locked.contains(&g) {
            return Ok(());
        }
        self.p1(step, &found)?;
        self.local(on).begin_slice(when);
        self.p3(step)
    }
}
