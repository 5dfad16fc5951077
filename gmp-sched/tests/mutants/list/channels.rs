//! Mutants of channels, of selects, and of the claims that end waits.

use super::Catcher::{Model, Properties, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/chan/channel.rs",
        "a waiting receiver does not learn that a value has been moved to it",
        "            receiver.outcome.store(MOVED, Ordering::Relaxed);",
        "",
        Model("channel::received_value_is_ordered_after_its_send"),
    ),
    mutant(
        "library/chan/channel.rs",
        "a receive with a full buffer does not move the value of a waiting sender into the buffer",
        "        unsafe { self.ring.push(slot) };",
        "        let _ = slot;",
        Model("channel::buffered_values_are_received_in_order"),
    ),
    mutant(
        "library/chan/channel.rs",
        "the length of the buffer is not updated",
        "            held.change_len(1);",
        "",
        Model("channel::buffered_values_are_received_in_order"),
    ),
    mutant(
        "library/chan/channel.rs",
        "a sender does not see that the channel is closed",
        "            true if self.header.refuses() => return Attempt::Closed,
",
        "",
        Model("channel::send_and_receive_agree_with_a_concurrent_close"),
    ),
    mutant(
        "library/chan/header.rs",
        "a close does not end the waits of senders",
        "        Some([self.header.senders.take_all(), self.header.receivers.take_all()])",
        "        Some([self.header.receivers.take_all(), self.header.receivers.take_all()])",
        Model("channel::close_ends_the_wait_of_a_sender"),
    ),
    mutant(
        "library/chan/header.rs",
        "a close resets the length of the buffer",
        "self.header.word().0 | RESTRICTED | CLOSED",
        "RESTRICTED | CLOSED",
        Model("channel::check_without_lock_of_a_closed_channel_is_of_one_moment"),
    ),
    mutant(
        "library/chan/header.rs",
        "a readiness check without the lock loads the channel's word before the queue of senders",
        "        !self.senders.is_empty() | (self.word_by_now().level() != 0)",
        "        let word = self.word_by_now();
        Plat::point(Site::Channel);
        !self.senders.is_empty() | (word.level() != 0)",
        Model("channel::check_without_lock_of_a_queue_is_of_one_moment"),
    ),
    mutant(
        "library/waiter/queue.rs",
        "a check of a wait queue without the lock has no Acquire",
        "        self.first.load(Ordering::Acquire).is_none()",
        "        self.first.load(Ordering::Relaxed).is_none()",
        Model("channel::check_without_lock_of_a_queue_is_of_one_moment"),
    ),
    mutant(
        "library/waiter/queue.rs",
        "a wait queue becomes empty without Release",
        "        self.first.store(None, Ordering::Release);",
        "        self.first.store(None, Ordering::Relaxed);",
        Model("channel::check_without_lock_of_a_queue_is_of_one_moment"),
    ),
    mutant(
        "library/waiter/queue.rs",
        "the first waiter of several is removed as if it were the only one",
        "        if self.is_first(waiter) && self.is_last(waiter) {",
        "        if self.is_first(waiter) {",
        Properties("waiters_are_removed_from_any_position"),
    ),
    mutant(
        "entities/waiter.rs",
        "a waiter is taken although its wait has been ended by another waker",
        "            None => self.claim_of_several(),",
        "            None => self.claim_of_several().or(Some(self.goroutine_of_several())),",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "entities/goroutine/wait.rs",
        "two wakers may end the same wait",
        "        self.wait.compare_exchange(generation.0, generation.0 + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()",
        "        let is_open = self.wait.load(Ordering::Relaxed) == generation.0;
        if is_open {
            self.wait.store(generation.0 + 1, Ordering::Relaxed);
        }
        is_open",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "entities/waiter.rs",
        "the waker of a wait with several wakers does not record its waiter",
        "        goroutine.woken_by.store(Some(self), Ordering::Relaxed);",
        "",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "library/select/locks.rs",
        "a select leaves its waiters in the queues of the other channels",
        "            case.leave_queue(pinned);",
        "            if false {
                case.leave_queue(pinned);
            }",
        Model("channel::two_selects"),
    ),
    mutant(
        "library/select/untyped.rs",
        "a select queues in each channel as a wait with a sole waker",
        "        self.waiter.write(Waiter::of_several(me, generation, slot));",
        "        let waiter = self.waiter.write(Waiter::of_several(me, generation, slot));
        waiter.prepare(me, WaitGeneration::SOLE, slot);",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "library/select/locks.rs",
        "two selects lock their channels in different orders",
        "        Choice::First => cases.sort_unstable_by_key(|case| (case.place_in_order(), case.number())),",
        "        Choice::First => {}",
        Model("channel::two_selects"),
    ),
    mutant(
        "library/chan/spinning.rs",
        "a lock is taken without Acquire",
        "        self.locked.fetch_or(1, Ordering::Acquire) & 1 == 0",
        "        self.locked.fetch_or(1, Ordering::Relaxed) & 1 == 0",
        Model("lock::holder_of_a_lock_sees_what_the_previous_one_did"),
    ),
    mutant(
        "library/chan/spinning.rs",
        "a contended lock is taken without Acquire",
        "self.locked.swap(1, Ordering::Acquire) == 0",
        "self.locked.swap(1, Ordering::Relaxed) == 0",
        Model("lock::released_lock_is_taken_by_one_of_two_waiters"),
    ),
    mutant(
        "library/chan/spinning.rs",
        "a waiter takes a lock even if its exchange finds the lock held",
        "self.locked.swap(1, Ordering::Acquire) == 0",
        "self.locked.swap(1, Ordering::Acquire) <= 1",
        Model("lock::released_lock_is_taken_by_one_of_two_waiters"),
    ),
    mutant(
        "library/chan/spinning.rs",
        "a lock is freed without Release",
        "        self.locked.store(0, Ordering::Release);",
        "        self.locked.store(0, Ordering::Relaxed);",
        Model("lock::holder_of_a_lock_sees_what_the_previous_one_did"),
    ),
    mutant(
        "library/select/wait.rs",
        "a select that panics because it may not block keeps its locks",
        "        unlock_all(self.cases);
    }",
        "        let _ = self.cases;
    }",
        Model("channel::caller_that_may_not_block_panics_without_lock_and_waiter"),
    ),
    mutant(
        "library/select/wait.rs",
        "a select that parks unlocks one channel too few",
        "move || unlock_all(cases.as_ref())",
        "move || unlock_all(&cases.as_ref()[1..])",
        Model("channel::whole_select_takes_one_of_two_values"),
    ),
    mutant(
        "library/chan/unsent.rs",
        "a send that panics because its G may not wait leaks the value",
        "        unsafe { self.0.assume_init_drop() }",
        "        let _ = self.0.as_mut_ptr();",
        Test("threads/misuse/blocking", "wait_on_a_foreign_thread_panics_without_keeping_a_lock_or_the_value"),
    ),
    mutant(
        "library/chan/perform.rs",
        "a send enters the queue before it is known that its G may wait",
        "        let (caller, held) = CurrentGoroutine::holding(pinned, held);
        let me = caller.me;
        let window = Window::<Plat>::open(At::ChannelQueue);
        let limit = patience.limit();
        let generation = if limit.is_some() { me.open_wait() } else { WaitGeneration::SOLE };
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for",
        "        let me = pinned.goroutine();
        let limit = patience.limit();
        let generation = if limit.is_some() { me.open_wait() } else { WaitGeneration::SOLE };
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let (caller, held) = CurrentGoroutine::holding(pinned, held);
        let window = Window::<Plat>::open(At::ChannelQueue);
        let wait_for",
        Model("channel::sender_that_may_not_block_panics_without_lock_waiter_and_value"),
    ),
    mutant(
        "refinements/windows.rs",
        "a panic unwinds out of a window",
        "            (at, _) => Plat::fatal(scheduler, format_args!(\"a panic in the window {at:?} of the scheduler\")),",
        "            (_, _) => {}",
        Properties("windows::panic_at_either_end_of_a_window_ends_the_program_there"),
    ),
    mutant(
        "refinements/windows.rs",
        "a commit that panics unwinds the G on whose stack it runs",
        "                Plat::fatal(scheduler, format_args!(\"the commit of a park panicked: goroutine {} parks\", parks.id()))",
        "                let _ = parks;",
        Test("threads/fatal", "mistake_ends_the_process_with_a_message_and_status_2"),
    ),
    mutant(
        "library/park.rs",
        "a commit may leave a section behind for the next G",
        "    if !Plat::is_pinned_once() || machine.are_waits_forbidden() {",
        "    if false {",
        Test("threads/fatal", "mistake_ends_the_process_with_a_message_and_status_2"),
    ),
    mutant(
        "library/park.rs",
        "a commit acts in the name of the next G",
        "    machine.set_current(None);",
        "    machine.set_current(next);",
        Test("threads/fatal", "mistake_ends_the_process_with_a_message_and_status_2"),
    ),
    mutant(
        "refinements/tracing.rs",
        "the number of Ps may change between two loads while a trace in shared memory starts",
        "        let unit = rest.len() / tracers.clone().map(|(track, _)| weight(track)).sum::<usize>();",
        "        let unit = rest.len() / self.tracers_in_use().map(|(track, _)| weight(track)).sum::<usize>();",
        Test("simulation/traced", "trace_in_shared_memory_starts_while_the_number_of_ps_changes"),
    ),
];
