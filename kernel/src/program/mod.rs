//! What a program gets from the kernel: `main`, arguments and an exit status.

pub mod args;
mod entry;
pub mod exit;
#[doc(hidden)]
#[expect(unsafe_code, reason = "passes on what only tests may break")]
pub mod internals;

pub use self::entry::{LARGEST_STACK, MAIN_STACK, Termination};
use crate::mm::stack;

const _: () = assert!(LARGEST_STACK == stack::LARGEST);

/// The part of [`main!`](crate::main!) for the machine. It defines `gmp_program_main` and `gmp_program_stack_size`,
/// which the kernel uses. So a program without `main!` fails to link.
#[doc(hidden)]
#[macro_export]
macro_rules! __main {
    ($main:path, $stack_size:expr) => {
        const _: () = {
            #[unsafe(export_name = "gmp_program_stack_size")]
            static STACK_SIZE: usize = $stack_size;
            #[unsafe(export_name = "gmp_program_main")]
            fn program_main(args: &[&str]) -> u8 {
                $crate::program::Termination::report($main(args))
            }
        };
    };
}

#[expect(unsafe_code, reason = "calls the program by a name that only the linker checks")]
unsafe extern "Rust" {
    /// Runs the program and returns its exit status. [`main!`](crate::main!) defines this function.
    fn gmp_program_main(args: &[&str]) -> u8;
    /// The size of the stack of the main G in bytes. [`main!`](crate::main!) defines it.
    safe static gmp_program_stack_size: usize;
}

/// Returns the size in bytes of the stack on which [`run`] must be called.
pub(crate) fn stack_size() -> usize {
    gmp_program_stack_size
}

/// Runs the program. Returns its exit status.
#[expect(unsafe_code, reason = "calls the program by a name that only the linker checks")]
pub(crate) fn run() -> u8 {
    // SAFETY: the macro `main!` defines this function with this signature.
    unsafe { gmp_program_main(args::program()) }
}
