//! Tests of the background G, which gives back what caches keep.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::platform::{Pinned, Scavenged};
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::EventKind;

use crate::explore::{Random, explore_on};
use crate::several::{go_each, join_all, spawn_each};

thread_local! {
    /// How many pieces the run on this host thread has in its caches. A simulated machine runs on one host thread.
    static CACHED: Cell<u64> = const { Cell::new(0) };
    /// How often the scavenger was called.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Whether the scavenger runs now.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Gives one piece back, and the stacks of dead Gs, and asks Ms to end.
fn scavenge() -> Scavenged {
    assert!(!RUNS.replace(true), "the background G runs twice");
    scheduler().end_surplus_machine();
    scheduler().free_idle_stacks(usize::MAX);
    CALLS.set(CALLS.get() + 1);
    sim::work(Duration::from_micros(20));
    let left = CACHED.get().saturating_sub(1);
    CACHED.set(left);
    RUNS.set(false);
    if left == 0 { Scavenged::Completely } else { Scavenged::InPart }
}

const MACHINE: fn() -> Config = || Config { scavenger: Some(scavenge), ..Config::default() };

fn scheduler() -> &'static Scheduler<Sim> {
    Pinned::<Sim>::new().machine().scheduler()
}

/// Begins a run. Resets the counters, because they belong to the host thread, which runs one seed after the other.
fn begin() {
    CACHED.set(0);
    CALLS.set(0);
    RUNS.set(false);
}

fn cache(pieces: u64) {
    CACHED.set(CACHED.get() + pieces);
    scheduler().note_growth();
}

/// Waits until the background G has given back the stacks of all dead Gs. It works once in a second. A P that an M holds
/// just then, to look for work, keeps its stacks until the next time.
fn wait_for_stacks() {
    for _ in 0..10 {
        if scheduler().cached_stacks() == 0 {
            return;
        }
        sim::sleep(Duration::from_millis(1_100));
    }
    panic!("{} stacks are left", scheduler().cached_stacks());
}

/// Gs take and free memory while others sleep, block and compute. An idle second later, nothing is cached any more, and
/// an idle machine stays idle.
#[test]
fn caches_are_empty_after_an_idle_second() {
    explore_on(MACHINE(), |seed| {
        begin();
        join_all(go_each(0..4, move |actor| {
            let mut random = Random::new(seed * 7 + actor);
            for _ in 0..6 {
                let time = Duration::from_nanos(random.below(300_000));
                match random.below(7) {
                    0 => cache(random.below(40)),
                    1 => sim::block(time),
                    2 => sim::sleep(time * 2000),
                    3 => sim::syscall(time / 10),
                    4 => sim::work(time * 10),
                    5 => sim::go(move || sim::work(time)).detach(),
                    _ => sim::yield_now(),
                }
            }
        }));
        cache(1);
        sim::sleep(Duration::from_millis(1_100));
        assert_eq!(CACHED.get(), 0, "pieces are left");
        wait_for_stacks();
        // The Gs above may have been the reason for one more pass.
        sim::sleep(Duration::from_millis(1_100));
        let calls = CALLS.get();
        sim::sleep(Duration::from_secs(10));
        assert_eq!(CALLS.get(), calls, "the background G ran with nothing to do");
    });
}

