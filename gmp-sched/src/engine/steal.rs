//! Work stealing: an M without work visits the other Ps in random order and takes half of the first ring with more than
//! two Gs. If there is no such ring, it takes an urgent G, or Gs that their own P does not run within a moment.
//!
//! This file decides from whom an M without work steals Gs, when, and how many at once. (Ms that have work steal, too, in
//! `slices_on_threads` and `lone_yields`.)
//! [`RunQueue::steal_into`](crate::base::run_queue::RunQueue::steal_into) puts all stolen Gs except the last one into
//! the thief's own ring, and returns the last one, which runs at once.

use core::time::Duration;

use crate::engine::urgent::take_urgent;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::PROCESSOR_LIMIT;
use crate::platform::{Pinned, Platform};

/// How many times a thief visits all Ps before its last round. Go: `stealTries`, which counts the last round, too.
const EARLY_ROUNDS: u32 = 3;

/// Returns how many of the `length` Gs in a victim's ring a thief takes at once: half of them, rounded up. Go: `n -
/// n/2` in `runqgrab`.
pub(crate) fn share(length: u32) -> u32 {
    // ANCHOR: share
    length - length / 2
    // ANCHOR_END: share
}

/// A ring with at most this number of Gs is *short*: its P is likely to run these Gs in a moment.
const SHORT: u32 = 2;

/// How long a thief leaves the Gs in a victim's `runnext` and short ring to the victim. Go: `usleep(3)` before it
/// steals `runnext`. On Linux that call takes more than 50 us.
const GRACE: Duration = Duration::from_micros(20);

/// Like [`share`], but takes nothing from a short ring.
fn share_of_long(length: u32) -> u32 {
    if length <= SHORT { 0 } else { share(length) }
}

/// Tries to steal from the other Ps: takes Gs from their long rings, and in the last round also from short rings and
/// `runnext`, and urgent Gs. Returns a G for the caller to run, or `None` if nothing was found. Go: `stealWork`.
#[doc(alias = "stealWork")]
pub(crate) fn steal<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    // ANCHOR: steal
    let processors = pinned.machine().scheduler().processors();
    let early_rounds = Plat::repetitions(EARLY_ROUNDS);
    for round in 0..=early_rounds {
        let last = round == early_rounds;
        for index in steal_order(processors.len(), processor.random()) {
            let victim = &processors[index];
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
    // ANCHOR_END: steal
}

fn steal_from<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
    victim: &'static Processor<Plat>,
    last: bool,
) -> Option<&'static Goroutine<Plat>> {
    if last && let Some(urgent) = take_urgent(pinned, victim) {
        processor.advance_tick();
        return Some(urgent);
    }
    if victim.status() == ProcessorStatus::Idle {
        return None;
    }
    let mut found = victim.queue.steal_into(&processor.queue, share_of_long, None);
    if found.is_none() && last {
        found = steal_after_grace(processor, victim);
    }
    if let Some(found) = found {
        processor.begin_stolen(victim, found);
    }
    found
}

/// Steals from `victim`, whose ring is short. The M that holds `victim` probably readied the Gs there a moment ago, and
/// is about to block or yield. Stealing one of these Gs now would only move it to a cold cache. If Gs exchange
/// messages, the next one would soon be stolen back, and so on. (In QEMU with two CPUs, `select_4` then takes twice as
/// long.)
///
/// So the thief waits a moment. Then it takes Gs of the ring, or the G in `runnext` if that is the same as before.
fn steal_after_grace<Plat: Platform>(
    processor: &'static Processor<Plat>,
    victim: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if victim.queue.is_empty() {
        return None;
    }
    let next = victim.queue.next();
    Plat::linger(GRACE);
    victim.queue.steal_into(&processor.queue, share, next)
}

/// Strides for visiting the Ps. They are primes above [`PROCESSOR_LIMIT`], so each of them is coprime to every number
/// of Ps.
const STEPS: [u64; 16] =
    [1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097, 1103, 1109, 1117, 1123];
const _: () = assert!(PROCESSOR_LIMIT < STEPS[0] as usize);

/// Returns the order, chosen by a random number, in which to visit `count` Ps. The order has a random start and a
/// stride that is coprime to `count`, so each P is visited exactly once. Go: `randomOrder`, which makes a table of the
/// strides for each number of Ps.
#[doc(alias = "randomOrder")]
pub(crate) fn steal_order(count: usize, random: u32) -> impl Iterator<Item = usize> + use<> {
    let (count, start) = (count as u64, u64::from(random));
    let step = STEPS[(random >> 16) as usize % STEPS.len()];
    (0..count).map(move |visit| ((start + visit * step) % count) as usize)
}
