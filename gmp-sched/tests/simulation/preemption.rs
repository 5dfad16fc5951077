//! Preemption in the simulator: hogs must not starve other Gs, timers or kernel threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::platform::{Pinned, SLICE};
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::sysmon::Sysmon;

use crate::explore::{Random, explore};
use crate::hogs::Hogs;
use crate::several::{go_each, join_all, spawn_each};

/// Returns how long an M may wait for a CPU. With more Ps than CPUs this is a few slices, and otherwise no time.
fn for_a_cpu() -> Duration {
    let config = sim::config();
    if config.processors > config.cpus { Duration::from_millis(40) } else { Duration::ZERO }
}

/// Returns how late a G may run if it must not wait for the end of a slice. With one CPU, this is `bound`, in addition
/// to the time for which an M may wait for the CPU.
///
/// With several CPUs the clock is less exact. The CPUs step one after the other, in a random order, and a step of a CPU
/// that computes advances the clock by up to 250 us. So while a CPU makes the few steps to its next G, more than 5 ms
/// may pass, which happened with one of 190,000 seeds. The bound is therefore a slice (10 ms). To exceed this bound,
/// the other CPUs would have to make twice as many steps in a row.
fn latest(bound: Duration) -> Duration {
    let config = sim::config();
    for_a_cpu() + if config.cpus == 1 { bound } else { SLICE }
}

#[test]
fn main_wakes_in_time_beside_hogs_on_every_p() {
    explore(|seed| {
        let hogs = Hogs::start(16, Duration::from_millis(1));
        for round in 0..3 {
            let before = sim::elapsed();
            let nap = Duration::from_micros(100 + seed % 1000 * round);
            sim::sleep(nap);
            let late = sim::elapsed() - before - nap;
            // A G that a timer readies does not wait for a slice to end.
            assert!(late < latest(Duration::from_millis(6)), "woke {late:?} late");
        }
        hogs.stop();
    });
}

/// Hogs run on all Ps. When the blocking system call of a G ends, the G displaces a hog, so it does not wait for the
/// end of a slice. But its M may have to wait for a CPU, if another M is woken on the same CPU at the same time.
/// Therefore the test checks the median. With more Ps than CPUs, an M may always have to wait for a CPU, so the test
/// checks nothing then.
#[test]
fn main_returns_in_time_from_blocking_calls_beside_hogs_on_every_p() {
    explore(|seed| {
        let hogs = Hogs::start(16, Duration::from_millis(1));
        let mut late: Vec<_> = (0..5)
            .map(|round| {
                let before = sim::elapsed();
                let call = Duration::from_micros(100 + seed % 1000 * round);
                sim::block(call);
                sim::elapsed() - before - call
            })
            .collect();
        late.sort();
        assert!(late[2] < SLICE || !for_a_cpu().is_zero(), "ran {late:?} late: it waited for the end of a slice");
        hogs.stop();
    });
}

/// Gs that make blocking system calls in a loop displace other Gs again and again. Nevertheless the other Gs run, which
/// the simulator's oracle about slices checks.
#[test]
fn blocking_calls_in_a_loop_do_not_starve_other_gs() {
    explore(|seed| {
        // Only one seed in 16 is run, because each run has thousands of calls.
        if !seed.is_multiple_of(16) {
            return;
        }
        let hogs = Hogs::start(2 * sim::config().processors, Duration::from_micros(200));
        let stop = Arc::new(AtomicBool::new(false));
        let callers = spawn_each(0..6, |number| {
            let (stop, mut random) = (stop.clone(), Random::new(seed + number));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    sim::block(Duration::from_nanos(random.below(20_000)));
                    sim::work(Duration::from_nanos(random.below(5_000)));
                }
            }
        });
        for _ in 0..2 {
            sim::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        join_all(callers);
        hogs.stop();
    });
}

