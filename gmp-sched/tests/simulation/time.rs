//! Timers, tickers and delayed functions in the simulator.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::platform::SLICE;
use gmp_sched::select;
use gmp_sched::sim::{self, Config, Sim, Ticker, Timer, after, after_func, go, now};
use gmp_sched::syscall::syscall;
use gmp_sched::time::Instant;

use crate::anything::microseconds;
use crate::explore::{Random, explore};
use crate::several::{go_each, join_all, spawn_each};

/// The largest accepted delay of a timer. The Gs of the test do not keep a CPU busy for nearly as long, so a longer
/// delay is an error of the scheduler.
const LATE: Duration = Duration::from_millis(20);

/// A G sets a timer and then makes a system call, during which the timer is due. No M knows of the timer: one is in the
/// call, and the other went idle before. So sysmon hands the P off in time, although it leaves a P in a call to its M while
/// an idle P could take new Gs.
#[test]
fn timer_of_a_p_in_a_system_call_fires_beside_an_idle_p() {
    for seed in 0..50 {
        let run = sim::run(Config { cpus: 2, processors: 2, seed, ..Config::default() }, || {
            // The thread of sysmon begins in a first call.
            sim::syscall(2 * SLICE);
            // In short steps, so that the other CPU makes progress meanwhile: its M becomes idle.
            (0..200).for_each(|_| sim::work(SLICE / 4000));
            let due = now() + SLICE / 8;
            let late = Arc::new(Mutex::new(None));
            let fired = late.clone();
            let _timer = after_func(SLICE / 8, move || *fired.lock().unwrap() = Some(now() - due));
            syscall::<Sim, _>(|| (0..3000).for_each(|_| sim::work(SLICE / 4000)));
            let late = late.lock().unwrap().expect("the timer fires during the call");
            assert!(late < SLICE / 4, "the timer fires {late:?} late");
        });
        run.unwrap();
    }
}

/// How a timer was set: the time at which each setting is due, and the index of the setting that is in effect.
#[derive(Default)]
struct Settings {
    due: Mutex<Vec<Instant>>,
    standing: AtomicUsize,
}

impl Settings {
    fn set(&self, timer: &Timer, wait: Duration) {
        let setting = {
            let mut due = self.due.lock().unwrap();
            due.push(now() + wait);
            due.len() - 1
        };
        timer.reset(wait);
        self.standing.store(setting, Ordering::Relaxed);
    }

    /// Returns the earliest time at which a receiver may get a tick that is not stale. `standing` is the index of the
    /// setting that was in effect when the receiver began to wait.
    fn earliest_since(&self, standing: usize) -> Instant {
        *self.due.lock().unwrap()[standing..].iter().min().unwrap()
    }
}

/// One G sets and stops a timer repeatedly while other Gs receive its ticks. No tick belongs to a setting that was
/// stopped or replaced before the receiver began to wait, and there are no more ticks than settings.
#[test]
fn no_stale_tick_is_received() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let shared = Arc::new((Timer::new(Duration::from_secs(3600)), Settings::default()));
        let (timer, settings) = &*shared;
        settings.set(timer, Duration::from_secs(3600));
        let takers = spawn_each(0..1 + seed % 3, |taker| {
            let shared = shared.clone();
            let mut random = Random::new(seed * 31 + taker);
            move || {
                let (timer, settings) = &*shared;
                let mut taken = 0;
                for _ in 0..6 {
                    let standing = settings.standing.load(Ordering::Relaxed);
                    let pause = microseconds(random.below(60));
                    let tick = match random.below(4) {
                        0 => timer.try_wait(),
                        1 => timer.wait_until(now() + pause).ok(),
                        2 => select! {
                            recv(timer) -> tick => Some(tick.unwrap()),
                            recv(after(pause)) => None,
                        },
                        _ => select! {
                            recv(timer) -> tick => Some(tick.unwrap()),
                            recv(timer) -> tick => Some(tick.unwrap()),
                            timeout(pause) => None,
                        },
                    };
                    if let Some(tick) = tick {
                        assert!(tick >= settings.earliest_since(standing) && tick <= now());
                        taken += 1;
                    }
                    sim::work(microseconds(random.below(20)));
                }
                taken
            }
        });
        for _ in 0..8 {
            let pause = microseconds(random.below(40));
            match random.below(4) {
                0 => {
                    timer.stop();
                    // However long this G waits, there is no tick until the timer is set again.
                    assert!(timer.try_wait().is_none());
                    assert!(timer.wait_until(now() + pause).is_err());
                    assert!(!timer.stop());
                }
                1 | 2 => {
                    settings.set(timer, microseconds(random.below(40)));
                    sim::sleep(pause);
                }
                _ => sim::work(pause),
            }
        }
        let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert!(taken < settings.due.lock().unwrap().len(), "more ticks than settings");
    });
}

#[test]
fn timer_ends_one_wait_per_setting_in_time() {
    explore(|seed| {
        join_all(go_each(0..6u64, move |number| {
            let mut random = Random::new(seed * 13 + number);
            let timer = Timer::new(microseconds(random.below(100)));
            for _ in 0..4 {
                timer.wait();
                assert!(timer.try_wait().is_none() && !timer.stop());
                let (set, wait) = (now(), microseconds(random.below(300)));
                assert!(!timer.reset(wait));
                let tick = timer.wait();
                assert!(tick - set >= wait && now() >= tick);
                assert!(tick - set < wait + LATE, "{:?} late", tick - set - wait);
                timer.reset(microseconds(random.below(50)));
            }
        }));
    });
}

