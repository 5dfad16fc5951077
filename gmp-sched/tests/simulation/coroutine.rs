//! Coroutines and futures in the simulator, under preemption.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use gmp_sched::lock_os_thread::LockedThread;
use gmp_sched::sim::{Pull, Sim, block_on, go, lock_thread, pull, yield_now};
use gmp_sched::syscall::{blocking, syscall};

use crate::anything::anything;
use crate::explore::{Random, explore};
use crate::several::{join_all, spawn_each};

/// Every value of every coroutine arrives once and in order, whatever both sides do in between and wherever they run.
/// Each body is dropped exactly once, even if it has not begun. Sometimes one side is locked to its M for some values.
/// An assertion in the engine's switch then fails if this side runs on another M.
#[test]
fn coroutines_yield_all_values_in_order() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn lock_or_unlock(random: &mut Random, locked: &mut Option<LockedThread<Sim>>) {
        match random.below(8) {
            0 => *locked = Some(lock_thread()),
            1 => *locked = None,
            _ => {}
        }
    }
    fn numbers(seed: u64, count: u64, ended: &Arc<AtomicUsize>) -> Pull<u64> {
        let held = Counted(ended.clone());
        pull(move |yielder| {
            let _held = held;
            let mut random = Random::new(seed);
            let mut locked = None;
            for number in 0..count {
                anything(&mut random);
                lock_or_unlock(&mut random, &mut locked);
                if !yielder.yield_value(number) {
                    assert!(!yielder.yield_value(number), "no more values are wanted, and that does not change");
                    anything(&mut random);
                    return;
                }
            }
        })
    }
    explore(|seed| {
        let ended = Arc::new(AtomicUsize::new(0));
        join_all(spawn_each(0..4u64, |reader| {
            let ended = ended.clone();
            move || {
                let mut random = Random::new(seed * 41 + reader);
                let mut values = numbers(seed + reader, 8, &ended);
                let wanted = random.below(12);
                let mut locked = None;
                for expected in 0..wanted {
                    anything(&mut random);
                    lock_or_unlock(&mut random, &mut locked);
                    assert_eq!(values.next(), Some(expected).filter(|&number| number < 8));
                }
                match random.below(3) {
                    0 => values.stop(),
                    1 => drop(values),
                    // Another G takes the remaining values.
                    _ => assert_eq!(go(move || values.count()).join().unwrap() as u64, 8 - wanted.min(8)),
                }
            }
        }));
        assert_eq!(ended.load(Ordering::Relaxed), 4);
    });
}

/// A flag that is set once, with the waker of the G that waits for it.
#[derive(Default)]
struct Event {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Event {
    fn set(&self) -> Option<Waker> {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        state.1.take()
    }

    async fn wait(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Other Gs call wakers once, twice, and long after the future is done. Every future ends, and late calls have no
/// effect.
#[test]
fn no_wakeup_of_a_future_is_lost() {
    explore(|seed| {
        let events: Arc<Vec<Event>> = Arc::new((0..6).map(|_| Event::default()).collect());
        let waiting = spawn_each(0..3, |first| {
            let events = events.clone();
            move || {
                block_on(async {
                    for event in [first, first + 3] {
                        events[event].wait().await;
                    }
                });
            }
        });
        let setters = spawn_each(0..2, |setter| {
            let events = events.clone();
            move || {
                let mut random = Random::new(seed * 43 + setter);
                let mut stale = Vec::new();
                for event in events.iter().skip(setter as usize).step_by(2) {
                    anything(&mut random);
                    if let Some(waker) = event.set() {
                        stale.push(waker.clone());
                        waker.wake();
                    }
                    if random.below(2) == 0 {
                        stale.iter().for_each(Waker::wake_by_ref);
                    }
                }
                stale
            }
        });
        let stale: Vec<_> = setters.into_iter().flat_map(|setter| setter.join().unwrap()).collect();
        join_all(waiting);
        stale.into_iter().for_each(Waker::wake);
    });
}

/// In a system call, dropping a coroutine may not block, so the drop does not wait for the coroutine's end.
/// Nevertheless, the coroutine runs to its end later. If it had not begun, its body is dropped instead.
#[test]
fn coroutine_dropped_in_a_system_call_runs_to_its_end() {
    explore(|seed| {
        let held = Arc::new(());
        let ended = Arc::downgrade(&held);
        let mut values = pull(move |yielder| {
            let _held = held;
            while yielder.yield_value(()) {}
            yield_now();
        });
        if seed % 2 == 0 {
            assert_eq!(values.next(), Some(()));
        }
        if seed % 3 == 0 {
            blocking::<Sim, _>(|| drop(values));
        } else {
            syscall::<Sim, _>(|| drop(values));
        }
        while ended.strong_count() != 0 {
            yield_now();
        }
    });
}
