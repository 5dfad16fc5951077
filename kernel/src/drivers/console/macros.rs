//! The macros that print: the same on the machine and on the host, which has this file, too (`host/console`).

/// Prints to the console, like the macro of `std`.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!($($arg)*)) };
}

/// Prints a line to the console, like the macro of `std`.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!("{}\n", ::core::format_args!($($arg)*))) };
}
