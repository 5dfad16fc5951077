//! Tests of which objects belong to a bubble. Using such an object from outside of its bubble, or from another bubble,
//! panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::panics::panic_of as message;
use crate::several::join_all;
use gmp_sched::chan::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use gmp_sched::native::{
    self, Barrier, Condvar, Context, JoinHandle, Limit, Mutex, Semaphore, Ticker, Timer, WaitGroup, after_func,
    channel, go, now, pull, sleep, synctest, yield_now,
};
use gmp_sched::select;
use thread_tests::THREADS;

const HOUR: Duration = Duration::from_secs(3600);

/// A coroutine belongs to the bubble in which its first value is requested.
#[test]
fn coroutine_belongs_to_the_bubble_of_its_first_call() {
    THREADS.run(1, call_coroutines_inside_and_outside);
    THREADS.run(2, call_coroutines_inside_and_outside);
}

/// Returns whether the clock shows the same time after this G has let other Gs run for a while.
fn time_stands_still() -> bool {
    let start = now();
    go(|| ()).join().unwrap();
    (0..100).for_each(|_| yield_now());
    now() == start
}

/// Returns a coroutine that sleeps for `time` before each value.
fn naps(time: Duration) -> native::Pull<()> {
    let body = move |yielder: &mut native::Yielder<()>| {
        loop {
            sleep(time);
            if !yielder.yield_value(()) {
                return;
            }
        }
    };
    pull(body)
}

fn call_coroutines_inside_and_outside() {
    let mut made_outside = naps(HOUR);
    synctest::test(move || {
        let start = now();
        assert_eq!(made_outside.by_ref().take(3).count(), 3);
        assert_eq!(now() - start, HOUR * 3);
        made_outside.stop();
    });
    let mut begun_outside = naps(Duration::from_millis(2));
    begun_outside.next();
    let mut begun_outside = synctest::test(move || {
        let (start, sleeper) = (now(), go(|| sleep(HOUR)));
        assert_eq!(begun_outside.by_ref().take(3).count(), 3);
        assert_eq!(now(), start, "what is outside holds the clock");
        sleeper.join().unwrap();
        begun_outside
    });
    begun_outside.next();
    begun_outside.stop();
    // This coroutine begins inside of the bubble. It is called outside and then inside again.
    let (to_outside, from_bubble) = channel::<native::Pull<bool>>(0);
    let (to_bubble, from_outside) = channel::<native::Pull<bool>>(0);
    let bubble = go(move || {
        synctest::test(move || {
            let mut stills = pull(|yielder| while yielder.yield_value(time_stands_still()) {});
            stills.next();
            to_outside.send(stills).unwrap();
            let mut stills = from_outside.recv().unwrap();
            assert!(stills.by_ref().take(2).eq([true; 2]));
            stills.stop();
            sleep(HOUR);
        });
    });
    let mut stills = from_bubble.recv().unwrap();
    assert!(stills.by_ref().take(2).eq([true; 2]));
    to_bubble.send(stills).unwrap();
    bubble.join().unwrap();
    // This coroutine begins inside of the bubble and is stopped outside, while all other Gs of the bubble wait for the
    // clock.
    let (to_outside, from_bubble) = channel::<native::Pull<bool>>(0);
    let (end, ended) = channel(0);
    let bubble = go(move || {
        synctest::test(move || {
            let mut stills = pull(|yielder| while yielder.yield_value(time_stands_still()) {});
            stills.next();
            to_outside.send(stills).unwrap();
            sleep(HOUR);
            ended.recv().unwrap();
        });
    });
    let mut stills = from_bubble.recv().unwrap();
    assert!(stills.by_ref().take(2).eq([true; 2]));
    stills.stop();
    end.send(()).unwrap();
    bubble.join().unwrap();
    // If a coroutine has not begun when the bubble ends, it does not belong to the bubble any more.
    let made_within = synctest::test(|| pull(|yielder| _ = yielder.yield_value(message(synctest::wait))));
    assert!(made_within.eq(["goroutine is not in a bubble"]));
}

