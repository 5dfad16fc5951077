//! Bubbles, on threads and on the simulated machine.
#![cfg(not(gmp_loom))]

mod explore;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{
    self, Context, Native, Ticker, Timer, after_func, channel, go, now, pull, scope, sleep, synctest, yield_now,
};
use gmp_sched::park::{park, ready};
use gmp_sched::select;
use gmp_sched::sim;

use explore::{Random, explore};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `body` in a bubble, with 1, 2 and 4 Ps.
fn in_bubbles(body: fn()) {
    for processors in [1, 2, 4] {
        native::run(processors, move || synctest::test(body));
    }
}

#[test]
fn time_goes_on_only_when_everybody_waits_for_it() {
    in_bubbles(|| {
        let start = now();
        assert_eq!(start.as_nanos(), 946_684_800_000_000_000);
        std::thread::sleep(Duration::from_millis(2));
        yield_now();
        assert_eq!(now(), start);
        let others: Vec<_> = (1..=3u32)
            .map(|hours| {
                go(move || {
                    sleep(HOUR * hours);
                    now().since(start)
                })
            })
            .collect();
        for (hours, other) in (1..=3).zip(others) {
            assert_eq!(other.join().unwrap(), HOUR * hours);
            assert_eq!(now().since(start), HOUR * hours);
        }
    });
}

#[test]
fn wait_returns_when_the_others_wait() {
    in_bubbles(|| {
        let (start, steps) = (now(), Arc::new(AtomicUsize::new(0)));
        let counter = steps.clone();
        let other = go(move || {
            for _ in 0..3 {
                (0..10).for_each(|_| yield_now());
                counter.fetch_add(1, Ordering::Relaxed);
                sleep(HOUR);
            }
        });
        for expected in 1..=3 {
            synctest::wait();
            assert_eq!(steps.load(Ordering::Relaxed), expected);
            assert_eq!(now().since(start), HOUR * (expected as u32 - 1));
            sleep(HOUR);
        }
        other.join().unwrap();
    });
}

/// The example of Go's documentation.
#[test]
fn a_context_ends_at_its_deadline_to_the_nanosecond() {
    in_bubbles(|| {
        let timeout = Duration::from_secs(5);
        let (context, _cancel) = Context::background().with_timeout(timeout);
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = ran.clone();
        context.after_func(move || runs.store(1, Ordering::Relaxed)).unwrap();
        sleep(timeout - Duration::from_nanos(1));
        synctest::wait();
        assert!(context.err().is_none() && ran.load(Ordering::Relaxed) == 0);
        sleep(Duration::from_nanos(1));
        synctest::wait();
        assert_eq!((context.err(), ran.load(Ordering::Relaxed)), (Some(ContextError::DeadlineExceeded), 1));
    });
}

#[test]
fn timers_and_tickers_fire_at_their_time() {
    in_bubbles(|| {
        let start = now();
        let (timer, ticker) = (Timer::new(HOUR * 24), Ticker::new(HOUR));
        for tick in 1..=5 {
            assert_eq!(ticker.wait().since(start), HOUR * tick);
        }
        let interrupted = after_func(HOUR, || unreachable!("is stopped")).unwrap();
        sleep(HOUR / 2);
        assert!(interrupted.stop() && ticker.try_wait().is_none() && timer.try_wait().is_none());
        ticker.stop();
        assert_eq!(timer.wait().since(start), HOUR * 24);
        assert!(!timer.reset(HOUR) && timer.stop());
        assert!(timer.wait_until(HOUR).is_err());
        assert_eq!(now().since(start), HOUR * 25);
    });
}

#[test]
fn coroutines_and_scopes_count_as_they_should() {
    in_bubbles(|| {
        let start = now();
        let values = pull(|yielder| {
            for value in 0..3 {
                sleep(HOUR);
                if !yielder.yield_value(value) {
                    return;
                }
            }
        })
        .unwrap();
        assert!(values.eq(0..3));
        assert_eq!(now().since(start), HOUR * 3);
        drop(pull::<u32, _>(|_| unreachable!("never asked for")).unwrap());
        scope(|scope| {
            for hours in 1..=3 {
                scope.go(move || sleep(HOUR * hours));
            }
        });
        assert_eq!(now().since(start), HOUR * 6);
        synctest::wait();
    });
}

fn message_of(body: impl FnOnce() + Send + 'static) -> String {
    native::run(2, move || {
        let panic = catch_unwind(AssertUnwindSafe(|| synctest::test(body))).unwrap_err();
        panic.downcast_ref::<String>().cloned().expect("a message")
    })
}

#[test]
fn deadlocks_are_told() {
    assert_eq!(
        message_of(|| {
            go(|| Context::background().wait()).join().unwrap();
        }),
        "deadlock: all goroutines in bubble are blocked"
    );
    assert_eq!(
        message_of(|| {
            go(|| Context::background().wait()).detach();
        }),
        "deadlock: main bubble goroutine has exited but blocked goroutines remain"
    );
    // The clock has stopped with main.
    assert_eq!(
        message_of(|| go(|| sleep(HOUR)).detach()),
        "deadlock: main bubble goroutine has exited but blocked goroutines remain"
    );
}

