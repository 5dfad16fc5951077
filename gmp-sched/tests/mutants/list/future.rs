//! Mutants of Gs that wait for futures, and of coroutines.

use super::Catcher::{Model, Simulation, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/future.rs",
        "a parked G is published to its waker without Release",
        "compare_exchange(IDLE, WAITING, Ordering::Release, Ordering::Relaxed)",
        "compare_exchange(IDLE, WAITING, Ordering::Relaxed, Ordering::Relaxed)",
        Model("future::waker_against_a_wait_readies_the_g_after_its_value"),
    ),
    mutant(
        "library/future.rs",
        "a G parks although its waker has been called",
        "        self.state.compare_exchange(IDLE, WAITING, Ordering::Release, Ordering::Relaxed).is_ok()",
        "        self.state.swap(WAITING, Ordering::AcqRel);
        true",
        Model("future::waker_against_a_wait_readies_the_g_after_its_value"),
    ),
    mutant(
        "library/future.rs",
        "a poll does not see what the caller of the waker did",
        "        self.state.swap(IDLE, Ordering::Acquire);",
        "        self.state.swap(IDLE, Ordering::Relaxed);",
        Model("future::waker_against_a_wait_readies_the_g_after_its_value"),
    ),
    mutant(
        "library/future.rs",
        "a waker does not publish what its caller did",
        "if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {",
        "if self.state.swap(WOKEN, Ordering::Acquire) == WAITING {",
        Model("future::waker_against_a_wait_readies_the_g_after_its_value"),
    ),
    mutant(
        "library/future.rs",
        "a waker readies a G whose context it does not see",
        "if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {",
        "if self.state.swap(WOKEN, Ordering::Release) == WAITING {",
        Model("future::waker_against_a_wait_readies_the_g_after_its_value"),
    ),
    mutant(
        "library/future.rs",
        "two calls of a waker may both ready the G",
        "        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {",
        "        let before = self.state.load(Ordering::Acquire);
        Plat::point(Site::Park);
        self.state.swap(WOKEN, Ordering::AcqRel);
        if before == WAITING {",
        Model("future::two_calls_of_a_waker_ready_the_g_once"),
    ),
    mutant(
        "library/coroutine/mod.rs",
        "the end of a coroutine does not ready its caller",
        "        inner.set_waiter(me);
",
        "        let _ = inner;
",
        Model("coroutine::sides_of_a_coroutine_alternate_on_any_m"),
    ),
    mutant(
        "library/coroutine/switch.rs",
        "a side of a coroutine to which the other side switches directly is also put into a queue",
        "        next.set_status(Status::Runnable);
    }
    is_usual",
        "        ready_pinned(&caller.pinned, next);
    }
    is_usual",
        Model("coroutine::side_that_is_stolen_switches_directly_to_the_other_side"),
    ),
    mutant(
        "library/coroutine/switch.rs",
        "a side of a coroutine that switches directly does not become parked",
        "        me.set_waiting(WaitReason::Coroutine, processor.sampler.parked_status(), processor.clock());
        next.set_status(Status::Runnable);
    }
    is_usual",
        "        let _ = (me, processor);
        next.set_status(Status::Runnable);
    }
    is_usual",
        Model("coroutine::side_that_is_stolen_switches_directly_to_the_other_side"),
    ),
    mutant(
        "library/coroutine/switch.rs",
        "one side of a coroutine is readied before the other side has left its stack",
        "    drop(park_with(caller, WaitFor::new(WaitReason::Coroutine, awaited), move |pinned, me| {
        if is_new {
            start_next(pinned, next, Some(me));
        } else {
            ready_pinned(pinned, next);
        }
        true
    }));",
        "    if is_new {
        start_next(&caller.pinned, next, Some(caller.me));
    } else {
        ready_pinned(&caller.pinned, next);
    }
    drop(park_with(caller, WaitFor::new(WaitReason::Coroutine, awaited), move |_, _| true));",
        Simulation("simulation/coroutine", "coroutines_yield_all_values_in_order", 1000),
    ),
    mutant(
        "library/coroutine/mod.rs",
        "a coroutine that exits does not make its caller exit",
        "        Err(JoinError::Exited) => goexit::<Plat>(),",
        "        Err(JoinError::Exited) => {}",
        Test("threads/unwinding", "coroutine_that_ends_itself"),
    ),
    mutant(
        "library/coroutine/mod.rs",
        "a coroutine that is dropped by a G that may not block stays parked",
        "            self.release();",
        "            let _ = (Self::release, self.inner.take());",
        Simulation("simulation/coroutine", "coroutine_dropped_in_a_system_call", 60),
    ),
];
