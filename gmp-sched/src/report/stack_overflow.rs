//! The report of a stack overflow. It names the G and the size of its stack, whether a single huge frame is the cause,
//! and what to do about it.
//!
//! Below each stack is a guard page. A function whose frame is larger than a page could access the memory below the
//! guard page without touching the guard page itself. So the compiler begins such a function with a *stack probe*: code
//! that lowers the stack pointer page by page, and writes to each page. If the stack is too small, one of these writes
//! touches the guard page. [`probed_frame`] then finds the size of the whole frame in the instructions around that
//! write.
//!
//! ```
//! use gmp_sched::goroutine::Goroutine;
//! use gmp_sched::native::Native;
//! use gmp_sched::stack_overflow::{StackOverflow, probed_frame};
//!
//! fn report(goroutine: &Goroutine<Native>, code_before: &[u8], code_at: &[u8]) -> String {
//!     let frame_bytes = probed_frame(code_before, code_at);
//!     StackOverflow { goroutine, frame_bytes, for_main: "an option of this kernel" }.to_string()
//! }
//! ```

use core::fmt;

use super::goroutine_list::Thousands;
use crate::entities::goroutine::{Goroutine, GoroutineId};
use crate::platform::Platform;

/// A stack overflow. `Display` describes it in two lines. `Display` takes no lock and does not allocate, so it may be
/// used in a handler of a signal or an exception.
pub struct StackOverflow<'a, Plat: Platform> {
    /// The G that has overflowed its stack.
    pub goroutine: &'a Goroutine<Plat>,
    /// The size in bytes of the frame whose [stack probe](self) has touched the guard page. `None` if the instruction
    /// that touched it belongs to no stack probe.
    pub frame_bytes: Option<usize>,
    /// How a program chooses the stack size of the main G on this platform. (For other Gs it uses
    /// [`Builder::stack_size`](crate::spawn::Builder::stack_size).)
    pub for_main: &'a str,
}

impl<Plat: Platform> fmt::Debug for StackOverflow<'_, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackOverflow").field("goroutine", &self.goroutine.id()).finish_non_exhaustive()
    }
}

impl<Plat: Platform> fmt::Display for StackOverflow<'_, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (goroutine, stack) = (self.goroutine, self.goroutine.stack());
        write!(f, "goroutine {}", goroutine.id())?;
        if let Some(name) = goroutine.name() {
            write!(f, " ({name})")?;
        }
        write!(f, " exceeds its {} KiB stack {:#x}..{:#x}", stack.len() / 1024, stack.start, stack.end)?;
        let huge = self.frame_bytes.filter(|&frame| frame > stack.len() / 2);
        if let Some(frame) = huge {
            write!(f, " by one huge frame: a function has {} KiB of local variables", Thousands(frame / 1024))?;
        }
        let chosen_by = if goroutine.id() == GoroutineId::MAIN { self.for_main } else { "`Builder::stack_size`" };
        write!(f, "\n({chosen_by} chooses a larger stack")?;
        f.write_str(if huge.is_some() { "; a `Box` or a `Vec` keeps its content on the heap)" } else { ")" })
    }
}

/// `mov qword ptr [rsp], 0`: touches a page.
const TOUCH: &[u8] = &[0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0];
/// `sub rsp, 4096`
const NEXT_PAGE: &[u8] = &[0x48, 0x81, 0xec, 0x00, 0x10, 0, 0];
/// `cmp rsp, r11`, and the first byte of `jne`: the end of the loop of a long probe.
const LOOP_END: &[u8] = &[0x4c, 0x39, 0xdc, 0x75];
/// `sub r11, N` with a constant of four bytes. It is before the loop, and sets `r11` to the address at which the loop
/// ends.
const SET_LOOP_END: &[u8] = &[0x49, 0x81, 0xeb];
/// `sub rsp, N` with a constant of one byte.
const SUBTRACT_SHORT: &[u8] = &[0x48, 0x83, 0xec];
/// `sub rsp, N` with a constant of four bytes.
const SUBTRACT: &[u8] = &[0x48, 0x81, 0xec];
const PAGE: usize = 4096;

