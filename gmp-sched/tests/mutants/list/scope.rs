//! Mutants of scopes and of other operations that a panic must not leave incomplete.

use super::Catcher::{Model, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "lifecycle/children.rs",
        "a parent registers as the waiter after it has released the lock under which it checked the count",
        "            return None;
        }
        state.waiting = Some(me);",
        "            return None;
        }
        drop(state);
        let mut state = self.state.lock();
        state.waiting = Some(me);",
        Model("scope::parent_leaves"),
    ),
    mutant(
        "lifecycle/new_goroutine.rs",
        "a child is counted after it can run",
        "    children.add(&pinned);
    initialize(machine, processor, me, goroutine);
    make_runnable(machine, processor, me, goroutine);",
        "    initialize(machine, processor, me, goroutine);
    make_runnable(machine, processor, me, goroutine);
    children.add(&pinned);",
        Model("scope::child_is_counted"),
    ),
    mutant(
        "lifecycle/new_goroutine.rs",
        "a child is counted before its spawn can panic",
        "    let (caller, goroutine) = free_slots::take_to_spawn::<Plat>(Plat::STACK_SIZE)?;
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    goroutine.set_name(None);
    closure::install::<Plat, N, F, T, _>(StackEnd::of(goroutine), body, children);
    children.add(&pinned);",
        "    children.add(&Pinned::of_scheduler());
    let (caller, goroutine) = free_slots::take_to_spawn::<Plat>(Plat::STACK_SIZE)?;
    let CurrentGoroutine { pinned: _pinned, machine, processor, me } = caller;
    goroutine.set_name(None);
    closure::install::<Plat, N, F, T, _>(StackEnd::of(goroutine), body, children);",
        Model("scope::spawn_that_panics"),
    ),
    mutant(
        "lifecycle/children.rs",
        "the panic of a child is recorded after the child has been removed",
        "        if has_panicked {
            self.panicked();
        }
        let parent = {
            let mut state = self.state.lock();
            state.alive -= 1;
            if state.alive == 0 { state.waiting.take() } else { None }
        };",
        "        let parent = {
            let mut state = self.state.lock();
            state.alive -= 1;
            if state.alive == 0 { state.waiting.take() } else { None }
        };
        if has_panicked {
            self.panicked();
        }",
        Model("scope::parent_that_leaves_knows_of_the_panic_of_a_child"),
    ),
    mutant(
        "lifecycle/children.rs",
        "a scope is opened by a G that cannot wait",
        "        let me = CurrentGoroutine::<Plat>::new().me;",
        "        let me = Pinned::<Plat>::of_scheduler().goroutine();",
        Test("threads/unwinding", "scope_in_a_system_call"),
    ),
    mutant(
        "lifecycle/children.rs",
        "a scope is left although its parent cannot wait for the children",
        "        Plat::fatal(self.0, format_args!(\"a G cannot wait for the children of its scope\"));",
        "        let _ = self.0;",
        Test("simulation/scope", "parent_that_cannot_wait"),
    ),
    mutant(
        "base/error.rs",
        "the drop of a panic's payload unwinds out of the error that contains it",
        "        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(second);
        }",
        "        drop(payload);",
        Test("threads/unwinding", "panic_payload"),
    ),
    mutant(
        "library/sync/wait_group.rs",
        "a group still counts a G whose spawn panics",
        "        let done = OnDrop(move || group.done());
        let spawned = try_go_for::<Plat, F, _, _>(move || {
            let (body, _done) = (body, done);",
        "        let spawned = try_go_for::<Plat, F, _, _>(move || {
            let _done = OnDrop(move || group.done());",
        Test("threads/unwinding", "group_whose_spawn"),
    ),
    mutant(
        "library/sync/error_group.rs",
        "a group keeps the permit of a G whose spawn panics",
        "        let end = End(Arc::clone(&self.shared));
        let spawned = try_go_for::<Plat, F, _, _>(move || {
            let (body, end) = (body, end);",
        "        let shared = Arc::clone(&self.shared);
        let spawned = try_go_for::<Plat, F, _, _>(move || {
            let end = End(shared);",
        Test("threads/unwinding", "error_group"),
    ),
];
