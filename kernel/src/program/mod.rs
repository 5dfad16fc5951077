//! What a program needs of the kernel: `main`, arguments, exit status.

pub mod args;
pub mod exit;
#[doc(hidden)]
#[expect(unsafe_code, reason = "passes on what only tests may break")]
pub mod internals;

use core::fmt::Display;

use boot_protocol::status::LAST_OF_PROGRAM;

/// Declares the program's `main`, a `fn(&[&str])` that returns a type with [`Termination`].
///
/// Without it a program does not link: `gmp_program_main` is missing.
#[macro_export]
macro_rules! main {
    ($main:path) => {
        const _: () = {
            #[unsafe(export_name = "gmp_program_main")]
            fn program_main(args: &[&str]) -> u8 {
                $crate::program::Termination::report($main(args))
            }
        };
    };
}

#[expect(unsafe_code, reason = "calls the program by a name that only the linker checks")]
unsafe extern "Rust" {
    /// Defined by [`main!`](crate::main!).
    fn gmp_program_main(args: &[&str]) -> u8;
}

/// Runs the program. Returns its exit status.
#[expect(unsafe_code, reason = "calls the program by a name that only the linker checks")]
pub(crate) fn run() -> u8 {
    // SAFETY: the macro defines it with this signature.
    unsafe { gmp_program_main(args::program()) }
}

/// A value that `main` may return, with its exit status: 0 is success.
pub trait Termination {
    /// The exit status, 0 to [`LAST_OF_PROGRAM`].
    fn report(self) -> u8;
}

impl Termination for () {
    fn report(self) -> u8 {
        0
    }
}

/// The value itself. A status above [`LAST_OF_PROGRAM`] becomes that one, since higher ones are the kernel's.
impl Termination for i32 {
    fn report(self) -> u8 {
        u8::try_from(self).map_or(LAST_OF_PROGRAM, |status| status.min(LAST_OF_PROGRAM))
    }
}

/// Prints the error; status 1.
impl<T: Termination, E: Display> Termination for Result<T, E> {
    fn report(self) -> u8 {
        match self {
            Ok(value) => value.report(),
            Err(error) => {
                crate::println!("error: {error}");
                1
            }
        }
    }
}