/// Many timers become due at about the same time on busy Ps. No woken G waits for the end of a slice, and the hogs make
/// progress, too.
#[test]
fn timers_displace_hogs_soon() {
    explore(|seed| {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds: Arc<Vec<AtomicUsize>> = Arc::new((0..8).map(|_| AtomicUsize::new(0)).collect());
        let hogs = spawn_each(0..8, |hog| {
            let (stop, rounds) = (stop.clone(), rounds.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    sim::work(Duration::from_micros(200));
                    rounds[hog].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let sleepers = go_each(0..6, move |sleeper| {
            let mut random = Random::new(seed + sleeper);
            let mut latest = Duration::ZERO;
            for _ in 0..2 {
                let before = sim::elapsed();
                let nap = Duration::from_micros(500 + random.below(20));
                sim::sleep(nap);
                latest = latest.max(sim::elapsed() - before - nap);
                sim::work(Duration::from_micros(random.below(10)));
            }
            latest
        });
        for sleeper in sleepers {
            let late = sleeper.join().unwrap();
            // Only seeds with one CPU are checked, which are the multiples of 6. With more CPUs, each CPU is so slow
            // compared with the clock that a bound would be meaningless.
            assert!(late < Duration::from_millis(2) || !seed.is_multiple_of(6), "woke {late:?} late");
        }
        // The hogs run as well, however many timers there are.
        while rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) == 0) {
            sim::sleep(Duration::from_micros(150));
        }
        stop.store(true, Ordering::Relaxed);
        join_all(hogs);
    });
}

/// A timer fires in time even if it becomes due while the M of its P is in a system call.
#[test]
fn timers_fire_in_time_during_a_system_call() {
    explore(|seed| {
        let sleeper = sim::go(|| {
            let before = sim::elapsed();
            sim::sleep(Duration::from_micros(100));
            sim::elapsed() - before - Duration::from_micros(100)
        });
        sim::yield_now();
        sim::syscall(Duration::from_micros(100 + seed % 200));
        sim::work(Duration::from_millis(40));
        let late = sleeper.join().unwrap();
        assert!(late < latest(Duration::from_millis(5)), "woke {late:?} late");
    });
}

/// There are more Gs than Ps, and each G makes one short system call after the other. sysmon finds a new call at each
/// check, so it retakes no P because of the length of a call. All Gs run nevertheless, because the slice ends: then
/// sysmon retakes the P, or the G gives way when its call returns.
#[test]
fn system_calls_in_a_row_end_with_the_slice() {
    for seed in 0..100 {
        let cpus = 1 + seed as usize % 2;
        let run = sim::run(Config { cpus, processors: cpus, seed, ..Config::default() }, move || {
            let round = Arc::new(AtomicUsize::new(1));
            let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..cpus + 2).map(|_| AtomicUsize::new(0)).collect());
            let callers = spawn_each(0..seen.len(), |caller| {
                let (round, seen, mut random) = (round.clone(), seen.clone(), Random::new(seed + caller as u64));
                move || {
                    while round.load(Ordering::Relaxed) != 0 {
                        sim::syscall(Duration::from_micros(random.below(100)));
                        seen[caller].store(round.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                }
            });
            for number in 1..=2 {
                round.store(number, Ordering::Relaxed);
                let before = sim::elapsed();
                while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < number) {
                    sim::yield_now();
                }
                let took = sim::elapsed() - before;
                assert!(took < Duration::from_millis(300), "it took {took:?} until every G had run");
            }
            round.store(0, Ordering::Relaxed);
            join_all(callers);
        });
        if let Err(failure) = run {
            panic!("{failure}");
        }
    }
}

/// A G makes one short system call after the other beside Gs that compute, on one P. sysmon takes the P during a call
/// when the slice is over. After that call the G waits for its next slice, as the other Gs do, and displaces none of
/// them. So until each of the others has computed for three slices, the G has had about three slices, too.
#[test]
fn system_calls_in_a_row_take_no_more_slices_than_other_gs() {
    const SLICES: u32 = 3;
    for seed in 0..100 {
        let run = sim::run(Config { cpus: 1, processors: 1, seed, ..Config::default() }, move || {
            let stop = Arc::new(AtomicBool::new(false));
            let (stopped, mut random) = (stop.clone(), Random::new(seed));
            let caller = sim::go(move || {
                let (mut ran, mut before) = (Duration::ZERO, sim::elapsed());
                while !stopped.load(Ordering::Relaxed) {
                    sim::syscall(Duration::from_micros(random.below(100)));
                    let now = sim::elapsed();
                    // If the last call took longer than this, the G waited for a slice.
                    if now - before < SLICE / 10 {
                        ran += now - before;
                    }
                    before = now;
                }
                ran
            });
            join_all(go_each(0..4, move |_| sim::work(SLICES * SLICE)));
            stop.store(true, Ordering::Relaxed);
            let ran = caller.join().unwrap();
            assert!(ran < (SLICES + 1) * SLICE + SLICE / 2, "in {SLICES} slices of the others, the caller ran {ran:?}");
        });
        if let Err(failure) = run {
            panic!("{failure}");
        }
    }
}

