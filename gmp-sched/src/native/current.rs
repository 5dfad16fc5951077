//! The M of the calling thread.
//!
//! After a switch, a G may be on another thread. So the scheduler must read the M of its thread again after each
//! switch. It must not even keep the *address* of a thread-local variable across a switch. But the compiler keeps such
//! addresses, because it does not know that a switch may change the thread. A variable of `std::thread_local!` is
//! therefore safe only in a function that is not inlined, and each operation of the scheduler would have to call that
//! function.
//!
//! The variable of this module is read by assembly that computes the address itself. The compiler keeps the order of
//! this assembly and of the assembly of a switch, and does not merge two reads.

use core::arch::{asm, global_asm};

use super::Native;
use crate::entities::machine::Machine;

/// The symbol of the variable. Each version of this crate in a program has a variable of its own. So has the copy of
/// the crate that is compiled for unit tests, because a test program may contain both this copy and the ordinary one.
macro_rules! symbol {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "gmp_sched_current_machine_",
            copy!(),
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH"),
            $after
        )
    };
}

#[cfg(not(test))]
macro_rules! copy {
    () => {
        ""
    };
}
#[cfg(test)]
macro_rules! copy {
    () => {
        "of_tests_"
    };
}

// A thread-local variable of 8 bytes. It is zero when a thread begins.
global_asm!(
    ".pushsection .tbss.gmp_sched, \"awT\", @nobits",
    symbol!(".globl ", ""),
    symbol!(".type ", ", @object"),
    symbol!(".size ", ", 8"),
    ".p2align 3",
    symbol!("", ":"),
    ".zero 8",
    ".popsection",
);

/// Returns the M of the calling thread, if the thread belongs to an M.
#[inline(always)]
pub(super) fn get() -> Option<&'static Machine<Native>> {
    let machine: *const Machine<Native>;
    // SAFETY: the assembly loads the offset of the variable from the thread pointer, and then the variable. It changes
    // nothing else.
    unsafe {
        asm!(
            symbol!("mov {machine}, qword ptr [rip + ", "@GOTTPOFF]"),
            "mov {machine}, qword ptr fs:[{machine}]",
            machine = out(reg) machine,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: the variable is zero or was set by `set`, and an M is never freed.
    unsafe { machine.as_ref() }
}

/// Makes `machine` the M of the calling thread.
pub(super) fn set(machine: Option<&'static Machine<Native>>) {
    let machine = machine.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the assembly stores a word in the variable of the calling thread, which only `get` reads.
    unsafe {
        asm!(
            symbol!("mov {offset}, qword ptr [rip + ", "@GOTTPOFF]"),
            "mov qword ptr fs:[{offset}], {machine}",
            offset = out(reg) _,
            machine = in(reg) machine,
            options(nostack, preserves_flags),
        );
    }
}
