//! Signals of devices.

use super::Catcher::{Model, Nobody};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/device_signals.rs",
        "a raise is published without Release",
        "        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {",
        "        let found = self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise does not see who waits",
        "        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {",
        "        let found = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, |word| {",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise is taken without Acquire",
        "            match self.word.load(Ordering::Acquire) & TAG {
                RAISED => {
                    let taken = self.word.compare_exchange(RAISED, EMPTY, Ordering::Acquire, Ordering::Relaxed);",
        "            match self.word.load(Ordering::Relaxed) & TAG {
                RAISED => {
                    let taken = self.word.compare_exchange(RAISED, EMPTY, Ordering::Relaxed, Ordering::Relaxed);",
        Model("device_signals::woken_g_sees_what_the_handler_did"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise overwrites the mark that the signal is on the ready list",
        "                QUEUED | DELIVERED => word,
                _ => RAISED,",
        "                DELIVERED => word,
                _ => RAISED,",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise overwrites the mark that another one has ended the wait",
        "                QUEUED | DELIVERED => word,
                _ => RAISED,",
        "                QUEUED => word,
                _ => RAISED,",
        Model("device_signals::second_waiter_does_not_disturb_the_first"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise that comes while the G parks is forgotten",
        "                QUEUED | DELIVERED => word,
                _ => RAISED,",
        "                QUEUED | DELIVERED | PARKING => word,
                _ => RAISED,",
        Model("device_signals::wait_against_raises_and_a_poll"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise puts a signal on the ready list whose G has not left its stack",
        "                WAITING => with_generation(QUEUED, generation_of(word)),",
        "                WAITING | PARKING => with_generation(QUEUED, generation_of(word)),",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "the commit of a wait overwrites a raise",
        "self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();",
        "self.word.swap(waiting, Ordering::Release) == parking;",
        Model("device_signals::wait_against_raises_and_a_poll"),
    ),
    mutant(
        "engine/device_signals.rs",
        "the commit of a wait takes the next wait for its own",
        "    generation.0 << TAG.count_ones() | state",
        "    let _ = generation;
    1 << TAG.count_ones() | state",
        Model("device_signals::deadline_against_a_"),
    ),
    mutant(
        "engine/device_signals.rs",
        "the beginning of a wait overwrites a raise",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed).ok()?;",
        "        self.word.swap(with_generation(PARKING, generation), Ordering::Acquire);",
        Model("device_signals::wait_against_raises_and_a_poll"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a second waiter overwrites the first before it knows that it is the second",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed).ok()?;
        self.goroutine.store(Some(me), Ordering::Relaxed);",
        "        self.goroutine.store(Some(me), Ordering::Relaxed);
        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::AcqRel, Ordering::Relaxed).ok()?;",
        Model("device_signals::second_waiter_does_not_disturb_the_first"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a wait begins without Acquire",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed).ok()?;",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Relaxed, Ordering::Relaxed).ok()?;",
        Nobody(
            "the store of who waits would have to overtake the exchange before it, and be seen by the delivery of the wait \
             before this one. The language allows it; x86 does not do it, and loom, to which stores take effect in the order in \
             which it does them, cannot show it. The Acquire stays for the language.",
        ),
    ),
    mutant(
        "engine/device_signals.rs",
        "that a G has left its stack is published without Release",
        "self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed)",
        "self.word.compare_exchange(parking, waiting, Ordering::Relaxed, Ordering::Relaxed)",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a G that both its timer and the commit let go on goes on twice",
        "        waits || !me.claim(generation)",
        "        waits",
        Model("device_signals::deadline_against_a_commit_and_a_raise"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a wait that was ended by its deadline leaves its mark in the word",
        "        let ended = |word| matches!(word & TAG, PARKING | WAITING | DELIVERED).then_some(EMPTY);",
        "        let ended = |word| matches!(word & TAG, PARKING | DELIVERED).then_some(EMPTY);",
        Model("device_signals::deadline_against_a_"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a wait that was ended by its deadline overwrites a raise",
        "        let ended = |word| matches!(word & TAG, PARKING | WAITING | DELIVERED).then_some(EMPTY);",
        "        let ended = |word| (word & TAG != QUEUED).then_some(EMPTY);",
        Model("device_signals::deadline_against_a_"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise that found its wait ended by the deadline is dropped",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Release);",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { EMPTY }, Ordering::Release);",
        Model("device_signals::deadline_against_a_raise_that_is_polled"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a delivery does not publish that it is through",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Release);",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Relaxed);",
        Nobody(
            "the next wait would have to be overtaken by stores that come before an exchange on another M. The language \
             allows it; x86 does not do it, and loom, to which stores take effect in the order in which it does them, \
             cannot show it. The Release stays for the language.",
        ),
    ),
    mutant(
        "engine/device_signals.rs",
        "a G that a raise has woken does not see what later raises were for",
        "        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;",
        "        let word = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, ended).ok()?;",
        Model("device_signals::two_raises_on_a_single_p_are_seen"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a delivered signal is marked as free before it is known whether the G waits",
        "        let waits = goroutine.claim(generation);
        P::point(Site::DeviceSignal);",
        "        self.word.store(RAISED, Ordering::Release);
        let waits = goroutine.claim(generation);",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a G that was woken by a raise is not told so",
        "        Some(word & TAG == DELIVERED)",
        "        let _ = word;
        Some(false)",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "the link of a signal is read when it may be on the list again",
        "            oldest_first = signal.next.load(Ordering::Relaxed);
            if let Some(goroutine) = signal.deliver() {
                each(goroutine);
            }",
        "            if let Some(goroutine) = signal.deliver() {
                each(goroutine);
            }
            oldest_first = signal.next.load(Ordering::Relaxed);",
        Model("device_signals::raise_of_a_signal_that_was_just_polled_is_kept"),
    ),
    mutant(
        "engine/device_signals.rs",
        "the push to the ready list loses one that is pushed meanwhile",
        "            if ready.replace(first, Some(self), Ordering::Release, Ordering::Relaxed) {
                break;
            }",
        "            ready.store(Some(self), Ordering::Release);
            break;",
        Model("device_signals::two_concurrent_raises_are_both_polled"),
    ),
    mutant(
        "engine/device_signals.rs",
        "the push to the ready list does not publish the link",
        "            if ready.replace(first, Some(self), Ordering::Release, Ordering::Relaxed) {",
        "            if ready.replace(first, Some(self), Ordering::Relaxed, Ordering::Relaxed) {",
        Model("device_signals::"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise has no fence before the look for an idle P",
        "        fence(Ordering::SeqCst);",
        "",
        Model("device_signals::raise_against_an_idling_m"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise wakes nobody",
        "            P::unpark_thread(machine);
            return;",
        "            let _ = machine;
            return;",
        Model("device_signals::raise_against_an_idling_m"),
    ),
    mutant(
        "engine/device_signals.rs",
        "a raise that finds no idle P asks nobody to give way",
        "            P::request_preemption(machine);",
        "            let _ = machine;",
        Model("device_signals::raise_while_all_ps_are_busy_asks_a_g_to_give_way"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle does not look at the ready list",
        "            || self.signals.is_ready()
",
        "",
        Model("device_signals::raise_against_an_idling_m"),
    ),
];
