//! When no CPU remembers a translation any more that the page tables have lost.
//!
//! A processor caches what the page tables said. Here nobody is interrupted to make it forget: whoever took pages away
//! begins a new *epoch*, every CPU flushes its cache when it next takes an interrupt and finds that it has not done so in
//! this epoch, and what is to happen afterwards waits until all have. A CPU that runs takes an interrupt at least once a
//! slice. One that halts forgets nothing, but looks at nothing either: it counts as one that has flushed, and does it when
//! an interrupt wakes it, before anything else.
//!
//! What has to wait is small. Only stacks that nobody uses lose their pages, so no CPU goes to those addresses, whatever it
//! remembers of them, until they are given out again. So the *frames* are free at once, also when memory is short, and
//! only the *addresses* wait: see [`stack`](super::stack).

use core::sync::atomic::{AtomicU64, Ordering, fence};

use x86_64::instructions::tlb;

use crate::cpus;
use crate::percpu;

/// The latest epoch.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Set in the word of a CPU that halts.
const HALTS: u64 = 1 << 63;

/// Begins an epoch: pages were taken from the page tables. When [`has_passed`] says so of the result, no CPU remembers
/// them. Callable from everywhere.
pub(super) fn begin_epoch() -> u64 {
    // Ordering: SeqCst; a CPU that finds this epoch has the tables without those pages. Partner: `catch_up`.
    EPOCH.fetch_add(1, Ordering::SeqCst) + 1
}

/// Whether every CPU has flushed its translations since `epoch` began, or halts and will. Callable from everywhere.
pub(super) fn has_passed(epoch: u64) -> bool {
    // Ordering: between the beginning of the epoch and the look at who halts; partner: the fence in `catch_up`. Either
    // the CPU that wakes finds the epoch, or we find that it does not halt.
    fence(Ordering::SeqCst);
    cpus::all().filter_map(percpu::of).all(|cpu| {
        let flushed = cpu.flushed.load(Ordering::Acquire);
        flushed & HALTS != 0 || flushed >= epoch
    })
}

/// This CPU takes an interrupt: flushes its translations if there is a new epoch. Called with interrupts off, before the
/// handler touches any stack of a G.
#[inline]
pub(crate) fn pass() {
    if percpu::local().flushed.load(Ordering::Relaxed) != EPOCH.load(Ordering::Relaxed) {
        catch_up();
    }
}

#[cold]
fn catch_up() {
    let flushed = &percpu::local().flushed;
    let last = flushed.load(Ordering::Relaxed) & !HALTS;
    flushed.store(last, Ordering::Relaxed);
    // Ordering: see `has_passed`.
    fence(Ordering::SeqCst);
    let epoch = EPOCH.load(Ordering::Acquire);
    if last != epoch {
        // Before the flush: what this CPU comes to remember after it is not older than the epoch, and in between it
        // touches no stack of a G.
        flushed.store(epoch, Ordering::Release);
        tlb::flush_all();
    }
}

/// This CPU is about to halt, with interrupts off: it takes no further part until an interrupt wakes it.
pub(crate) fn halts() {
    let flushed = &percpu::local().flushed;
    // Ordering: Release: it has been at no stack of a G since.
    flushed.store(flushed.load(Ordering::Relaxed) | HALTS, Ordering::Release);
}
