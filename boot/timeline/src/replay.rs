//! Replays a trace, event by event, and records in a [`Model`] what the trace shows.
//!
//! The page has a replay of its own in `page/state.js`, because the page can also show the state at any moment.

use gmp_sched::goroutine::WaitReason;
use gmp_sched::trace::{EventKind, PreemptReason, Track};

use crate::arrows::{Arrow, ArrowKind};
use crate::cpus;
use crate::model::{Activity, Blocked, End, Model, Numbers, QueueLength, Readied, Slice, Wait};
use crate::queues::{Local, Queues};
use crate::{Cause, Entry, Trace};

/// What a G does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Runnable,
    Running,
    Waiting { since: u64, reason: WaitReason },
    Blocked { since: u64, machine: Option<u64> },
    Dead,
}

/// What is known of a G at the current event.
#[derive(Clone, Copy)]
struct Goroutine {
    state: State,
    readied: Option<Readied>,
    /// The time and the CPU of the last interrupt that raised the signal for which the G waits.
    raised: Option<(u64, Track)>,
    /// The time of the last steal of the G, and the P from which it was stolen.
    stolen: Option<(u64, u32)>,
    /// The P on which the G ran last.
    ran_on: Option<u32>,
}

/// What is known of a P at the current event.
#[derive(Clone)]
struct Processor {
    activity: Activity,
    since: u64,
    machine: Option<u64>,
    readied: Option<Readied>,
    migrated_from: Option<u32>,
    /// When the P was last handed off. `None` after the next G has begun to run on the P, because the arrow from the
    /// handoff to that G has been added.
    handed_off: Option<u64>,
    /// Whether an event of the P has been replayed.
    is_known: bool,
}

struct Replay<'a> {
    goroutines: Vec<Goroutine>,
    processors: Vec<Processor>,
    /// The current numbers of Gs, Ps and Ms.
    numbers: Numbers,
    queues: Queues,
    /// The last lengths in the model, of the queues of Ps and then of the global queue.
    lengths: Vec<usize>,
    model: &'a mut Model,
}

impl Model {
    /// Replays `trace`.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut model = Self::default();
        let unknown = Goroutine { state: State::Unknown, readied: None, raised: None, stolen: None, ran_on: None };
        let idle = Processor {
            activity: Activity::Idle,
            since: 0,
            machine: None,
            readied: None,
            migrated_from: None,
            handed_off: None,
            is_known: false,
        };
        let mut replay = Replay {
            goroutines: vec![unknown; trace.goroutines().len()],
            processors: vec![idle; trace.processors() as usize],
            numbers: Numbers { idle: trace.processors() as usize, ..Numbers::default() },
            queues: Queues::new(trace),
            lengths: vec![0; trace.processors() as usize + 1],
            model: &mut model,
        };
        for simultaneous in trace.events().chunk_by(|left, right| left.when == right.when) {
            for entry in simultaneous {
                replay.step(entry);
                replay.queues.apply(entry);
            }
            replay.count(simultaneous[0].when);
        }
        for processor in 0..trace.processors() {
            replay.change(processor, trace.duration(), Activity::Stopped, End::Trace);
        }
        for goroutine in 0..trace.goroutines().len() {
            replay.unblock(goroutine, trace.duration());
        }
        (model.cpus, model.interrupts) = cpus::slices(trace);
        model
    }
}