/// One that waits for what may come from outside keeps the clock from going on.
#[test]
fn an_outer_wait_is_not_durable() {
    native::run(2, || {
        static WAITING: AtomicUsize = AtomicUsize::new(0);
        let waker = go(|| {
            while WAITING.load(Ordering::Acquire) == 0 {
                yield_now();
            }
            sleep(Duration::from_millis(5));
            // SAFETY: the address of the G that parked below, which told it in its commit.
            let waiting = unsafe { &*std::ptr::with_exposed_provenance(WAITING.load(Ordering::Acquire)) };
            // SAFETY: as above; nobody else readies it.
            unsafe { ready::<Native>(waiting) };
        });
        synctest::test(|| {
            let start = now();
            let sleeper = go(move || {
                sleep(HOUR);
                now()
            });
            park::<Native>(WaitReason::Parked, |_, me| {
                WAITING.store(std::ptr::from_ref(me).expose_provenance(), Ordering::Release);
                true
            });
            assert_eq!(now(), start);
            assert_eq!(sleeper.join().unwrap().since(start), HOUR);
        });
        waker.join().unwrap();
    });
}

/// Trees of Gs that sleep: whatever the machine does, each wakes to the nanosecond, in bubbles side by side, which are
/// used again afterwards.
#[test]
fn every_sleep_is_exact_on_any_machine() {
    fn tree(seed: u64, depth: u64) -> Duration {
        let mut random = Random::new(seed);
        let (start, nap) = (sim::now(), Duration::from_nanos(random.below(1_000_000_000_000)));
        let children: Vec<_> = (0..if depth > 0 { 2 } else { 0 })
            .map(|child| sim::go(move || tree(seed * 5 + child + 1, depth - 1)))
            .collect();
        if random.below(3) == 0 {
            sim::yield_now();
        }
        if random.below(4) == 0 {
            sim::work(Duration::from_micros(random.below(50)));
        }
        sim::sleep(nap);
        assert_eq!(sim::now().since(start), nap);
        let longest = children.into_iter().map(|child| child.join().unwrap()).max().unwrap_or_default();
        let all = longest.max(nap);
        assert_eq!(sim::now().since(start), all);
        all
    }
    explore(|seed| {
        for round in 0..2 {
            let bubbles: Vec<_> = (0..2)
                .map(|bubble| sim::go(move || sim::synctest::test(move || tree(seed * 61 + bubble + round, 2))))
                .collect();
            for bubble in bubbles {
                bubble.join().unwrap();
            }
        }
    });
}

/// What `body` says when it panics, which it does.
fn message<T>(body: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(body()))).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_string())
}

/// Go's panics, in its words, for those who come from outside or from another bubble; and none for the others.
#[test]
fn a_bubbles_channels_are_its_own() {
    fn misuse(sender: &native::Sender<u8>, receiver: &native::Receiver<u8>) {
        const SEND: &str = "send on synctest channel from outside bubble";
        const RECEIVE: &str = "receive on synctest channel from outside bubble";
        const SELECT: &str = "select on synctest channel from outside bubble";
        let short = Duration::from_millis(1);
        assert_eq!(message(|| sender.send(1)), SEND);
        assert_eq!(message(|| sender.try_send(1)), SEND);
        assert_eq!(message(|| sender.send_timeout(1, short)), SEND);
        assert_eq!(message(|| receiver.recv()), RECEIVE);
        assert_eq!(message(|| receiver.iter().next()), RECEIVE);
        assert_eq!(message(|| receiver.try_recv()), RECEIVE);
        assert_eq!(message(|| receiver.recv_timeout(short)), RECEIVE);
        assert_eq!(message(|| select! { send(sender, 1) => {} }), SELECT);
        let mut value = Some(1);
        assert_eq!(message(|| select! { send_from(sender, value) => {} }), SELECT);
        assert_eq!(message(|| sender.close()), "close of synctest channel from outside bubble");
        assert!(value.is_some() && receiver.is_empty() && !receiver.is_closed());
    }
    native::run(2, || {
        let (outer, from_outside) = channel(1);
        let (sender, receiver) = synctest::test(move || {
            // Inside all is as ever, and what was made outside may be used.
            let (sender, receiver) = channel(1);
            sender.send(1).unwrap();
            outer.send(receiver.recv().unwrap()).unwrap();
            // A timer that is left keeps the bubble from being used again.
            let _left = after_func(HOUR, || ()).unwrap();
            (sender, receiver)
        });
        assert_eq!(from_outside.recv(), Ok(1));
        misuse(&sender, &receiver);
        let (sender, receiver) = synctest::test(move || {
            misuse(&sender, &receiver);
            (sender, receiver)
        });
        // The last sender closes it, wherever that is.
        drop(sender);
        assert!(receiver.recv().is_err());
    });
}

#[test]
fn a_bubbles_timers_are_its_own() {
    fn misuse(timer: &Timer, ticker: &Ticker) {
        const STOP: &str = "stop of synctest timer from outside bubble";
        const RESET: &str = "reset of synctest timer from outside bubble";
        const RECEIVE: &str = "receive on synctest channel from outside bubble";
        assert_eq!((message(|| timer.stop()), message(|| ticker.stop())), (STOP.to_string(), STOP.to_string()));
        assert_eq!((message(|| timer.reset(HOUR)), message(|| ticker.reset(HOUR))), (RESET.into(), RESET.into()));
        assert_eq!((message(|| timer.wait()), message(|| ticker.try_wait())), (RECEIVE.into(), RECEIVE.into()));
        assert_eq!(message(|| timer.wait_until(HOUR)), RECEIVE);
        assert_eq!(message(|| select! { recv(timer) => {}, recv(ticker) => {} }), RECEIVE);
    }
    native::run(2, || {
        let (timer, ticker) = synctest::test(|| (Timer::new(HOUR), Ticker::new(HOUR)));
        misuse(&timer, &ticker);
        synctest::test(move || misuse(&timer, &ticker));
        // One that was made outside belongs to whoever sets it.
        let timer = Timer::new(HOUR);
        let timer = synctest::test(move || {
            timer.reset(HOUR);
            timer.wait();
            timer
        });
        assert_eq!(message(|| timer.stop()), "stop of synctest timer from outside bubble");
    });
}
