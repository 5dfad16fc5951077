//! Mutants of the signals of devices.

use super::Catcher::{Model, Nobody, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/device_signals.rs",
        "a raise is published without Release",
        "        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {",
        "        let found = self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {",
        Model("device_signals::"),
    ),
    mutant(
        "library/device_signals.rs",
        "a raise has no Acquire, so it may not see the waiting G",
        "        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {",
        "        let found = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, |word| {",
        Model("device_signals::"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait takes a raise without Acquire",
        "            match self.word.load(Ordering::Acquire) & TAG {
                RAISED => {
                    let taken = self.word.compare_exchange(RAISED, EMPTY, Ordering::AcqRel, Ordering::Relaxed);",
        "            match self.word.load(Ordering::Relaxed) & TAG {
                RAISED => {
                    let taken = self.word.compare_exchange(RAISED, EMPTY, Ordering::Release, Ordering::Relaxed);",
        Model("device_signals::woken_g_sees_what_the_handler_did"),
    ),
    mutant(
        "library/device_signals.rs",
        "a G takes a raise that another G has taken since the load",
        "                    if taken.is_ok() {
                        return Found::Raised;",
        "                    if taken.is_ok() || true {
                        return Found::Raised;",
        Model("second_waiters::one_raise_is_taken_by_one_of_two_gs"),
    ),
    mutant(
        "library/device_signals.rs",
        "a raise overwrites the mark that the signal is on the raised list",
        "                QUEUED | DELIVERED => word,
                _ => RAISED,",
        "                DELIVERED => word,
                _ => RAISED,",
        Model("device_signals::"),
    ),
    mutant(
        "library/device_signals.rs",
        "a raise overwrites the mark that another raise has ended the wait",
        "                QUEUED | DELIVERED => word,
                _ => RAISED,",
        "                QUEUED => word,
                _ => RAISED,",
        Model("second_waiters::second_waiter_does_not_disturb_the_first"),
    ),
    mutant(
        "library/device_signals.rs",
        "a raise that comes while the G parks is lost",
        "                QUEUED | DELIVERED => word,
                _ => RAISED,",
        "                QUEUED | DELIVERED | PARKING => word,
                _ => RAISED,",
        Model("device_signals::wait_against_raises_and_a_poll"),
    ),
    mutant(
        "library/device_signals.rs",
        "a raise puts a signal on the raised list although the waiting G has not left its stack",
        "                WAITING => with_generation(QUEUED, generation_of(word)),",
        "                WAITING | PARKING => with_generation(QUEUED, generation_of(word)),",
        Model("device_signals::"),
    ),
    mutant(
        "library/device_signals.rs",
        "the commit of a wait overwrites a raise",
        "self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();",
        "self.word.swap(waiting, Ordering::Release) == parking;",
        Model("device_signals::wait_against_raises_and_a_poll"),
    ),
    mutant(
        "entities/signal.rs",
        "the commit of a wait mistakes a later wait for its own",
        "    generation.0 << TAG.count_ones() | state",
        "    let _ = generation;
    1 << TAG.count_ones() | state",
        Model("device_signals::deadline_against_a_"),
    ),
    mutant(
        "library/device_signals.rs",
        "the beginning of a wait overwrites a raise",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed).ok()?;",
        "        self.word.swap(with_generation(PARKING, generation), Ordering::Acquire);",
        Model("device_signals::wait_against_raises_and_a_poll"),
    ),
    mutant(
        "library/device_signals.rs",
        "a second waiter overwrites the first before it detects that there is one",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed).ok()?;
        self.goroutine.store(Some(me), Ordering::Relaxed);",
        "        self.goroutine.store(Some(me), Ordering::Relaxed);
        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::AcqRel, Ordering::Relaxed).ok()?;",
        Model("second_waiters::second_waiter_does_not_disturb_the_first"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait begins without Acquire",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed).ok()?;",
        "        self.word.compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Relaxed, Ordering::Relaxed).ok()?;",
        Nobody(
            "the mutant differs only if the store of the waiting G overtakes the exchange before it and is seen by \
             the delivery of the previous wait. The language allows this. x86 does not do it, and loom, where stores \
             take effect in program order, cannot show it. The Acquire stays for the language.",
        ),
    ),
    mutant(
        "library/device_signals.rs",
        "the context of a waiting G is published without Release",
        "self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed)",
        "self.word.compare_exchange(parking, waiting, Ordering::Relaxed, Ordering::Relaxed)",
        Model("device_signals::"),
    ),
    mutant(
        "library/device_signals.rs",
        "a G continues twice if both its timer and its commit end the wait",
        "        waits || !me.claim(generation)",
        "        waits",
        Model("device_signals::deadline_against_a_commit_and_a_raise"),
    ),
    mutant(
        "library/device_signals.rs",
        "a G continues twice if both its context and its commit end the wait",
        "        waits || !me.claim(generation)",
        "        waits || !(me.claim(generation) || true)",
        Model("device_signals::cancellation_against_a_commit_and_a_raise"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait that its deadline has ended leaves its mark in the word",
        "        let ended = |word| matches!(word & TAG, PARKING | WAITING | DELIVERED).then_some(EMPTY);",
        "        let ended = |word| matches!(word & TAG, PARKING | DELIVERED).then_some(EMPTY);",
        Model("device_signals::deadline_against_a_"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait that its deadline has ended overwrites a raise",
        "        let ended = |word| matches!(word & TAG, PARKING | WAITING | DELIVERED).then_some(EMPTY);",
        "        let ended = |word| (word & TAG != QUEUED).then_some(EMPTY);",
        Model("device_signals::deadline_against_a_"),
    ),
    mutant(
        "entities/signal.rs",
        "a raise whose wait has been ended by the deadline is dropped",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Release);",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { EMPTY }, Ordering::Release);",
        Model("device_signals::deadline_against_a_raise_that_is_polled"),
    ),
    mutant(
        "entities/signal.rs",
        "the end of a delivery is published without Release",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Release);",
        "        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Relaxed);",
        Nobody(
            "the mutant differs only if the next wait is overtaken by stores that precede an exchange on another M. \
             The language allows this. x86 does not do it, and loom, where stores take effect in program order, \
             cannot show it. The Release stays for the language.",
        ),
    ),
    mutant(
        "library/device_signals.rs",
        "a woken G does not see what the handlers of later raises did",
        "        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;",
        "        let word = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, ended).ok()?;",
        Model("device_signals::two_raises_on_a_single_p_are_seen"),
    ),
    mutant(
        "entities/signal.rs",
        "a delivery overwrites the QUEUED mark before it knows whether the G still waits",
        "        let waits = goroutine.claim(generation);
        Plat::point(Site::DeviceSignal);",
        "        self.word.store(RAISED, Ordering::Release);
        let waits = goroutine.claim(generation);",
        Model("device_signals::"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait that a raise has ended returns that it was not raised",
        "        Some(word & TAG == DELIVERED)",
        "        let _ = word;
        Some(false)",
        Model("device_signals::"),
    ),
    mutant(
        "entities/signal.rs",
        "the link of a signal is read after the delivery, when the signal may be on the list again",
        "            oldest_first = signal.next.load(Ordering::Relaxed);
            if let Some(goroutine) = signal.deliver() {",
        "            let goroutine = signal.deliver();
            oldest_first = signal.next.load(Ordering::Relaxed);
            if let Some(goroutine) = goroutine {",
        Model("device_signals::raise_of_a_signal_that_was_just_polled_is_kept"),
    ),
    mutant(
        "entities/signal.rs",
        "a push to the raised list loses a signal that is pushed at the same time",
        "            if ready.replace(first, Some(signal), Ordering::Release, Ordering::Relaxed) {
                break;
            }",
        "            ready.store(Some(signal), Ordering::Release);
            break;",
        Model("device_signals::two_concurrent_raises_are_both_polled"),
    ),
    mutant(
        "entities/signal.rs",
        "a push to the raised list does not publish the link",
        "            if ready.replace(first, Some(signal), Ordering::Release, Ordering::Relaxed) {",
        "            if ready.replace(first, Some(signal), Ordering::Relaxed, Ordering::Relaxed) {",
        Model("device_signals::"),
    ),
    mutant(
        "engine/poll.rs",
        "a raise has no fence before its check for an idle P",
        "        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        if self.idle_processors",
        "        Plat::point(Site::DeviceSignal);
        if self.idle_processors",
        Model("device_signals::raise_against_an_idling_m"),
    ),
    mutant(
        "engine/poll.rs",
        "a raise asks the G of another scheduler to give way",
        "Plat::current_machine().filter(|machine| ptr::eq(machine.scheduler(), self));",
        "Plat::current_machine();",
        Model("device_signals::raise_by_another_scheduler"),
    ),
    mutant(
        "engine/poll.rs",
        "a raise unparks no M",
        "            Plat::unpark_thread(machine);",
        "            let _ = machine;",
        Model("device_signals::raise_against_an_idling_m"),
    ),
    mutant(
        "engine/poll.rs",
        "a raise wakes nobody, so the signal waits until an M polls for another reason",
        "            Plat::unpark_thread(machine);
        } else {
            self.preempt_to_poll();",
        "            let _ = machine;
        } else if false {
            self.preempt_to_poll();",
        Simulation("simulation/device_signals", "raised_signal_does_not_wait_for_a_sleeper", 50),
    ),
    mutant(
        "engine/poll.rs",
        "a raise relies on an M that has left the idle list",
        "machine.will_poll.load(Ordering::Relaxed) && ptr::eq",
        "ptr::eq",
        Model("pollers::"),
    ),
    mutant(
        "engine/poll.rs",
        "a raise does not prefer the M that parked on the interrupted CPU",
        "Plat::parked_machine().filter(is_poller)",
        "Plat::parked_machine().filter(|machine| is_poller(machine) && false)",
        Model("pollers::raise_on_an_idle_machine_wakes_one_m"),
    ),
    mutant(
        "engine/poll.rs",
        "an M that has left the idle list lets raises rely on it",
        "        self.will_poll.store(false, Ordering::Relaxed);",
        "",
        Model("pollers::raise_does_not_rely_on_an_m_that_runs_again"),
    ),
    mutant(
        "engine/poll.rs",
        "an M that has left the idle list has no fence before it polls for a raise that relies on it",
        "        self.will_poll.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);",
        "        self.will_poll.store(false, Ordering::Relaxed);",
        Model("pollers::raise_against_a_parked_m_that_is_assigned_a_p"),
    ),
    mutant(
        "engine/urgent.rs",
        "an M that was idle and finds other work forgets the raise that relies on it",
        " && processor.urgent.is_empty() && !scheduler.signals.is_ready() {",
        " && processor.urgent.is_empty() {",
        Model("pollers::raise_against_a_parked_m_that_is_assigned_a_p"),
    ),
    mutant(
        "refinements/retire.rs",
        "an M that ends forgets the raise that relies on it",
        "        if self.take_poll_duty() && scheduler.signals.is_ready() {
            scheduler.wake_poller();
        }",
        "        self.take_poll_duty();",
        Model("pollers::raise_against_an_m_that_ends"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that is to poll and finds no idle P asks no G to give way",
        "                scheduler.preempt_to_poll();",
        "",
        Model("pollers::raise_against_an_m_that_takes_the_last_idle_p"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that polls wakes another M, although there is only one G",
        "self.claim_idle_processor(is_queued)",
        "self.claim_idle_processor(true)",
        Model("pollers::raise_on_an_idle_machine_wakes_one_m"),
    ),
    mutant(
        "engine/urgent.rs",
        "an M that polls leaves the second G to itself, although a P is idle",
        "        scheduler.submitted();",
        "",
        Model("pollers::second_g_of_a_poll_gets_an_idle_p"),
    ),
    mutant(
        "engine/poll.rs",
        "a raise that finds no idle P requests no preemption",
        "            Plat::request_preemption(machine);",
        "            let _ = machine;",
        Model("device_signals::raise_while_all_ps_are_busy_asks_a_g_to_give_way"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle does not check the raised list",
        "(is_queued || scheduler.signals.is_ready())",
        "is_queued",
        Model("device_signals::raise_against_an_idling_m"),
    ),
];
