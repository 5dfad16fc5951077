//! Mutants of timers and the timekeeper.

use super::Catcher::{Model, Properties, Simulation, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/timekeeper.rs",
        "waking the timekeeper has no fence",
        "        fence(Ordering::SeqCst);
        Plat::point(Site::Timers);
        if let Some(machine)",
        "        Plat::point(Site::Timers);
        if let Some(machine)",
        Model("timers::timer_against_an_m_that_becomes_the_timekeeper"),
    ),
    mutant(
        "engine/timekeeper.rs",
        "the timekeeper has no fence between storing its deadline and checking the timers again",
        "            fence(Ordering::SeqCst);
            Plat::point(Site::Timers);
            if self.earliest_timekeeper_timer",
        "            Plat::point(Site::Timers);
            if self.earliest_timekeeper_timer",
        Model("timers::timer_against_a_timekeeper_that_postpones_its_deadline"),
    ),
    mutant(
        "engine/timekeeper.rs",
        "the timekeeper does not check the timers again",
        "            if self.earliest_timekeeper_timer() >= earliest {
                return (earliest != Instant::NEVER).then_some(earliest);
            }",
        "            return (earliest != Instant::NEVER).then_some(earliest);",
        Model("timers::timer_against_a_timekeeper_that_postpones_its_deadline"),
    ),
    mutant(
        "engine/idle.rs",
        "the successor of the timekeeper is not woken",
        "                Plat::unpark_thread(successor);",
        "                let _ = successor;",
        Model("timers::timekeeper_that_runs_the_g_of_a_device_leaves_its_deadline_to_another"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that finds work stays the timekeeper",
        "            scheduler.set_timekeeper(successor);",
        "",
        Model("timers::timekeeper_that_finds_work_leaves_its_deadline_to_another"),
    ),
    mutant(
        "engine/timekeeper.rs",
        "an M that is not the timekeeper does not wake it for the timers of the P that it gives up",
        "                if earliest != Instant::NEVER {
                    self.wake_timekeeper(earliest);
                }
                return None;",
        "                return None;",
        Model("timers::going_idle"),
    ),
    mutant(
        "engine/arm_timers.rs",
        "the timekeeper is not woken for a timer that becomes the earliest",
        "pinned.machine().scheduler().wake_timekeeper(when);",
        "",
        Model("timers::timer_against_an_m_that_becomes_the_timekeeper"),
    ),
    mutant(
        "engine/timekeeper.rs",
        "a timekeeper that parks without a deadline is not woken",
        "            && when.as_nanos() < machine.deadline.load(Ordering::Relaxed)",
        "            && (when.as_nanos() + 1..Instant::NEVER.as_nanos()).contains(&machine.deadline.load(Ordering::Relaxed))",
        Model("timers::p_with_timers_goes_idle_beside_a_timekeeper_without_deadline"),
    ),
    mutant(
        "engine/timekeeper.rs",
        "the timekeeper ignores the timers of a P that an M left in a system call",
        "        let timers = self.processors().iter().map(|processor| processor.timers.earliest());",
        "        use crate::entities::processor_status::ProcessorStatus::Syscall;
        let kept = self.processors().iter().filter(|p| p.status() != Syscall);
        let timers = kept.map(|processor| processor.timers.earliest());",
        Model("timers::system_call_against_an_m_that_becomes_the_timekeeper"),
    ),
    mutant(
        "refinements/retire.rs",
        "an M that ends does not wake the timekeeper for the timers that it leaves",
        "        scheduler.wake_timekeeper(scheduler.earliest_timekeeper_timer());",
        "",
        Model("timers::m_that_ends_leaves_its_timers"),
    ),
    mutant(
        "engine/handoff.rs",
        "a handoff does not wake the timekeeper for the timers that it leaves",
        "        self.wake_timekeeper(self.earliest_timekeeper_timer());",
        "        crate::base::atomic::fence(crate::base::atomic::Ordering::SeqCst);",
        Model("timers::handing_off_timers"),
    ),
    mutant(
        "engine/handoff.rs",
        "a handoff wakes the timekeeper for the timers that it leaves, but not for those of Ps in system calls",
        "        self.wake_timekeeper(self.earliest_timekeeper_timer());",
        "        self.wake_timekeeper(processor.timers.earliest());",
        Model("timers::handing_off_beside"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "elements with the same time come out in any order",
        "                slot.earliest = slot.earliest.min(when);",
        "                slot.earliest = slot.earliest.min(when);
                slot.first = Some(element);",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "a slot ignores an element that is due earlier",
        "                slot.earliest = slot.earliest.min(when);",
        "",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "a time before the base is not raised to the base",
        "when.as_nanos().max(self.base)",
        "when.as_nanos()",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "an element that is alone in its slot is taken out before its time if an earlier one was removed",
        "            if when > now.as_nanos() {
                *earliest = when;
                return None;
            }",
        "            let _ = earliest;",
        Properties("earliest_is_corrected"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "a slot keeps its first element after this element was taken out",
        "        if is(*first, element) {
            *first = Some(next);
        }",
        "        let _ = first;",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "an empty slot is marked as occupied",
        "        *group &= !(1 << (slot % GROUP));",
        "",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "an empty group of slots is marked as occupied",
        "            self.groups &= !(1 << (slot / GROUP));",
        "",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "entities/timers.rs",
        "the earliest time is not published when the earliest timer is removed",
        "            wheel.remove(self);
            timers.publish(&wheel);",
        "            wheel.remove(self);",
        Model("cancel::timer_moved_from_a_retired_p_is_stopped_in_a_system_call"),
    ),
    mutant(
        "library/sleep.rs",
        "a G that sleeps can be woken before it has left its stack",
        "    drop(park_with(caller, WaitReason::Sleep, |pinned, me| {
        arm(pinned, me, when, &me.timer, Action::Wake(me, WaitGeneration::SOLE));
        true
    }));",
        "    arm(&caller.pinned, caller.me, when, &caller.me.timer, Action::Wake(caller.me, WaitGeneration::SOLE));
    drop(park_with(caller, WaitReason::Sleep, |_, _| true));",
        Simulation("simulation/time", "shortest_sleeps_end_after_the_sleeper_has_left", 300),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "of two elements in a slot, the one inserted first is taken even if it is due later",
        "                if next.entry().when() < element.entry().when() {
                    (element, next) = (next, element);
                }",
        "",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "a slot keeps the time of its first element after this element was taken out",
        "            self.slots[slot].earliest = next.entry().when();",
        "",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "the base moves while the slot still has another element",
        "            self.slots[slot].earliest = next.entry().when();",
        "            self.slots[slot].earliest = next.entry().when();
            self.base = when;",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "the first slot stays the first although it is empty",
        "        if slot == self.first {
            self.find_first();
        }",
        "",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "an element inserted before all others does not become the first",
        "        if self.slots.get(self.first).is_none_or(|first| when < first.earliest) {",
        "        if self.first == SLOTS {",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "taking out the only element of a slot does not enter the next rotation",
        "            if slot >= NEAR_END && rotation(old) != rotation(when) {
                self.enter_rotation(old);
            }",
        "            let _ = (old, NEAR_END);",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/mod.rs",
        "moving elements down does not enter the next rotation",
        "        if rotation(old) != rotation(self.base) {",
        "        if false && rotation(old) != rotation(self.base) {",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/levels.rs",
        "the next rotation may come before the current one",
        "if rotation(base).is_multiple_of(2) { 0 } else { ROTATION_GROUPS }",
        "if rotation(base) == u64::MAX { ROTATION_GROUPS } else { 0 }",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/levels.rs",
        "the levels above are computed from the base, not from the start of the next rotation",
        "        _ => level_of_difference(far_base(base) ^ when),",
        "        _ => level_of_difference(base ^ when),",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "base/timing_wheel/levels.rs",
        "a slot of several rotations is taken for one of a single rotation",
        "        u32::from(self.shift) <= ROTATION_BITS",
        "        u32::from(self.shift) <= 64 + ROTATION_BITS",
        Properties("behaves_like_a_sorted"),
    ),
    mutant(
        "engine/urgent.rs",
        "timers that are due again and again keep all other Gs from running",
        "if self.urgent_tick.load(Ordering::Relaxed) == self.tick() && others_wait() {",
        "if false && self.urgent_tick.load(Ordering::Relaxed) == self.tick() && others_wait() {",
        Simulation("simulation/time", "timers_that_are_always_due_do_not_starve_other_gs", 100),
    ),
    mutant(
        "engine/urgent.rs",
        "timers that are due again and again starve the global queue",
        " || scheduler.global_length.load(Ordering::Relaxed) != 0;\n        if",
        ";\n        if",
        Test("threads/due_timers", "due_timers_do_not_starve_the_global_queue"),
    ),
    mutant(
        "engine/pick.rs",
        "a check of the global queue that an urgent G precedes is forgotten",
        "        if urgent.is_some() && is_check_due {
            processor.request_global_check();
        }",
        "",
        Simulation("simulation/time", "timers_that_are_always_due_do_not_starve_the_global_queue", 100),
    ),
    mutant(
        "synctest.rs",
        "timers of a bubble that are due at the same instant fire in the order in which they were set",
        "            self.timers().shuffle_due(self.now(), || pinned.processor().random() >> 31 != 0);",
        "",
        Test("threads/synctest", "timers_due_at_the_same_instant_end_a_select_in_random_order"),
    ),
    mutant(
        "library/time/slot.rs",
        "a timer is armed although nobody waits for it",
        "        ticks.set_dormant(is_set && !is_awaited);",
        "        ticks.set_dormant(is_set && !is_awaited);
        if is_set && !is_awaited {
            ticks.set_dormant(false);
            self.arm(pinned, setting);
        }",
        Test("threads/synctest_timers", "deadlock_of_a_bubble_beside_an_unread_ticker_panics"),
    ),
    mutant(
        "library/time/slot.rs",
        "a receive from a dormant timer does not arm it",
        "            self.arm(&pinned, &mut setting);
            ticks.set_dormant(false);",
        "            ticks.set_dormant(false);",
        Simulation("simulation/time", "timer_ends_one_wait_per_setting_in_time", 10),
    ),
    mutant(
        "library/time/slot.rs",
        "a receive from a dormant timer that is due arms it",
        "        if setting.is_due(now) {
            setting.advance(now);
            self.ticks.fill(&ticks, when);",
        "        if false {
            self.ticks.fill(&ticks, when);",
        Test("threads/synctest_timers", "unread_ticker_keeps_its_first_tick_and_its_phase"),
    ),
    mutant(
        "library/time/slot/setting.rs",
        "a ticker forgets its phase while nobody waits",
        "        let when = self.when.as_nanos();
        let missed",
        "        let when = now.as_nanos();
        let missed",
        Test("threads/synctest_timers", "unread_ticker_keeps_its_first_tick_and_its_phase"),
    ),
    mutant(
        "library/time/slot/setting.rs",
        "a ticker fires for ever at the end of time",
        ".map_or(Instant::NEVER, Instant::from_nanos);",
        ".map_or(if period == 0 { Instant::NEVER } else { Instant::LAST }, Instant::from_nanos);",
        Test("threads/synctest_timers", "ticker_has_no_tick_beyond_the_end_of_time"),
    ),
    mutant(
        "library/time/slot.rs",
        "a timer of a bubble that is set to fire at once fires when all Gs wait",
        "        let waiting = now.and_then(|now| self.send_tick(&ticks, &mut setting, now));",
        "        let waiting = now.and_then(|_| None);",
        Test("threads/synctest_timers", "what_is_due_at_once_happens_before_all_gs_wait"),
    ),
    mutant(
        "library/time/after_func.rs",
        "a function of a bubble without a delay is started when all Gs wait",
        "        if self.bubble.is_some() && when <= self.bubble.now() {",
        "        if self.bubble.is_some() && when < self.bubble.now() {",
        Test("threads/synctest_timers", "what_is_due_at_once_happens_before_all_gs_wait"),
    ),
    mutant(
        "library/time/mod.rs",
        "a timer that is set beyond the end of time is not set",
        "    (now + duration).min(Instant::LAST)",
        "    now + duration",
        Test("threads/synctest_timers", "timer_beyond_the_end_of_time_is_set"),
    ),
    mutant(
        "engine/deadlock.rs",
        "a timer for which nobody waits keeps a deadlock from being found",
        "processor.timers.is_any_awaited());",
        "processor.timers.earliest() != crate::base::instant::Instant::NEVER);",
        Model("cancel::timer_that_is_armed_for_nobody_is_no_reason_to_wait"),
    ),
    mutant(
        "entities/timers.rs",
        "the deadlock check ignores timers for which a G waits",
        "                Action::Fire(target, _) => target.0.is_awaited(),",
        "                Action::Fire(..) => false,",
        Simulation("simulation/unread_timers", "wait_for_a_timer_among_unread_ones_is_no_deadlock", 10),
    ),
];