/// The n-th tick comes no earlier than n intervals after the start. A ticker without receivers keeps only one tick.
#[test]
fn tickers_drop_late_ticks_and_keep_their_phase() {
    explore(|seed| {
        join_all(go_each(0..3u64, move |number| {
            let mut random = Random::new(seed * 17 + number);
            let interval = microseconds(20 + random.below(100));
            let start = now();
            let ticker = Ticker::new(interval);
            let mut last = start;
            for count in 1..=8 {
                if random.below(3) == 0 {
                    sim::work(interval * random.below(4) as u32);
                }
                let tick = ticker.wait();
                assert!(tick - start >= interval * count && tick > last);
                last = tick;
            }
            sim::sleep(interval * 3);
            // Receive the tick that the ticker keeps. The tick may be late, so this may take several attempts.
            let mut taken = now();
            while ticker.try_wait().is_none() {
                sim::sleep(interval);
                taken = now();
            }
            // Three ticks were due during the sleep, but the ticker kept only the one that was just received. One
            // more may be sent at the moment when that one is received, and others at intervals after that.
            let mut more = 0;
            while ticker.try_wait().is_some() {
                more += 1;
            }
            let intervals = (now() - taken).as_nanos().div_ceil(interval.as_nanos());
            assert!(more <= 1 + intervals, "{more} more ticks were kept");
            let reset = now();
            ticker.reset(interval * 2);
            assert!(ticker.wait() - reset >= interval * 2);
            ticker.stop();
            assert!(ticker.try_wait().is_none());
            assert!(ticker.wait_until(now() + interval * 3).is_err());
        }));
    });
}

/// A delayed function does not run if a call of `stop` has returned `true`. Otherwise it runs once. In both cases it is
/// dropped once.
#[test]
fn after_func_runs_exactly_if_not_stopped() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    explore(|seed| {
        let mut random = Random::new(seed);
        let (ran, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut expected = 0;
        for _ in 0..12 {
            let (counter, held) = (ran.clone(), Dropped(dropped.clone()));
            let (start, mut wait) = (now(), microseconds(random.below(80)));
            let early = Duration::from_nanos(random.below(80_000));
            let moved = random.below(4) == 0;
            let shortest = if moved { Duration::ZERO } else { wait };
            let later = after_func(wait, move || {
                let _held = held;
                assert!(now() - start >= shortest);
                counter.fetch_add(1, Ordering::Relaxed);
            });
            if moved {
                wait = microseconds(random.below(80));
                later.reset(wait);
            }
            sim::work(early);
            match random.below(3) {
                0 => expected += usize::from(!later.stop()),
                1 => {
                    let stopping = go(move || later.stop());
                    sim::yield_now();
                    expected += usize::from(!stopping.join().unwrap());
                }
                _ => expected += 1,
            }
        }
        while dropped.load(Ordering::Relaxed) < 12 {
            sim::sleep(microseconds(50));
        }
        assert_eq!(ran.load(Ordering::Relaxed), expected);
    });
}

/// Gs sleep for such a short time that other Ms find their timers due before the Gs have left their stacks. Each G
/// wakes once, and not too early.
#[test]
fn shortest_sleeps_end_after_the_sleeper_has_left() {
    explore(|seed| {
        join_all(spawn_each(0..2 + seed % 7, |sleeper| {
            let mut random = Random::new(seed * 31 + sleeper);
            move || {
                for _ in 0..40 {
                    let (start, wait) = (now(), Duration::from_nanos(1 + (random.below(4000) >> random.below(12))));
                    sim::sleep(wait);
                    assert!(now() - start >= wait);
                    if random.below(4) == 0 {
                        sim::work(Duration::from_nanos(random.below(5000)));
                    }
                }
            }
        }));
    });
}

/// Gs whose timers are always due do not starve other Gs.
#[test]
fn timers_that_are_always_due_do_not_starve_other_gs() {
    explore(|seed| {
        keep_timers_due(seed, || {
            for _ in 0..2 {
                sim::yield_now();
            }
        });
    });
}

#[test]
fn timers_that_are_always_due_do_not_starve_the_global_queue() {
    explore(|seed| {
        keep_timers_due(seed, || {
            // While a locked G is runnable, it waits on a list that Ps check only together with the global queue. So
            // the yields below return only if a P checks the global queue.
            let _locked = sim::lock_thread();
            for _ in 0..2 {
                sim::yield_now();
            }
        });
    });
}

/// Calls `others` while sixteen Gs sleep repeatedly for very short times. If `others` does not return, the run ends
/// with an error at the limit of steps. How long a runnable G may wait is checked by the simulator's oracle about
/// slices.
fn keep_timers_due(seed: u64, others: impl FnOnce()) {
    // Only one seed in 8 is run, because each run has thousands of sleeps.
    if !seed.is_multiple_of(8) {
        return;
    }
    let is_over = Arc::new(AtomicUsize::new(0));
    let sleeping = spawn_each(0..16, |_| {
        let is_over = is_over.clone();
        move || {
            while is_over.load(Ordering::Relaxed) == 0 {
                sim::sleep(Duration::from_nanos(1 + seed % 100));
            }
        }
    });
    others();
    is_over.store(1, Ordering::Relaxed);
    join_all(sleeping);
}
