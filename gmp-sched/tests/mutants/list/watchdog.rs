//! Mutants of watchdog duty, and of epochs.

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
        "a CPU leaves duty without checking a second time whether another is busy",
        "        let stays = is_another_busy();",
        "        let stays = false;",
        Model("watchdog::cpu_becoming_busy_is_checked_while_two"),
    ),
    mutant(
        "kthread/watchdog.rs",
        "a CPU that becomes busy takes itself for another CPU on duty",
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
        "an epoch begins without releasing the change before it",
        "        self.0.fetch_add(1, Ordering::Release) + 1",
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
            "the CPU is in an interrupt handler and uses none of the addresses that are being flushed. The original \
             order makes this argument unnecessary.",
        ),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that was not woken by an interrupt does not flush",
        "        wait();
        self.pass(epochs, forget);",
        "        wait();
        let _ = (epochs, forget);",
        Model("epoch::address_is_reused_while_a_cpu_wakes_by_non_maskable_interrupt"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a grace period does not wait for CPUs that run",
        "word & HALTS != 0 || word >= epoch",
        "word & HALTS != 0 || word + 1 >= epoch",
        Model("epoch::address_is_reused_after_a_running_cpu_has_flushed"),
    ),
];
