//! Mutants that no model catches, but a run in the simulator or a property test does.

use super::Catcher::{Properties, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "refinements/exchange_stacks.rs",
        "a G that ends keeps the stack that the next G takes over",
        "    dead.set_stack_top(unused);
",
        "",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 300),
    ),
    mutant(
        "refinements/exchange_stacks.rs",
        "a G that has begun is given another stack",
        "context::is_fresh(&goroutine.context, goroutine.stack_top()) && ",
        "",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 300),
    ),
    mutant(
        "engine/steal.rs",
        "a thief does not wait before it steals from a short ring",
        "victim.queue.steal_into(&processor.queue, share_of_long, None)",
        "victim.queue.steal_into(&processor.queue, share, None)",
        Simulation("simulation/stealing", "senders_are_not_stolen", 1),
    ),
    mutant(
        "engine/steal.rs",
        "a thief steals from runnext without waiting",
        "Plat::linger(GRACE);",
        "",
        Simulation("simulation/stealing", "gs_that_exchange_messages", 1),
    ),
    mutant(
        "entities/global_queue.rs",
        "the Gs of the global queue are lost when its array grows",
        "            array.append(&mut self.goroutines);",
        "            self.goroutines.clear();",
        Properties("queue_grows"),
    ),
    mutant(
        "entities/global_queue.rs",
        "Gs that are put before all others come in another order",
        "self.goroutines.rotate_left(before);",
        "self.goroutines.rotate_right(before);",
        Properties("order_is_kept"),
    ),
    mutant(
        "lifecycle/free_slots.rs",
        "a new G has no room in the global queue",
        "    scheduler.reserve_global()?;",
        "",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 300),
    ),
    mutant(
        "engine/park.rs",
        "a G whose commit refuses to park is not readied",
        "        if !commit(pinned, me) {
            ready_again(pinned, me);
        }",
        "        commit(pinned, me);",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 300),
    ),
    mutant(
        "engine/pick.rs",
        "a P takes Gs from its ring as if there were no other P",
        "self.queue.pop(!self.is_alone())",
        "self.queue.pop(false)",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 300),
    ),
    mutant(
        "engine/yield_now.rs",
        "a G that yields alone on its P never steals",
        "!hooks::steal_for_lone_yield(&pinned, processor)",
        "true",
        Simulation("simulation/scheduling", "g_that_yields_alone_steals_from_a_p", 1),
    ),
    mutant(
        "base/run_queue.rs",
        "an owner without thieves takes an element twice",
        "        self.head.store(next, Ordering::Release);",
        "",
        Properties("behaves_like"),
    ),
    mutant(
        "engine/take_global.rs",
        "a batch from the global queue loses Gs",
        "remove_front(taken as usize);",
        "remove_front(taken as usize + usize::from(taken != 0));",
        Simulation("simulation/preemption", "hogs", 300),
    ),
    mutant(
        "engine/syscall_return.rs",
        "a timer interrupt that came during a system call is not armed again after the call",
        "    if Plat::TIMER_INTERRUPTS && earliest != Instant::NEVER {
        Plat::arm_timer(pinned, processor, earliest);
    }
    Some(processor)",
        "    let _ = earliest;
    Some(processor)",
        Simulation("simulation/preemption", "timers_fire_in_time_during_a_system_call", 300),
    ),
    mutant(
        "kthread/sleepers.rs",
        "a woken thread stays on the list of sleepers, so its next sleep may end too early",
        "                sleepers.remove(thread);",
        "                let _ = &mut sleepers;",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 300),
    ),
    mutant(
        "engine/take_global.rs",
        "a P takes less than its share from the global queue",
        "(rest + 1) / scheduler.procs()",
        "rest / scheduler.procs()",
        Properties("a_batch_of_the_global"),
    ),
    mutant(
        "entities/free_list.rs",
        "a P that has too many dead Gs keeps them",
        "        self.count.load(Ordering::Relaxed) == BATCH",
        "        self.count.load(Ordering::Relaxed) > BATCH",
        Properties("slots_are_spilled"),
    ),
    mutant(
        "base/list.rs",
        "a list whose last element is taken keeps that element as its tail",
        "        if self.head.is_none() {
            self.tail = None;
        }
        self.length -= 1;",
        "        self.length -= 1;",
        Properties("behaves_like_a_deque"),
    ),
];
