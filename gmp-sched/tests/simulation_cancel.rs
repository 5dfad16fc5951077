//! Contexts on the simulated machine: cancellations, deadlines and wake-ups that race.
#![cfg(not(gmp_loom))]

mod explore;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::sim::{self, Context, Limit, Timer, go, now};

use explore::{Random, explore};

fn microseconds(number: u64) -> Duration {
    Duration::from_micros(number)
}

/// Gs wait for timers with contexts anywhere in a tree, of which parts are cancelled meanwhile. Each wait ends for a
/// reason that holds, nobody is forgotten, and what a context said once it says for good.
#[test]
fn every_wait_ends_for_a_reason_that_holds() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let mut tree = vec![Context::background().with_cancel()];
        for _ in 0..6 {
            let above = tree[random.below(tree.len() as u64) as usize].0.clone();
            tree.push(match random.below(3) {
                0 => above.with_timeout(microseconds(random.below(300))),
                1 => above.with_value(random.below(9)).with_cancel(),
                _ => above.with_cancel(),
            });
        }
        let waiting: Vec<_> = (0..8)
            .map(|number| {
                let context = tree[random.below(tree.len() as u64) as usize].0.clone();
                let mut random = Random::new(seed * 23 + number);
                go(move || {
                    let timer = Timer::new(microseconds(random.below(200)));
                    for _ in 0..4 {
                        let deadline = now().after(microseconds(random.below(400)));
                        let limit = Limit::from(&context).and(deadline);
                        let before = context.err();
                        match timer.wait_until(limit) {
                            Some(tick) => assert!(tick <= now()),
                            None => {
                                let err = limit.err().expect("the wait ended, and the limit is not over");
                                assert!(
                                    err == ContextError::Canceled
                                        || now() >= deadline.min(context.deadline().unwrap_or(deadline))
                                );
                            }
                        }
                        assert!(before.is_none() || before == context.err());
                        timer.reset(microseconds(random.below(200)));
                        sim::work(microseconds(random.below(10)));
                    }
                    context.wait()
                })
            })
            .collect();
        for _ in 0..4 {
            let (context, cancel) = &tree[random.below(tree.len() as u64) as usize];
            sim::sleep(microseconds(random.below(80)));
            cancel.cancel();
            assert!(context.err().is_some());
        }
        tree[0].1.cancel();
        assert!(tree.iter().all(|(context, _)| context.err().is_some()));
        for handle in waiting {
            handle.join().unwrap();
        }
    });
}

/// A function runs once if its context ended before it was taken back, by a cancellation, by the deadline, or by both.
#[test]
fn a_function_runs_when_its_context_is_done() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let ran = Arc::new(AtomicUsize::new(0));
        let mut expected = 0;
        for _ in 0..8 {
            let (context, cancel) = match random.below(2) {
                0 => Context::background().with_timeout(microseconds(random.below(60))),
                _ => Context::background().with_cancel(),
            };
            let (counter, seen) = (ran.clone(), context.clone());
            let function = context
                .after_func(move || {
                    assert!(seen.err().is_some());
                    counter.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            let canceller = go(move || {
                sim::work(microseconds(seed % 50));
                cancel.cancel();
            });
            sim::work(microseconds(random.below(60)));
            if random.below(2) == 0 {
                expected += usize::from(!function.stop());
            } else {
                expected += 1;
            }
            canceller.join().unwrap();
        }
        while ran.load(Ordering::Relaxed) < expected {
            sim::sleep(microseconds(10));
        }
        sim::sleep(microseconds(200));
        assert_eq!(ran.load(Ordering::Relaxed), expected);
    });
}

/// Contexts are made below one that is being cancelled: none escapes.
#[test]
fn no_child_escapes_a_cancellation() {
    explore(|seed| {
        let (top, cancel) = Context::background().with_cancel();
        let makers: Vec<_> = (0..3)
            .map(|maker| {
                let mut above = top.clone();
                let mut random = Random::new(seed * 29 + maker);
                go(move || {
                    let mut made = Vec::new();
                    for _ in 0..6 {
                        let (below, handle) = above.with_cancel();
                        if random.below(2) == 0 {
                            above = below.clone();
                        }
                        made.push((below, handle));
                        if random.below(3) == 0 {
                            drop(made.remove(0));
                        }
                    }
                    for (context, _) in &made {
                        context.wait();
                    }
                })
            })
            .collect();
        sim::work(microseconds(seed % 40));
        cancel.cancel();
        makers.into_iter().for_each(|maker| maker.join().unwrap());
    });
}
