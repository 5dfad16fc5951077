//! Bubbles, their misuse from outside, and their clocks.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::platform::{Chan, JoinHandle, Ticker, go, now, sleep, synctest, yield_now};
use super::{Bomb, DEEPEST, Fuzzer, SHORT, defuse, verify};
use crate::value::{Canary, Value, Values, broken};

const HOUR: Duration = Duration::from_secs(3600);

/// The channel of a bubble, for Gs outside of the bubble.
type Escaped = Arc<Mutex<Option<Chan<Value>>>>;

impl Fuzzer<'_> {
    /// Runs a bubble. In half of the cases, a G outside of the bubble uses the bubble's channel at the same time.
    pub(super) fn bubble(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let (seed, ends) = (self.random.u64(..), self.random.u32(..8));
        let escaped = Escaped::default();
        let (channel, values, limit) = (escaped.clone(), self.shared.values.clone(), self.limit());
        let outsider = self.random.bool().then(|| go(move || from_outside(&channel, &values, limit)));
        let values = self.shared.values.clone();
        let tested = catch_unwind(AssertUnwindSafe(|| {
            synctest::test(move || {
                in_bubble(&escaped, &values, seed);
                match ends {
                    0 => panic_any("a bubble's panic"),
                    1 => panic_any(Bomb),
                    _ => Value::new(seed, &values),
                }
            })
        }));
        if let Some(outsider) = outsider {
            defuse(outsider.join().map_err(|error| Box::new(error) as _));
        }
        match tested {
            Ok(value) => verify(Some(value)),
            Err(payload) => defuse(Err(payload)),
        }
    }
}

/// What the main G of a bubble does. All Gs that it spawns have ended when it returns.
fn in_bubble(escaped: &Escaped, values: &Arc<Values>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let channel = Chan::new(random.usize(..2));
    *escaped.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel.clone());
    let start = now();
    let others: Vec<JoinHandle<Value>> = (0..random.u32(1..4))
        .map(|number| {
            let (seed, channel, values) = (random.u64(..), channel.clone(), values.clone());
            go(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..4 {
                    let canary = Canary::new(seed);
                    defuse(catch_unwind(AssertUnwindSafe(|| step_in_bubble(&mut random, &channel, &values))));
                    canary.verify();
                }
                if number == 0 && random.bool() {
                    panic_any(Bomb);
                }
                Value::new(seed, &values)
            })
        })
        .collect();
    for other in others {
        defuse(other.join().map(|value| verify(Some(value))).map_err(|error| Box::new(error) as _));
    }
    let slept = now();
    sleep(HOUR);
    if slept < start || now() - slept != HOUR {
        broken("the clock of a bubble has not advanced by what its G has slept");
    }
    *escaped.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Takes a step. All its waits are durable, so the clock of the bubble can advance and end them if no other G does.
fn step_in_bubble(random: &mut fastrand::Rng, channel: &Chan<Value>, values: &Arc<Values>) {
    let limit = HOUR.mul_f32(random.f32());
    let value = Value::new(random.u64(..), values).with_panic(random.u32(..8) == 0);
    match random.u32(..6) {
        0 => drop(channel.send_timeout(value, limit)),
        1 => verify(channel.recv_timeout(limit).ok()),
        2 => {
            let ticker = Ticker::new(limit + SHORT);
            ticker.wait();
            ticker.wait();
        }
        // Panics if another G of the bubble is in `synctest::wait`.
        3 => synctest::wait(),
        4 => synctest::test(|| broken("a bubble inside of a bubble")),
        _ => sleep(limit),
    }
}

/// Uses the channel of a bubble from outside of the bubble. Most of these calls panic.
fn from_outside(escaped: &Escaped, values: &Arc<Values>, limit: Duration) {
    for round in 0..6 {
        let channel = escaped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(channel) = channel {
            let value = Value::new(round, values);
            defuse(catch_unwind(AssertUnwindSafe(|| match round % 3 {
                0 => drop(channel.try_send(value)),
                1 => verify(channel.try_recv().ok()),
                _ => verify(channel.recv_timeout(limit).ok()),
            })));
        }
        yield_now();
    }
}
