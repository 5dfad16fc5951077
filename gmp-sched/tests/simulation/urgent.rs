//! Urgent Gs in the simulator: they run before others, but let others have their turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gmp_sched::platform::SLICE;
use gmp_sched::sim;

use crate::explore::explore;
use crate::hogs::Hogs;

/// A G that is urgent when a slice is over lets another G run undisturbed before it continues.
#[test]
fn urgent_g_gives_way_at_the_end_of_a_slice() {
    explore(|_| {
        if sim::config().cpus > 1 || sim::config().processors > 1 {
            return;
        }
        let hogs = Hogs::start(2, Duration::from_millis(1));
        let urgent = sim::go(|| {
            // Only an interrupt notices that a slice has begun or is over. Here these are the interrupts of two timers.
            sim::go(|| sim::sleep(SLICE + SLICE / 20)).detach();
            sim::sleep(SLICE / 100);
            sim::sleep(SLICE / 4);
            let before = sim::elapsed();
            sim::work(SLICE);
            sim::elapsed() - before
        });
        let took = urgent.join().unwrap();
        hogs.stop();
        assert!(took >= SLICE + Duration::from_micros(50), "no other G has run: took {took:?}");
    });
}

/// At any time the timer of some sleeper is due, and each sleeper readies another G before it sleeps again.
/// Nevertheless, the Gs in the ring run.
#[test]
fn ring_runs_beside_sleepers_that_ready_others() {
    explore(|seed| {
        // Only one seed in 32 is run, because each run has thousands of sleeps.
        if !seed.is_multiple_of(32) {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let pairs: Vec<_> = (0..16)
            .map(|_| {
                let stop = stop.clone();
                let (to, from) = sim::channel::<()>(1);
                let server = sim::go(move || from.iter().for_each(|()| ()));
                let client = sim::go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        sim::sleep(Duration::from_nanos(1));
                        let _ = to.try_send(());
                    }
                });
                [server, client]
            })
            .collect();
        let before = sim::elapsed();
        for _ in 0..2 {
            sim::yield_now();
        }
        let took = sim::elapsed() - before;
        // With more Ps than CPUs, the M that runs main may have to wait while another M uses the CPU for a slice.
        let may_wait_for_cpu = sim::config().processors > sim::config().cpus;
        assert!(may_wait_for_cpu || took < SLICE, "took {took:?}: the ring waited for the end of a slice");
        stop.store(true, Ordering::Relaxed);
        pairs.into_iter().flatten().for_each(|goroutine| goroutine.join().unwrap());
    });
}

/// A G that is still urgent, but has waited in the ring, runs. Urgent Gs that displace it begin a new row of urgent Gs,
/// and another G runs as soon as the time of this row is over.
#[test]
fn row_of_urgent_gs_begins_when_the_first_displaces_a_g_of_the_ring() {
    explore(|_| {
        if sim::config().cpus > 1 || sim::config().processors > 1 {
            return;
        }
        let displaced = [(); 2].map(|()| {
            sim::go(|| {
                sim::sleep(SLICE / 100);
                sim::yield_now();
                sim::work(SLICE / 2);
            })
        });
        let first = sim::go(|| {
            sim::sleep(SLICE / 10);
            sim::work(SLICE / 2);
        });
        let others = [(); 2].map(|()| {
            sim::go(|| {
                sim::sleep(SLICE / 4);
                // Meanwhile the timer of the other one is due, too.
                sim::work(SLICE / 1000);
                sim::elapsed()
            })
        });
        let [second, third] = others.map(|other| other.join().unwrap());
        displaced.into_iter().chain([first]).for_each(|goroutine| goroutine.join().unwrap());
        let apart = third.max(second) - third.min(second);
        assert!(apart >= Duration::from_micros(50), "two urgent Gs run in a row, {apart:?} apart");
    });
}