/// Using a channel of a bubble from outside, or from another bubble, panics with Go's messages. Other uses do not
/// panic.
#[test]
fn channel_of_a_bubble_used_from_outside_panics() {
    fn misuse(sender: &native::Sender<Arc<()>>, receiver: &native::Receiver<Arc<()>>) {
        const SEND: &str = "send on synctest channel from outside bubble";
        const RECEIVE: &str = "receive on synctest channel from outside bubble";
        const SELECT: &str = "select on synctest channel from outside bubble";
        let short = Duration::from_millis(1);
        // References to this value are counted, to check that a value that was not sent is dropped.
        let kept = Arc::new(());
        let value = || kept.clone();
        assert_eq!(message(|| sender.send(value())), SEND);
        assert_eq!(message(|| sender.try_send(value())), SEND);
        assert_eq!(message(|| sender.send_timeout(value(), short)), SEND);
        assert_eq!(message(|| receiver.recv()), RECEIVE);
        assert_eq!(message(|| receiver.iter().next()), RECEIVE);
        assert_eq!(message(|| receiver.try_recv()), RECEIVE);
        assert_eq!(message(|| receiver.recv_timeout(short)), RECEIVE);
        assert_eq!(message(|| select! { send(sender, value()) => {} }), SELECT);
        assert_eq!(Arc::strong_count(&kept), 1);
        let mut option = Some(value());
        assert_eq!(message(|| select! { send_from(sender, option) => {} }), SELECT);
        assert_eq!(message(|| sender.close()), "close of synctest channel from outside bubble");
        assert!(option.is_some() && receiver.is_empty() && !receiver.is_closed());
    }
    THREADS.run(2, || {
        let (outer, from_outside) = channel(1);
        let (sender, receiver) = synctest::test(move || {
            // Inside of the bubble, its objects work, and objects made outside may be used.
            let (sender, receiver) = channel(1);
            sender.send(Arc::new(())).unwrap();
            outer.send(receiver.recv().unwrap()).unwrap();
            // While a timer of a bubble is armed, the memory of the bubble is not reused. So the next bubble has other
            // memory.
            let _left = after_func(HOUR, || ());
            (sender, receiver)
        });
        assert!(from_outside.recv().is_ok());
        misuse(&sender, &receiver);
        let (sender, receiver) = synctest::test(move || {
            misuse(&sender, &receiver);
            (sender, receiver)
        });
        // Dropping the last sender closes the channel, inside or outside of the bubble.
        drop(sender);
        assert!(receiver.recv().is_err());
        // The next bubble reuses the memory of the previous one, but is a different bubble.
        let (sender, receiver) = synctest::test(|| channel(1));
        synctest::test(move || misuse(&sender, &receiver));
    });
}

#[test]
fn timer_of_a_bubble_used_from_outside_panics() {
    fn misuse(timer: &Timer, ticker: &Ticker) {
        const STOP: &str = "stop of synctest timer from outside bubble";
        const RESET: &str = "reset of synctest timer from outside bubble";
        const RECEIVE: &str = "receive on synctest channel from outside bubble";
        assert_eq!((message(|| timer.stop()), message(|| ticker.stop())), (STOP.to_string(), STOP.to_string()));
        assert_eq!((message(|| timer.reset(HOUR)), message(|| ticker.reset(HOUR))), (RESET.into(), RESET.into()));
        assert_eq!((message(|| timer.wait()), message(|| ticker.try_wait())), (RECEIVE.into(), RECEIVE.into()));
        assert_eq!(message(|| timer.wait_until(Limit::after(HOUR))), RECEIVE);
        assert_eq!(message(|| select! { recv(timer) => {}, recv(ticker) => {} }), RECEIVE);
    }
    THREADS.run(2, || {
        let (timer, ticker) = synctest::test(|| (Timer::new(HOUR), Ticker::new(HOUR)));
        misuse(&timer, &ticker);
        synctest::test(move || misuse(&timer, &ticker));
        // A timer made outside belongs to no bubble, even if it is set inside of one.
        let (timer, ticker) = (Timer::new(HOUR), Ticker::new(HOUR));
        let short = Duration::from_millis(1);
        let (timer, ticker) = synctest::test(move || {
            let start = now();
            timer.reset(short);
            ticker.reset(short);
            timer.wait();
            ticker.wait();
            assert_eq!(now(), start);
            timer.reset(HOUR);
            (timer, ticker)
        });
        ticker.wait();
        ticker.stop();
        assert!(timer.stop());
    });
}