/// While the background G has much to do, timers are served in time.
#[test]
fn sleepers_displace_the_background_g() {
    explore_on(MACHINE(), |_| {
        begin();
        cache(1_000);
        sim::sleep(Duration::from_millis(1_001));
        let (rounds, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        join_all(spawn_each(0..3, |_| {
            let (rounds, late) = (rounds.clone(), late.clone());
            move || {
                while CACHED.get() > 0 {
                    let until = sim::elapsed() + Duration::from_micros(300);
                    sim::sleep(Duration::from_micros(300));
                    rounds.fetch_add(1, Ordering::Relaxed);
                    late.fetch_add(usize::from(sim::elapsed() > until + Duration::from_millis(1)), Ordering::Relaxed);
                }
            }
        }));
        let (rounds, late) = (rounds.load(Ordering::Relaxed), late.load(Ordering::Relaxed));
        assert!(rounds > 5, "the Gs slept only {rounds} times while the background G worked");
        assert!(late * 10 <= rounds, "{late} of {rounds} sleeps ended late");
    });
}

/// One of two Ps runs the background G. A G that the other P makes runnable waits for a piece of the work, and not for all
/// of it.
#[test]
fn other_gs_run_between_two_pieces() {
    for seed in 0..200 {
        let ran = sim::run(Config { seed, ..MACHINE() }, || {
            begin();
            cache(3_000);
            sim::sleep(Duration::from_millis(1_001));
            assert!(CALLS.get() > 0, "the background G does not work yet");
            let submitted = sim::elapsed();
            let waited = sim::go(move || sim::elapsed() - submitted);
            // Short steps, so that the other CPU makes progress meanwhile.
            for _ in 0..2_000 {
                sim::work(Duration::from_micros(2));
            }
            let waited = waited.join().unwrap();
            assert!(waited < Duration::from_millis(1), "a G waited for {waited:?}");
            assert!(CACHED.get() > 0, "there was not enough to do");
        });
        ran.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// While the background G works, something is put into a cache that this G has already emptied. It is given back a second
/// later.
#[test]
fn growth_during_the_work_is_given_back_later() {
    fn scavenge_once() -> Scavenged {
        CACHED.set(0);
        sim::work(Duration::from_millis(5));
        Scavenged::Completely
    }
    for seed in 0..100 {
        let processors = 1 + seed as usize % 2;
        let ran = sim::run(Config { seed, processors, scavenger: Some(scavenge_once), ..Config::default() }, || {
            begin();
            cache(1);
            sim::sleep(Duration::from_millis(1_002));
            cache(1);
            sim::sleep(Duration::from_millis(1_100));
            assert_eq!(CACHED.get(), 0, "a piece is left");
        });
        ran.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// While the background G works, the other P is busy, and has stacks of dead Gs. They are given back when it
/// has become idle.
#[test]
fn stacks_of_a_busy_p_are_given_back_when_it_is_idle() {
    for seed in 0..200 {
        let ran = sim::run(Config { seed, processors: 2, ..MACHINE() }, || {
            begin();
            join_all(spawn_each(0..8, |_| sim::yield_now));
            cache(1);
            while CALLS.get() == 0 {
                sim::work(Duration::from_millis(10));
            }
            wait_for_stacks();
        });
        ran.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A P that is busy all the time does not run the background G.
#[test]
fn busy_processors_do_not_run_the_background_g() {
    explore_on(MACHINE(), |_| {
        begin();
        cache(10);
        sim::sleep(Duration::from_millis(800));
        let is_over = Arc::new(AtomicBool::new(false));
        let hog = |_| {
            let is_over = is_over.clone();
            sim::go(move || {
                while !is_over.load(Ordering::Relaxed) {
                    sim::work(Duration::from_millis(10));
                }
            })
        };
        let hogs: Vec<_> = (0..scheduler().procs()).map(hog).collect();
        while sim::elapsed() < Duration::from_millis(1_030) {
            sim::work(Duration::from_millis(10));
        }
        assert_eq!(CALLS.get(), 0, "the background G ran while Gs were runnable");
        is_over.store(true, Ordering::Relaxed);
        join_all(hogs);
        sim::sleep(Duration::from_secs(2));
        assert_eq!(CACHED.get(), 0, "pieces are left");
    });
}

/// After many calls have blocked at once, the Ms that no P needs end. Later calls can block as before.
#[test]
fn surplus_ms_end_and_are_used_again() {
    explore_on(MACHINE(), |_| {
        begin();
        for _ in 0..2 {
            join_all(go_each(0..12, move |_| sim::block(Duration::from_millis(5))));
            assert!(scheduler().machines().count() >= 12);
            sim::sleep(Duration::from_secs(2));
            let kept = scheduler().machines().count();
            assert!(kept <= scheduler().procs() + 1, "{kept} Ms are left for {} Ps", scheduler().procs());
        }
    });
}

/// Many calls block for three seconds. The background G runs before they end, because Ms were made for them. After the
/// calls, their Gs wait, so no stack of a G is cached that would be another reason for the background G to run.
/// Nevertheless, the Ms that no P needs any more end.
#[test]
fn surplus_ms_end_after_calls_that_outlast_the_background_g() {
    explore_on(MACHINE(), |_| {
        begin();
        let (sender, receiver) = sim::channel::<()>(0);
        let callers = go_each(0..12, move |_| {
            sim::block(Duration::from_secs(3));
            receiver.recv().unwrap_err();
        });
        sim::sleep(Duration::from_secs(6));
        let kept = scheduler().machines().count();
        assert!(kept <= scheduler().procs() + 1, "{kept} Ms are left for {} Ps", scheduler().procs());
        drop(sender);
        join_all(callers);
    });
}

/// The background G does not count as a G of the program, and its wait does not hide a deadlock.
#[test]
fn deadlock_is_reported_beside_the_background_g() {
    for seed in 0..100 {
        let config = Config { seed, ..MACHINE() };
        let failure = sim::run(config, || {
            begin();
            assert_eq!(scheduler().num_goroutine(), 1);
            cache(3);
            sim::sleep(Duration::from_secs(2));
            cache(3);
            let (sender, receiver) = sim::channel::<u64>(0);
            let _unused = receiver.recv();
            drop(sender);
        })
        .expect_err("all Gs wait");
        assert!(failure.message.contains("all goroutines are asleep - deadlock!"), "{failure}");
        assert!(failure.message.contains("2 waiting GC scavenge wait"), "the report lists it: {failure}");
    }
}

/// If main has exited and no other G is left, the background G does not count as one that waits.
#[test]
fn background_g_is_none_of_those_that_are_left() {
    for seed in 0..100 {
        let failure = sim::run(Config { seed, ..MACHINE() }, || {
            begin();
            sim::goexit();
        })
        .expect_err("no G is left");
        assert!(failure.message.contains("no goroutines (main called runtime.Goexit) - deadlock!"), "{failure}");
    }
}

#[test]
fn trace_shows_the_background_g() {
    let (ran, traces) = sim::run_traced(MACHINE(), 10_000, || {
        begin();
        cache(3);
        sim::sleep(Duration::from_secs(2));
        assert_eq!(CACHED.get(), 0);
    });
    ran.unwrap();
    let count = |kind| {
        let events = traces.iter().flat_map(|track| &track.events);
        events.filter(|event| event.kind == kind && event.goroutine.is_some_and(|id| id.get() == 2)).count()
    };
    assert_eq!(count(EventKind::Spawn), 1);
    assert!(count(EventKind::Name) > 0 && count(EventKind::Start) > 0 && count(EventKind::Park) > 0);
}
