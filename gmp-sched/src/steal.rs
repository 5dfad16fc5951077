//! Stealing: an M without work looks at the other Ps in random order and takes half of what one has.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::find::run_timers;
use crate::goroutine::Goroutine;
use crate::platform::{Pinned, Platform};
use crate::processor::{Processor, ProcessorStatus};
use crate::run_queue::StealNext;
use crate::trace::EventKind;

/// Rounds over all Ps before giving up. Go: `stealTries`.
const STEAL_TRIES: u32 = 4;

/// How long a thief leaves a `runnext` to its owner, which is likely to run it in a moment. Go: `usleep(3)`.
const RUN_NEXT_GRACE: Duration = Duration::from_micros(3);

/// Tries to find work at the other Ps: their rings; in the last round also their due timers and their `runnext`. Go:
/// `stealWork`.
#[doc(alias = "stealWork")]
pub(crate) fn steal<P: Platform>(
    pinned: &Pinned<P>,
    processor: &'static Processor<P>,
) -> Option<&'static Goroutine<P>> {
    let scheduler = pinned.machine().scheduler();
    for attempt in 1..=STEAL_TRIES {
        let last = attempt == STEAL_TRIES;
        for index in scheduler.steal_order.from(processor.random()) {
            let victim = &scheduler.processors()[index];
            if core::ptr::eq(victim, processor) {
                continue;
            }
            let found = steal_from(pinned, processor, victim, last);
            if found.is_some() {
                processor.counters.steals.add(1);
                return found;
            }
        }
    }
    processor.counters.steal_misses.add(1);
    None
}

fn steal_from<P: Platform>(
    pinned: &Pinned<P>,
    processor: &'static Processor<P>,
    victim: &'static Processor<P>,
    last: bool,
) -> Option<&'static Goroutine<P>> {
    if last && run_timers(pinned, victim) {
        // They were readied here.
        return processor.pop_local().map(|(goroutine, _)| goroutine);
    }
    if victim.status() == ProcessorStatus::Idle {
        return None;
    }
    let mut found = victim.queue.steal_into(&processor.queue, StealNext::No);
    if found.is_none() && last && !victim.queue.is_empty() {
        // Only `runnext` is left. Its owner readied it a moment ago and is about to block or yield: taking it now would
        // only move it to a cold cache, so the owner gets a little time first.
        wait::<P>(RUN_NEXT_GRACE);
        found = victim.queue.steal_into(&processor.queue, StealNext::Yes);
    }
    if found.is_some() {
        processor.advance_tick();
        processor.tracer.note::<P>(EventKind::Steal, None, u64::from(victim.id().get()));
    }
    found
}

fn wait<P: Platform>(duration: Duration) {
    let end = P::now().after(duration);
    while P::now() < end {
        P::relax();
    }
}

/// Orders in which to visit all Ps: from a random start in steps that have no divisor in common with their number, so
/// that every order visits each exactly once. Go: `randomOrder`.
#[doc(alias = "randomOrder")]
#[derive(Debug)]
pub(crate) struct StealOrder {
    count: u32,
    steps: Box<[u32]>,
}

impl StealOrder {
    pub(crate) fn new(count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let steps: Vec<u32> = (1..=count).filter(|&step| greatest_common_divisor(step, count) == 1).collect();
        Self { count, steps: steps.into_boxed_slice() }
    }

    /// The order that a random number stands for.
    pub(crate) fn from(&self, random: u32) -> impl Iterator<Item = usize> + use<> {
        let (count, start) = (self.count, random % self.count);
        let step = self.steps[(random / self.count) as usize % self.steps.len()];
        (0..u64::from(count)).map(move |turn| ((u64::from(start) + turn * u64::from(step)) % u64::from(count)) as usize)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(all(test, not(gmp_loom)))]
mod tests {
    use alloc::vec;

    use super::StealOrder;

    #[test]
    fn every_order_visits_each_processor_once() {
        for count in 1..=64 {
            let order = StealOrder::new(count);
            for random in (0..10_000u32).map(|n| n.wrapping_mul(0x9E37_79B9)) {
                let mut seen = vec![false; count];
                for index in order.from(random) {
                    assert!(!seen[index], "{index} twice among {count} with {random}");
                    seen[index] = true;
                }
                assert!(seen.iter().all(|&seen| seen));
            }
        }
    }
}
