//! How a program begins and ends, on the machine and on the host. The module `host/program` includes this file by its
//! path.

use core::fmt::Display;

use boot_protocol::status::LAST_OF_PROGRAM;

/// Declares the `main` of a program. It must be a `fn(&[&str])` whose result type implements [`Termination`].
///
/// On the machine, the kernel calls this `main`. On the host, the macro defines the entry point of the process, which runs
/// `main` as the main G of a scheduler on threads (`gmp_sched::native`). Tests use `kernel::run!` instead.
///
/// # Safety
///
/// A G may continue on another thread after it has waited. So a G must not keep a reference to thread-local data while
/// it waits: see `gmp_sched::native::enter`. A program for the machine cannot break this rule: the program and all its
/// dependencies are `no_std`, so there are no thread-local variables. On the host, this macro makes the `unsafe` call
/// of `enter` for the program. On the host there are two cases in which the rule could be broken:
///
/// - The program's own crate links `std`. Then this macro does not compile ("`std` is ambiguous"), and the program must
///   call `gmp_sched::native::enter` itself.
/// - A dependency of the program links `std`. Such a dependency does not build for the machine, but does build for the
///   host. The program's author must ensure that this dependency keeps the rule.
#[macro_export]
macro_rules! main {
    ($main:path) => {
        $crate::__main!($main);
    };
}

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

/// The status is the value itself. A value outside of 0 to [`LAST_OF_PROGRAM`] is replaced by [`LAST_OF_PROGRAM`], and a
/// message on standard error says so. The kernel uses the higher statuses for itself.
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

/// If the result is an error, the error is printed to standard error and the status is 1.
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
