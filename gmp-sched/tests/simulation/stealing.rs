//! Tests of what a thief leaves to the P from which it could steal.

use gmp_sched::sim::{self, Config, channel};

/// Runs `program` on two Ps, with each of a hundred seeds, and returns how many times Gs were stolen in all runs
/// together.
fn steals(program: fn()) -> u64 {
    let run = |seed| {
        let config = Config { cpus: 2, processors: 2, seed, ..Config::default() };
        sim::run(config, program).unwrap_or_else(|failure| panic!("seed {seed}: {failure}")).counts.steals
    };
    (0..100).map(run).sum()
}

/// Two Gs exchange messages, so one of them is often in `runnext`. The other P is idle, but seldom steals it. (If thieves
/// did not wait, there would be 40 times as many steals.)
#[test]
fn gs_that_exchange_messages_are_not_stolen_from_each_other() {
    let steals = steals(|| {
        let (there, arrived) = channel(0);
        let (back, returned) = channel(0);
        let other = sim::go(move || arrived.iter().for_each(|message: u32| back.send(message).unwrap()));
        for message in 0..200 {
            there.send(message).unwrap();
            assert_eq!(returned.recv(), Ok(message));
        }
        drop(there);
        other.join().unwrap();
    });
    assert!(steals < 300, "{steals} steals in 100 runs");
}

/// Two Gs send to a third one, so one of them is often in the ring. The other P is idle, but seldom steals it. (If thieves
/// stole from short rings at once, there would be about twice as many steals.)
#[test]
fn senders_are_not_stolen_from_their_receiver() {
    let steals = steals(|| {
        let (sender, receiver) = channel(0);
        for _ in 0..2 {
            let sender = sender.clone();
            sim::go(move || (0..200).for_each(|message| sender.send(message).unwrap())).detach();
        }
        drop(sender);
        assert_eq!(receiver.iter().count(), 2 * 200);
    });
    assert!(steals < 750, "{steals} steals in 100 runs");
}
