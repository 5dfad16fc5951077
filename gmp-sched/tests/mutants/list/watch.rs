//! Who looks at busy CPUs, and epochs.

use super::Catcher::{Model, Nobody};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "kthread/watch.rs",
        "a CPU that begins has no fence",
        "        fence(Ordering::SeqCst);
        self.looking.load",
        "        self.looking.load",
        Model("watch::"),
    ),
    mutant(
        "kthread/watch.rs",
        "a CPU that stops to look has no fence",
        "        fence(Ordering::SeqCst);
        let stays",
        "        let stays",
        Model("watch::"),
    ),
    mutant(
        "kthread/watch.rs",
        "a CPU that stops to look does not look once more",
        "        let stays = is_another_busy();",
        "        let stays = false;",
        Model("watch::one_begins_while_two"),
    ),
    mutant(
        "kthread/watch.rs",
        "a CPU that begins counts itself as one that looks at it",
        "        self.looking.load(Ordering::Relaxed) <= 1",
        "        self.looking.load(Ordering::Relaxed) == 0",
        Model("watch::one_begins_while_the_last"),
    ),
    mutant(
        "kthread/watch.rs",
        "a CPU that begins is counted and does not look",
        "        if !me.looks.swap(true, Ordering::Relaxed) {",
        "        if !me.looks.load(Ordering::Relaxed) {",
        Model("watch::two_begin"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a look at who halts has no fence",
        "        fence(Ordering::SeqCst);
        cpus.map",
        "        cpus.map",
        Model("epoch::an_address_waits_for_a_cpu_that_wakes"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that wakes has no fence",
        "        fence(Ordering::SeqCst);
        let epoch",
        "        let epoch",
        Model("epoch::an_address_waits_for_a_cpu_that_wakes"),
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
        "a CPU says that it has forgotten before it has",
        "            forget();
            self.0.store(epoch, Ordering::Release);",
        "            self.0.store(epoch, Ordering::Release);
            forget();",
        Nobody(
            "the CPU is in an interrupt handler and looks at nothing between the two, or forgets it. The order spares \
             everyone this argument.",
        ),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that no interrupt woke does not pass",
        "        wait();
        self.pass(epochs, forget);",
        "        wait();
        let _ = (epochs, forget);",
        Model("epoch::an_address_waits_for_a_cpu_that_a_non_maskable_interrupt_wakes"),
    ),
    mutant(
        "kthread/epoch.rs",
        "a CPU that runs is not waited for",
        "word & HALTS != 0 || word >= epoch",
        "word & HALTS != 0 || word + 1 >= epoch",
        Model("epoch::an_address_waits_for_a_cpu_that_runs"),
    ),
];
