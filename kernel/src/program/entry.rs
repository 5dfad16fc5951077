//! How a program begins and ends: the same on the machine and on the host, which has this file, too (`host/program`).

use core::fmt::Display;

use boot_protocol::status::LAST_OF_PROGRAM;

/// Declares the program's `main`, a `fn(&[&str])` that returns a type with [`Termination`].
///
/// On the machine it is the function that the kernel calls. On the host it becomes the process's entry point, which runs the
/// program as the main G of a scheduler on threads (`gmp_sched::native`), and tests use `kernel::run!`.
///
/// # Safety
///
/// A G may move to another thread whenever it waits, so it must not keep anything of a thread across a wait; see
/// `gmp_sched::native::enter`. A program for the machine cannot: it and all its dependencies are `no_std`, so there are no
/// thread-local variables. Therefore this macro makes the `unsafe` call of `enter` for the program. It does not compile in a
/// crate that links `std` ("`std` is ambiguous"): such a program calls `gmp_sched::native::enter` itself. A *dependency* that
/// uses `std` does not build for the machine; on the host, see to it that it keeps that rule.
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
