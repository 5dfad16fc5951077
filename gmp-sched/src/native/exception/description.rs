//! The description of an exception: the G, the cause, and the address of an invalid access.

use core::fmt;

use crate::entities::goroutine::Goroutine;
use crate::native::Native;
use crate::native::panic_hook::Named;

/// An exception that a G has raised.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    pub(super) goroutine: &'static Goroutine<Native>,
    pub(super) vector: u64,
    /// The error code that the processor has reported.
    pub(super) error: u64,
    /// The address of the access, if the exception is a page fault. Otherwise unspecified.
    pub(super) address: u64,
    /// The address of the instruction that raised the exception.
    pub(super) instruction: u64,
}

/// The bits of the error code of a page fault.
const PROTECTION: u64 = 1;
const WRITE: u64 = 1 << 1;
const FETCH: u64 = 1 << 4;

const PAGE_FAULT: u64 = 14;

impl Exception {
    /// The G that has raised the exception.
    #[must_use]
    pub fn goroutine(&self) -> &'static Goroutine<Native> {
        self.goroutine
    }

    /// Whether the instruction itself could not be fetched.
    pub(super) fn is_fetch(&self) -> bool {
        self.vector == PAGE_FAULT && self.error & FETCH != 0
    }

    /// The name and the abbreviation of the exception.
    fn name(&self) -> (&'static str, &'static str) {
        match self.vector {
            0 => ("divide error", "#DE"),
            4 => ("overflow", "#OF"),
            5 => ("bound range exceeded", "#BR"),
            6 => ("invalid opcode", "#UD"),
            11 => ("segment not present", "#NP"),
            12 => ("stack-segment fault", "#SS"),
            13 => ("general protection fault", "#GP"),
            PAGE_FAULT => ("page fault", "#PF"),
            16 => ("x87 floating-point exception", "#MF"),
            17 => ("alignment check", "#AC"),
            18 => ("machine check", "#MC"),
            19 => ("SIMD floating-point exception", "#XM"),
            _ => ("unknown exception", "?"),
        }
    }
}

/// Displays the G and the exception in one line, in the same words as the kernel on the bare machine.
impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, abbreviation) = self.name();
        write!(f, "exception in {}: {name} ({abbreviation}, vector {})", Named(self.goroutine), self.vector)?;
        if self.vector != PAGE_FAULT {
            return Ok(());
        }
        let access = match self.error & (FETCH | WRITE) {
            0 => "read",
            WRITE => "write",
            _ => "execution",
        };
        let cause = if self.error & PROTECTION == 0 { "nothing is mapped there" } else { "its page forbids that" };
        write!(f, ": {access} at {:#018x}, {cause}", self.address)?;
        if self.address < 4096 {
            f.write_str(" (a null pointer)")?;
        }
        Ok(())
    }
}
