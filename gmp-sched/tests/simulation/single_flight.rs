//! `SingleFlight` in the simulator.

use std::cmp::Ordering;
use std::sync::{Arc, Weak};

use gmp_sched::sim::{self, Config, SingleFlight};

use crate::several::{join_all, spawn_each};

/// A key whose clone and drop use the `SingleFlight` in which it is.
struct Key {
    number: u8,
    flights: Weak<Flights>,
}

type Flights = SingleFlight<Key, u8>;

impl Key {
    fn new(number: u8, flights: &Arc<Flights>) -> Self {
        Self { number, flights: Arc::downgrade(flights) }
    }

    /// Takes the lock of the `SingleFlight`, and lets other Gs run.
    fn use_the_flights(&self) {
        if let Some(flights) = self.flights.upgrade() {
            flights.forget(&Self { number: u8::MAX, flights: Weak::new() });
            sim::yield_now();
        }
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        self.use_the_flights();
        Self { number: self.number, flights: self.flights.clone() }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.use_the_flights();
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

/// If a key were cloned or dropped under the lock, the G would wait for itself, which is a deadlock.
#[test]
fn keys_are_cloned_and_dropped_without_the_lock() {
    for seed in 0..50 {
        let ran = sim::run(Config { seed, ..Config::default() }, || {
            let flights = Arc::new(Flights::new());
            join_all(spawn_each(0..4, |number| {
                let flights = flights.clone();
                move || {
                    let fetched = flights.call(Key::new(number % 2, &flights), || {
                        sim::yield_now();
                        number % 2
                    });
                    flights.forget(&Key::new(number % 2, &flights));
                    assert_eq!(fetched.value, number % 2);
                }
            }));
        });
        assert!(ran.is_ok(), "{}", ran.unwrap_err());
    }
}
