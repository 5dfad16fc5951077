//! The console: the first serial port.

use core::fmt::{self, Write};

use x86_64::instructions::port::Port;

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the status and data ports of the first serial port.
            while unsafe { Port::<u8>::new(0x3fd).read() } & 0x20 == 0 {}
            // SAFETY: as above.
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
