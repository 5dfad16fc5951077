//! How a program begins and ends, on the machine and on the host: `host/program` includes this file, too.

use core::fmt::Display;

use boot_protocol::status::LAST_OF_PROGRAM;

/// Declares the program's `main`, a `fn(&[&str])` that returns a type with [`Termination`].
///
/// On the machine, the kernel calls this `main`. On the host, the macro defines the entry point of the process, which runs
/// `main` as the main G of a scheduler on threads (`gmp_sched::native`). Tests use `kernel::run!` instead.
///
/// # Safety
///
/// A G may move to another thread whenever it waits, so it must not keep a reference to thread-local data across a wait;
/// see `gmp_sched::native::enter`. A program for the machine cannot break this rule: it and all its dependencies are
/// `no_std`, so there are no thread-local variables. Therefore this macro makes the `unsafe` call of `enter` for the
/// program. The macro does not compile in a crate that links `std` ("`std` is ambiguous"). Such a program calls
/// `gmp_sched::native::enter` itself. A *dependency* that uses `std` does not build for the machine. On the host it does
/// build, so the program's author must ensure that the dependency keeps the rule.
#[macro_export]
macro_rules! main {
    ($main:path) => {
        $crate::__main!($main);
    };
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

/// The status is the value itself. A value outside of 0 to [`LAST_OF_PROGRAM`] becomes [`LAST_OF_PROGRAM`], because the
/// kernel uses the higher statuses.
impl Termination for i32 {
    fn report(self) -> u8 {
        u8::try_from(self).map_or(LAST_OF_PROGRAM, |status| status.min(LAST_OF_PROGRAM))
    }
}

/// An error is printed, and the status is 1.
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
