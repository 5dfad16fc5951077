//! Mutants of the shutdown of a scheduler.

use super::Catcher::Model;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "entities/scheduler.rs",
        "shutting down has no full fence between the flag and the walk through the Ms",
        "        crate::base::atomic::fence(Ordering::SeqCst);
        for machine in self.machines_ever() {",
        "        crate::base::atomic::fence(Ordering::AcqRel);
        for machine in self.machines_ever() {",
        Model("shut_down::m_that_is_made_during_shut_down_is_unparked"),
    ),
    mutant(
        "engine/machines.rs",
        "making an M has no full fence between adding it to the list and loading the flag",
        "        fence(Ordering::SeqCst);
        if self.is_shut_down() {",
        "        fence(Ordering::AcqRel);
        if self.is_shut_down() {",
        Model("shut_down::m_that_is_made_during_shut_down_is_unparked"),
    ),
    mutant(
        "engine/machines.rs",
        "an M made during the shut-down is not unparked",
        "        if self.is_shut_down() {
            Plat::unpark_thread(machine);
        }",
        "",
        Model("shut_down::m_that_is_made_during_shut_down_is_unparked"),
    ),
    mutant(
        "engine/machines.rs",
        "an M that is used again during the shut-down is not unparked",
        "        if self.is_shut_down() {
            Plat::unpark_thread(machine);",
        "        if is_new && self.is_shut_down() {
            Plat::unpark_thread(machine);",
        Model("shut_down::m_that_is_reused_during_shut_down_is_unparked"),
    ),
    mutant(
        "engine/machines.rs",
        "using an M again has no full fence between marking it as in use and loading the flag",
        "        fence(Ordering::SeqCst);
        if self.is_shut_down() {",
        "        if is_new {
            fence(Ordering::SeqCst);
        }
        if self.is_shut_down() {",
        Model("shut_down::m_that_is_reused_during_shut_down_is_unparked"),
    ),
];
