//! Gs that are locked to their Ms, in the simulator, and Gs that ready each other by `park` and `ready`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gmp_sched::goroutine::WaitReason;
use gmp_sched::park::{park, ready};
use gmp_sched::platform::SLICE;
use gmp_sched::sim::{self, Config, Sim};

use crate::explore::{Random, explore, explore_with};
use crate::several::{go_each, join_all, spawn_each};

/// A binary semaphore for one waiter, built from park and ready.
#[derive(Default)]
struct Baton {
    /// 1 if the semaphore can be taken, 0 if it is taken and no G waits, otherwise the address of the waiting G.
    state: AtomicU64,
}

impl Baton {
    fn take(&self) {
        while self.state.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
            park::<Sim>(WaitReason::Parked, |_, me| {
                let me = std::ptr::from_ref(me).expose_provenance() as u64;
                self.state.compare_exchange(0, me, Ordering::Release, Ordering::Relaxed).is_ok()
            });
        }
    }

    fn give(&self) {
        let waiter = self.state.swap(1, Ordering::AcqRel);
        if waiter > 1 {
            // SAFETY: a value above 1 is the address of a G, which the commit of its park in `take` has stored. Gs are
            // never freed.
            let waiter = unsafe { &*std::ptr::with_exposed_provenance(waiter as usize) };
            // SAFETY: the commit of the G's park has stored the address, and uses nothing of the G afterwards. The swap
            // has removed the address, so no other caller readies the G.
            unsafe { ready::<Sim>(waiter) };
        }
    }
}

/// Gs in a ring pass a baton around. Some of them are locked, so their passes of the baton switch to another M. A locked
/// G never changes its M.
fn pass_batons(seed: u64, places: usize, is_locked: fn(usize) -> bool) {
    let ring: Arc<Vec<Baton>> = Arc::new((0..places).map(|_| Baton::default()).collect());
    let runners = spawn_each(0..places, |place| {
        let ring = ring.clone();
        move || {
            let mut random = Random::new(seed + place as u64);
            let locked = is_locked(place).then(|| sim::lock_thread());
            let machine = sim::machine();
            for _ in 0..6 {
                ring[place].take();
                match random.below(6) {
                    0 => sim::work(Duration::from_micros(random.below(50))),
                    1 => sim::sleep(Duration::from_micros(random.below(50))),
                    2 => sim::block(Duration::from_micros(random.below(50))),
                    3 => sim::yield_now(),
                    4 => sim::syscall(Duration::from_micros(random.below(50))),
                    _ => {}
                }
                assert!(locked.is_none() || sim::machine() == machine, "a locked G changed its M");
                ring[(place + 1) % places].give();
            }
        }
    });
    ring[0].give();
    join_all(runners);
}

#[test]
fn batons_in_a_ring_are_never_lost() {
    explore(|seed| pass_batons(seed, 5, |_| false));
}

#[test]
fn locked_gs_pass_batons_between_ms() {
    explore_with(8, |seed| pass_batons(seed, 4, |place| place != 1));
}

/// When an M is assigned a P to run its locked G, its CPU begins to take the timer interrupts of that P. So a locked G
/// that computes does not delay timers.
#[test]
fn computing_locked_g_does_not_delay_timers() {
    for seed in 0..300 {
        let config = Config { cpus: 1, processors: 1, seed, ..Config::default() };
        let run = sim::run(config, move || {
            let hog = sim::go(|| {
                let _locked = sim::lock_thread();
                for _ in 0..6 {
                    // Other Gs run first, so the M releases its P and is assigned a P again.
                    sim::yield_now();
                    sim::work(Duration::from_millis(9));
                }
            });
            for round in 0..6 {
                let nap = Duration::from_micros(200 + (seed * 37 + round * 101) % 3000);
                let before = sim::elapsed();
                sim::sleep(nap);
                let late = sim::elapsed() - before - nap;
                assert!(late < Duration::from_millis(2), "woke {late:?} late");
                sim::go(|| ()).detach();
            }
            hog.join().unwrap();
        });
        run.unwrap();
    }
}

/// A locked G computes on its P, which has no other Gs. It gives the P up when the world is to stop, although it is the
/// first of the list of locked Gs and nothing else could run there.
#[test]
fn locked_g_that_is_alone_on_its_p_lets_the_world_stop() {
    for seed in 0..50 {
        let config = Config { cpus: 2, processors: 2, seed, ..Config::default() };
        let run = sim::run(config, || {
            let hog = sim::go(|| {
                let _locked = sim::lock_thread();
                sim::work(4 * SLICE);
            });
            sim::sleep(SLICE / 2);
            let before = sim::elapsed();
            drop(sim::stop_the_world());
            let took = sim::elapsed() - before;
            assert!(took < SLICE / 2, "the world stops after {took:?}");
            hog.join().unwrap();
        });
        run.unwrap();
    }
}

/// On the only P, a locked G yields while a G whose slice is over waits in the global queue. The G of the queue runs
/// next.
#[test]
fn locked_g_that_yields_lets_the_gs_of_the_global_queue_run() {
    for seed in 0..50 {
        let config = Config { cpus: 1, processors: 1, seed, ..Config::default() };
        let run = sim::run(config, || {
            let hog = sim::go(|| sim::work(6 * SLICE));
            let _locked = sim::lock_thread();
            let yields = (0..100).take_while(|_| {
                sim::yield_now();
                !hog.is_finished()
            });
            let yields = yields.count();
            assert!(yields < 10, "the locked G yields {yields} times, and the other G has not used six slices");
        });
        run.unwrap();
    }
}

/// All Gs wait, including locked ones. The Ms of waiting locked Gs count as idle, so the deadlock is detected.
#[test]
fn deadlock_of_locked_gs_is_detected() {
    for seed in 0..200 {
        let config = Config { cpus: 2, processors: 2, seed, ..Config::default() };
        let failure = sim::run(config, || {
            join_all(go_each(0..3, move |_| {
                let _locked = sim::lock_thread();
                park::<Sim>(WaitReason::Parked, |_, _| true);
            }));
        });
        let message = failure.unwrap_err().message;
        assert!(message.contains("all goroutines are asleep - deadlock!"), "seed {seed}: {message}");
    }
}
