//! Timers, tickers and delayed functions in bubbles, with the cases of the tests of Go's `testing/synctest` and
//! `time.Ticker`. The clock of a bubble stands still while a G runs, so all times are exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::panics::panic_of;
use crate::several::{join_all, spawn_each};
use gmp_sched::native::{Context, Limit, Ticker, Timer, after, after_func, go, now, sleep, synctest, yield_now};
use gmp_sched::select;
use thread_tests::THREADS;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `body` in a bubble, with 1, 2 and 4 Ps.
fn in_bubbles(body: fn()) {
    for processors in [1, 2, 4] {
        THREADS.run(processors, move || synctest::test(body));
    }
}

fn message_of(body: impl FnOnce() + Send + 'static) -> String {
    THREADS.run(2, move || panic_of(|| synctest::test(body)))
}

/// Lets the other Gs of the bubble run until `is_true` returns `true`, which must happen soon. This G does not wait
/// durably meanwhile, so the driver of the bubble does not run, and the clock stands still.
fn soon(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_true() {
            return;
        }
        yield_now();
    }
    panic!("{what} has not happened");
}

#[test]
fn what_is_due_at_once_happens_before_all_gs_wait() {
    in_bubbles(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        let run = |after: Duration| {
            let runs = ran.clone();
            after_func(after, move || _ = runs.fetch_add(1, Ordering::Relaxed))
        };
        let function = run(Duration::ZERO);
        assert!(!function.stop(), "it has been started");
        soon("the call of a function without a delay", || ran.load(Ordering::Relaxed) == 1);
        assert!(run(HOUR).reset(Duration::ZERO));
        soon("the call of a function that was set to run now", || ran.load(Ordering::Relaxed) == 2);
        assert!(Timer::new(Duration::ZERO).try_wait().is_some());
        let timer = Arc::new(Timer::new(HOUR));
        let waiting = {
            let timer = timer.clone();
            go(move || timer.wait())
        };
        synctest::wait();
        timer.reset(Duration::ZERO);
        soon("the end of a wait for a timer that was set to fire now", || waiting.is_finished());
        assert_eq!(waiting.join().unwrap(), now());
    });
}

#[test]
fn unread_ticker_keeps_its_first_tick_and_its_phase() {
    in_bubbles(|| {
        let (start, ticker) = (now(), Ticker::new(HOUR));
        sleep(HOUR * 9 / 2);
        assert_eq!(ticker.try_wait(), Some(start + HOUR));
        assert_eq!((ticker.try_wait(), ticker.wait()), (None, start + HOUR * 5));
        sleep(HOUR * 5 / 2);
        select! {
            recv(ticker) -> tick => assert_eq!(tick.unwrap(), start + HOUR * 6),
            default => unreachable!("there is a tick"),
        }
        assert_eq!(ticker.recv(), start + HOUR * 8);
    });
}

#[test]
fn timer_beyond_the_end_of_time_is_set() {
    in_bubbles(|| {
        let timer = Timer::new(Duration::MAX);
        assert!(timer.stop() && !timer.reset(Duration::MAX));
        assert!(after_func(Duration::MAX, || unreachable!("is stopped")).stop());
        assert!(timer.wait() <= now());
    });
}

/// The next tick of these tickers would come after the end of time.
#[test]
fn ticker_has_no_tick_beyond_the_end_of_time() {
    for interval in [Duration::MAX, HOUR * 24 * 365 * 400] {
        let message = message_of(move || {
            let ticker = Ticker::new(interval);
            assert!(ticker.wait() <= now() && ticker.try_wait().is_none());
            ticker.wait();
        });
        assert_eq!(message, "deadlock: all goroutines in bubble are blocked");
    }
}

/// A ticker that nobody reads does not keep the clock going for ever.
#[test]
fn deadlock_of_a_bubble_beside_an_unread_ticker_panics() {
    let message = message_of(|| {
        let ticker = Ticker::new(HOUR);
        assert!(ticker.wait_until(Limit::after(HOUR / 2)).is_err());
        Context::background().wait();
    });
    assert_eq!(message, "deadlock: all goroutines in bubble are blocked");
}

