//! The kernel must offer functions and types of the same names to programs on the machine and on the host. The program
//! of `boot/tests/command/new_program.rs` runs on both, and so tests that these functions and types can be used in the
//! same way on both. A *half* of the kernel crate is its source as compiled for the machine or as compiled for the
//! host.

use std::collections::BTreeSet;

use crate::source::{Crate, Visibility};
use crate::{HOST, KERNEL};

/// The modules and types that only the machine has, each with the reason.
const ONLY_MACHINE: &[(&str, &str)] = &[
    ("program::internals", "for the tests inside the machine"),
    ("Slot", "exported by `internals`"),
    ("Stack", "exported by `internals`"),
    ("Stalled", "exported by `internals`"),
    ("Storm", "exported by `internals`"),
    ("Vector", "exported by `internals`"),
    ("NoVectorLeft", "exported by `internals`"),
    ("KernelCpu", "programs have no path to it"),
    ("Kernel", "the host's platform is a type of `gmp_sched::native`"),
];

/// The types and functions that only the host has, each with the reason.
const ONLY_HOST: &[(&str, &str)] = &[
    ("host::program::run", "called by macros"),
    ("Listener", "the machine's is of the crate `kernel-net`"),
    ("Stream", "the machine's is of the crate `kernel-net`"),
    ("Datagrams", "the machine's is of the crate `kernel-net`"),
];

/// Returns the names of the public functions and types of the kernel crate as compiled for the machine or for the host,
/// except those in `left_out`.
fn public(half: &Crate, left_out: &[(&str, &str)]) -> BTreeSet<String> {
    let is_left_out = |name: &str| left_out.iter().any(|(other, _)| *other == name);
    let functions = half.functions.iter().filter(|function| function.visibility == Visibility::Public);
    let functions = functions.filter(|function| !is_left_out(&function.module.join("::"))).filter_map(|function| {
        let owner = function.owner.as_deref().unwrap_or_default();
        let is_hidden = is_left_out(owner) || half.types.get(owner) == Some(&false);
        (!is_hidden).then(|| format!("{owner}::{}()", function.name))
    });
    let types = half.types.iter().filter(|(name, is_public)| **is_public && !is_left_out(name));
    functions.chain(types.map(|(name, _)| name.clone())).collect()
}

#[test]
fn both_halves_have_the_same_for_programs() {
    let (machine, host) = (public(&KERNEL, ONLY_MACHINE), public(&HOST, ONLY_HOST));
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    let (missing, surplus) = (only(&machine, &host), only(&host, &machine));
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "only on the machine: {missing:#?}\nonly on the host: {surplus:#?}\nA program must compile for both. Add what is \
         missing. If the host cannot do something, it says so at the first use (`kernel/src/host/note.rs`)."
    );
    assert!(machine.contains("::stdin()") && machine.contains("Disk::read_at()") && machine.contains("DiskError"));
}
