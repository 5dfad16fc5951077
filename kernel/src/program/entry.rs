//! How a program begins and ends, on the machine and on the host. The module `host/program` also includes this file, by
//! its path.

use core::fmt::Display;

use boot_protocol::status::LAST_OF_PROGRAM;

/// Declares the `main` of a program. It must be a `fn(&[&str])` whose result type implements [`Termination`].
///
/// ```no_run
/// # #![no_std]
/// # #![cfg_attr(not(test), no_main)]
/// kernel::main!(main, stack_size = 2 << 20);
///
/// fn main(_: &[&str]) {
///     let mut board = [0u8; 1 << 20];
///     core::hint::black_box(&mut board);
/// }
/// ```
///
/// `stack_size` is the size of the stack of `main` in bytes, at most [`LARGEST_STACK`]. Without it, the stack has
/// [`MAIN_STACK`] bytes. A stack takes memory only for the pages that have been touched.
///
/// `policy = P`, at the end, lets the policy `P` decide what runs, in place of Go's rules: see `gmp_sched::policy`. `P` is
/// a constant expression.
///
/// ```no_run
/// # #![no_std]
/// # #![cfg_attr(not(test), no_main)]
/// kernel::main!(main, policy = kernel::gmp_sched::policy::PriorityAging);
/// # fn main(_: &[&str]) {}
/// ```
///
/// On the machine, the kernel calls this `main`. On the host, the macro defines the entry point of the process, which
/// runs `main` as the main G of a scheduler on threads (`gmp_sched::native`). Tests use `kernel::run!` instead.
///
/// # Safety
///
/// A G may continue on another thread after it has waited. So a G must not keep a reference to thread-local data while
/// it waits: see `gmp_sched::native::enter`. A program for the machine cannot break this rule: the program and all its
/// dependencies are `no_std`, so there are no thread-local variables. On the host, the code of this macro makes the
/// `unsafe` call of `enter`. A program on the host could break the rule in two cases:
///
/// - The program's own crate links `std`. Then this macro does not compile ("`std` is ambiguous"), and the program must
///   call `gmp_sched::native::enter` itself.
/// - A dependency of the program links `std`. Such a dependency does not build for the machine, but does build for the
///   host. The program's author must ensure that this dependency keeps the rule.
#[macro_export]
macro_rules! main {
    ($main:path $(,)?) => {
        $crate::main!($main, stack_size = $crate::program::MAIN_STACK);
    };
    ($main:path, policy = $policy:expr $(,)?) => {
        $crate::main!($main, stack_size = $crate::program::MAIN_STACK, policy = $policy);
    };
    ($main:path, stack_size = $bytes:expr $(,)?) => {
        $crate::__main!($main, $crate::__stack_size!($bytes), ::core::option::Option::None);
    };
    ($main:path, stack_size = $bytes:expr, policy = $policy:expr $(,)?) => {
        $crate::__main!($main, $crate::__stack_size!($bytes), ::core::option::Option::Some(&$policy));
    };
}

/// Checks the size of the stack that a program chooses.
#[doc(hidden)]
#[macro_export]
macro_rules! __stack_size {
    ($bytes:expr) => {{
        const BYTES: usize = $bytes;
        ::core::assert!(BYTES <= $crate::program::LARGEST_STACK, "a stack has at most 4 MiB");
        BYTES
    }};
}

/// The size of the stack of `main` in bytes, unless the program chooses another size by [`main!`](crate::main!). It is
/// the same on the machine and on the host. Other Gs have 64 KiB on the machine. The stack of `main` may be larger,
/// because there is only one.
pub const MAIN_STACK: usize = 512 * 1024;

/// The largest size of a stack on the machine, in bytes. [`main!`](crate::main!) refuses larger ones, also on the host.
pub const LARGEST_STACK: usize = 4 << 20;

/// A value that `main` may return. It determines the exit status of the program.
pub trait Termination {
    /// Returns the exit status, from 0 (success) to [`LAST_OF_PROGRAM`].
    fn report(self) -> u8;
}

impl Termination for () {
    fn report(self) -> u8 {
        0
    }
}

/// The status is the value itself. A value outside of 0 to [`LAST_OF_PROGRAM`] is replaced by [`LAST_OF_PROGRAM`], and
/// a message on standard error says so. The kernel uses the higher statuses for itself.
impl Termination for i32 {
    fn report(self) -> u8 {
        allowed_status(self)
    }
}

/// Returns `status` if a program may have it. Otherwise prints a message and returns [`LAST_OF_PROGRAM`].
pub(super) fn allowed_status(status: i32) -> u8 {
    match u8::try_from(status) {
        Ok(allowed) if allowed <= LAST_OF_PROGRAM => allowed,
        _ => {
            crate::eprintln!(
                "exit status {status} is not in 0 to {LAST_OF_PROGRAM}: the program ends with {LAST_OF_PROGRAM}"
            );
            LAST_OF_PROGRAM
        }
    }
}

/// An `Ok` has the status of its value. For an `Err`, the error is printed to standard error, and the status is 1.
impl<T: Termination, E: Display> Termination for Result<T, E> {
    fn report(self) -> u8 {
        match self {
            Ok(value) => value.report(),
            Err(error) => {
                crate::eprintln!("error: {error}");
                1
            }
        }
    }
}