impl Replay<'_> {
    fn step(&mut self, entry: &Entry) {
        let when = entry.when;
        match (entry.kind, entry.goroutine) {
            (EventKind::Spawn | EventKind::Ready, Some(goroutine)) => self.ready(entry, goroutine),
            (EventKind::SyscallReturn, Some(goroutine)) => {
                self.unblock(goroutine, when);
                self.ready(entry, goroutine);
            }
            (EventKind::Raise, Some(goroutine)) => self.goroutines[goroutine].raised = Some((when, entry.track)),
            _ => {}
        }
        let Some(on) = entry.processor() else { return };
        self.assume(on, entry);
        match (entry.kind, entry.goroutine) {
            (EventKind::Start, Some(goroutine)) => self.start(on, entry, goroutine),
            (EventKind::Yield, Some(goroutine)) => self.give_way(on, entry, goroutine, "yields"),
            (EventKind::Preempt, Some(goroutine)) => self.give_way(on, entry, goroutine, preemption(entry.detail)),
            (EventKind::Switch, Some(goroutine)) => self.switch(on, entry, goroutine),
            (EventKind::Park, Some(goroutine)) => {
                let reason = wait_reason(entry.detail);
                self.set(goroutine, State::Waiting { since: when, reason });
                self.change(on, when, Activity::Schedule, End::Parks(reason));
            }
            (EventKind::End, Some(goroutine)) => {
                self.set(goroutine, State::Dead);
                self.change(on, when, Activity::Schedule, End::Other("ends"));
            }
            (EventKind::SyscallEnter, Some(goroutine)) => {
                self.change(on, when, Activity::Syscall(goroutine), End::Other("enters a system call"));
            }
            (EventKind::SyscallExit, Some(goroutine)) => {
                self.unblock(goroutine, when);
                self.set(goroutine, State::Running);
                self.change(on, when, Activity::Run(goroutine), End::Other("the call ends"));
                self.processors[on as usize].machine = Some(entry.detail);
                // The G that returns from its call has taken the P. So the last handoff of the P does not lead to the G
                // that starts next.
                self.processors[on as usize].handed_off = None;
            }
            (EventKind::HandOff, Some(goroutine)) => self.hand_off(on, when, goroutine, "enters a blocking call"),
            (EventKind::Retake, _) => {
                if let Activity::Syscall(goroutine) = self.processors[on as usize].activity {
                    self.hand_off(on, when, goroutine, "sysmon retakes the P");
                }
            }
            (EventKind::Steal, Some(_)) => {
                for stolen in self.queues.stolen(entry) {
                    self.goroutines[stolen].stolen = Some((when, entry.detail as u32));
                }
            }
            (EventKind::Idle | EventKind::Retire, _) => self.release(on, when, Activity::Idle),
            (EventKind::Stop, _) => self.release(on, when, Activity::Stopped),
            (EventKind::Busy, _) => {
                self.change(on, when, Activity::Schedule, End::Other("an M takes the P"));
                self.processors[on as usize].machine = Some(entry.detail);
            }
            (EventKind::Spin, _) => self.change(on, when, Activity::Search, End::Other("finds no G")),
            _ => {}
        }
    }

    /// Called before an event of a P is replayed. If this event is the first one of the P, the trace does not say what
    /// the P did before. The exception is an event in which a G leaves the P: before this event, the P ran that G.
    fn assume(&mut self, on: u32, entry: &Entry) {
        let processor = &mut self.processors[on as usize];
        if processor.is_known {
            return;
        }
        processor.is_known = true;
        let leaves = [
            EventKind::Yield,
            EventKind::Preempt,
            EventKind::Park,
            EventKind::End,
            EventKind::SyscallEnter,
            EventKind::HandOff,
            EventKind::Switch,
        ];
        if let Some(goroutine) = entry.goroutine.filter(|_| leaves.contains(&entry.kind)) {
            processor.activity = Activity::Run(goroutine);
            self.goroutines[goroutine].ran_on = Some(on);
            self.numbers.idle -= 1;
            self.set(goroutine, State::Running);
        }
    }

    fn ready(&mut self, entry: &Entry, goroutine: usize) {
        let readied = Readied { at: entry.when, track: Some(entry.track), cause: Some(entry.cause) };
        if let State::Waiting { since, reason } = self.goroutines[goroutine].state {
            self.model.waits.push(Wait { goroutine, from: since, to: entry.when, reason, cause: entry.cause });
        }
        self.enqueue(goroutine, readied);
    }

    fn give_way(&mut self, on: u32, entry: &Entry, goroutine: usize, how: &'static str) {
        let readied = Readied { at: entry.when, track: Some(entry.track), cause: None };
        self.enqueue(goroutine, readied);
        self.change(on, entry.when, Activity::Schedule, End::Other(how));
    }

    /// Called when a G switches to the other G of its coroutine.
    fn switch(&mut self, on: u32, entry: &Entry, goroutine: usize) {
        let (when, next) = (entry.when, entry.detail as usize);
        if let State::Waiting { since, reason } = self.goroutines[next].state {
            let cause = Cause::Goroutine(goroutine);
            self.model.waits.push(Wait { goroutine: next, from: since, to: when, reason, cause });
        }
        self.set(goroutine, State::Waiting { since: when, reason: WaitReason::Coroutine });
        self.set(next, State::Running);
        self.change(on, when, Activity::Run(next), End::Parks(WaitReason::Coroutine));
    }

    fn enqueue(&mut self, goroutine: usize, readied: Readied) {
        self.set(goroutine, State::Runnable);
        let g = &mut self.goroutines[goroutine];
        (g.readied, g.stolen) = (Some(readied), None);
    }

    fn set(&mut self, goroutine: usize, state: State) {
        let old = std::mem::replace(&mut self.goroutines[goroutine].state, state);
        for (state, is_new) in [(old, false), (state, true)] {
            let number = match state {
                State::Running => &mut self.numbers.running,
                State::Runnable => &mut self.numbers.runnable,
                _ => continue,
            };
            *number = if is_new { *number + 1 } else { *number - 1 };
        }
    }

    fn start(&mut self, on: u32, entry: &Entry, goroutine: usize) {
        let when = entry.when;
        self.unblock(goroutine, when.saturating_sub(entry.detail));
        let g = &mut self.goroutines[goroutine];
        // If the `Ready` event is lost, the latency in the `Start` event shows when the G was readied.
        let at = when.saturating_sub(entry.detail);
        if let State::Waiting { since, reason } = g.state {
            let cause = Cause::Unknown;
            self.model.waits.push(Wait { goroutine, from: since.min(at), to: at, reason, cause });
            g.readied = None;
        }
        let unseen = Readied { at, track: None, cause: Some(Cause::Unknown) };
        let readied = g.readied.take().unwrap_or(unseen);
        let (stolen, raised) = (g.stolen.take(), g.raised.take());
        self.set(goroutine, State::Running);
        let mut arrow = |kind, from| self.model.arrows.push(Arrow { kind, from, to: (when, on), goroutine });
        let origin = readied.track.map(|track| (readied.at, track));
        match (readied.cause, origin) {
            (Some(Cause::Goroutine(_) | Cause::Unknown | Cause::Return), Some(origin)) => {
                arrow(ArrowKind::Ready, origin);
            }
            (Some(Cause::Device), Some(origin)) => arrow(ArrowKind::Device, raised.unwrap_or(origin)),
            (Some(Cause::Timer), Some(origin)) => arrow(ArrowKind::Timer, origin),
            _ => {}
        }
        if let Some((at, victim)) = stolen {
            arrow(ArrowKind::Steal, (at, Track::Processor(victim)));
        }
        if let Some(at) = self.processors[on as usize].handed_off.take() {
            arrow(ArrowKind::HandOff, (at, Track::Processor(on)));
        }
        self.change(on, when, Activity::Run(goroutine), End::Other("runs a G"));
        self.processors[on as usize].readied = Some(readied);
    }

    fn hand_off(&mut self, on: u32, when: u64, goroutine: usize, how: &'static str) {
        let machine = self.processors[on as usize].machine;
        self.set(goroutine, State::Blocked { since: when, machine });
        self.processors[on as usize].handed_off = Some(when);
        self.change(on, when, Activity::Idle, End::Other(how));
        self.processors[on as usize].machine = None;
    }

    fn release(&mut self, on: u32, when: u64, activity: Activity) {
        self.change(on, when, activity, End::Other("the M releases the P"));
        self.processors[on as usize].machine = None;
    }

    /// If the G is in a system call and its M has lost the P, adds the period in which the M was blocked, which ends at
    /// `to`. Called when the G returns from the call or starts to run, and at the end of the trace.
    fn unblock(&mut self, goroutine: usize, to: u64) {
        if let State::Blocked { since, machine: Some(machine) } = self.goroutines[goroutine].state {
            self.model.blocked.push(Blocked { machine, goroutine, from: since, to: to.max(since) });
        }
    }

    /// Ends the current period of a P and begins the next one.
    fn change(&mut self, on: u32, when: u64, activity: Activity, end: End) {
        let processor = &mut self.processors[on as usize];
        self.model.slices.push(Slice {
            processor: on,
            machine: processor.machine,
            activity: processor.activity,
            from: processor.since,
            to: when,
            end,
            readied: processor.readied.take(),
            migrated_from: processor.migrated_from.take(),
        });
        if let Activity::Run(goroutine) | Activity::Syscall(goroutine) = activity {
            let ran_on = self.goroutines[goroutine].ran_on.replace(on);
            processor.migrated_from = ran_on.filter(|&ran_on| ran_on != on);
        }
        let old = std::mem::replace(&mut processor.activity, activity);
        processor.since = when;
        self.numbers.idle += usize::from(activity == Activity::Idle);
        self.numbers.idle -= usize::from(old == Activity::Idle);
        self.numbers.spinning += usize::from(activity == Activity::Search);
        self.numbers.spinning -= usize::from(old == Activity::Search);
    }

    fn count(&mut self, when: u64) {
        let numbers = Numbers { when, ..self.numbers };
        if self.model.numbers.last().is_none_or(|last| Numbers { when, ..*last } != numbers) {
            self.model.numbers.push(numbers);
        }
        let local = self.queues.processors.iter().map(Local::waiting);
        let now = local.chain([self.queues.global.len()]);
        for (number, (length, last)) in now.zip(&mut self.lengths).enumerate() {
            if length != *last {
                let processor = (number < self.queues.processors.len()).then_some(number as u32);
                self.model.queue_lengths.push(QueueLength { when, processor, length });
                *last = length;
            }
        }
    }
}

fn wait_reason(detail: u64) -> WaitReason {
    WaitReason::of_number(u8::try_from(detail).unwrap_or(u8::MAX))
}

fn preemption(detail: u64) -> &'static str {
    match detail {
        detail if detail == PreemptReason::WorldStop as u64 => "is preempted: the world stops",
        detail if detail == PreemptReason::Urgent as u64 => "is preempted: an urgent G runs first",
        _ => "is preempted: its slice is over",
    }
}