/// The maximum number of bytes of code that [`probed_frame`] needs before the start of an instruction, and also from
/// this start on. A stack probe without a loop is not longer, because it touches at most eight pages.
pub const PROBE_BYTES: usize = 8 * (TOUCH.len() + NEXT_PAGE.len()) + SUBTRACT.len() + 4;

/// Returns the size in bytes of the frame for which a stack probe makes room, without the registers that the function
/// saves. `at` is the code that begins with the instruction of the probe that has touched a page, and `before` is the
/// code before that instruction. Returns `None` if the instruction belongs to no stack probe, or to a stack probe in a
/// form that this function does not recognise. Callable from anywhere.
pub fn probed_frame(before: &[u8], at: &[u8]) -> Option<usize> {
    Probe::decode(before, at).map(|probe| probe.frame_bytes)
}

/// A stack probe at the moment when one of its instructions touches a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// The size of the whole frame.
    pub(crate) frame_bytes: usize,
    /// The number of bytes of code from the touching instruction to the end of the function's prologue. These are the
    /// rest of the probe and the instructions after it that move arguments to other registers or to the frame. The
    /// compiler assigns no line of the program to them.
    pub(crate) code_bytes: usize,
    /// How far the rest of the probe lowers the stack pointer.
    pub(crate) rest: Rest,
}

/// How far the rest of a stack probe lowers the stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// It subtracts this number of bytes from the stack pointer.
    Below(usize),
    /// It sets the stack pointer to the address in the register R11, at which the loop of the probe ends, minus this
    /// number of bytes.
    BelowLoopEnd(usize),
}

impl Probe {
    /// Decodes the instructions of a stack probe. See [`probed_frame`] for the arguments, and for when the result is
    /// `None`.
    pub(crate) fn decode(before: &[u8], at: &[u8]) -> Option<Self> {
        let mut rest = at.strip_prefix(TOUCH)?;
        let mut before = before.strip_suffix(NEXT_PAGE)?;
        // `touched`: the bytes of the frame in the pages touched so far, including the page that the first instruction
        // of `at` touches. `later`: the bytes of the frame below them.
        let (mut touched, mut later) = (PAGE, 0);
        let has_loop = if let Some([_distance, after_loop @ ..]) = rest.strip_prefix(LOOP_END) {
            let (set, bytes) = before.split_last_chunk::<4>()?;
            set.strip_suffix(SET_LOOP_END)?;
            touched = constant(*bytes);
            rest = after_loop;
            true
        } else {
            while let Some(earlier) = before.strip_suffix(TOUCH).and_then(|code| code.strip_suffix(NEXT_PAGE)) {
                (before, touched) = (earlier, touched + PAGE);
            }
            while let Some(next) = rest.strip_prefix(NEXT_PAGE).and_then(|code| code.strip_prefix(TOUCH)) {
                (rest, later) = (next, later + PAGE);
            }
            false
        };
        // After the pages that it touches, the probe allocates the rest of the frame, which is smaller than a page.
        if let Some([bytes, after @ ..]) = rest.strip_prefix(SUBTRACT_SHORT) {
            (rest, later) = (after, later + usize::from(*bytes));
        } else if let Some((bytes, after)) = rest.strip_prefix(SUBTRACT).and_then(<[u8]>::split_first_chunk::<4>) {
            (rest, later) = (after, later + constant(*bytes));
        }
        while let Some(next) = after_move(rest) {
            rest = next;
        }
        Some(Self {
            frame_bytes: touched + later,
            code_bytes: at.len() - rest.len(),
            rest: if has_loop { Rest::BelowLoopEnd(later) } else { Rest::Below(later) },
        })
    }
}

/// If `code` begins with `mov REGISTER, REGISTER` or `mov [rsp + N], REGISTER`, returns the code after this
/// instruction.
fn after_move(code: &[u8]) -> Option<&[u8]> {
    const RSP: u8 = 0x24;
    let code = match code {
        // The REX prefix, which widens a register or selects one of R8 to R15.
        [0x40..=0x4f, code @ ..] => code,
        code => code,
    };
    let [0x88 | 0x89, operands, code @ ..] = code else { return None };
    match (operands & 0b11_000_111, code) {
        (0b11_000_000.., code) | (0b01_000_100, [RSP, _, code @ ..]) | (0b10_000_100, [RSP, _, _, _, _, code @ ..]) => {
            Some(code)
        }
        _ => None,
    }
}

