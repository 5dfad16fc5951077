//! Mutants of system calls, and of wakeups from outside of the scheduler.

use super::Catcher::{Model, Nobody, Simulation, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "entities/processor_status.rs",
        "the status of a P is stored without Release",
        "        self.0.store(status as u32, Ordering::Release);",
        "        self.0.store(status as u32, Ordering::Relaxed);",
        Model("syscall::retake"),
    ),
    mutant(
        "entities/processor_status.rs",
        "a P is taken from a system call without Acquire",
        "self.0.compare_exchange(from as u32, to as u32, Ordering::Acquire, Ordering::Relaxed)",
        "self.0.compare_exchange(from as u32, to as u32, Ordering::Relaxed, Ordering::Relaxed)",
        Model("syscall::next_holder_of_a_retaken_p_sees_what_the_caller_did"),
    ),
    mutant(
        "entities/processor_status.rs",
        "two Ms may both take the same P from a system call",
        "        self.0.compare_exchange(from as u32, to as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()",
        "        let is_free = self.0.load(Ordering::Acquire) == from as u32;
        if is_free {
            self.0.store(to as u32, Ordering::Relaxed);
        }
        is_free",
        Model("syscall::retake"),
    ),
    mutant(
        "engine/handoff.rs",
        "an M is counted as blocked after its P has been taken",
        "        if !self.secure_from_outside() {
            return false;
        }
        Plat::point(Site::Syscall);
        if !processor.claim_to_hand_off() {
            self.shared.lock().blocked_machines -= 1;
            return false;
        }",
        "        if !processor.claim_to_hand_off() {
            return false;
        }
        if !self.secure_from_outside() {
            return false;
        }",
        Model("syscall::retake"),
    ),
    mutant(
        "engine/handoff.rs",
        "a handoff does not check for work on other queues",
        "        if self.is_work_visible() {
            self.wake_processor();
        }",
        "",
        Model("syscall::handoff_against_a_submitter"),
    ),
    mutant(
        "engine/handoff.rs",
        "a handoff leaves a P with work idle",
        "        if has_work || shared.has_work() {",
        "        if shared.has_work() {",
        Nobody("the check of all queues that follows finds this work and wakes an M for it. That takes longer."),
    ),
    mutant(
        "engine/syscall_return.rs",
        "an M without a P goes idle before its G is on a queue",
        "        match displaced {
            Some(processor) => {
                goroutine.make_urgent(Plat::now());
                processor.put_urgent_from_outside(goroutine);
            }
            None => scheduler.put_global_one(&mut shared, None, goroutine),
        }
        match machine.processor() {
            Some(_) => {}
            None if goroutine.is_locked() => machine.begin_to_wait(&mut shared),
            None => scheduler.put_idle_machine(&mut shared, machine),
        }
        displaced
    };",
        "        scheduler.put_idle_machine(&mut shared, machine);
        displaced
    };
    scheduler.put_global_one(&mut scheduler.shared.lock(), None, goroutine);",
        Model("syscall::return_from_a_system_call_against_the_deadlock_check"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "an M without a P wakes no M for its G",
        "    Plat::point(Site::Idle);
    scheduler.wake_processor();",
        "",
        Nobody("the M itself checks all queues once more before it parks, and takes an idle P. The wakeup is sooner."),
    ),
    mutant(
        "engine/syscall_return.rs",
        "an M without a P goes idle before its G is in the urgent queue of a P",
        "        match displaced {
            Some(processor) => {
                goroutine.make_urgent(Plat::now());
                processor.put_urgent_from_outside(goroutine);
            }
            None => scheduler.put_global_one(&mut shared, None, goroutine),
        }
        match machine.processor() {
            Some(_) => {}
            None if goroutine.is_locked() => machine.begin_to_wait(&mut shared),
            None => scheduler.put_idle_machine(&mut shared, machine),
        }
        displaced
    };
    Plat::point(Site::Idle);",
        "        scheduler.put_idle_machine(&mut shared, machine);
        displaced
    };
    Plat::point(Site::Idle);
    displaced.expect(\"the P of the model\").urgent.push_back(goroutine);",
        Model("syscall::return_from_a_blocking_call_against_an_idling_m"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "a G that returns from a blocking call waits for the end of a slice",
        "if Plat::TIMER_INTERRUPTS { processor_to_displace(machine, goroutine) } else { None }",
        "if false { processor_to_displace(machine, goroutine) } else { None }",
        Simulation("simulation/preemption", "main_returns_in_time_from_blocking_calls_beside_hogs_on_every_p", 200),
    ),
    mutant(
        "engine/syscall_return.rs",
        "a G that returns from a blocking call asks no G to give way",
        "        Plat::request_preemption(holder);",
        "        let _ = holder;",
        Simulation("simulation/preemption", "main_returns_in_time_from_blocking_calls_beside_hogs_on_every_p", 200),
    ),
    mutant(
        "engine/preempt.rs",
        "a G that is asked to give way ignores urgent Gs",
        " || has_urgent_work(scheduler, processor)",
        "",
        Simulation("simulation/preemption", "main_returns_in_time_from_blocking_calls_beside_hogs_on_every_p", 200),
    ),
    mutant(
        "engine/syscall.rs",
        "a G whose P sysmon has taken, because the slice was over, displaces those that wait for their slices",
        "requeue: requeue_without_processor,",
        "requeue: requeue_to_displace,",
        Test("simulation/preemption", "system_calls_in_a_row_take_no_more_slices_than_other_gs"),
    ),
    mutant(
        "engine/handoff.rs",
        "an M blocks although it is the only one for its P",
        "        let is_secured = shared.has_surplus();",
        "        let is_secured = (shared.machines - shared.blocked_machines) as usize >= shared.machines_wanted;",
        Model("syscall::every_p_has_an_m_when_two_block"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "an M that regains a P stays counted as blocked",
        "        let processor = self.scheduler().take_idle_processor_preferring(&mut shared, old)?;
        unblock(self, &mut shared);",
        "        let processor = self.scheduler().take_idle_processor_preferring(&mut shared, old)?;",
        Model("syscall::"),
    ),
    mutant(
        "engine/preempt.rs",
        "a slice does not end during a system call",
        "            left.check_slice(now);",
        "            let _ = left;",
        Simulation("simulation/preemption", "system_calls_in_a_row", 60),
    ),
    mutant(
        "engine/syscall.rs",
        "a G whose slice is over continues after a system call",
        "        if (has_to_stop(scheduler) || gives_way_to_others(scheduler, processor)) && !has_to_stay {",
        "        let _ = (processor, gives_way_to_others::<Plat>);
        if has_to_stop(scheduler) && !has_to_stay {",
        Nobody("sysmon finds the P in a system call sooner or later and retakes it, because the slice is over."),
    ),
    mutant(
        "engine/sysmon.rs",
        "sysmon does not retake a P in a system call although its slice is over",
        "        if !processor.is_slice_over() {
            return false;
        }",
        "        return false;",
        Nobody(
            "the G gives way at the end of its call, which is short: other calls began between two passes of sysmon.",
        ),
    ),
    mutant(
        "entities/shared.rs",
        "an M that takes an idle P continues the slice that was over on this P",
        "        processor.advance_tick();
",
        "",
        Nobody("the G gives way sooner than it has to, and then begins a slice of its own."),
    ),
    mutant(
        "engine/enqueue.rs",
        "a G that is readied from outside is runnable before it is on a queue",
        "            let mut shared = self.shared.lock();
            goroutine.set_status(Status::Runnable);",
        "            goroutine.set_status(Status::Runnable);
            let mut shared = self.shared.lock();",
        Model("deadlock::"),
    ),
];
