//! The macros that print, on the machine and on the host. The module `host/console` includes this file by its path.

/// Prints to standard output, like the macro of this name in `std`.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!($($arg)*)) };
}

/// Prints a line to standard output, like the macro of this name in `std`.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!("{}\n", ::core::format_args!($($arg)*))) };
}

/// Prints to standard error, like the macro of this name in `std`. Text of this macro and of [`print!`](crate::print!)
/// is written in the order in which the two macros are called.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::console::eprint(::core::format_args!($($arg)*)) };
}

/// Prints a line to standard error, like the macro of this name in `std`.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($arg:tt)*) => { $crate::console::eprint(::core::format_args!("{}\n", ::core::format_args!($($arg)*))) };
}
