//! Slices: a runnable G waits a bounded number of them, whatever the others do.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::platform::{channel, go, syscall, yield_now};

/// After so many steps a G ends by itself that would have given way long before: a failure does not hang.
const MOST: usize = 30_000_000;

/// Gs that make system calls in a loop, more than there are Ps, each too short for its P to be taken away.
fn short_system_calls_leave_the_others_their_turns() {
    let (round, callers) = (Arc::new(AtomicUsize::new(1)), 4);
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..callers).map(|_| AtomicUsize::new(0)).collect());
    let handles: Vec<_> = (0..callers)
        .map(|caller| {
            let (round, seen) = (round.clone(), seen.clone());
            go(move || {
                let calls = (0..MOST).take_while(|_| {
                    syscall(|| ());
                    seen[caller].store(round.load(Ordering::Relaxed), Ordering::Relaxed);
                    round.load(Ordering::Relaxed) != 0
                });
                calls.count()
            })
        })
        .collect();
    for number in 1..=3 {
        round.store(number, Ordering::Relaxed);
        // All others have a turn in each round, and so has this one.
        while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < number) {
            yield_now();
        }
    }
    round.store(0, Ordering::Relaxed);
    for handle in handles {
        assert!(handle.join().unwrap() < MOST, "a G was never made to give way");
    }
}
shared_test!(short_system_calls_leave_the_others_their_turns, procs = &[1, 2]);

/// Each of two Gs readies the other and waits for it: they share a slice, and then it is over.
fn two_that_wake_each_other_leave_the_others_their_turns() {
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
    for _ in 0..5 {
        yield_now();
    }
    done.store(true, Ordering::Relaxed);
    assert!(first.join().unwrap() < MOST / 10, "two Gs kept their P for themselves");
    second.join().unwrap();
}
shared_test!(two_that_wake_each_other_leave_the_others_their_turns, procs = &[1]);

/// A G computes, and what it spawned waits on its P; on the other P a G does nothing but yield.
fn a_goroutine_that_yields_alone_makes_way_for_those_of_other_processors() {
    let [is_alone, is_found, is_over] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let hog = {
        let (is_alone, is_found, is_over) = (is_alone.clone(), is_found.clone(), is_over.clone());
        go(move || {
            while !is_alone.load(Ordering::Relaxed) {
                spin_loop();
            }
            let found = is_found.clone();
            go(move || found.store(true, Ordering::Relaxed)).detach();
            let spins = (0..100 * MOST).take_while(|_| !is_found.load(Ordering::Relaxed)).count();
            is_over.store(true, Ordering::Relaxed);
            spins
        })
    };
    while !is_over.load(Ordering::Relaxed) {
        yield_now();
        // The other P is the hog's, which spins until it sees this.
        is_alone.store(true, Ordering::Relaxed);
    }
    assert!(hog.join().unwrap() < 100 * MOST, "nobody looked at the other P");
    assert!(is_found.load(Ordering::Relaxed));
}
shared_test!(a_goroutine_that_yields_alone_makes_way_for_those_of_other_processors, procs = &[2]);
