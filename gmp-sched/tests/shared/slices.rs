//! Tests of slices: a runnable G waits for a bounded number of slices, whatever other Gs do.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use super::platform::{channel, go, pull, sleep, syscall, tick, yield_now};
use super::several::spawn_each;

/// The limit on the steps of a G that should be preempted much earlier. The G ends after this number of steps, so that
/// a failing test does not hang.
const MOST: usize = 30_000_000;

/// The limit on the calls of a G in [`short_system_calls_do_not_starve_other_gs`]. A G needs minutes for so many calls.
/// The limit is so large because a busy host may run one M for a long time before it runs the M of the main G.
const MOST_CALLS: usize = 2_000_000_000;

/// There are more Gs than Ps, and each G makes system calls in a loop. No call is so long that sysmon would retake the
/// P because of the call. Nevertheless, each G is preempted at the end of its slice, so that all Gs run in every round.
fn short_system_calls_do_not_starve_other_gs() {
    let (round, callers) = (Arc::new(AtomicUsize::new(1)), 4);
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..callers).map(|_| AtomicUsize::new(0)).collect());
    let handles = spawn_each(0..callers, |caller| {
        let (round, seen) = (round.clone(), seen.clone());
        move || {
            let calls = (0..MOST_CALLS).take_while(|_| {
                syscall(|| ());
                seen[caller].store(round.load(Ordering::Relaxed), Ordering::Relaxed);
                round.load(Ordering::Relaxed) != 0
            });
            calls.count()
        }
    });
    for number in 1..=3 {
        round.store(number, Ordering::Relaxed);
        // Waits until all other Gs have run in this round.
        while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < number) {
            yield_now();
        }
    }
    round.store(0, Ordering::Relaxed);
    for handle in handles {
        assert!(handle.join().unwrap() < MOST_CALLS, "a G was never made to give way");
    }
}
shared_test!(short_system_calls_do_not_starve_other_gs, procs = &[1, 2]);

/// Two Gs that ready each other share one slice. When this slice ends, other Gs run.
fn two_gs_that_ready_each_other_do_not_starve_others() {
    let done = Arc::new(AtomicBool::new(false));
    let (to_first, from_second) = channel::<()>(0);
    let (to_second, from_first) = channel::<()>(0);
    let is_done = done.clone();
    let first = go(move || {
        let rounds = (0..MOST / 10).take_while(|_| {
            to_second.send(()).unwrap();
            from_second.recv().unwrap();
            !is_done.load(Ordering::Relaxed)
        });
        rounds.count()
    });
    let second = go(move || from_first.iter().for_each(|()| to_first.send(()).unwrap()));
    yield_within_slices();
    done.store(true, Ordering::Relaxed);
    assert!(first.join().unwrap() < MOST / 10, "two Gs kept their P for themselves");
    second.join().unwrap();
}
shared_test!(two_gs_that_ready_each_other_do_not_starve_others, procs = &[1]);

/// Makes a coroutine and takes values from it until `done` is set, but at most [`MOST`] values. The coroutine and its
/// caller switch to each other directly and share one slice. Returns the number of values.
fn pull_until(done: &AtomicBool) -> usize {
    pull(|yielder| while yielder.yield_value(()) {}).take(MOST).take_while(|()| !done.load(Ordering::Relaxed)).count()
}

/// When the slice that a coroutine shares with its caller ends, other Gs run.
fn coroutine_does_not_starve_others() {
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let puller = go(move || pull_until(&is_done));
    yield_within_slices();
    done.store(true, Ordering::Relaxed);
    assert!(puller.join().unwrap() < MOST, "a coroutine kept its P for itself");
}
shared_test!(coroutine_does_not_starve_others, procs = &[1]);

/// A timer fires although a coroutine and its caller are the only runnable Gs and only switch to each other.
fn coroutine_does_not_keep_timers_from_firing() {
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let sleeper = go(move || {
        sleep(Duration::from_millis(1));
        done.store(true, Ordering::Relaxed);
    });
    yield_now();
    assert!(pull_until(&is_done) < MOST, "the timer did not fire");
    sleeper.join().unwrap();
}
shared_test!(coroutine_does_not_keep_timers_from_firing, procs = &[1]);

/// Each G spawns the next one. The new G shares the slice of its creator, so the slice ends although the running G
/// changes. The test does not count slices, because they can be very short: if a G is preempted after its spawn, the
/// next G begins a new slice at once.
fn chain_of_spawned_gs_does_not_starve_others() {
    fn link(done: Arc<AtomicBool>, left: usize) {
        if left == 0 {
            done.store(true, Ordering::Relaxed);
        } else if !done.load(Ordering::Relaxed) {
            go(move || link(done, left - 1)).detach();
        }
    }
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    go(move || link(is_done, MOST)).detach();
    for _ in 0..5 {
        yield_now();
    }
    assert!(!done.swap(true, Ordering::Relaxed), "the chain kept its P for itself");
}
shared_test!(chain_of_spawned_gs_does_not_starve_others, procs = &[1]);

/// Yields five times on the only P. Up to two other Gs are runnable, and each may run for one slice during a yield. A G
/// whose slice is over, and that waits in the global queue, runs once more if the P happens to check that queue first,
/// which it does once in 61 slices. So at most four slices begin: those of the other Gs, and the next slice of this G.
fn yield_within_slices() {
    for _ in 0..5 {
        let before = tick();
        yield_now();
        let slices = tick() - before;
        assert!(slices <= 4, "{slices} slices of others began during a yield");
    }
}
