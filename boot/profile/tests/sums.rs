//! Tests of how events are summed up.

use gmp_sched::goroutine::WaitReason;
use gmp_sched::trace::{Event, EventKind, PreemptReason, Track, TrackTrace};
use profile::{Profile, Sample};
use proptest::prelude::{prop_assert_eq, proptest};

/// Makes an event from the words of its binary form.
fn event(when: u64, kind: EventKind, goroutine: u64, detail: u64) -> Event {
    let mut bytes = [0; Event::BYTES];
    for (part, word) in bytes.chunks_exact_mut(8).zip([when, goroutine, (kind as u64) << 56 | detail]) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    Event::from_bytes(bytes).expect("a known kind")
}

/// The events that define the call stack with this number.
fn defined(number: u64, addresses: &[u64]) -> Vec<Event> {
    let frames = addresses.iter().map(|&address| event(0, EventKind::CallStackFrame, 0, address & ((1 << 56) - 1)));
    [event(0, EventKind::CallStackBegin, 0, number)].into_iter().chain(frames).collect()
}

const ON_P0: Track = Track::Processor(0);
const ON_P1: Track = Track::Processor(1);

fn profile(tracks: &[(Track, Vec<Event>)]) -> Profile {
    let traces: Vec<_> =
        tracks.iter().map(|(track, events)| TrackTrace { track: *track, events: events.clone(), lost: 2 }).collect();
    Profile::new(&traces)
}

fn park(when: u64, goroutine: u64, reason: WaitReason, stack: u64) -> [Event; 2] {
    [event(when, EventKind::Park, goroutine, reason as u64), event(when, EventKind::CallStack, goroutine, stack)]
}

fn park_for_lock(when: u64, goroutine: u64, lock: u64) -> Vec<Event> {
    let lock = event(when, EventKind::LockWait, goroutine, lock);
    [&park(when, goroutine, WaitReason::MutexLock, 1)[..], &[lock]].concat()
}

fn ready_by_unlock(when: u64, goroutine: u64, lock: u64, stack: u64) -> [Event; 3] {
    [
        event(when, EventKind::Ready, goroutine, 99),
        event(when, EventKind::Unlock, goroutine, lock),
        event(when, EventKind::CallStack, goroutine, stack),
    ]
}

fn sample(stack: &[u64], reason: Option<WaitReason>, count: u64, nanoseconds: u64) -> Sample {
    Sample { stack: stack.to_vec(), reason, count, nanoseconds }
}

#[test]
fn waits_are_summed_up_by_call_stack_and_reason() {
    const KERNEL: u64 = 0xffff_8000_0012_3456;
    let receive = WaitReason::ChanReceive;
    let on_p0 = [
        defined(1, &[KERNEL, 6]),
        park(100, 16, receive, 1).to_vec(),
        park(110, 17, receive, 1).to_vec(),
        park(120, 18, WaitReason::Sleep, 1).to_vec(),
        park(130, 19, receive, 7).to_vec(),
        park(140, 20, receive, 1).to_vec(),
    ];
    let on_p1 = vec![
        event(150, EventKind::Ready, 16, 0),
        event(160, EventKind::Start, 16, 10),
        // The event that readies G 17 was lost.
        event(170, EventKind::Start, 17, 10),
        event(180, EventKind::Ready, 18, 0),
        event(190, EventKind::Ready, 19, 0),
        event(500, EventKind::Yield, 16, 0),
    ];
    let profile = profile(&[(ON_P1, on_p1), (ON_P0, on_p0.concat())]);
    let expected = [
        sample(&[KERNEL, 6], Some(receive), 2, 50 + 60),
        sample(&[], Some(receive), 1, 60),
        sample(&[KERNEL, 6], Some(WaitReason::Sleep), 1, 60),
    ];
    assert_eq!(profile.block, expected);
    assert_eq!((profile.mutex, profile.cpu), (vec![], vec![]));
    assert_eq!((profile.waiting, profile.lost, profile.duration), (1, 4, 500));
}

#[test]
fn unlock_is_charged_the_time_of_all_that_wait_for_the_lock() {
    let on_p0 = [
        [defined(1, &[5]), defined(2, &[8]), defined(3, &[9])].concat(),
        park_for_lock(100, 16, 0x10),
        park_for_lock(110, 17, 0x10),
        park_for_lock(120, 18, 0x20),
        park_for_lock(130, 19, 0x10),
    ];
    let on_p1 = [
        ready_by_unlock(200, 16, 0x10, 2).to_vec(),
        // The wait of G 19 ends at its limit, so no unlock has ended it.
        vec![event(220, EventKind::Ready, 19, 0)],
        ready_by_unlock(230, 17, 0x10, 3).to_vec(),
        ready_by_unlock(300, 18, 0x20, 3).to_vec(),
    ];
    let profile = profile(&[(ON_P0, on_p0.concat()), (ON_P1, on_p1.concat())]);
    // The first unlock ends a wait of 100 ns. At that time, two more Gs have waited for the same lock, for 90 ns and
    // for 70 ns.
    let expected = [sample(&[8], None, 1, 100 + 90 + 70), sample(&[9], None, 2, 30 + 180)];
    assert_eq!(profile.mutex, expected);
    let block = 100 + 120 + 180 + 90;
    assert_eq!(profile.block, [sample(&[5], Some(WaitReason::MutexLock), 4, block)]);
}

