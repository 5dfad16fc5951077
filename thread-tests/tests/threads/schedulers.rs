//! Two schedulers in one process that exchange values. Each G runs only under its own scheduler, even if a G of the
//! other scheduler wakes it.
#![deny(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{
    self, Condvar, Context, Mutex, Native, Receiver, Semaphore, Sender, Timer, WaitGroup, channel, go,
};
use gmp_sched::platform::Pinned;
use thread_tests::THREADS;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the address of the scheduler that runs the calling G.
fn here() -> usize {
    core::ptr::from_ref(Pinned::<Native>::new().machine().scheduler()).addr()
}

/// Runs both closures at the same time, each as the main G of a separate scheduler.
fn together<A: Send + 'static, B: Send + 'static>(
    procs: usize,
    first: impl FnOnce() -> A + Send + 'static,
    second: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    // A scheduler whose only G waits would report a deadlock while the other scheduler does not run yet. So this code
    // announces wakeups from outside (`expect_wakes`) until both schedulers run.
    let expected = Arc::new(native::expect_wakes());
    let second_expected = expected.clone();
    let second = thread::spawn(move || {
        THREADS.run(procs, move || {
            drop(second_expected);
            second()
        })
    });
    let first = THREADS.run(procs, move || {
        drop(expected);
        first()
    });
    (first, second.join().expect("it does not panic"))
}

/// Runs `body` in a G `steps` times. After each step, checks that the G still runs under the scheduler under which it
/// began.
fn at_home<T: Send + 'static>(mut body: impl FnMut(u64) -> T + Send + 'static, steps: u64) -> native::JoinHandle<()> {
    go(move || {
        let home = here();
        for step in 0..steps {
            body(step);
            assert_eq!(here(), home, "a G runs under another scheduler after step {step}");
        }
    })
}

fn join_all(handles: impl IntoIterator<Item = native::JoinHandle<()>>) {
    handles.into_iter().for_each(|handle| handle.join().expect("it does not panic"));
}

/// Three Gs of each scheduler send on a channel, and three receive from it. In each group one G uses a limit, and one a
/// select. The test runs with and without a buffer.
#[test]
fn every_value_between_schedulers_arrives_once() {
    const EACH: u64 = 1500;
    fn side(sender: &Sender<u64>, receiver: &Receiver<u64>, sum: &Arc<AtomicU64>) -> Vec<native::JoinHandle<()>> {
        let mut all = Vec::new();
        for kind in 0..3 {
            let sender = sender.clone();
            all.push(at_home(
                move |n| match kind {
                    0 => sender.send(n).unwrap(),
                    1 => sender.send_timeout(n, HOUR).unwrap(),
                    _ => gmp_sched::select! { send(sender, n) -> sent => sent.unwrap() },
                },
                EACH,
            ));
            let (receiver, sum) = (receiver.clone(), sum.clone());
            all.push(at_home(
                move |_| {
                    let value = match kind {
                        0 => receiver.recv().unwrap(),
                        1 => receiver.recv_timeout(HOUR).unwrap(),
                        _ => gmp_sched::select! { recv(receiver) -> value => value.unwrap() },
                    };
                    sum.fetch_add(value, Ordering::Relaxed);
                },
                EACH,
            ));
        }
        all
    }
    for (procs, capacity) in [(1, 0), (1, 4), (3, 0), (3, 4)] {
        let (sender, receiver) = channel(capacity);
        let sum = Arc::new(AtomicU64::new(0));
        let body = || {
            let (sender, receiver, sum) = (sender.clone(), receiver.clone(), sum.clone());
            move || join_all(side(&sender, &receiver, &sum))
        };
        together(procs, body(), body());
        assert_eq!(sum.load(Ordering::Relaxed), 6 * (0..EACH).sum::<u64>());
    }
}

#[test]
fn locks_are_handed_over_between_schedulers() {
    #[derive(Default)]
    struct Shared {
        turn: Mutex<u64>,
        changed: Condvar,
        count: Mutex<u64>,
    }
    for procs in [1, 3] {
        let (shared, permits) = (Arc::new(Shared::default()), Arc::new(Semaphore::new(2)));
        let body = |side: u64| {
            let (shared, permits) = (shared.clone(), permits.clone());
            move || {
                let turns = shared.clone();
                let takes_turns = at_home(
                    move |_| {
                        let mut turn = turns.turn.lock();
                        turns.changed.wait_while(&mut turn, |turn| *turn % 2 != side);
                        *turn += 1;
                        turns.changed.notify_all();
                    },
                    1000,
                );
                let counts = [(); 3].map(|()| {
                    let (shared, permits) = (shared.clone(), permits.clone());
                    let step = move |_| {
                        let _permit = permits.acquire(1);
                        let mut count = shared.count.lock();
                        native::yield_now();
                        *count += 1;
                    };
                    at_home(step, 1000)
                });
                join_all(counts.into_iter().chain([takes_turns]));
            }
        };
        together(procs, body(0), body(1));
        assert_eq!((*shared.turn.lock(), *shared.count.lock()), (2000, 6000));
    }
}

#[test]
fn groups_and_contexts_end_waits_of_another_scheduler() {
    for procs in [1, 3] {
        for _ in 0..20 {
            let group = Arc::new(WaitGroup::new());
            group.add(1);
            let (context, cancel) = Context::background().with_cancel();
            let (ready, is_ready) = channel::<()>(2);
            let waits = {
                let group = group.clone();
                move || {
                    let home = here();
                    let sleeps = {
                        let (context, ready) = (context.clone(), ready.clone());
                        at_home(
                            move |_| {
                                ready.send(()).unwrap();
                                assert!(context.sleep(HOUR).is_err());
                            },
                            1,
                        )
                    };
                    let (ran, has_run) = channel(1);
                    let function = context.after_func(move || ran.send(here()).unwrap());
                    ready.send(()).unwrap();
                    group.wait();
                    assert_eq!(has_run.recv(), Ok(home), "a function runs where it was made");
                    drop(function);
                    join_all([sleeps]);
                }
            };
            let ends = move || {
                for _ in 0..2 {
                    is_ready.recv().unwrap();
                }
                drop(cancel);
                group.done();
            };
            together(procs, waits, ends);
        }
    }
}

