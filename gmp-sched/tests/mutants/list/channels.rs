//! Channels, selects, and claims of waits.

use super::Catcher::{Model, Properties, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/chan/channel.rs",
        "a receiver is not told that its value has moved",
        "            receiver.outcome.store(MOVED, Ordering::Relaxed);",
        "",
        Model("channel::received_value_is_ordered_after_its_send"),
    ),
    mutant(
        "library/chan/channel.rs",
        "a sender that waits is taken for one whose value went directly, and there are others in the buffer",
        "        unsafe { self.ring.push(slot) };",
        "        let _ = slot;",
        Model("channel::buffered_values_are_received_in_order"),
    ),
    mutant(
        "library/chan/channel.rs",
        "the length of the buffer is not told",
        "            held.set_len(word, 1);",
        "",
        Model("channel::buffered_values_are_received_in_order"),
    ),
    mutant(
        "library/chan/channel.rs",
        "a sender does not see that the channel is closed",
        "        if word.is_restricted() && self.header.refuses() {
            return Attempt::Closed;
        }
",
        "",
        Model("channel::send_and_receive_agree_with_a_concurrent_close"),
    ),
    mutant(
        "library/chan/header.rs",
        "a close leaves the senders waiting",
        "        Some([self.header.senders.take_all(), self.header.receivers.take_all()])",
        "        Some([self.header.receivers.take_all(), self.header.receivers.take_all()])",
        Model("channel::close_ends_the_wait_of_a_sender"),
    ),
    mutant(
        "library/chan/header.rs",
        "a close forgets what is in the buffer",
        "self.header.word().0 | RESTRICTED | CLOSED",
        "RESTRICTED | CLOSED",
        Model("channel::check_without_lock_of_a_closed_channel_is_of_one_moment"),
    ),
    mutant(
        "library/chan/header.rs",
        "whoever looks without the lock looks first whether the channel is closed",
        "        !self.senders.is_empty() | (self.word_by_now().level() != 0)",
        "        let word = self.word_by_now();
        P::point(Site::Channel);
        !self.senders.is_empty() | (word.level() != 0)",
        Model("channel::check_without_lock_of_a_queue_is_of_one_moment"),
    ),
    mutant(
        "library/waiter/queue.rs",
        "whoever looks without the lock sees an empty queue without what came before it",
        "        self.first.load(Ordering::Acquire).is_none()",
        "        self.first.load(Ordering::Relaxed).is_none()",
        Model("channel::check_without_lock_of_a_queue_is_of_one_moment"),
    ),
    mutant(
        "library/waiter/queue.rs",
        "a queue is empty before what came before that",
        "        self.first.store(None, Ordering::Release);",
        "        self.first.store(None, Ordering::Relaxed);",
        Model("channel::check_without_lock_of_a_queue_is_of_one_moment"),
    ),
    mutant(
        "library/waiter/queue.rs",
        "the first of several is taken for the only one",
        "        if self.is_first(waiter) && self.is_last(waiter) {",
        "        if self.is_first(waiter) {",
        Properties("waiters_are_removed_from_any_position"),
    ),
    mutant(
        "entities/waiter.rs",
        "a waiter is taken whose wait is over",
        "            None => self.claim_of_several(),",
        "            None => self.claim_of_several().or(Some(self.goroutine_of_several())),",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "entities/goroutine/wait.rs",
        "two may end a wait",
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
        "whoever ends a wait for several does not leave word",
        "        goroutine.woken_by.store(Some(self), Ordering::Relaxed);",
        "",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "library/select/locks.rs",
        "a select leaves its waiters in the queues of the others",
        "            case.leave_queue(pinned);",
        "            if false {
                case.leave_queue(pinned);
            }",
        Model("channel::two_selects"),
    ),
    mutant(
        "library/select/case.rs",
        "a select waits in each queue as if it stood in that one alone",
        "        self.waiter.write(Waiter::of_several(me, generation, slot));",
        "        let waiter = self.waiter.write(Waiter::of_several(me, generation, slot));
        waiter.prepare(me, WaitGeneration::SOLE, slot);",
        Model("channel::select_is_ended_once_by_a_sender_or_a_close"),
    ),
    mutant(
        "library/select/locks.rs",
        "two selects lock their channels in different orders",
        "            while position >= gap && address(cases, cases[position - gap].listed) > address(cases, number) {",
        "            while false && position >= gap && address(cases, cases[position - gap].listed) > address(cases, number) {",
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
        "a lock that was waited for is taken without Acquire",
        "self.locked.swap(1, Ordering::Acquire) == 0",
        "self.locked.swap(1, Ordering::Relaxed) == 0",
        Model("lock::released_lock_is_taken_by_one_of_two_waiters"),
    ),
    mutant(
        "library/chan/spinning.rs",
        "a lock that is free when it is looked at is taken without asking again",
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
        "library/select/mod.rs",
        "a select that may not block keeps its locks",
        "        unlock_all(self.cases, self.locked);
    }",
        "        let _ = (self.cases, self.locked);
    }",
        Model("channel::caller_that_may_not_block_panics_without_lock_and_waiter"),
    ),
    mutant(
        "library/select/mod.rs",
        "a select that parks frees one lock too few",
        "|| unlock_each(cases.as_ref()))",
        "|| unlock_each(&cases.as_ref()[1..]))",
        Model("channel::whole_select_takes_one_of_two_values"),
    ),
    mutant(
        "library/chan/unsent.rs",
        "a send that panics because its G may not wait leaks the value",
        "        unsafe { self.0.assume_init_drop() }",
        "        let _ = self.0.as_mut_ptr();",
        Test("threads/misuse/blocking", "wait_on_a_foreign_thread_panics_without_keeping_a_lock_or_the_value"),
    ),
];