/// Computes the charge of each unlock by visiting each G that waits for the lock. An action is the time since the previous
/// action, a G, a lock, and what happens: 0 if the G parks for the lock, 1 if the G's wait ends at its limit, and
/// otherwise an unlock of the lock readies the G.
fn charges_by_visits(actions: &[(u64, u64, u64, u8)]) -> Vec<u64> {
    struct Waiting {
        goroutine: u64,
        lock: u64,
        uncharged: u64,
    }
    let (mut now, mut waiting, mut charges) = (0, Vec::<Waiting>::new(), Vec::new());
    for &(delay, goroutine, lock, what) in actions {
        now += delay;
        if what > 1 {
            let queue = waiting.iter_mut().filter(|waiting| waiting.lock == lock);
            charges.push(queue.map(|waiting| now - std::mem::replace(&mut waiting.uncharged, now)).sum());
        }
        waiting.retain(|waiting| waiting.goroutine != goroutine);
        if what == 0 {
            waiting.push(Waiting { goroutine, lock, uncharged: now });
        }
    }
    charges
}

proptest! {
    #[test]
    fn charges_are_those_of_a_visit_of_each_waiting_g(
        start in 0..u64::MAX / 2,
        actions in proptest::collection::vec((0_u64..4, 16_u64..24, 1_u64..3, 0_u8..4), 0..60),
    ) {
        let (mut now, mut events, mut unlocks) = (start, Vec::new(), 0);
        for &(delay, goroutine, lock, what) in &actions {
            now += delay;
            match what {
                0 => events.extend(park_for_lock(now, goroutine, lock)),
                1 => events.push(event(now, EventKind::Ready, goroutine, 0)),
                _ => {
                    unlocks += 1;
                    events.extend(defined(unlocks, &[unlocks]));
                    events.extend(ready_by_unlock(now, goroutine, lock, unlocks));
                }
            }
        }
        let mut shown = profile(&[(ON_P0, events)]).mutex;
        shown.sort_by(|left, right| left.stack.cmp(&right.stack));
        let expected = charges_by_visits(&actions).into_iter().zip(1..);
        let expected: Vec<_> = expected.map(|(charge, unlock)| sample(&[unlock], None, 1, charge)).collect();
        prop_assert_eq!(shown, expected);
    }
}

#[test]
fn unlock_in_a_commit_is_charged_to_the_park() {
    let condvar = |when| park(when, 17, WaitReason::CondvarWait, 2);
    let [ready, unlock, _] = ready_by_unlock(200, 16, 0x10, 0);
    let on_p0 =
        [defined(1, &[5]), defined(2, &[8]), park_for_lock(100, 16, 0x10), condvar(190).to_vec(), vec![ready, unlock]];
    let profile = profile(&[(ON_P0, on_p0.concat())]);
    assert_eq!(profile.mutex, [sample(&[8], None, 1, 100)]);
}

#[test]
fn sample_of_a_cpu_counts_its_busy_time_since_the_sample_before() {
    const CPU: Track = Track::Cpu(3);
    let interrupt =
        |when, stack| [event(when, EventKind::Interrupt, 0, 77), event(when, EventKind::CallStack, 0, stack)];
    let on_cpu = [
        [defined(1, &[5]), defined(2, &[8])].concat(),
        vec![event(100, EventKind::RunMachine, 0, 0)],
        interrupt(110, 1).to_vec(),
        vec![event(115, EventKind::InterruptEnd, 0, 0), event(120, EventKind::RunThread, 0, 0)],
        vec![event(130, EventKind::Halt, 0, 0)],
        // This interrupt ends the halt. The CPU runs no thread when the interrupt comes.
        interrupt(1000, 2).to_vec(),
        vec![event(1010, EventKind::RunMachine, 0, 0), event(1015, EventKind::Interrupt, 0, 78)],
        interrupt(1020, 2).to_vec(),
        interrupt(1050, 2).to_vec(),
    ];
    let profile = profile(&[(CPU, on_cpu.concat())]);
    assert_eq!(profile.cpus, 1);
    assert_eq!(profile.cpu, [sample(&[8], None, 2, 20 + 10 + 30), sample(&[5], None, 1, 10)]);
}

#[test]
fn recording_without_waits_has_no_samples() {
    let run = vec![event(5, EventKind::Start, 1, 0), event(9, EventKind::Preempt, 1, PreemptReason::Slice as u64)];
    let expected = Profile { lost: 2, duration: 4, ..Profile::default() };
    assert_eq!(profile(&[(ON_P0, run)]), expected);
    assert_eq!(Profile::new(&[]), Profile::default());
}