/// Misuses of a wait group of a bubble panic with the same messages as in Go. A wait group whose counter is zero
/// belongs to no bubble.
#[test]
fn wait_group_of_a_bubble_used_from_outside_panics() {
    const BOTH: &str = "sync: WaitGroup.Add called from inside and outside synctest bubble";
    const SEVERAL: &str = "sync: WaitGroup.Add called from multiple synctest bubbles";
    static GROUP: WaitGroup = WaitGroup::new();
    THREADS.run(1, || {
        GROUP.add(1);
        synctest::test(|| assert_eq!((message(|| GROUP.add(1)), message(|| GROUP.done())), (BOTH.into(), BOTH.into())));
        GROUP.done();
        synctest::test(|| GROUP.add(1));
        assert_eq!((message(|| GROUP.add(1)), message(|| GROUP.done())), (BOTH.into(), BOTH.into()));
        // This bubble reuses the memory of the previous one, but is a different bubble.
        synctest::test(|| {
            assert_eq!((message(|| GROUP.add(1)), message(|| GROUP.done())), (SEVERAL.into(), SEVERAL.into()));
        });
        let group = Arc::new(WaitGroup::new());
        for _ in 0..2 {
            let inside = group.clone();
            synctest::test(move || {
                inside.go(|| sleep(HOUR));
                inside.wait();
            });
            group.go(yield_now);
            group.wait();
        }
    });
}

#[test]
fn after_func_of_a_bubble_used_from_outside_panics() {
    const STOP: &str = "stop of synctest timer from outside bubble";
    const RESET: &str = "reset of synctest timer from outside bubble";
    THREADS.run(1, || {
        let (later, done) = synctest::test(|| {
            let (later, done) = (after_func(HOUR, || ()), after_func(HOUR, || ()));
            sleep(HOUR);
            assert!(later.reset(HOUR) || !later.stop());
            assert!(!done.stop() && !done.reset(HOUR));
            (after_func(HOUR, || unreachable!("the clock does not advance")), done)
        });
        for function in [&later, &done] {
            assert_eq!((message(|| function.stop()), message(|| function.reset(HOUR))), (STOP.into(), RESET.into()));
        }
        synctest::test(move || {
            for function in [&later, &done] {
                assert_eq!(
                    (message(|| function.stop()), message(|| function.reset(HOUR))),
                    (STOP.into(), RESET.into())
                );
            }
        });
        // A delayed function that was made outside may be stopped and reset inside. The function still belongs to no
        // bubble.
        static RAN: AtomicBool = AtomicBool::new(false);
        let (one, other) = (after_func(HOUR, || unreachable!()), after_func(HOUR, run_outside));
        fn run_outside() {
            assert_eq!(message(synctest::wait), "goroutine is not in a bubble");
            RAN.store(true, Ordering::Relaxed);
        }
        synctest::test(move || {
            assert!(one.stop() && other.reset(Duration::from_millis(1)));
            let start = now();
            while !RAN.load(Ordering::Relaxed) {
                yield_now();
            }
            assert_eq!(now(), start);
        });
    });
}

/// Contexts may be used everywhere, even if objects derived from them belong to a bubble.
#[test]
fn contexts_work_inside_and_outside_of_bubbles() {
    THREADS.run(1, || {
        let ran = Arc::new(AtomicUsize::new(0));
        let run = |ran: &Arc<AtomicUsize>| {
            let ran = ran.clone();
            move || assert!(ran.fetch_add(1, Ordering::Relaxed) < 2)
        };
        // This context is made outside of the bubble and used inside. Its function `inner` runs in a G of the bubble.
        let (context, cancel) = Context::background().with_cancel();
        let outer = context.after_func(run(&ran));
        let (kept, inner, counts) = (context.clone(), run(&ran), ran.clone());
        synctest::test(move || {
            assert!(outer.stop());
            kept.after_func(inner);
            let done = kept.done();
            let waiter = go(move || done.recv());
            synctest::wait();
            cancel.cancel();
            synctest::wait();
            assert!(waiter.is_finished() && counts.load(Ordering::Relaxed) == 1);
        });
        // This context is made inside the bubble and used outside.
        let (context, cancel, stopped) = synctest::test(|| {
            let (context, cancel) = Context::background().with_cancel();
            drop(context.done());
            let stopped = context.after_func(|| unreachable!());
            // The function runs in the bubble of the G that cancels the context, or outside if that G is outside.
            let function = || assert_eq!(message(synctest::wait), "goroutine is not in a bubble");
            context.after_func(function);
            (context, cancel, stopped)
        });
        let outer = context.after_func(run(&ran));
        assert!(stopped.stop());
        cancel.cancel();
        (0..10).for_each(|_| yield_now());
        assert!(context.done().is_closed() && !outer.stop());
        assert_eq!(ran.load(Ordering::Relaxed), 2);
    });
}

