//! Tests of timers, tickers and delayed functions: the rules of Go's documentation. Of times, the tests check only that
//! nothing happens early, because anything may be late on a busy computer.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use gmp_sched::select;
use gmp_sched::select::{Select, recv};
use gmp_sched::time::Instant;

use super::platform::{
    Context, Limit, Receiver, Ticker, Timer, after, after_func, channel, go, now, sleep, sleep_until, yield_now,
};
use super::several::{join_all, spawn_each};

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// A duration that is longer than any test takes.
const FOREVER: Duration = Duration::from_secs(36_000);

fn sleep_never_returns_early() {
    let sleepers: Vec<_> = [7u64, 1, 4, 0, 2]
        .map(|number| {
            go(move || {
                let start = now();
                sleep(milliseconds(number));
                sleep_until(start + milliseconds(number + 1));
                now() - start >= milliseconds(number + 1)
            })
        })
        .into_iter()
        .collect();
    assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
}
shared_test!(sleep_never_returns_early);

/// A ticker for which nobody waits is not armed. What it would have sent is computed when it is read: the first tick
/// that was missed, and after it only ticks that are not yet due, at multiples of the interval.
fn ticker_keeps_one_tick_and_its_phase_while_nobody_waits() {
    let interval = milliseconds(2);
    let ticker = Ticker::new(interval);
    sleep(interval * 4);
    let first = ticker.try_wait().expect("four intervals are over");
    sleep(interval * 4);
    let second = ticker.try_wait().expect("four intervals are over");
    assert!(second - first >= interval && second <= now());
    assert_eq!((second - first).as_nanos() % interval.as_nanos(), 0);
    // A select that does not wait receives the tick, too.
    sleep(interval * 4);
    let third = select! { recv(ticker) -> tick => tick.unwrap(), default => unreachable!("the ticker is due") };
    assert!(third > second);
    assert!(ticker.recv() > third);
    ticker.stop();
    sleep(interval * 2);
    assert!(ticker.try_wait().is_none());
    select! { recv(ticker) => unreachable!("it was stopped"), default => {} }
}
shared_test!(ticker_keeps_one_tick_and_its_phase_while_nobody_waits);

/// A wait ends without a tick, so that nobody waits for the timer when it is due. The tick is received later.
fn timer_that_fires_after_the_last_wait_keeps_its_tick() {
    let timer = Timer::new(milliseconds(3));
    assert!(timer.wait_until(Limit::after(Duration::from_micros(10))).is_err());
    let (sender, receiver) = channel::<()>(0);
    let sending = go(move || sender.send(()));
    select! { recv(receiver) => {}, recv(timer) => {} }
    drop(receiver);
    let _ = sending.join();
    timer.reset(milliseconds(3));
    assert!(timer.wait_until(Limit::after(Duration::from_micros(10))).is_err());
    sleep(milliseconds(4));
    assert!(timer.stop(), "nobody has received the tick");
    timer.reset(milliseconds(1));
    assert!(timer.wait_until(Limit::after(Duration::from_micros(10))).is_err());
    sleep(milliseconds(2));
    assert!(timer.recv() <= now());
    assert!(!timer.stop());
}
shared_test!(timer_that_fires_after_the_last_wait_keeps_its_tick);

/// A duration that reaches beyond the end of time sets a timer that never fires in practice, but that is set.
fn timer_beyond_the_end_of_time_is_set() {
    let timer = Timer::new(Duration::MAX);
    assert!(timer.stop() && !timer.reset(Duration::MAX) && timer.reset(Duration::MAX) && timer.stop());
    assert!(!Timer::try_at(Instant::NEVER).unwrap().stop());
    let function = after_func(FOREVER, || unreachable!());
    assert!(function.reset(Duration::MAX) && function.stop());
    let ticker = Ticker::new(Duration::MAX);
    assert!(ticker.try_wait().is_none());
    assert!(ticker.wait_until(Limit::after(milliseconds(1))).is_err());
}
shared_test!(timer_beyond_the_end_of_time_is_set);

/// Several Gs wait for a timer that is off. Setting it ends one of the waits, and stopping it leaves the others waiting.
fn set_timer_ends_the_wait_of_a_g_that_waits_for_a_stopped_timer() {
    let timer = Arc::new(Timer::new(FOREVER));
    timer.stop();
    let waiting = spawn_each(0..3, |_| {
        let timer = timer.clone();
        move || timer.wait()
    });
    for _ in 0..3 {
        (0..10).for_each(|_| yield_now());
        timer.reset(FOREVER);
        assert!(timer.stop());
        timer.reset(milliseconds(1));
        while timer.stop() {
            timer.reset(milliseconds(1));
            sleep(milliseconds(2));
        }
    }
    waiting.into_iter().for_each(|waiting| assert!(waiting.join().unwrap() <= now()));
}
shared_test!(set_timer_ends_the_wait_of_a_g_that_waits_for_a_stopped_timer);

