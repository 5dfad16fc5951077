//! The events that a profile consists of, in the order of their times, with their call stacks.

use std::collections::HashMap;

use gmp_sched::goroutine::{GoroutineId, WaitReason};
use gmp_sched::trace::{Event, EventKind, Track, TrackTrace};

use crate::samples::Stack;

/// One event.
pub(crate) struct Step {
    pub(crate) when: u64,
    pub(crate) what: What,
}

/// What has happened. Call stacks that are unknown are empty.
pub(crate) enum What {
    /// A G parks. If it waits for a lock, `lock` is the address of the lock.
    Park { goroutine: GoroutineId, reason: WaitReason, stack: Stack, lock: Option<u64> },
    /// The wait of a G ends. `unlocked` is set if an unlock has ended the wait.
    Ready { goroutine: GoroutineId, unlocked: Option<Unlocked> },
    /// A CPU begins to run a thread.
    Runs { cpu: u32 },
    /// A CPU has nothing to run.
    Halts { cpu: u32 },
    /// The timer interrupts a CPU.
    Timer { cpu: u32, stack: Stack },
}

/// The unlock that ends a wait.
pub(crate) struct Unlocked {
    pub(crate) lock: u64,
    pub(crate) stack: Stack,
}

/// Returns the events of all tracks, in the order of their times. Events of the same time are in the order of
/// [`Track`].
pub(crate) fn steps(traces: &[TrackTrace]) -> Vec<Step> {
    let stacks = call_stacks(traces);
    let mut traces: Vec<_> = traces.iter().collect();
    traces.sort_by_key(|trace| trace.track);
    let mut steps: Vec<_> = traces.into_iter().flat_map(|trace| steps_of(trace, &stacks)).collect();
    steps.sort_by_key(|step| step.when);
    steps
}

/// Returns all call stacks that the traces define, by their numbers.
fn call_stacks(traces: &[TrackTrace]) -> HashMap<u64, Stack> {
    let mut stacks = HashMap::new();
    for trace in traces {
        // The definition of a call stack is an event for its beginning and one event for each frame. If the first event
        // was lost, the frames are ignored.
        let mut current: Option<(u64, Stack)> = None;
        for event in &trace.events {
            match (event.kind, &mut current) {
                (EventKind::CallStackBegin, _) => {
                    stacks.extend(current.replace((event.detail, Vec::new())));
                }
                (EventKind::CallStackFrame, Some((_, stack))) => stack.push(address(event.detail)),
                _ => stacks.extend(current.take()),
            }
        }
        stacks.extend(current);
    }
    stacks
}

/// Restores an address from its lower 56 bits. Addresses are canonical: all upper bits of an address have the same
/// value.
fn address(detail: u64) -> u64 {
    ((detail << 8).cast_signed() >> 8).cast_unsigned()
}

/// Returns the events of one track, in their order.
fn steps_of(trace: &TrackTrace, stacks: &HashMap<u64, Stack>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // The call stack of the last park on this track. Some parks also release a lock, for example the wait for a
    // condition variable. Such an unlock is recorded without a call stack, and gets the call stack of the park.
    let mut last_park = Stack::new();
    for event in &trace.events {
        let when = event.when.as_nanos();
        if let Some(what) = step_of(event, trace.track) {
            steps.push(Step { when, what });
            continue;
        }
        let call_stack = || stacks.get(&event.detail).cloned().unwrap_or_default();
        if let (EventKind::CallStack, None, Track::Cpu(cpu)) = (event.kind, event.goroutine, trace.track) {
            steps.push(Step { when, what: What::Timer { cpu, stack: call_stack() } });
            continue;
        }
        let Some(Step { what, .. }) = steps.last_mut() else { continue };
        match what {
            What::Park { goroutine, stack, lock, .. } if event.goroutine == Some(*goroutine) => match event.kind {
                EventKind::CallStack => {
                    *stack = call_stack();
                    last_park.clone_from(stack);
                }
                EventKind::LockWait => *lock = Some(event.detail),
                _ => {}
            },
            What::Ready { goroutine, unlocked } if event.goroutine == Some(*goroutine) => match event.kind {
                EventKind::Unlock => *unlocked = Some(Unlocked { lock: event.detail, stack: last_park.clone() }),
                EventKind::CallStack => {
                    if let Some(unlocked) = unlocked {
                        unlocked.stack = call_stack();
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    steps
}

/// Returns what has happened according to `event`, with an empty call stack. Returns `None` for an event that only
/// contains a call stack or a lock, and for an event that profiles do not need.
fn step_of(event: &Event, track: Track) -> Option<What> {
    Some(match (event.kind, event.goroutine, track) {
        (EventKind::Park, Some(goroutine), _) => {
            let reason = WaitReason::of_number(u8::try_from(event.detail).unwrap_or(u8::MAX));
            What::Park { goroutine, reason, stack: Stack::new(), lock: None }
        }
        // If the event that ended the wait was lost, the wait is assumed to end when the G begins to run.
        (EventKind::Ready | EventKind::Start, Some(goroutine), _) => What::Ready { goroutine, unlocked: None },
        (EventKind::RunMachine | EventKind::RunThread, _, Track::Cpu(cpu)) => What::Runs { cpu },
        (EventKind::Halt, _, Track::Cpu(cpu)) => What::Halts { cpu },
        _ => return None,
    })
}
