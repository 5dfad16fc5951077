//! Faults: requests that the device answers wrongly or not at all, for tests of the driver.

use super::random::Random;

/// If no request is chosen by its number, one of this many requests has the fault, on average.
const ONE_OF: u64 = 16;

/// What the device does wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It reports that it has written nothing, not even the status, although the data has been transferred.
    Short,
    /// It completes a request that does not exist, in place of this one.
    WrongId,
    /// It completes the request twice.
    Twice,
    /// It takes the request and never completes it.
    Lost,
    /// It reports an input/output error and transfers no data.
    Error,
}

/// Which requests have a fault, and which fault.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    fault: Option<Fault>,
    /// The number of the only request with the fault. `None` if such requests are chosen at random.
    only: Option<u64>,
    /// How many requests the device has taken from its queues. Not counted if no request has a fault.
    taken: u64,
    random: Random,
}

impl Faults {
    /// No request has a fault.
    pub const NONE: Self = Self { fault: None, only: None, taken: 0, random: Random(0) };

    /// The request with the number `only` has the fault. The first request that the device takes has the number 1. A
    /// request that is submitted again after a reset counts again. Without a number, one of 16 requests on average has
    /// the fault. These requests are chosen by random numbers that follow from `seed`.
    #[must_use]
    pub fn new(fault: Fault, only: Option<u64>, seed: u64) -> Self {
        Self { fault: Some(fault), only, taken: 0, random: Random(seed) }
    }

    /// Returns the fault of the next request, or `None` if it is answered as it should be.
    pub(super) fn next(&mut self) -> Option<Fault> {
        let fault = self.fault?;
        self.taken += 1;
        let is_chosen = match self.only {
            Some(number) => number == self.taken,
            None => self.random.up_to(ONE_OF - 1) == 0,
        };
        is_chosen.then_some(fault)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// Returns the numbers of those of the first thousand requests that have a fault.
    fn chosen(mut faults: Faults) -> Vec<u64> {
        (1..=1_000).filter(|_| faults.next().is_some()).collect()
    }

    #[test]
    fn number_chooses_one_request() {
        assert_eq!(chosen(Faults::new(Fault::Lost, Some(7), 0)), [7]);
        assert_eq!(chosen(Faults::NONE), []);
    }

    #[test]
    fn seed_chooses_one_of_sixteen_requests() {
        let numbers = chosen(Faults::new(Fault::Lost, None, 3));
        assert!((40..90).contains(&numbers.len()), "{numbers:?}");
        assert_eq!(chosen(Faults::new(Fault::Lost, None, 3)), numbers);
        assert_ne!(chosen(Faults::new(Fault::Lost, None, 4)), numbers);
    }
}
