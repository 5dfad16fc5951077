//! Gs that share a device, as with the driver of a disk. The device may answer with an error or not at all, and the Gs
//! then reset it. Each request gets one answer, whatever happens to the requests of other Gs.

use std::array;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::Platform;
use gmp_sched::sim::{self, Semaphore, Sim};
use gmp_sched::time::Instant;

use crate::explore::{Random, explore};

/// The largest number of requests in flight. There are more Gs.
const PLACES: usize = 3;
const GS: u64 = 5;
const REQUESTS: u64 = 4;
/// A device is reset if it has not answered a request for this time.
const PATIENCE: Duration = Duration::from_micros(20);
/// A request is submitted at most this many times.
const ATTEMPTS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// The device has answered with an error.
    Failed,
    /// The device has not answered, although it was reset meanwhile.
    Silent,
}

/// A request in flight.
struct Request {
    submitted: Instant,
    attempts: u32,
    /// When the answer arrives, or `None` if the device never answers.
    due: Option<Instant>,
    answer: Result<(), Failure>,
}

struct State {
    in_flight: [Option<Request>; PLACES],
    free: Vec<usize>,
    random: Random,
}

struct Device {
    /// The signal of each place. The interrupt for the request in that place raises it.
    signals: [Signal<Sim>; PLACES],
    /// One permit for each place.
    permits: Semaphore,
    /// The simulator takes no step while this mutex is locked.
    state: Mutex<State>,
}

impl Device {
    fn new(seed: u64) -> &'static Self {
        let state =
            State { in_flight: [const { None }; PLACES], free: (0..PLACES).collect(), random: Random::new(seed) };
        Box::leak(Box::new(Self {
            signals: array::from_fn(|_| Signal::new()),
            permits: Semaphore::new(PLACES as u32),
            state: Mutex::new(state),
        }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the device work on a request: it answers after some time, with or without an error, or never.
    fn start(&'static self, place: usize, attempts: u32, random: &mut Random) -> Request {
        let (fate, time) = (random.below(8), Duration::from_nanos(random.below(15_000)));
        let submitted = Sim::now();
        if fate < 2 {
            return Request { submitted, attempts, due: None, answer: Ok(()) };
        }
        sim::start_device(&self.signals[place], time);
        let answer = if fate == 2 { Err(Failure::Failed) } else { Ok(()) };
        Request { submitted, attempts, due: Some(submitted + time), answer }
    }

    fn submit(&'static self) -> usize {
        self.with(|state| {
            let place = state.free.pop().expect("a place for each permit");
            let request = self.start(place, 1, &mut state.random);
            assert!(state.in_flight[place].replace(request).is_none(), "two requests in one place");
            place
        })
    }

    /// Takes the answer to the request in `place` if it has arrived.
    fn take_answer(&self, place: usize) -> Option<Result<(), Failure>> {
        self.with(|state| {
            let now = Sim::now();
            let request = &mut state.in_flight[place];
            request.take_if(|request| request.due.is_some_and(|due| due <= now)).map(|request| request.answer)
        })
    }

    /// Resets the device if it has not answered a request for too long. All requests whose answers have not arrived are
    /// then submitted again. A request that was submitted [`ATTEMPTS`] times fails instead.
    fn check_age(&'static self) {
        self.with(|state| {
            let now = Sim::now();
            let is_silent = |request: &Request| request.due.is_none() && now >= request.submitted + PATIENCE;
            if !state.in_flight.iter().flatten().any(is_silent) {
                return;
            }
            let State { in_flight, random, .. } = state;
            for (place, request) in in_flight.iter_mut().enumerate() {
                let Some(request) = request else { continue };
                // The answer has arrived already, and the G of the request has not taken it yet.
                if request.due.is_some_and(|due| due <= now) {
                    continue;
                }
                if request.attempts < ATTEMPTS {
                    // The interrupt of an answer that the reset has revoked may still come. The G of the request must
                    // not take that interrupt for an answer.
                    *request = self.start(place, request.attempts + 1, random);
                } else {
                    (request.due, request.answer) = (Some(now), Err(Failure::Silent));
                    sim::start_device(&self.signals[place], Duration::ZERO);
                }
            }
        });
    }

    /// Waits for the answer to the request in `place`. If the limit ends the wait, returns `None`, and the request
    /// stays in flight.
    fn wait(&'static self, place: usize, limit: sim::Limit<'_>) -> Option<Result<(), Failure>> {
        loop {
            if let Some(answer) = self.take_answer(place) {
                return Some(answer);
            }
            if limit.err().is_some() {
                return None;
            }
            self.signals[place].wait_until(limit);
        }
    }

    /// Waits for the answer without a limit, and then frees the place.
    fn finish(&'static self, place: usize) {
        let _ = self.wait(place, sim::Limit::NONE).expect("there is no limit");
        self.free(place);
    }

    fn free(&self, place: usize) {
        self.with(|state| {
            assert!(state.in_flight[place].is_none(), "a place is freed while its request is in flight");
            state.free.push(place);
        });
    }

    /// Makes requests, one after the other. Those that fail with an error are made again. If a limit ends the wait for
    /// an answer, another G waits for the late answer.
    fn make_requests(&'static self, random: &mut Random) {
        for _ in 0..REQUESTS {
            loop {
                let permit = self.permits.acquire(1);
                let place = self.submit();
                let limit = match random.below(3) {
                    0 => sim::Limit::after(Duration::from_nanos(random.below(30_000))),
                    _ => sim::Limit::NONE,
                };
                let Some(answer) = self.wait(place, limit) else {
                    sim::go(move || {
                        self.finish(place);
                        drop(permit);
                    })
                    .detach();
                    break;
                };
                self.free(place);
                drop(permit);
                if answer.is_ok() {
                    break;
                }
            }
        }
    }
}

/// One G checks the age of the requests. The others wait only for their signals and limits. So if a raise is lost, the
/// run does not end before the limit of steps, which is an error.
#[test]
fn device_that_fails_and_is_reset_answers_every_request_once() {
    explore(|seed| {
        let device = Device::new(seed);
        let gs: Vec<_> =
            (0..GS).map(|g| sim::go(move || device.make_requests(&mut Random::new(seed * 17 + g)))).collect();
        let hog = sim::go(move || sim::work(Duration::from_micros(seed % 100)));
        let (done, cancel) = sim::Context::background().with_cancel();
        let checks = sim::go(move || {
            while done.err().is_none() {
                sim::sleep(PATIENCE / 4);
                device.check_age();
            }
        });
        for handle in gs.into_iter().chain([hog]) {
            handle.join().unwrap();
        }
        // If a limit has ended the wait for an answer, the permit is released only after the late answer.
        drop(device.permits.acquire(PLACES as u32));
        cancel.cancel();
        checks.join().unwrap();
        device.with(|state| {
            assert!(state.in_flight.iter().all(Option::is_none) && state.free.len() == PLACES, "a place is lost");
        });
    });
}
