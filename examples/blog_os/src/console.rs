//! The console: the first serial port.

use core::fmt::{self, Write};

use x86_64::instructions::port::Port;

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: this port is the status register of the first serial port. Reading it accesses no memory.
            while unsafe { Port::<u8>::new(0x3fd).read() } & 0x20 == 0 {}
            // SAFETY: this port is the data register of the first serial port. Writing to it accesses no memory.
            unsafe { Port::<u8>::new(0x3f8).write(byte) };
        }
        Ok(())
    }
}

/// Prints to the console, for [`println!`](crate::println).
pub fn print(text: fmt::Arguments<'_>) {
    Serial.write_fmt(text).expect("writing to the port does not fail");
}

/// Prints a line to the console.
#[macro_export]
macro_rules! println {
    ($($arguments:tt)*) => {
        $crate::console::print(format_args!("{}\n", format_args!($($arguments)*)))
    };
}
