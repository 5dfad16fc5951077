//! The M of the calling thread, and the number of its pins.
//!
//! After a switch, a G may be on another thread. So the scheduler must read the M of its thread again after each
//! switch. It must not even keep the *address* of a thread-local variable across a switch. But the compiler keeps such
//! addresses, because it does not know that a switch may change the thread. A variable of `std::thread_local!` is
//! therefore safe only in a function that is not inlined, and each operation of the scheduler would have to call that
//! function.
//!
//! The variables of this module are accessed by assembly that computes the address itself. The compiler keeps the order
//! of this assembly and of the assembly of a switch, and does not merge two reads. Only the distance of a variable from
//! the thread pointer may be kept, because it is the same on all threads.

use core::arch::{asm, global_asm};
use core::ptr;

use super::{Native, preempt};
use crate::entities::machine::Machine;

/// The symbol of the variables. Each version of this crate in a program has variables of its own. So has the copy of the
/// crate that is compiled for unit tests, because a test program may contain both this copy and the ordinary one.
macro_rules! symbol {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "gmp_sched_thread_",
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

// Two thread-local variables: the M, which is 0 when a thread begins, and the pin word.
global_asm!(
    ".pushsection .tdata.gmp_sched, \"awT\", @progbits",
    symbol!(".globl ", ""),
    symbol!(".type ", ", @object"),
    symbol!(".size ", ", 16"),
    ".p2align 4",
    symbol!("", ":"),
    ".quad 0",
    ".quad {NOTHING_PENDING}",
    ".popsection",
    NOTHING_PENDING = const NOTHING_PENDING,
);

/// The bit of the pin word that is set while no request to give way is pending. The other bits are the number of pins.
/// So the word is zero exactly if a request is pending and may be honoured now: lowering a pin takes a decrement, and a
/// jump if the result is zero. (Only the thread itself and its signal handlers access the word.)
const NOTHING_PENDING: u32 = 1 << 31;

/// The distance of the pin word from the M in memory.
const PINS: usize = 8;

/// Returns the distance of the variables from the thread pointer.
#[inline(always)]
fn offset() -> usize {
    let offset;
    // SAFETY: the assembly loads a word that never changes.
    unsafe {
        asm!(
            symbol!("mov {offset}, qword ptr [rip + ", "@GOTTPOFF]"),
            offset = out(reg) offset,
            options(nostack, preserves_flags, nomem, pure),
        );
    }
    offset
}

/// Returns the M of the calling thread, if the thread belongs to an M.
#[inline(always)]
pub(super) fn get() -> Option<&'static Machine<Native>> {
    let machine: *const Machine<Native>;
    // SAFETY: the assembly loads a variable of the calling thread.
    unsafe {
        asm!(
            "mov {machine}, qword ptr fs:[{offset}]",
            machine = lateout(reg) machine,
            offset = in(reg) offset(),
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: the variable is zero or was set by `set`, and an M is never freed.
    unsafe { machine.as_ref() }
}

/// Makes `machine` the M of the calling thread.
pub(super) fn set(machine: Option<&'static Machine<Native>>) {
    let machine = machine.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the assembly stores a word in the variable of the calling thread, which only `get` reads.
    unsafe {
        asm!(
            "mov qword ptr fs:[{offset}], {machine}",
            offset = in(reg) offset(),
            machine = in(reg) machine,
            options(nostack, preserves_flags),
        );
    }
}

/// Raises a pin of the calling thread.
#[inline(always)]
pub(super) fn raise_pin() {
    // SAFETY: the assembly changes the pin word of the calling thread. The option `nomem` is not set, so the compiler
    // moves no access to memory out of the pinned section.
    unsafe {
        asm!("inc dword ptr fs:[{offset} + {PINS}]", offset = in(reg) offset(), PINS = const PINS, options(nostack));
    }
}

/// Lowers a pin of the calling thread. If this is the last pin and a request to give way is pending, honours it.
#[inline(always)]
pub(super) fn lower_pin() {
    // SAFETY: as in `raise_pin`. The label calls a safe function.
    unsafe {
        asm!(
            "dec dword ptr fs:[{offset} + {PINS}]",
            "jz {honour}",
            offset = in(reg) offset(),
            PINS = const PINS,
            honour = label { preempt::unpinned() },
        );
    }
}

/// Lowers a pin of the calling thread. Does not honour a pending request.
pub(super) fn lower_pin_quietly() {
    add_pins(-1);
}

/// Adds `pins` to the number of pins of the calling thread.
fn add_pins(pins: i32) {
    // SAFETY: as in `raise_pin`.
    unsafe {
        asm!(
            "add dword ptr fs:[{offset} + {PINS}], {pins:e}",
            offset = in(reg) offset(),
            PINS = const PINS,
            pins = in(reg) pins,
            options(nostack),
        );
    }
}

/// Calls `body` while the calling thread is not pinned, and raises its pins again. The caller must not rely on the P of
/// its M afterwards: the G may have been preempted in place.
pub(super) fn unpinned<T>(body: impl FnOnce() -> T) -> T {
    let pins = pins().cast_signed();
    add_pins(-pins);
    let result = body();
    add_pins(pins);
    result
}

/// Marks a request to give way as pending. Called by a signal handler.
pub(super) fn set_pending() {
    // SAFETY: as in `raise_pin`.
    unsafe {
        asm!(
            "and dword ptr fs:[{offset} + {PINS}], {mask}",
            offset = in(reg) offset(),
            PINS = const PINS,
            mask = const !NOTHING_PENDING,
            options(nostack),
        );
    }
}

/// Marks that no request to give way is pending.
pub(super) fn clear_pending() {
    // SAFETY: as in `raise_pin`.
    unsafe {
        asm!(
            "or dword ptr fs:[{offset} + {PINS}], {bit:e}",
            offset = in(reg) offset(),
            PINS = const PINS,
            bit = in(reg) NOTHING_PENDING,
            options(nostack),
        );
    }
}

/// Returns the number of pins of the calling thread.
#[inline(always)]
pub(super) fn pins() -> u32 {
    let pins: u32;
    // SAFETY: the assembly loads a variable of the calling thread.
    unsafe {
        asm!(
            "mov {pins:e}, dword ptr fs:[{offset} + {PINS}]",
            pins = lateout(reg) pins,
            offset = in(reg) offset(),
            PINS = const PINS,
            options(nostack, preserves_flags, readonly),
        );
    }
    pins & !NOTHING_PENDING
}
