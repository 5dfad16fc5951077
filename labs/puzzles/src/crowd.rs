//! The third puzzle: what Gs do, as a timeline shows it.

use alloc::vec::Vec;
use core::time::Duration;

use gmp_sched::platform::Platform;
use gmp_sched::sleep::sleep;
use gmp_sched::spawn::Builder;
use gmp_sched::yield_now::yield_now;

use crate::Acts;

/// The Gs of [`crowd`].
pub const ANIMALS: [&str; 5] = ["ant", "bee", "cat", "dog", "elk"];

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Runs a G for each of [`ANIMALS`] except `without`. Each of them spends about 30 ms, in its own way.
pub fn crowd<Plat: Platform>(acts: Acts, without: &str) {
    let ways: [fn(Acts); 5] = [
        |_| (0..15).for_each(|_| sleep::<Plat>(millis(2))),
        |acts| (0..3).for_each(|_| (acts.block)(millis(8))),
        |acts| {
            for _ in 0..15 {
                (acts.work)(millis(1));
                yield_now::<Plat>();
            }
        },
        |acts| (acts.work)(millis(30)),
        |acts| {
            for _ in 0..30 {
                (acts.work)(millis(1) / 2);
                yield_now::<Plat>();
            }
        },
    ];
    let chosen = ANIMALS.into_iter().zip(ways).filter(|(name, _)| *name != without);
    let gs = chosen.map(|(name, way)| Builder::<Plat>::new().name(name).go(move || way(acts)));
    let gs: Vec<_> = gs.collect();
    gs.into_iter().for_each(|g| g.join().expect("no panic"));
}