fn constant(bytes: [u8; 4]) -> usize {
    u32::from_le_bytes(bytes) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `push rbp; mov rbp, rsp; push rbx`
    const ENTRY: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x53];
    /// `lea rdi, [rsp + 7]`
    const BODY: &[u8] = &[0x48, 0x8d, 0x7c, 0x24, 7];

    #[test]
    fn probe_with_a_loop_is_decoded() {
        // `mov r11, rsp`, `sub r11, 0x100000`
        let set = [&[0x49, 0x89, 0xe3][..], SET_LOOP_END, &[0x00, 0x00, 0x10, 0x00]].concat();
        let before = [ENTRY, &set, NEXT_PAGE].concat();
        let at = [TOUCH, LOOP_END, &[0xec], SUBTRACT_SHORT, &[8], BODY].concat();
        let code_bytes = at.len() - BODY.len();
        let probe = Probe { frame_bytes: 0x10_0008, code_bytes, rest: Rest::BelowLoopEnd(8) };
        assert_eq!(Probe::decode(&before, &at), Some(probe));
        assert_eq!(probed_frame(&before, &at), Some(0x10_0008));
    }

    #[test]
    fn unrolled_probe_is_decoded_at_each_of_its_pages() {
        let page = [NEXT_PAGE, TOUCH].concat();
        let tail = [SUBTRACT, &[0x40, 0x05, 0, 0], BODY].concat();
        for pages in 1..=7 {
            for touched in 0..pages {
                let before = [ENTRY, &page.repeat(touched), NEXT_PAGE].concat();
                let left = pages - touched - 1;
                let at = [TOUCH, &page.repeat(left), &tail].concat();
                let (frame_bytes, code_bytes) = (pages * PAGE + 0x540, at.len() - BODY.len());
                let probe = Probe { frame_bytes, code_bytes, rest: Rest::Below(left * PAGE + 0x540) };
                assert_eq!(Probe::decode(&before, &at), Some(probe), "{touched} of {pages}");
            }
        }
    }

    #[test]
    fn arguments_moved_after_the_probe_are_skipped() {
        // `mov al, dil`, `mov [rsp + 0xd8], rdi`, `mov [rsp + 0x800368], r8`, `mov [rsp + 8], sil`,
        // `mov [rsp + 16], edx`
        let moves: [&[u8]; 5] = [
            &[0x40, 0x88, 0xf8],
            &[0x48, 0x89, 0xbc, 0x24, 0xd8, 0, 0, 0],
            &[0x4c, 0x89, 0x84, 0x24, 0x68, 0x03, 0x80, 0],
            &[0x40, 0x88, 0x74, 0x24, 8],
            &[0x89, 0x54, 0x24, 16],
        ];
        let prologue = [TOUCH, SUBTRACT_SHORT, &[8], &moves.concat()].concat();
        let at = [&prologue[..], BODY].concat();
        let probe = Probe::decode(NEXT_PAGE, &at).expect("a probe");
        assert_eq!((probe.code_bytes, probe.frame_bytes), (prologue.len(), PAGE + 8));
        // `mov [rbp + 8], rdi` and code that ends within an instruction
        for other in [&[0x48, 0x89, 0x7d, 8][..], &moves[0][..2], &moves[1][..6], &moves[4][..3], &[]] {
            assert_eq!(after_move(other), None, "{other:x?}");
        }
    }

    #[test]
    fn other_code_is_no_probe() {
        let before = [ENTRY, NEXT_PAGE].concat();
        for (before, at) in [
            (&before[..], BODY),
            (&before, &TOUCH[..7]),
            (ENTRY, TOUCH),
            (&[], TOUCH),
            // This code has the end of a loop, but not its beginning.
            (&before, &[TOUCH, LOOP_END, &[0xec]].concat()),
            (&[], &[]),
        ] {
            assert_eq!(probed_frame(before, at), None, "{before:x?} {at:x?}");
        }
    }
}
