//! Watchdog duty, and epochs.

use super::Catcher::{Model, Nobody};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "kthread/watchdog.rs",
        "a CPU becomes busy without a fence",
        "        fence(Ordering::SeqCst);
        self.count.load",
        "        self.count.load",
        Model("watchdog::"),
    ),
    mutant(
        "kthread/watchdog.rs",
        "a CPU leaves duty without a fence",
        "        fence(Ordering::SeqCst);
        let stays",
        "        let stays",
        Model("watchdog::"),
    ),
    mutant(
        "kthread/watchdog.rs",
        "a CPU leaves duty without a second check",
        "        let stays = is_another_busy();",
        "        let stays = false;",
        Model("watchdog::cpu_becoming_busy_is_checked_while_two"),
    ),
    mutant(
        "kthread/watchdog.rs",
        "a CPU that becomes busy takes itself for another one on duty",
        "        self.count.load(Ordering::Relaxed) <= 1",
        "        self.count.load(Ordering::Relaxed) == 0",
        Model("watchdog::cpu_becoming_busy_is_checked_while_the_last"),
    ),
    mutant(
        "kthread/watchdog.rs",
        "a CPU that becomes busy is counted but not on duty",
        "        if !me.on_duty.swap(true, Ordering::Relaxed) {",
        "        if !me.on_duty.load(Ordering::Relaxed) {",
        Model("watchdog::two_cpus_becoming_busy"),
    ),
    mutant(
        "kthread/epoch.rs",
        "the loads of HALTS have no fence",
        "        fence(Ordering::SeqCst);
        cpus.map",
        "        cpus.map",
        Model("epoch::address_is_reused_while_a_cpu_wakes_by_interrupt"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that wakes has no fence",
        "        fence(Ordering::SeqCst);
        let epoch",
        "        let epoch",
        Model("epoch::address_is_reused_while_a_cpu_wakes_by_interrupt"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a change is not published with its epoch",
        "        self.0.fetch_add(1, Ordering::AcqRel) + 1",
        "        self.0.fetch_add(1, Ordering::Acquire) + 1",
        Model("epoch::"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU reports its flush before it flushes",
        "            forget();
            self.0.store(epoch, Ordering::Release);",
        "            self.0.store(epoch, Ordering::Release);
            forget();",
        Nobody(
            "the CPU is in an interrupt handler and accesses nothing between the two that it does not flush. The order \
             makes this argument unnecessary.",
        ),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that no interrupt woke does not pass",
        "        wait();
        self.pass(epochs, forget);",
        "        wait();
        let _ = (epochs, forget);",
        Model("epoch::address_is_reused_while_a_cpu_wakes_by_non_maskable_interrupt"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that runs is not waited for",
        "word & HALTS != 0 || word >= epoch",
        "word & HALTS != 0 || word + 1 >= epoch",
        Model("epoch::address_is_reused_after_a_running_cpu_has_flushed"),
    ),
];