#[test]
fn timer_is_set_again_and_again() {
    in_bubbles(|| {
        let (start, timer) = (now(), Timer::new(HOUR));
        assert_eq!(timer.wait(), start + HOUR);
        assert!(!timer.reset(HOUR * 2));
        assert_eq!(timer.wait(), start + HOUR * 3);
        // The tick of a setting that has been replaced or stopped is dropped, whether it was due or not.
        for passed in [HOUR, HOUR * 4] {
            assert!(!timer.reset(HOUR * 3));
            sleep(passed);
            let again = now();
            assert!(timer.reset(HOUR * 4) && timer.try_wait().is_none());
            assert_eq!(timer.recv(), again + HOUR * 4);
            timer.reset(HOUR * 3);
            sleep(passed);
            assert!(timer.stop() && !timer.stop());
            select! { recv(timer) => unreachable!("it was stopped"), default => {} }
            select! { recv(timer) => unreachable!("it was stopped"), recv(after(HOUR * 5)) => {} }
        }
    });
}

#[test]
fn timer_is_read_before_and_after_it_is_due() {
    in_bubbles(|| {
        let start = now();
        for hours in 0..10u32 {
            let timer = Timer::new(HOUR);
            sleep(HOUR * hours / 4);
            let (begun, is_due) = (now() - start, hours >= 4);
            let expected = (now() - HOUR * hours / 4) + HOUR;
            assert_eq!(timer.wait(), expected);
            assert_eq!(now() - start == begun, is_due, "a wait for a tick that is there takes no time");
            assert!(timer.try_wait().is_none() && !timer.stop());
        }
    });
}

/// Each of the Gs that wait for a ticker gets a tick of its own. A stopped ticker ends no wait until it is set again,
/// and then the new interval counts.
#[test]
fn ticker_is_stopped_and_set_again_while_gs_wait() {
    in_bubbles(|| {
        let (start, ticker) = (now(), Arc::new(Ticker::new(HOUR)));
        let waiting = spawn_each(0..4, |_| {
            let ticker = ticker.clone();
            move || ticker.wait()
        });
        sleep(HOUR * 5 / 2);
        assert_eq!(waiting.iter().filter(|waiting| waiting.is_finished()).count(), 2);
        ticker.stop();
        sleep(HOUR * 100);
        assert_eq!(waiting.iter().filter(|waiting| waiting.is_finished()).count(), 2);
        let again = now();
        ticker.reset(HOUR * 3);
        let mut ticks: Vec<_> = join_all(waiting);
        ticks.sort();
        assert_eq!(ticks, [start + HOUR, start + HOUR * 2, again + HOUR * 3, again + HOUR * 6]);
        // Nobody was waiting any more when the next tick was due.
        sleep(HOUR * 30);
        assert_eq!(ticker.try_wait(), Some(again + HOUR * 9));
        ticker.reset(HOUR);
        assert!(ticker.try_wait().is_none());
        assert_eq!(ticker.wait(), now());
    });
}

/// While all other Gs wait for something else, the time goes on from timer to timer, in order.
#[test]
fn receiver_of_each_tick_keeps_up_with_the_clock() {
    in_bubbles(|| {
        let (start, ticks) = (now(), Arc::new(AtomicUsize::new(0)));
        let counter = ticks.clone();
        go(move || {
            let ticker = Ticker::new(HOUR);
            for count in 1..=10u32 {
                assert_eq!(ticker.wait(), start + HOUR * count);
                counter.store(count as usize, Ordering::Relaxed);
            }
        })
        .detach();
        for hours in 0..10u32 {
            sleep(HOUR / 2);
            synctest::wait();
            assert_eq!(ticks.load(Ordering::Relaxed), hours as usize);
            sleep(HOUR / 2);
            synctest::wait();
            assert_eq!(ticks.load(Ordering::Relaxed), hours as usize + 1);
        }
    });
}

/// The main G has returned, so the clock stands still, and a G that waits for a ticker never gets a tick.
#[test]
fn g_that_waits_for_a_ticker_after_main_has_ended_is_blocked() {
    let message = message_of(|| {
        go(|| {
            let ticker = Ticker::new(HOUR);
            ticker.wait();
            unreachable!("the clock stands still");
        })
        .detach();
    });
    assert_eq!(message, "deadlock: main bubble goroutine has exited but blocked goroutines remain");
}

/// A bubble that has ended leaves timers behind, which must not disturb the next bubble that uses the same memory.
#[test]
fn timers_of_a_former_bubble_do_not_disturb_the_next_one() {
    THREADS.run(1, || {
        for _ in 0..5 {
            let (timer, ticker) = synctest::test(|| {
                let (timer, ticker) = (Timer::new(HOUR), Ticker::new(HOUR));
                sleep(HOUR * 3 / 2);
                (timer, ticker)
            });
            synctest::test(|| {
                let start = now();
                sleep(HOUR * 24);
                assert_eq!(now() - start, HOUR * 24);
            });
            drop((timer, ticker));
        }
    });
}
