//! The end of a G: its last steps on its own stack, and the release of its slot on the far side of its last switch.

use crate::engine::current::CurrentGoroutine;
use crate::engine::park::ready_pinned;
use crate::engine::pick::pick_next;
use crate::engine::reuse;
use crate::engine::stacks::exchange_stacks;
use crate::engine::switch::leave_forever;
use crate::entities::bubble::BubblePointer;
use crate::entities::goroutine::Goroutine;
use crate::entities::status::Status;
use crate::lifecycle::children::Children;
use crate::lifecycle::join::{ResultOwner, finished, left};
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// Whether the stack of a G that ends may become that of the next G at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackUse {
    /// Nothing on the stack is used any more.
    Free,
    /// The stack holds the G's result, or the values that the G held when it was abandoned.
    Kept,
}

/// Ends the calling G, whose result is stored. `drop_result` drops the result; it is `None` if the result needs no
/// drop.
///
/// # Panics
///
/// The caller has stopped the world, or is pinned.
#[inline(always)]
pub(crate) fn finish<P: Platform>(
    me: &'static Goroutine<P>,
    panicked: bool,
    stack: StackUse,
    drop_result: Option<impl FnOnce(&'static Goroutine<P>)>,
) -> ! {
    let mut pinned = Pinned::new();
    let owner = finished(&pinned, me);
    if owner == ResultOwner::Goroutine {
        if panicked {
            drop(pinned);
            fatal_panic(me);
        }
        if let Some(drop_result) = drop_result {
            // The G itself drops the result, so the drop may block.
            drop(pinned);
            if P::run_body(|| drop_result(me)).is_err_and(|error| error.is_failure()) {
                fatal_panic(me);
            }
            pinned = Pinned::new();
        }
    }
    end(CurrentGoroutine::of(pinned), stack, release)
}

#[cold]
#[inline(never)]
fn fatal_panic<P: Platform>(me: &'static Goroutine<P>) -> ! {
    let scheduler = Pinned::<P>::new().machine().scheduler();
    P::fatal(scheduler, format_args!("panic in goroutine {}, which nobody joins", me.id()));
}

/// Like [`finish`], for a child of a scope. After the child has been removed from `children`, it uses nothing that it
/// borrowed.
pub(crate) fn finish_scoped<P: Platform>(
    me: &'static Goroutine<P>,
    panicked: bool,
    stack: StackUse,
    drop_result: impl FnOnce(&'static Goroutine<P>),
    children: &Children<P>,
) -> ! {
    let mut pinned = Pinned::new();
    let mut is_unreported = false;
    if finished(&pinned, me) == ResultOwner::Goroutine {
        drop(pinned);
        let dropped = P::run_body(|| drop_result(me));
        is_unreported = panicked || dropped.is_err_and(|error| error.is_failure());
        pinned = Pinned::new();
    }
    children.remove(&pinned, is_unreported);
    end(CurrentGoroutine::of(pinned), stack, release)
}

/// Counts the end of the calling G and leaves it for ever.
#[inline(always)]
pub(crate) fn end<P: Platform>(
    caller: CurrentGoroutine<P>,
    stack: StackUse,
    commit: impl FnOnce(&Pinned<P>, &'static Goroutine<P>),
) -> ! {
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    processor.counters.finished.add(1);
    if let Some(bubble) = me.bubble() {
        leave_bubble(&pinned, me, bubble);
    }
    let next = pick_next(&pinned, processor);
    match next {
        Some(next) if stack == StackUse::Free => exchange_stacks(me, next),
        Some(_) => {}
        None => {
            processor.tracer.note::<P>(EventKind::End, Some(me.id()), 0);
            // A locked G always leaves for g0.
            machine.unlock();
        }
    }
    leave_forever(pinned, machine, me, next, commit)
}

/// Removes the calling G from its bubble. If it was the last active G of the bubble, readies the G in `synctest::wait`,
/// or the G in `synctest::test` (the driver of the bubble).
#[cold]
#[inline(never)]
fn leave_bubble<P: Platform>(pinned: &Pinned<P>, me: &'static Goroutine<P>, bubble: BubblePointer<P>) {
    if let Some(waiting) = bubble.dismiss(me) {
        ready_pinned(pinned, waiting);
    }
}

/// Commit of a G that has finished. Releases the slot of the G, unless the join handle has to release it.
#[inline(always)]
pub(crate) fn release<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>) {
    goroutine.set_status(Status::Dead);
    if left(goroutine) {
        reuse::recycle_on(pinned.machine().processor(), goroutine);
    }
}
