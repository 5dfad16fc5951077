//! The end of a G: its last steps on its own stack, and the release of its slot on the far side of its last switch. The
//! slot is reused by [`free_slots`], and the stack by [`exchange_stacks`](crate::refinements::exchange_stacks).

use crate::engine::enqueue::put_next;
use crate::engine::hooks;
use crate::engine::hooks::Window;
use crate::engine::pick::pick_next;
use crate::engine::ready::{make_runnable_by, ready_pinned};
use crate::engine::switch::leave_forever;
use crate::entities::bubble::BubblePointer;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::status::Status;
use crate::entities::window::At;
use crate::lifecycle::children::Children;
use crate::lifecycle::free_slots;
use crate::lifecycle::join::{Finished, finished, left, switches_to_joiner};
use crate::platform::{Pinned, Platform};

/// Whether the next G may take over the stack of a G that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackUse {
    /// Nothing on the stack is used any more, and the stack has the standard size.
    Free,
    /// The stack holds the G's result, or the values that the G held when it was abandoned, or has another size.
    Kept,
}

/// Ends the calling G, whose result is stored. `drop_result` drops the result; it is `None` if the result needs no
/// drop. If the G is the child of a scope, `scope` is the set of the scope's children. After the G has been removed
/// from this set, it uses nothing that it borrowed.
///
/// If the closure of the G (`panicked`) or `drop_result` has panicked, and no join handle reports this panic, the scope
/// of the G reports it. If the G has no scope, this panic ends the program.
///
/// If the caller may not end, because it is pinned, has stopped the world or is in a section that forbids waits, ends
/// the program.
#[inline(always)]
pub(crate) fn finish<Plat: Platform>(
    me: &'static Goroutine<Plat>,
    panicked: bool,
    stack: StackUse,
    drop_result: Option<impl FnOnce(&'static Goroutine<Plat>)>,
    scope: Option<&Children<Plat>>,
) -> ! {
    // If the caller may not end, this ends the program before the result is published.
    let mut caller = CurrentGoroutine::to_end();
    let mut is_unreported = false;
    match finished(me) {
        Finished::Attached => {}
        Finished::Awaited(joiner) => {
            let window = Window::<Plat>::open(At::Wakeup);
            if let Some(joiner) = make_runnable_by(&caller, joiner) {
                let CurrentGoroutine { machine, processor, .. } = caller;
                // A G in a scope or a bubble first has to leave the scope or bubble, and then may ready another G.
                if scope.is_none() && me.bubble().is_none() && would_pick_readied(processor) {
                    window.close();
                    end_and_switch_to_joiner(caller, joiner);
                }
                put_next(machine, processor, joiner);
            }
            window.close();
        }
        Finished::Detached => {
            if let Some(drop_result) = drop_result {
                // The G itself drops the result, so the drop may block.
                drop(caller.pinned);
                let report = |panicked| match scope {
                    None if panicked => fatal_panic(me),
                    _ => panicked,
                };
                is_unreported = report(panicked);
                is_unreported |= report(Plat::run_body(|| drop_result(me)).is_err_and(|error| error.is_failure()));
                caller = CurrentGoroutine::to_end();
            }
        }
    }
    if let Some(children) = scope {
        children.remove(&caller.pinned, is_unreported);
    }
    end(caller, stack, release)
}

#[cold]
#[inline(never)]
fn fatal_panic<Plat: Platform>(me: &'static Goroutine<Plat>) -> ! {
    let scheduler = Pinned::<Plat>::of_scheduler().machine().scheduler();
    Plat::fatal(scheduler, format_args!("panic in goroutine {}, which nobody joins", me.id()));
}

/// Counts the calling G as finished, removes it from its bubble, and switches to the next G or to g0. Does not return.
/// `commit` runs after the switch. Go: `goexit0`.
#[doc(alias = "goexit0")]
#[inline(always)]
pub(crate) fn end<Plat: Platform>(
    caller: CurrentGoroutine<Plat>,
    stack: StackUse,
    commit: impl FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>),
) -> ! {
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    let window = Window::<Plat>::open(At::End);
    processor.counters.finished.add(1);
    if let Some(bubble) = me.bubble() {
        leave_bubble(&pinned, me, bubble);
    }
    let next = pick_next(&pinned, processor);
    match next {
        Some(next) if stack == StackUse::Free => hooks::pass_stack_on(me, next),
        Some(_) => {}
        // A locked G always leaves for g0.
        None => hooks::unlock(machine),
    }
    window.close();
    leave_forever(pinned, machine, me, next, commit)
}

/// Whether [`pick_next`] would return a G that the leaving G puts into an empty `runnext` now. Then the leaving G may
/// switch to that G without the queue, which saves 23 instructions.
#[inline(always)]
fn would_pick_readied<Plat: Platform>(processor: &'static Processor<Plat>) -> bool {
    !processor.needs_slow_pick()
        && (Plat::TIMER_INTERRUPTS || !processor.has_due_timer())
        && processor.queue.next().is_none()
}

/// Like [`end`], for a G in no bubble that switches to its joiner. The joiner is runnable and in no queue.
#[inline(always)]
fn end_and_switch_to_joiner<Plat: Platform>(caller: CurrentGoroutine<Plat>, joiner: &'static Goroutine<Plat>) -> ! {
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    let window = Window::<Plat>::open(At::End);
    processor.counters.finished.add(1);
    switches_to_joiner(me);
    window.close();
    leave_forever(pinned, machine, me, Some(joiner), release)
}

/// Removes the calling G from its bubble. If no active G is left in the bubble, readies the G in `synctest::wait` or
/// the driver of the bubble, which is the G in `synctest::test`. The driver is chosen if a timer of the bubble is due
/// or if no G is in `synctest::wait`.
#[cold]
#[inline(never)]
fn leave_bubble<Plat: Platform>(pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>, bubble: BubblePointer<Plat>) {
    if let Some(waiting) = bubble.dismiss(me) {
        ready_pinned(pinned, waiting);
    }
}

/// Commit of a G that has finished. Releases the slot of the G, unless the join handle has to release it.
#[inline(always)]
pub(crate) fn release<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    goroutine.set_status(Status::Dead);
    if left(goroutine) {
        free_slots::recycle_on(pinned.machine().processor(), goroutine);
    }
}
