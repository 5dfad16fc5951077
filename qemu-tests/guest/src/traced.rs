//! Tests of the trace of the machine: scripted programs, and exactly the events that they must have.
//!
//! The clock counts instructions, and the other CPUs wait for their turn, so all runs have the same events.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::device_signals::Signal;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::syscall::syscall;
use gmp_sched::trace::{Event, EventKind, PreemptReason, Track, TrackTrace};
use kernel::disk;
use kernel::percpu::CpuId;
use kernel::platform::{Kernel, scheduler, stop_the_world};
use kernel::prelude::*;

use crate::vectors;

/// Runs `script` with a trace, and returns the events of each track.
fn traced(script: impl FnOnce()) -> Vec<TrackTrace> {
    let scheduler = scheduler().expect("the scheduler runs");
    scheduler.start_trace(4000).expect("memory");
    script();
    scheduler.stop_trace();
    scheduler.traces()
}

/// Describes the events of the Ps and of callers without a P, in the order of their times. Leaves out the names of
/// functions and other texts. Also leaves out when a P becomes idle or busy and when its M searches for work: sysmon
/// can wake an M, too, so these events do not depend on the script alone. The first G that the script spawns is called
/// `a`, the second `b`, and so on. The P with the first event is called `first`, because any P may run main.
fn described(traces: &[TrackTrace]) -> Vec<String> {
    let of_scheduler = traces.iter().filter(|trace| !matches!(trace.track, Track::Cpu(_)));
    let mut events: Vec<(Track, Event)> = Vec::new();
    for trace in of_scheduler {
        assert_eq!(trace.lost, 0, "{:?}", trace.track);
        events.extend(trace.events.iter().map(|&event| (trace.track, event)));
    }
    // The sort is stable. So events of one track that happened at the same instant stay in order.
    events.sort_by_key(|(_, event)| event.when);
    let spawned: Vec<_> = events.iter().filter(|(_, event)| event.kind == EventKind::Spawn).collect();
    let name = |number: u64| {
        let index = spawned.iter().position(|(_, event)| event.goroutine.is_some_and(|id| id.get() == number));
        index.map_or("main".to_string(), |index| char::from(b'a' + index as u8).to_string())
    };
    let first = events.first().map(|&(track, _)| track);
    let processor = |track| if Some(track) == first { "first" } else { "other" };
    let describe = |(track, event): &(Track, Event)| {
        let goroutine = event.goroutine.map_or(String::new(), |id| format!(" {}", name(id.get())));
        let detail = match event.kind {
            EventKind::Ready if event.detail == 0 => String::new(),
            EventKind::Ready | EventKind::Spawn => format!(" by {}", name(event.detail)),
            EventKind::Park => format!(" {}", reason(event.detail)),
            EventKind::Preempt => {
                use PreemptReason::{Slice, Urgent, WorldStop};
                let mut reasons = [Slice, WorldStop, Urgent].into_iter();
                let reason = reasons.find(|&reason| reason as u64 == event.detail).expect("a reason");
                format!(" {reason:?}")
            }
            EventKind::Steal => {
                format!(", {} from {}", event.detail >> 32, processor(Track::Processor(event.detail as u32)))
            }
            EventKind::Idle
            | EventKind::Busy
            | EventKind::Spin
            | EventKind::Function
            | EventKind::TextBegin
            | EventKind::TextBytes => return None,
            _ => String::new(),
        };
        let place = match track {
            Track::Processor(_) => processor(*track),
            _ => "outside",
        };
        Some(format!("{place} {:?}{goroutine}{detail}", event.kind))
    };
    events.iter().filter_map(describe).collect()
}

/// Returns the name of the reason for a wait, as it is in the source.
fn reason(number: u64) -> String {
    format!("{:?}", WaitReason::of_number(number as u8))
}

/// Computes until the flag is set.
fn compute_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        spin_loop();
    }
}

/// Main communicates and sleeps. It makes two system calls: one returns at once, the other blocks the M. Then main
/// waits for a G that waits for a device, waits until a hog is preempted, and stops the world.
fn script_for_one_p() {
    static SIGNAL: Signal<Kernel> = Signal::new();
    static STOP: AtomicBool = AtomicBool::new(false);
    let vector = vectors::allocate(|_| SIGNAL.raise());

    let (sender, receiver) = channel(0);
    let receiving = go(move || receiver.recv());
    sender.send(7).expect("the other G receives");
    assert_eq!(receiving.join(), Ok(Ok(7)));

    sleep(Duration::from_millis(1));
    syscall::<Kernel, _>(|| ());
    let meanwhile = go(|| ());
    disk::delay(Duration::from_millis(1)).expect("memory for another M");
    meanwhile.join().expect("no G panics");

    let waiting = go(|| SIGNAL.wait());
    yield_now();
    vectors::send(CpuId::new(0), vector);
    waiting.join().expect("no G panics");

    let hog = go(|| compute_until(&STOP));
    yield_now();
    STOP.store(true, Ordering::Relaxed);
    hog.join().expect("no G panics");

    drop(stop_the_world());
}

fn scripted_program_has_exactly_the_expected_events() {
    let events = described(&traced(script_for_one_p));
    let expected = [
        "first Start main",
        "first Spawn a by main",
        "first Park main ChanSend",
        "first Start a",
        "first Ready main by a",
        "first End a",
        "first Start main",
        // The sleep.
        "first Park main Sleep",
        "first Timer",
        "first Ready main",
        "first Start main",
        // The two system calls. In the second one, the P runs another G.
        "first SyscallEnter main",
        "first SyscallExit main",
        "first Spawn b by main",
        "first HandOff main",
        "first Start b",
        "first End b",
        "first SyscallExit main",
        // The device.
        "first Spawn c by main",
        "first Yield main",
        "first Start c",
        "first Park c IoWait",
        "first Start main",
        "first Device c",
        "first Ready c by main",
        // The interrupt finds main computing, and main gives way to the G whose device is ready.
        "first Preempt main Urgent",
        "first Start c",
        "first End c",
        "first Start main",
        // The hog.
        "first Spawn d by main",
        "first Yield main",
        "first Start d",
        "first Preempt d Slice",
        "first GlobalPut d",
        "first Start main",
        "first Park main Join",
        "first GlobalTake d",
        "first Start d",
        "first Ready main by d",
        "first End d",
        "first Start main",
        "first WorldStop main",
        "first WorldStart main",
    ];
    assert_eq!(events, expected, "{events:#?}");
}
guest_test!(scripted_program_has_exactly_the_expected_events, smp = &[1], icount);

/// Main computes until the G that it has spawned has run. So the other P steals this G.
fn stolen_g_has_exactly_the_expected_events() {
    static RAN: AtomicBool = AtomicBool::new(false);
    let events = described(&traced(|| {
        let stolen = go(|| RAN.store(true, Ordering::Relaxed));
        compute_until(&RAN);
        stolen.join().expect("no G panics");
    }));
    let expected =
        ["first Start main", "first Spawn a by main", "other Steal a, 1 from first", "other Start a", "other End a"];
    assert_eq!(events, expected, "{events:#?}");
}
guest_test!(stolen_g_has_exactly_the_expected_events, smp = &[2], icount);
