//! What happens to G, M and P while a G waits for a device, step by step.

use kernel::gmp_sched::goroutine::GoroutineId;
use kernel::gmp_sched::platform::Pinned;
use kernel::gmp_sched::scheduler::Scheduler;
use kernel::gmp_sched::trace::{Event, EventKind};
use kernel::platform::Kernel;
use kernel::prelude::*;

use crate::EVENTS;

/// The M and the P on which a G runs.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) machine: u32,
    processor: u32,
}

impl Place {
    /// Returns where the calling G runs.
    fn here() -> Self {
        let pinned = Pinned::<Kernel>::new();
        Self { machine: pinned.machine().id().get(), processor: pinned.processor().id().get() }
    }
}

/// What happened while a G waited for a device. The events come from the trace. The Gs themselves record where they
/// run.
pub(crate) struct Story {
    goroutine: GoroutineId,
    /// The kind of the event with which the wait begins.
    wait: EventKind,
    /// Where the G ran before its wait.
    pub(crate) before: Place,
    /// Where the G ran after its wait.
    pub(crate) after: Place,
    /// Where main ran during the wait.
    pub(crate) main: Place,
    /// Whether the M on which the G began to wait was idle at the end.
    is_idle: bool,
    /// The events on the only P, oldest first.
    events: Vec<Event>,
}

impl Story {
    /// Spawns a G that calls `wait`, whose first event is of the kind `kind`, and records what happens. When the G waits,
    /// main runs and calls `meanwhile`. Then main waits for the end of the G.
    pub(crate) fn of(
        scheduler: &'static Scheduler<Kernel>,
        kind: EventKind,
        wait: impl FnOnce() + Send + 'static,
        meanwhile: impl FnOnce(),
    ) -> Self {
        scheduler.start_trace(EVENTS).expect("memory for a trace");
        let waiting = go(move || {
            let before = Place::here();
            wait();
            (before, Place::here())
        });
        let goroutine = waiting.id();
        let has_begun = |event: &Event| event.kind == kind && event.goroutine == Some(goroutine);
        yield_now();
        // If the host is busy, the slice of the G may be over before the G waits.
        while !scheduler.processors()[0].trace().iter().any(has_begun) {
            yield_now();
        }
        let main = Place::here();
        meanwhile();
        let (before, after) = waiting.join().expect("the G does not panic");
        scheduler.stop_trace();
        let idle = |machine: u32| {
            let found = scheduler.machines().find(|other| other.id().get() == machine);
            found.is_some_and(|other| other.current_goroutine().is_none())
        };
        let events = scheduler.processors()[0].trace();
        Self { goroutine, wait: kind, before, after, main, is_idle: idle(before.machine), events }
    }

    /// Returns the time of the first event of this kind and this G among the events at `from` or later.
    fn when(&self, kind: EventKind, goroutine: Option<GoroutineId>, from: Instant) -> Option<Instant> {
        let is_wanted = |event: &&Event| event.kind == kind && event.goroutine == goroutine && event.when >= from;
        self.events.iter().find(is_wanted).map(|event| event.when)
    }

    /// Prints the steps, each with the microseconds since the wait began.
    pub(crate) fn tell(&self) {
        let own = Some(self.goroutine);
        let begin = self.when(self.wait, own, Instant::from_nanos(0)).expect("the G has waited");
        let mut steps = self.steps(begin);
        steps.sort_by_key(|(when, _)| *when);
        for (when, what) in steps {
            println!("   {:>8} us  {what}", (when - begin).as_micros());
        }
        if self.is_idle && self.after.machine != self.before.machine {
            println!("   {:>11}  M{} is on the list of idle Ms", "", self.before.machine);
        }
    }

    /// Returns what happened from `begin` on, each step with its time.
    fn steps(&self, begin: Instant) -> Vec<(Instant, String)> {
        let wait = self.wait;
        let (g, m, p) = (self.goroutine, self.before.machine, self.before.processor);
        let (n, q) = (self.after.machine, self.after.processor);
        let begins = match wait {
            EventKind::HandOff => format!("G{g} blocks M{m}, and P{p} is handed off"),
            EventKind::Park => format!("G{g} parks; M{m} keeps P{p}"),
            _ => format!("G{g} begins a system call on M{m}; P{p} stays marked for M{m}"),
        };
        let continues = match wait {
            EventKind::Park => format!("the signal is raised, and G{g} continues on M{n} with P{q}"),
            _ => format!("the call has ended, with P{p} busy: G{g} was queued, and continues on M{n}"),
        };
        let main = format!("M{} runs main with P{}", self.main.machine, self.main.processor);
        let returns = format!("the call ends; P{q} is free, and G{g} continues with it on M{n}");
        let when_returned = self.when(EventKind::SyscallExit, Some(g), begin);
        let when_started = self.when(EventKind::Start, Some(g), begin).filter(|_| when_returned.is_none());
        let steps = [
            (Some(begin), begins),
            (self.when(EventKind::Retake, None, begin), format!("sysmon retakes P{p} from M{m}")),
            (self.when(EventKind::Start, Some(GoroutineId::MAIN), begin), main),
            (when_returned, returns),
            (when_started, continues),
        ];
        steps.into_iter().filter_map(|(when, what)| Some((when?, what))).collect()
    }
}
