//! Timers, tickers, functions that run later: what Go's documentation says of them. None of this asks how long something
//! took, only that nothing is early.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use super::platform::{AfterFunc, Limit, Ticker, Timer, after_func, go, now, sleep, sleep_until, yield_now};

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Longer than any test takes.
const FOREVER: Duration = Duration::from_secs(36_000);

fn sleepers_are_not_early() {
    let sleepers: Vec<_> = [7u64, 1, 4, 0, 2]
        .map(|number| {
            go(move || {
                let start = now();
                sleep(milliseconds(number));
                sleep_until(start.after(milliseconds(number + 1)));
                now().since(start) >= milliseconds(number + 1)
            })
        })
        .into_iter()
        .collect();
    assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
}
shared_test!(sleepers_are_not_early);

fn a_timer_fires_once_for_each_setting() {
    let start = now();
    let timer = Timer::new(milliseconds(2));
    let tick = timer.wait();
    assert!(tick.since(start) >= milliseconds(2) && tick <= now());
    assert!(timer.try_wait().is_none());
    assert!(!timer.reset(milliseconds(1)), "had fired, and that was taken");
    timer.wait();
    assert!(timer.wait_until(milliseconds(3)).is_none());
}
shared_test!(a_timer_fires_once_for_each_setting);

fn stop_and_reset_take_a_tick_back() {
    let timer = Timer::new(Duration::ZERO);
    sleep(milliseconds(2));
    // It has fired by now, or will not: either way nothing is there afterwards.
    assert!(timer.stop());
    assert!(timer.try_wait().is_none() && !timer.stop());
    timer.reset(Duration::ZERO);
    sleep(milliseconds(2));
    assert!(timer.reset(FOREVER));
    assert!(timer.try_wait().is_none());
    assert!(timer.wait_until(milliseconds(2)).is_none());
    assert!(timer.stop());
}
shared_test!(stop_and_reset_take_a_tick_back);

fn each_tick_wakes_one_of_those_who_wait() {
    let ticker = Arc::new(Ticker::new(milliseconds(1)));
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let ticker = ticker.clone();
            go(move || ticker.wait())
        })
        .collect();
    let mut ticks: Vec<_> = waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect();
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), 6, "a tick was given twice");
    ticker.stop();
    assert!(ticker.wait_until(milliseconds(3)).is_none());
}
shared_test!(each_tick_wakes_one_of_those_who_wait);

fn a_ticker_keeps_its_beat_and_drops_what_is_late() {
    let interval = milliseconds(2);
    let start = now();
    let ticker = Ticker::new(interval);
    for count in 1..=3 {
        assert!(ticker.wait().since(start) >= interval * count);
    }
    sleep(interval * 6);
    // However many were missed, one is there.
    ticker.wait();
    let next = ticker.wait();
    assert!(next.since(start) >= interval * 9);
    ticker.reset(FOREVER);
    assert!(ticker.try_wait().is_none());
}
shared_test!(a_ticker_keeps_its_beat_and_drops_what_is_late);

fn functions_run_later_unless_they_are_stopped() {
    let ran = Arc::new(AtomicUsize::new(0));
    let run = |after: Duration| {
        let ran = ran.clone();
        let start = now();
        after_func(after, move || {
            assert!(now().since(start) >= after);
            ran.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap()
    };
    let soon: Vec<AfterFunc> = (0..5).map(|number| run(milliseconds(number))).collect();
    let never = run(FOREVER);
    while ran.load(Ordering::Relaxed) < 5 {
        sleep(milliseconds(1));
    }
    assert!(soon.iter().all(|function| !function.stop()));
    assert!(never.stop() && !never.stop() && !never.reset(Duration::ZERO));
    let moved = Arc::new(AtomicBool::new(false));
    let runs = moved.clone();
    assert!(after_func(FOREVER, move || runs.store(true, Ordering::Relaxed)).unwrap().reset(Duration::ZERO));
    while !moved.load(Ordering::Relaxed) {
        yield_now();
    }
}
shared_test!(functions_run_later_unless_they_are_stopped);

/// What a timer's G allocates or blocks on is its own affair: the function runs in a G like any other.
fn functions_may_do_whatever_a_goroutine_may() {
    let done = Arc::new(AtomicBool::new(false));
    let said = done.clone();
    after_func(milliseconds(1), move || {
        let numbers: Vec<u64> = (0..100).collect();
        sleep(milliseconds(1));
        let sum = go(move || numbers.iter().sum::<u64>()).join().unwrap();
        said.store(sum == 4950, Ordering::Relaxed);
    })
    .unwrap();
    while !done.load(Ordering::Relaxed) {
        yield_now();
    }
}
shared_test!(functions_may_do_whatever_a_goroutine_may);

fn a_limit_is_whichever_comes_first() {
    let timer = Timer::new(FOREVER);
    let start = now();
    let limit = Limit::from(FOREVER).and(start.after(milliseconds(2)));
    assert!(limit.err().is_none());
    assert!(timer.wait_until(limit).is_none());
    assert!(now().since(start) >= milliseconds(2) && limit.err().is_some());
}
shared_test!(a_limit_is_whichever_comes_first);
