//! The second puzzle: a deadlock.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use gmp_sched::platform::Platform;
use gmp_sched::sleep::sleep;
use gmp_sched::spawn::Builder;
use gmp_sched::sync::Mutex;

/// The Gs of [`dinner`]. Each takes two things, one after the other.
pub const PEOPLE: [&str; 6] = ["cook", "critic", "waiter", "host", "guest", "cashier"];

/// The things that each of [`PEOPLE`] takes, by their numbers.
const TAKES: [[usize; 2]; 6] = [[0, 1], [5, 2], [1, 2], [5, 3], [2, 0], [3, 1]];

/// Serves a dinner. The G with the name `reversed` takes its two things in the other order.
pub fn dinner<Plat: Platform>(reversed: &str) {
    let things: Arc<[Mutex<(), Plat>; 6]> = Arc::new(core::array::from_fn(|_| Mutex::new(())));
    let serve = |(name, [first, second]): (&'static str, [usize; 2])| {
        let things = things.clone();
        let order = if name == reversed { [second, first] } else { [first, second] };
        Builder::<Plat>::new().name(name).go(move || {
            let _first = things[order[0]].lock();
            sleep::<Plat>(Duration::from_millis(1));
            let _second = things[order[1]].lock();
        })
    };
    let people: Vec<_> = PEOPLE.into_iter().zip(TAKES).map(serve).collect();
    people.into_iter().for_each(|person| person.join().expect("no panic"));
}
