//! What a program gets from the kernel: `main`, arguments, an exit status, and a context that Ctrl-C ends.

pub mod args;
mod entry;
pub mod exit;
#[doc(hidden)]
#[expect(unsafe_code, reason = "passes on what only tests may break")]
pub mod internals;
mod interrupt;

use gmp_sched::policy::Policy;

pub use self::entry::{LARGEST_STACK, MAIN_STACK, Termination};
pub use self::interrupt::interrupted;
use crate::mm::stack;

const _: () = assert!(LARGEST_STACK == stack::LARGEST);

/// The part of [`main!`](crate::main!) for the machine. It defines `gmp_program_main`, `gmp_program_stack_size`,
/// `gmp_program_policy` and `gmp_program_file`, which the kernel uses. So a program without `main!` fails to link.
#[doc(hidden)]
#[macro_export]
macro_rules! __main {
    ($main:path, $stack_size:expr, $policy:expr) => {
        const _: () = {
            #[unsafe(export_name = "gmp_program_stack_size")]
            static STACK_SIZE: usize = $stack_size;
            #[unsafe(export_name = "gmp_program_policy")]
            static POLICY: ::core::option::Option<&dyn $crate::gmp_sched::policy::Policy> = $policy;
            #[unsafe(export_name = "gmp_program_file")]
            static FILE: &str = ::core::file!();
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
    /// The policy that the program has chosen. [`main!`](crate::main!) defines it.
    safe static gmp_program_policy: Option<&'static dyn Policy>;
    /// The source file that uses [`main!`](crate::main!), which defines this string.
    safe static gmp_program_file: &'static str;
}

/// Returns the size in bytes of the stack on which [`run`] must be called.
pub(crate) fn stack_size() -> usize {
    gmp_program_stack_size
}

/// Returns the policy that the program has chosen; `None` if Go's rules apply.
pub(crate) fn policy() -> Option<&'static dyn Policy> {
    gmp_program_policy
}

/// Returns how the paths of the program's source files begin: with the path of the folder `src` of the program's
/// package. If the program's main file is in no folder of this name, returns the path of the main file's folder.
pub(crate) fn source_prefix() -> &'static str {
    let file = gmp_program_file;
    let is_end = |end: &usize| file[..*end].ends_with("/src/") || &file[..*end] == "src/";
    let mut ends = file.match_indices('/').map(|(slash, _)| slash + 1).rev();
    let end = ends.clone().find(is_end).or_else(|| ends.next());
    // A main file in no folder at all is the only source file that is known to be the program's.
    end.map_or(file, |end| &file[..end])
}

/// Runs the program. Returns its exit status.
#[expect(unsafe_code, reason = "calls the program by a name that only the linker checks")]
pub(crate) fn run() -> u8 {
    // SAFETY: the macro `main!` defines this function with this signature.
    unsafe { gmp_program_main(args::program()) }
}
