//! Bubbles in the simulator.

use std::time::Duration;

use gmp_sched::select;
use gmp_sched::sim;

use crate::explore::{Random, explore};
use crate::several::{go_each, join_all};

const HOUR: Duration = Duration::from_secs(3600);

/// Trees of sleeping Gs run in concurrent bubbles, which are reused afterwards. Each G wakes at the exact nanosecond,
/// however the platform schedules it.
#[test]
fn sleeps_in_a_bubble_are_exact() {
    fn tree(seed: u64, depth: u64) -> Duration {
        let mut random = Random::new(seed);
        let (start, nap) = (sim::now(), Duration::from_nanos(random.below(1_000_000_000_000)));
        let children = go_each(0..if depth > 0 { 2 } else { 0 }, move |child| tree(seed * 5 + child + 1, depth - 1));
        if random.below(3) == 0 {
            sim::yield_now();
        }
        if random.below(4) == 0 {
            sim::work(Duration::from_micros(random.below(50)));
        }
        sim::sleep(nap);
        assert_eq!(sim::now() - start, nap);
        let longest = children.into_iter().map(|child| child.join().unwrap()).max().unwrap_or_default();
        let all = longest.max(nap);
        assert_eq!(sim::now() - start, all);
        all
    }
    explore(|seed| {
        for round in 0..2 {
            join_all(go_each(0..2, move |bubble| sim::synctest::test(move || tree(seed * 61 + bubble + round, 2))));
        }
    });
}

/// In each of two bubbles, Gs sleep for hours, and communicate with each other and with a G outside of the bubble. The
/// clock of the bubble does not advance during a communication with the G outside.
#[test]
fn channels_from_outside_hold_the_clock_of_a_bubble() {
    fn client(seed: u64, requests: sim::Sender<u64>, answers: sim::Receiver<u64>) {
        let mut random = Random::new(seed);
        let (inner, results) = sim::channel(random.below(3) as usize);
        let never = sim::Receiver::<u64>::never();
        let start = sim::now();
        let mut time = Duration::ZERO;
        let worker = sim::go(move || {
            let mut sum = 0;
            while let Ok(value) = results.recv() {
                sum += value;
            }
            sum
        });
        let idler = {
            let (quit, quits) = sim::channel::<u64>(0);
            (quit, sim::go(move || select! { recv(quits) => {}, recv(never) => {} }))
        };
        let mut expected = 0;
        for number in 0..4 {
            let nap = HOUR * random.below(3) as u32;
            sim::sleep(nap);
            time += nap;
            requests.send(seed + number).unwrap();
            let answer = if random.below(2) == 0 {
                answers.recv().unwrap()
            } else {
                select! {
                    recv(answers) -> answer => answer.unwrap(),
                    timeout(HOUR) => unreachable!("an answer from outside takes no time"),
                }
            };
            assert_eq!(answer, (seed + number) * 2);
            assert_eq!(sim::now() - start, time);
            inner.send(answer).unwrap();
            expected += answer;
            if random.below(2) == 0 {
                sim::synctest::wait();
                assert_eq!(sim::now() - start, time);
            }
        }
        drop((inner, idler.0));
        assert_eq!(worker.join().unwrap(), expected);
        idler.1.join().unwrap();
        assert_eq!(sim::now() - start, time);
    }
    explore(|seed| {
        let clients: Vec<_> = (0..2u64)
            .map(|number| {
                let (requests, asked) = sim::channel((seed % 2) as usize);
                let (replies, answers) = sim::channel(0);
                let bubble = sim::go(move || sim::synctest::test(move || client(seed * 7 + number, requests, answers)));
                let server = sim::go(move || {
                    let mut random = Random::new(seed * 3 + number);
                    while let Ok(value) = asked.recv() {
                        if random.below(2) == 0 {
                            sim::sleep(Duration::from_micros(random.below(100)));
                        }
                        replies.send(value * 2).unwrap();
                    }
                });
                [bubble, server]
            })
            .collect();
        for handle in clients.into_iter().flatten() {
            handle.join().unwrap();
        }
    });
}