/// The function runs in an ordinary G, so it may allocate and block.
fn after_func_may_block_and_allocate() {
    let done = Arc::new(AtomicBool::new(false));
    let said = done.clone();
    after_func(milliseconds(1), move || {
        let numbers: Vec<u64> = (0..100).collect();
        sleep(milliseconds(1));
        let sum = go(move || numbers.iter().sum::<u64>()).join().unwrap();
        said.store(sum == 4950, Ordering::Relaxed);
    });
    while !done.load(Ordering::Relaxed) {
        yield_now();
    }
}
shared_test!(after_func_may_block_and_allocate);

/// One select waits for a channel, a timer, a ticker and a context, as is usual in Go. It takes what is ready first.
fn select_waits_for_timers_tickers_and_contexts() {
    let (context, cancel) = Context::background().with_cancel();
    let start = now();
    let (timer, ticker) = (Timer::new(milliseconds(4)), Ticker::new(milliseconds(1)));
    let (sender, mut queue) = channel(0);
    let sending = go(move || (0..5).try_for_each(|n| sender.send(n)));
    let (mut received, mut ticks, mut fired) = (Vec::new(), 0, None);
    let error = loop {
        select! {
            recv(queue) -> value => match value {
                Ok(value) => received.push(value),
                Err(_) => queue = Receiver::never(),
            },
            recv(ticker) -> tick => {
                ticks += 1;
                assert!(tick.unwrap() - start >= milliseconds(1) * ticks);
            }
            recv(&timer) -> tick => {
                assert!(tick.unwrap() - start >= milliseconds(4));
                fired = tick.ok();
            }
            recv(after(FOREVER)) => unreachable!(),
            recv(context.done()) => break context.err(),
        }
        if fired.is_some() && ticks >= 3 && received.len() == 5 {
            cancel.cancel();
        }
    };
    sending.join().unwrap().unwrap();
    assert_eq!(received, [0, 1, 2, 3, 4]);
    assert_eq!(error, context.err());
    select! { recv(after(milliseconds(2))) -> tick => assert!(tick.unwrap() <= now()) }
}
shared_test!(select_waits_for_timers_tickers_and_contexts);

/// A timer is stopped and reset, at first during a select's wait for the timer, and later before a select begins. A
/// select receives only the tick of the last setting.
fn select_receives_no_stale_tick() {
    let timer = Arc::new(Timer::new(FOREVER));
    let selecting = {
        let timer = timer.clone();
        go(move || select! { recv(timer) -> tick => tick.unwrap() })
    };
    (0..10).for_each(|_| yield_now());
    assert!(timer.stop() && !timer.reset(FOREVER));
    let start = now();
    assert!(timer.reset(milliseconds(2)));
    assert!(selecting.join().unwrap() - start >= milliseconds(2));
    timer.reset(Duration::ZERO);
    sleep(milliseconds(2));
    // The timer has fired, but its tick has not been received. So `reset` drops the tick and returns true, as it does
    // for a timer that has not fired.
    assert!(timer.reset(FOREVER));
    let mut case = recv(&*timer);
    assert_eq!(Select::new(&mut [case.case()]).poll(), None);
    assert_eq!(Select::new(&mut [case.case()]).wait_timeout(milliseconds(1)), None);
    // The timer fires although its G only polls it in a loop and never enters the scheduler.
    timer.reset(milliseconds(1));
    while Select::new(&mut [recv(&timer).case()]).poll().is_none() {}
    assert!(!timer.stop());
}
shared_test!(select_receives_no_stale_tick);

/// Each tick goes to only one of the Gs that wait or select.
fn ticks_are_shared_by_selects_and_waits() {
    let ticker = Arc::new(Ticker::new(milliseconds(1)));
    let waiting = spawn_each(0..6, |number| {
        let ticker = ticker.clone();
        move || match number % 2 {
            0 => ticker.wait(),
            _ => select! {
                recv(ticker) -> tick => tick.unwrap(),
                recv(Receiver::<Duration>::never()) => unreachable!(),
            },
        }
    });
    let mut ticks: Vec<_> = join_all(waiting);
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), 6, "a tick was received twice");
}
shared_test!(ticks_are_shared_by_selects_and_waits);
