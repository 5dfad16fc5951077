//! A G that yields in a loop, alone on its P, may wait until another G has run, and this P may be the only one that can
//! run that other G; see golang/go#13546. So now and then such a yield takes a G from another P.

use crate::engine::enqueue::put_last;
use crate::engine::urgent::take_urgent;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::platform::{Pinned, Platform};
use crate::refinements::by_policy;
use crate::refinements::slices_on_threads::steal_at_once;

/// After this many yields of a G that is alone on its P, the calling M tries once to take a G from another P.
const LONE_YIELDS: u64 = 64;

/// Called by a G that yields and is alone on its P. Tries in one of [`LONE_YIELDS`] calls to steal a G and to put it
/// into the local ring. Returns whether there is one.
#[inline]
pub(crate) fn steal_for_lone_yield<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) -> bool {
    processor.tick().is_multiple_of(LONE_YIELDS) && !processor.is_alone() && take_from_others(pinned, processor)
}

/// Tries to steal a G from another P and puts it into the local ring. Returns whether it found one.
fn take_from_others<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) -> bool {
    if pinned.machine().scheduler().policy().is_some() {
        return by_policy::steal(pinned, processor);
    }
    let found = steal_urgent(pinned, processor).or_else(|| steal_at_once(pinned, processor));
    if let Some(found) = found {
        put_last(pinned.machine().scheduler(), processor, found);
    }
    found.is_some()
}

/// Returns an urgent G of any P, if there is one. Without this function, that G could run late, because the G that runs
/// on its P may not leave for a long time.
fn steal_urgent<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    let found = pinned.machine().scheduler().processors().iter().find_map(|victim| take_urgent(pinned, victim))?;
    processor.advance_tick();
    Some(found)
}