/// Two Gs that ready each other share one slice, so other Gs run when this slice ends. The simulator's oracle about
/// slices checks that they do.
#[test]
fn two_gs_that_ready_each_other_share_a_slice() {
    explore(|seed| {
        let procs = sim::config().processors as u64;
        let done = Arc::new(AtomicBool::new(false));
        let pairs: Vec<_> = (0..procs)
            .map(|pair| {
                let (done, mut random) = (done.clone(), Random::new(seed + pair));
                let (to_first, from_second) = sim::channel::<()>(0);
                let (to_second, from_first) = sim::channel::<()>(0);
                let first = sim::go(move || {
                    while !done.load(Ordering::Relaxed) {
                        sim::work(Duration::from_micros(random.below(200)));
                        to_second.send(()).unwrap();
                        from_second.recv().unwrap();
                    }
                });
                let second = sim::go(move || from_first.iter().for_each(|()| to_first.send(()).unwrap()));
                [first, second]
            })
            .collect();
        join_all(go_each(0..procs, move |_| sim::work(Duration::from_millis(15))));
        done.store(true, Ordering::Relaxed);
        pairs.into_iter().flatten().for_each(|goroutine| goroutine.join().unwrap());
    });
}

/// A timer is due whenever a thread begins to run. Nevertheless, a thread runs for its granularity before it is
/// preempted, so the hogs make progress.
#[test]
fn threads_run_for_their_granularity_beside_due_timers() {
    explore(|seed| {
        let stop = Arc::new(AtomicBool::new(false));
        let sleepers = spawn_each(0..8, |sleeper| {
            let stop = stop.clone();
            let mut random = Random::new(seed + sleeper);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    sim::sleep(Duration::from_micros(random.below(10)));
                }
            }
        });
        join_all(go_each(0..8, move |_| sim::work(Duration::from_millis(2))));
        // The sleepers need hardly any CPU time. So the expected time is that of the eight hogs, each of which computes
        // for 2 ms on one of the CPUs.
        let expected = Duration::from_millis(8 * 2) / sim::config().cpus as u32;
        assert!(sim::elapsed() < 2 * expected, "{:?} for what takes {expected:?}", sim::elapsed());
        stop.store(true, Ordering::Relaxed);
        join_all(sleepers);
    });
}

/// Each hog spawns the next one, which is in `runnext` when the slice ends. Nevertheless, the Gs in the ring run.
#[test]
fn ring_runs_beside_hogs_that_spawn_hogs() {
    fn hog(stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::Relaxed) {
            let next = stop.clone();
            sim::go(move || hog(next)).detach();
            sim::work(Duration::from_millis(25));
        }
    }
    explore(|_| {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..sim::config().processors {
            let stop = stop.clone();
            sim::go(move || hog(stop)).detach();
        }
        join_all(go_each(0..2, move |_| sim::work(Duration::from_micros(1))));
        stop.store(true, Ordering::Relaxed);
    });
}

/// Gs that sleep for a moment and then compute for a slice displace others again and again. The oracle about slices
/// checks that the others have their turns nevertheless.
#[test]
fn hogs_that_sleep_leave_slices_to_others() {
    explore(|seed| {
        let hogs = Hogs::start(2 * sim::config().processors, Duration::from_millis(1));
        join_all(go_each(0..3 * sim::config().processors as u64, move |sleeper| {
            let mut random = Random::new(8 * seed + sleeper);
            for _ in 0..3 {
                let longest_nap = if random.below(2) == 0 { 100 } else { 8_000 };
                sim::sleep(Duration::from_micros(random.below(longest_nap)));
                sim::work(Duration::from_micros(random.below(15_000)));
            }
        }));
        hogs.stop();
    });
}

#[test]
fn second_sysmon_run_by_a_g_does_no_harm() {
    explore(|_| {
        let calls = sim::go(|| {
            for _ in 0..4 {
                sim::syscall(Duration::from_millis(15));
            }
        });
        let scheduler = Pinned::<Sim>::new().machine().scheduler();
        let mut sysmon = Sysmon::new(scheduler);
        for _ in 0..10 {
            sysmon.check();
            sim::work(Duration::from_millis(5));
        }
        calls.join().unwrap();
    });
}
