//! Timers and tickers that are armed only while a G waits for them, in the simulator.

use std::sync::Arc;
use std::time::Duration;

use gmp_sched::select;
use gmp_sched::sim::{self, Config, Ticker, Timer, after, after_func, go, now};

use crate::anything::microseconds;
use crate::explore::{Random, explore};
use crate::several::{join_all, spawn_each};

/// Gs wait for a ticker, poll it, and let their waits end early, so that the ticker becomes dormant and armed again all
/// the time. Each tick is received once, and each wait without a limit ends.
#[test]
fn ticker_ends_each_wait_while_other_waits_and_polls_come_and_go() {
    explore(|seed| {
        let interval = microseconds(20 + seed % 50);
        let (start, ticker) = (now(), Arc::new(Ticker::new(interval)));
        let receiving = spawn_each(0..4u64, |number| {
            let ticker = ticker.clone();
            move || {
                let mut random = Random::new(seed * 19 + number);
                let mut ticks = Vec::new();
                for _ in 0..8 {
                    let pause = microseconds(random.below(60));
                    ticks.extend(match random.below(5) {
                        0 => ticker.try_wait(),
                        1 => select! { recv(ticker) -> tick => tick.ok(), default => None },
                        2 => ticker.wait_until(now() + pause).ok(),
                        3 => select! { recv(ticker) -> tick => tick.ok(), recv(after(pause)) => None },
                        _ => Some(ticker.wait()),
                    });
                    if random.below(3) == 0 {
                        sim::work(pause);
                    }
                }
                ticks
            }
        });
        let mut ticks: Vec<_> = receiving.into_iter().flat_map(|receiving| receiving.join().unwrap()).collect();
        ticks.sort();
        for (count, tick) in (1..).zip(&ticks) {
            assert!(*tick - start >= interval * count && *tick <= now(), "too many ticks: {ticks:?}");
        }
    });
}

/// Gs wait for a timer that another G stops and sets, also to a time that is over already. Each G gets a tick.
#[test]
fn each_setting_of_a_stopped_timer_ends_one_wait() {
    explore(|seed| {
        let timer = Arc::new(Timer::new(Duration::from_secs(3600)));
        timer.stop();
        let waiting = spawn_each(0..4, |number| {
            let timer = timer.clone();
            move || match number % 2 {
                0 => drop(timer.wait()),
                _ => select! { recv(timer) => {}, recv(after(Duration::from_secs(60))) => unreachable!() },
            }
        });
        let mut random = Random::new(seed);
        for _ in 0..waiting.len() {
            timer.reset(microseconds(random.below(20)));
            while timer.stop() {
                // No G has waited for the timer until now.
                timer.reset(microseconds(random.below(20)));
                sim::sleep(microseconds(30));
            }
        }
        join_all(waiting);
    });
}

/// A timer or ticker that nobody reads is no reason to wait: not if it was never waited for, and not if it is still
/// armed for a wait that is over.
#[test]
fn deadlock_beside_unread_timers_is_found() {
    let beside = |unread: fn() -> Box<dyn Send>| {
        for seed in 0..20 {
            let config = Config { cpus: 2, processors: 2, seed, ..Config::default() };
            let failure = sim::run(config, move || {
                let _unread = unread();
                sim::select! {}
            });
            let message = failure.unwrap_err().message;
            assert!(message.contains("all goroutines are asleep - deadlock!"), "seed {seed}: {message}");
        }
    };
    const HOUR: Duration = Duration::from_secs(3600);
    beside(|| Box::new((Ticker::new(Duration::from_millis(10)), Timer::new(HOUR), Timer::new(Duration::ZERO))));
    beside(|| {
        let (timer, ticker) = (Timer::new(HOUR), Ticker::new(HOUR));
        assert!(timer.wait_until(now() + Duration::from_millis(1)).is_err());
        select! { recv(timer) => unreachable!(), recv(ticker) => unreachable!(), timeout(Duration::from_millis(1)) => {} }
        Box::new((timer, ticker))
    });
}

/// Timers for which a G waits, delayed functions and sleeps are reasons to wait.
#[test]
fn wait_for_a_timer_among_unread_ones_is_no_deadlock() {
    explore(|seed| {
        let unread: Vec<_> = (0..seed % 4).map(|number| Timer::new(Duration::from_micros(10 * number))).collect();
        for timer in &unread {
            select! { recv(timer) => {}, default => {} }
        }
        let sleeping = go(|| sim::sleep(Duration::from_millis(1)));
        let (sender, receiver) = sim::channel(0);
        let later = after_func(Duration::from_millis(2), move || sender.send(()).unwrap());
        let waiting = go(|| Timer::new(Duration::from_millis(3)).wait());
        receiver.recv().unwrap();
        sleeping.join().unwrap();
        waiting.join().unwrap();
        assert!(!later.stop());
    });
}
