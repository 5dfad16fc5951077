//! Selects with more cases than a word has bits, in the simulator. There is a random program for each seed.
//! `GMP_SIM_SEED=17 cargo test -p gmp-sched --test simulation select::` repeats the program of seed 17.

use std::sync::Arc;
use std::time::Duration;

use gmp_sched::select::{Select, recv};
use gmp_sched::sim::{self, Chan};

use crate::explore::{Random, explore};
use crate::several::spawn_each;

/// Several Gs receive from all channels, each in a different order, while other Gs send. So a select finds channels
/// locked and waits for their locks while it holds others. Each value is received once, and no G waits forever.
#[test]
fn selects_of_many_cases_share_channels() {
    const EACH: u64 = 3;
    explore(|seed| {
        let mut random = Random::new(seed);
        let count = 65 + random.below(6) as usize;
        let chans: Arc<[Chan<u64>]> = (0..count).map(|_| Chan::new(0)).collect();
        let receivers = 1 + random.below(3);
        let receiving = spawn_each(0..receivers, |number| {
            let chans = chans.clone();
            let mut random = Random::new(seed * 41 + number);
            move || (0..EACH).map(|_| receive_one(&chans, &mut random)).collect::<Vec<_>>()
        });
        for value in 0..receivers * EACH {
            let sender = chans[random.below(count as u64) as usize].sender().clone();
            let delay = Duration::from_micros(random.below(20));
            sim::go(move || {
                sim::sleep(delay);
                sender.send(value).unwrap();
            })
            .detach();
        }
        let mut received: Vec<_> = receiving.into_iter().flat_map(|handle| handle.join().unwrap()).collect();
        received.sort_unstable();
        assert!(received.into_iter().eq(0..receivers * EACH));
    });
}

fn receive_one(chans: &[Chan<u64>], random: &mut Random) -> u64 {
    let start = random.below(chans.len() as u64) as usize;
    let (before, after) = chans.split_at(start);
    let mut waiting: Vec<_> = after.iter().chain(before).map(|chan| recv(chan.receiver())).collect();
    let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
    let chosen = Select::new(&mut cases).wait();
    waiting.swap_remove(chosen).into_result().expect("this one was chosen").expect("nobody closes it")
}
