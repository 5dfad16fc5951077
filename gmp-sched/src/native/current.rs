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
    ".quad {UNPINNED}",
    ".popsection",
    UNPINNED = const UNPINNED,
);

/// The pin word of a thread without pins. The word is the number of pins minus one. While a request to give way is
/// pending, its sign is the opposite one. So the flags of the processor answer both questions, and nothing has to be
/// loaded or compared: raising a pin results in zero exactly if it is the only pin and nothing is pending, and lowering a
/// pin overflows exactly if it was the only pin and a request is pending. (Only the thread itself and its signal handlers
/// access the word.)
const UNPINNED: u32 = u32::MAX;

/// The sign of the pin word.
const SIGN: u32 = 1 << 31;

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

/// Raises a pin of the calling thread. Returns whether the thread has no other pin.
#[inline(always)]
pub(super) fn raise_pin_and_check() -> bool {
    // SAFETY: as in `raise_pin`. The label calls a safe function.
    unsafe {
        asm!(
            "inc dword ptr fs:[{offset} + {PINS}]",
            "jnz {unusual}",
            offset = in(reg) offset(),
            PINS = const PINS,
            unusual = label { return pins() == 1 },
            options(nostack),
        );
    }
    true
}

/// Lowers a pin of the calling thread. If this is the last pin and a request to give way is pending, honours it.
#[inline(always)]
pub(super) fn lower_pin() {
    // SAFETY: as in `raise_pin`. The label calls a safe function.
    unsafe {
        asm!(
            "dec dword ptr fs:[{offset} + {PINS}]",
            "jo {honour}",
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

/// Sets whether a request to give way is pending. If another signal handler interrupts this function, it lowers all pins
/// that it raises, so the number of pins is still the one that was read.
pub(super) fn set_pending(is_pending: bool) {
    let usual = pins().wrapping_sub(1);
    let word = if is_pending { usual ^ SIGN } else { usual };
    // SAFETY: as in `raise_pin`.
    unsafe {
        asm!(
            "mov dword ptr fs:[{offset} + {PINS}], {word:e}",
            offset = in(reg) offset(),
            PINS = const PINS,
            word = in(reg) word,
            options(nostack, preserves_flags),
        );
    }
}

/// Returns the number of pins of the calling thread.
#[inline(always)]
pub(super) fn pins() -> u32 {
    word().wrapping_add(1) & !SIGN
}

/// Returns the pin word of the calling thread.
#[inline(always)]
fn word() -> u32 {
    let word: u32;
    // SAFETY: the assembly loads a variable of the calling thread.
    unsafe {
        asm!(
            "mov {word:e}, dword ptr fs:[{offset} + {PINS}]",
            word = lateout(reg) word,
            offset = in(reg) offset(),
            PINS = const PINS,
            options(nostack, preserves_flags, readonly),
        );
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread of a test belongs to no M. So honouring a request only makes it no longer pending.
    #[test]
    fn pending_request_is_honoured_when_the_last_pin_is_lowered() {
        for is_pinned_first in [true, false] {
            let mut pinned_once = false;
            if is_pinned_first {
                pinned_once = raise_pin_and_check();
            }
            set_pending(true);
            assert_eq!(pins(), u32::from(is_pinned_first));
            if !is_pinned_first {
                pinned_once = raise_pin_and_check();
            }
            assert!(pinned_once, "a pending request is no pin");
            assert!(!raise_pin_and_check());
            assert_eq!(pins(), 2);
            assert_eq!(unpinned(pins), 0);
            lower_pin();
            assert_eq!((pins(), word() == 0), (1, false), "the request is still pending");
            lower_pin();
            assert_eq!((pins(), word()), (0, UNPINNED));
        }
    }
}
