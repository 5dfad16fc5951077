//! The hooks: where the refinements are attached to the textbook. No other file of `engine` names a refinement.
//!
//! | hook | called by | what is attached | without it (`refinements/none.rs`) |
//! |---|---|---|---|
//! | [`next_by_policy`], [`place_queued`], [`place_displaced`], [`displace_by_policy`] | `pick`, `enqueue`, `preempt` | the program has installed a policy, which decides in place of the textbook | no program has one |
//! | [`take_background`] | `pick`, before the M goes idle | the G that frees the memory of caches | the M goes idle |
//! | [`wait_for_locked`], [`start_elsewhere`] | `schedule`, `pick` | an M whose G is locked to it runs no other G; a G that is locked to another M runs there | no G is locked |
//! | [`ready_elsewhere`] | `ready` | a G that is locked to its M goes to no queue of a P | as above |
//! | [`lets_next_run_first`] | `take_global` | a G that was displaced in place continues only after the Gs that the urgent one has readied | no G is displaced in place |
//! | [`displace_locked`] | `preempt` | g0 hands the P of a locked G to another M, which runs the urgent G | as above |
//! | [`stay_on`], [`unlock`] | `syscall_return`, `finish` | a G is locked at the end of a system call in which it must not leave its thread, until it ends | such a G ends the program |
//! | [`stay_to_unwind`], [`unlock_after_unwinding`] | `native` | a G that waits while it unwinds is locked to its thread | such a G ends the program |
//! | [`give_way_in_place`], [`has_preempted`], [`make_spare_machine`] | `native` | a G that a signal interrupts gives its P up, and keeps its thread | no signal preempts a G |
//! | [`stop_for_world`], [`stop_processor`], [`leave_stopped`], [`give_way_to_stop`] | `pick`, `handoff`, `syscall_return`, `preempt` | a P is given up, because another G has stopped the world | the world is never stopped |
//! | [`end_of_idleness`], [`retire_if_unneeded`], [`note_surplus`] | `idle`, `syscall_return` | an idle M ends if there have been more than needed for some time | each M stays |
//! | [`begin_next_slice`], [`end_inherited_slice`], [`before_wait`], [`pin_before_wait`] | `pick`, and each operation that may wait | where no interrupt preempts a G, a slice that is over ends when the G leaves | such a slice does not end |
//! | [`steal_for_lone_yield`] | `yield_now` | a G that yields alone on its P now and then takes a G from another P | such a G continues |
//! | [`reuse_stack`], [`pass_stack_on`] | `park`, `switch`, `finish`, before the first switch to a G | the G gets a stack that is in the caches | each G keeps its own stack |
//! | [`poison`], [`check_poison`] | `free_slots` | for tests: a write to the stack of a dead G ends the program | the write is not noticed |
//! | [`spawned`], [`spawned_outside`], [`readied`], [`runnable_again`], [`returned`] | where a G becomes runnable | a sample of the Gs measures how long it is runnable; a trace shows every G | no G is sampled |
//! | [`Window`] | where a panic would break an invariant ([`At`](crate::entities::window::At)) | such a panic ends the program | the panic unwinds |
//!
//! A refinement also adds fields and states to the types in `entities`, for example the M to which a G is locked.
//! Without the feature `refinements`, their queries ([`is_stopping`](crate::scheduler::Scheduler::is_stopping),
//! [`is_locked`](crate::goroutine::Goroutine::is_locked), …) are constant.

pub(crate) use crate::refinements::background::take_background;
pub(crate) use crate::refinements::by_policy::{
    displace as displace_by_policy, next as next_by_policy, place_displaced, place_queued,
};
pub(crate) use crate::refinements::exchange_stacks::{pass_stack_on, reuse_stack};
pub(crate) use crate::refinements::lock_os_thread::{
    displace_locked, lets_next_run_first, ready_elsewhere, start_elsewhere, stay_on, unlock, wait_for_locked,
};
#[cfg(feature = "std")]
pub(crate) use crate::refinements::lock_os_thread::{stay_to_unwind, unlock_after_unwinding};
pub(crate) use crate::refinements::lone_yields::steal_for_lone_yield;
pub(crate) use crate::refinements::poison::{check_poison, poison};
#[cfg(feature = "std")]
pub(crate) use crate::refinements::preempt_in_place::{give_way_in_place, has_preempted, make_spare_machine};
pub(crate) use crate::refinements::retire::{end_of_idleness, note_surplus, retire_if_unneeded};
pub(crate) use crate::refinements::sampling::{readied, returned, runnable_again, spawned, spawned_outside};
pub(crate) use crate::refinements::slices_on_threads::{
    before_wait, begin_next_slice, end_inherited_slice, pin_before_wait,
};
pub(crate) use crate::refinements::stop_the_world::{give_way_to_stop, leave_stopped, stop_for_world, stop_processor};
pub(crate) use crate::refinements::windows::Window;