/// This test uses a join handle, a coroutine, a timer and a delayed function that were made under the other
/// scheduler.
#[test]
fn handles_of_another_scheduler_can_be_used() {
    for procs in [1, 3] {
        let (give, given) = channel(1);
        let (tell, told) = channel::<()>(0);
        let makes = move || {
            let home = here();
            let sleeps = go(move || {
                native::sleep(Duration::from_millis(5));
                here() == home
            });
            let pull = native::pull(move |yielder| {
                let mut n = 0;
                while yielder.yield_value((n, here() == home)) {
                    n += 1;
                }
            });
            let timer = Timer::new(Duration::from_millis(5));
            let (ran, has_run) = channel(1);
            let later = native::after_func(HOUR, move || ran.send(here()).unwrap());
            give.send((sleeps, pull, timer, later)).ok().unwrap();
            assert_eq!(has_run.recv(), Ok(home), "a function runs where it was made");
            assert!(told.recv().is_ok());
        };
        let uses = move || {
            let home = here();
            let (sleeps, mut pull, timer, later) = given.recv().unwrap();
            assert_eq!(sleeps.join(), Ok(true));
            for n in 0..200 {
                assert_eq!(pull.next(), Some((n, true)));
                assert_eq!(here(), home);
            }
            pull.stop();
            timer.wait();
            timer.reset(Duration::from_millis(1));
            timer.wait();
            assert!(later.reset(Duration::from_millis(1)));
            assert_eq!(here(), home);
            tell.send(()).unwrap();
        };
        together(procs, makes, uses);
    }
}

#[test]
fn locked_gs_of_another_scheduler_run_on_their_threads() {
    for procs in [1, 3] {
        let ((to_second, second), (to_first, first)) = (channel::<u64>(0), channel::<u64>(0));
        let locked = |sender: Sender<u64>, receiver: Receiver<u64>, begins: bool| {
            move || {
                let locked = go(move || {
                    let _locked = native::lock_thread();
                    let (home, here_thread) = (here(), thread::current().id());
                    for n in 0..300 {
                        if begins {
                            sender.send(n).unwrap();
                        }
                        assert_eq!(receiver.recv(), Ok(n));
                        if !begins {
                            sender.send(n).unwrap();
                        }
                        assert_eq!((here(), thread::current().id()), (home, here_thread));
                    }
                });
                join_all([locked]);
            }
        };
        together(procs, locked(to_second, first, true), locked(to_first, second, false));
    }
}

/// A G of one scheduler calls `free_idle_stacks` of another scheduler. The stacks that the G's own P keeps are not
/// freed.
#[test]
fn freed_stacks_are_those_of_the_scheduler_that_frees_them() {
    THREADS.run_with(1, |outer| {
        let own = native::blocking(move || {
            THREADS.run_with(1, move |inner| {
                let ended: Vec<_> = (0..10).map(|_| go(|| ())).collect();
                ended.into_iter().for_each(|goroutine| goroutine.join().unwrap());
                let before = inner.cached_stacks();
                outer.free_idle_stacks(usize::MAX);
                (before, inner.cached_stacks())
            })
        });
        assert!(own.0 > 0, "dead Gs keep their stacks");
        assert_eq!(own.0, own.1);
    });
}

/// Gs are joined under the other scheduler. Each slot returns to the scheduler of its G.
#[test]
fn slots_are_returned_to_their_scheduler() {
    let (give, given) = channel(64);
    let (tell, told) = channel::<()>(0);
    let makes = move || {
        for n in 0..5000u64 {
            give.send(go(move || n)).unwrap();
        }
        drop(give);
        // Gs that have not run when main ends are abandoned, so main waits until all Gs have been joined.
        assert!(told.recv().is_err());
    };
    let joins = move || {
        let home = here();
        let mut sum = 0;
        while let Ok(handle) = given.recv() {
            sum += handle.join().unwrap();
            assert_eq!(go(here).join(), Ok(home));
        }
        drop(tell);
        sum
    };
    assert_eq!(together(2, makes, joins).1, (0..5000).sum::<u64>());
}

/// The waiter belongs to one scheduler. A G of the other scheduler raises the signal, and then keeps the only P of its
/// scheduler busy, so that no M of that scheduler could ready the waiter. The waiter continues under its own scheduler.
#[test]
fn raise_by_another_scheduler_readies_the_waiter_in_its_own() {
    let signal: &'static Signal<Native> = Box::leak(Box::default());
    let is_awake = Arc::new(AtomicBool::new(false));
    let raiser_sees = is_awake.clone();
    let is_announced = Arc::new(AtomicBool::new(false));
    let raiser_waits_for = is_announced.clone();
    let wait = move || {
        let wait = move |_| {
            is_announced.store(true, Ordering::Release);
            signal.wait();
            is_awake.store(true, Ordering::Release);
        };
        join_all([at_home(wait, 1)]);
    };
    let raise = move || {
        while !raiser_waits_for.load(Ordering::Acquire) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        signal.raise();
        let begin = Instant::now();
        while !raiser_sees.load(Ordering::Acquire) {
            assert!(begin.elapsed() < Duration::from_secs(20), "the waiter is not run");
            thread::yield_now();
        }
    };
    together(1, wait, raise);
}
