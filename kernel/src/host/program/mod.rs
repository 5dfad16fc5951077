//! A program on the host. In the program's crate, `cargo run` runs the program on threads, and `cargo test` tests it.
//!
//! | on the machine | on the host |
//! |---|---|
//! | `boot --smp 2` | all CPUs that the process may use; `GMP_KERNEL_OPTIONS="procs=2"` sets the number of Ps (blanks or commas separate several options) |
//! | `boot --kernel-option panic=isolate` | `GMP_KERNEL_OPTIONS="panic=isolate"`; a note names each option that has no effect on the host |
//! | `boot --kernel-option program.KEY=VALUE` | `GMP_KERNEL_OPTIONS="program.KEY=VALUE"` |
//! | `boot --disk FILE` | `GMP_DISKS=FILE`, or several files with `:` between them |
//! | `boot --disk-rw` | `GMP_DISKS_WRITABLE=1` |
//! | console | standard input and output; reports go to standard error |
//! | exit status | the same status; 64 for wrong options, 74 if standard output cannot be written; SIGPIPE ends the process if it is a pipe that nobody reads |
//! | an exception of a G ends the program with status 2 | the same, with the same words; the backtrace is in the form of `std` |
//! | with `panic=isolate`, a stack overflow ends only the G | a stack overflow always ends the process |
//! | with `panic=isolate`, the stack of a G that panics is not unwound: what the G holds stays held | the stack is unwound, after an exception not |
//! | a holder of an `InterruptMutex` must not wait, allocate, spawn or take a `PreemptMutex` | it must not wait |
//! | a G displaces another one at once when its sleep is over | within about 0.1 ms |
//! | loops are preempted | the same, unless `GMP_KERNEL_OPTIONS="preemption=off"` |

#[path = "../../program/args.rs"]
pub mod args;
#[path = "../../program/entry.rs"]
mod entry;
pub mod exit;
#[path = "../../program/interrupt.rs"]
mod interrupt;
#[doc(hidden)]
#[expect(unsafe_code, reason = "enters the platform of threads; reads the arguments of a C program")]
pub mod run;

pub use self::entry::{LARGEST_STACK, MAIN_STACK, Termination};
pub use self::interrupt::interrupted;

/// The part of [`main!`](crate::main!) for the host: defines the C function `main` of the process. In tests the test
/// harness defines that function, so this macro only checks the type of the program's `main`.
#[doc(hidden)]
#[macro_export]
macro_rules! __main {
    ($main:path, $stack_size:expr, $policy:expr) => {
        #[cfg(not(test))]
        const _: () = {
            $crate::__assert_no_std!();
            #[unsafe(export_name = "main")]
            extern "C" fn program_main(
                count: ::core::ffi::c_int,
                words: *const *const ::core::ffi::c_char,
            ) -> ::core::ffi::c_int {
                // SAFETY: the C library calls this function once, with the arguments of the process. The crate does not
                // link `std`, so its Gs have no thread-local variables: see `kernel::main!`.
                unsafe {
                    $crate::program::run::program(count, words, $stack_size, $policy, |arguments| {
                        $crate::program::Termination::report($main(arguments))
                    })
                }
            }
        };
        #[cfg(test)]
        const _: (usize, ::core::option::Option<&dyn $crate::gmp_sched::policy::Policy>, fn(&[&str]) -> u8) =
            ($stack_size, $policy, |arguments| $crate::program::Termination::report($main(arguments)));
    };
}

/// Runs a closure as the main G of a scheduler on threads of the host, and returns the closure's result. This is for
/// tests of a program.
///
/// ```ignore
/// #[test]
/// fn a_spawned_g_returns_its_result() {
///     kernel::run!(|| assert_eq!(go(|| 6 * 7).join(), Ok(42)));
/// }
/// ```
///
/// A panic in any G fails the test, as it would end a program. With the kernel option `panic=isolate`, only a panic
/// that would end the program nevertheless fails the test, such as a panic of the main G. The closure and its result
/// must be `Send` and `'static`.
///
/// # Safety
///
/// The obligation is the same as for [`main!`](crate::main!). This macro does not compile in a crate that links `std`.
/// So only a dependency of the program that links `std` could violate the obligation. (A program must therefore be
/// `no_std` in tests, too. Only `no_main` must be left out in tests, by `#![cfg_attr(not(test), no_main)]`.)
#[macro_export]
macro_rules! run {
    ($body:expr) => {{
        $crate::__assert_no_std!();
        let body = $body;
        // SAFETY: the crate does not link `std`, so its Gs have no thread-local variables: see `kernel::main!`.
        unsafe { $crate::program::run::test(body) }
    }};
}

/// Fails to compile in a crate that links `std`. The macro declares a module with the name `std`, so in such a crate
/// this name is ambiguous.
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_no_std {
    () => {
        $crate::__declare_std!();
        use std::the_program_is_no_std as _;
    };
}

/// Declares the module `std` for `__assert_no_std!`. This is a macro of its own, because a name that the same macro
/// both declares and uses is not ambiguous.
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_std {
    () => {
        mod std {
            pub(super) mod the_program_is_no_std {}
        }
    };
}