const WOKEN_FROM_OUTSIDE: &str = "semaphore wake of synctest goroutine from outside bubble";

/// Makes a bubble that calls each of `waits` in a G of its own.
fn bubble_of<const COUNT: usize>(waits: [impl FnOnce() + Send + 'static; COUNT]) -> JoinHandle<()> {
    let bubble = go(move || {
        synctest::test(move || {
            // This sleep prevents a deadlock of the bubble while the other Gs wait.
            let keeper = go(|| sleep(HOUR));
            let waiters = waits.map(go);
            while !waiters.iter().all(|waiter| waiter.is_finished()) {
                yield_now();
            }
            keeper.join().unwrap();
        });
    });
    (0..10).for_each(|_| yield_now());
    bubble
}

/// Two Gs of a bubble wait. The caller, which is outside, calls `end` as many times as `ends` says. Each call panics,
/// but both waits end. Afterwards the same calls end the waits of two Gs outside, without a panic.
fn assert_end_from_outside_panics<T: Send + Sync + 'static>(
    shared: impl Fn() -> T + Send + 'static,
    wait: fn(&T),
    end: fn(&T),
    ends: usize,
) {
    THREADS.run(1, move || {
        let shared = Arc::new(shared());
        let waits = || [shared.clone(), shared.clone()].map(|shared| move || wait(&shared));
        let bubble = bubble_of(waits());
        for _ in 0..ends {
            assert_eq!(message(|| end(&shared)), WOKEN_FROM_OUTSIDE);
        }
        bubble.join().unwrap();
        let waiters = waits().map(go);
        yield_now();
        (0..ends).for_each(|_| end(&shared));
        join_all(waiters);
    });
}

#[test]
fn releasing_permits_to_a_bubble_from_outside_panics() {
    let none = || {
        let semaphore = Semaphore::new(2);
        semaphore.acquire(2).forget();
        semaphore
    };
    let wait = |semaphore: &Semaphore| semaphore.acquire(1).forget();
    assert_end_from_outside_panics(none, wait, |semaphore| semaphore.release(1), 2);
    assert_end_from_outside_panics(none, wait, |semaphore| semaphore.release(2), 1);
}

/// When a request for two permits is cancelled, the semaphore grants the free permit to the next waiter. This grant
/// panics, because the next waiter is in a bubble.
#[test]
fn cancelled_request_that_leaves_permits_to_a_bubble_panics() {
    THREADS.run(1, || {
        let semaphore = Arc::new(Semaphore::new(2));
        semaphore.acquire(1).forget();
        let (context, cancel) = Context::background().with_cancel();
        let (first, second) = (semaphore.clone(), semaphore.clone());
        let gives_up = go(move || message(|| _ = first.acquire_until(2, &context)));
        yield_now();
        let bubble = bubble_of([move || second.acquire(1).forget()]);
        cancel.cancel();
        assert_eq!(gives_up.join().unwrap(), WOKEN_FROM_OUTSIDE);
        bubble.join().unwrap();
        assert_eq!(semaphore.available(), 0);
    });
}

#[test]
fn completing_a_barrier_of_a_bubble_from_outside_panics() {
    let wait = |barrier: &Barrier| _ = barrier.wait();
    assert_end_from_outside_panics(|| Barrier::new(3), wait, wait, 1);
}

#[test]
fn notifying_a_bubble_from_outside_panics() {
    type Condition = (Mutex<()>, Condvar);
    let new = || (Mutex::new(()), Condvar::new());
    let wait = |(mutex, changed): &Condition| changed.wait(&mut mutex.lock());
    assert_end_from_outside_panics(new, wait, |(_, changed)| _ = changed.notify_one(), 2);
    assert_end_from_outside_panics(new, wait, |(_, changed)| _ = changed.notify_all(), 1);
}

/// A closed channel cannot be used in any way that would involve the bubble. So callers outside of the bubble get the
/// same answers as callers inside.
#[test]
fn closed_channel_of_a_bubble_reports_its_end_outside() {
    THREADS.run(1, || {
        let receiver = synctest::test(|| channel::<u8>(1).1);
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(receiver.recv_timeout(HOUR), Err(RecvTimeoutError::Closed));
        let sender = synctest::test(|| channel::<u8>(1).0);
        assert_eq!(sender.send(1), Err(SendError(1)));
        assert_eq!(sender.try_send(2), Err(TrySendError::Closed(2)));
        assert_eq!(sender.send_timeout(3, HOUR), Err(SendTimeoutError::Closed(3)));
    });
}
