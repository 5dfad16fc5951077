//! Yielding: a G lets other Gs run first, of its own accord.

use crate::base::atomic::Ordering;
use crate::engine::enqueue::{requeue_global, requeue_last};
use crate::engine::hooks;
use crate::engine::pick::pick_next;
use crate::engine::switch::leave;
use crate::entities::current::CurrentGoroutine;
use crate::entities::events::Leave;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Lets other Gs run first. Go: `runtime.Gosched`.
///
/// The caller goes to the tail of the local ring. If the global queue has work or the ring is full, the caller goes to
/// the tail of the global queue instead. (Go always uses the global queue. While the global queue is empty, the order
/// of the Gs is the same with the local ring, which needs no lock.) Returns at once if this P has nothing else to run
/// and the global queue is empty. Not callable from interrupts.
///
/// # Panics
///
/// The caller is pinned or is not a G with a P.
#[doc(alias = "Gosched")]
// Always inlined, because after a switch of stacks the CPU mispredicts where a function returns to. That takes 13 ns.
#[inline(always)]
#[track_caller]
pub fn yield_now<Plat: Platform>() {
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::<Plat>::new();
    let scheduler = machine.scheduler();
    processor.counters.yields.add(1);
    if scheduler.global_length.load(Ordering::Relaxed) == 0
        && let Some(next) = pick_next(&pinned, processor)
    {
        let requeue = move |pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>| {
            if processor.records_every_leave() {
                hooks::runnable_again(processor, me);
            }
            requeue_last(pinned, processor, me);
        };
        drop(leave(pinned, machine, me, Some(next), Leave::Yield, requeue));
    } else {
        yield_to_g0(pinned);
    }
}

/// The slow path of a yield: g0 picks the next G, or the caller continues because nothing else can run.
#[cold]
#[inline(never)]
fn yield_to_g0<Plat: Platform>(pinned: Pinned<Plat>) {
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let scheduler = machine.scheduler();
    if has_nothing_else(scheduler, processor) {
        // A yield that finds nothing else to run begins a new slice.
        processor.advance_tick();
        if me.is_locked() {
            processor.request_slow_pick();
        }
        if !hooks::steal_for_lone_yield(&pinned, processor) {
            return;
        }
    }
    let requeue = move |pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>| {
        let goes_last = scheduler.global_length.load(Ordering::Relaxed) == 0 || scheduler.policy().is_some();
        if !goes_last || me.is_locked() {
            requeue_global(pinned, me);
        } else {
            hooks::runnable_again(processor, me);
            requeue_last(pinned, processor, me);
        }
    };
    drop(leave(pinned, machine, me, None, Leave::Yield, requeue));
}

/// Whether the P of a G that yields has nothing else to run, and there is no other reason to go to g0.
pub(crate) fn has_nothing_else<Plat: Platform>(scheduler: &Scheduler<Plat>, processor: &Processor<Plat>) -> bool {
    let is_shared_work = scheduler.global_length.load(Ordering::Relaxed) != 0 || scheduler.signals.is_ready();
    !processor.has_work() && !is_shared_work && !scheduler.is_stopping()
}
