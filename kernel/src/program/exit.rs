//! The end of the machine.

use boot_protocol::status::{DEBUG_EXIT_PORT, OUTPUT_LOST, debug_exit_value};
use x86_64::instructions::port::Port;

use crate::arch::acpi;
use crate::arch::x86_64::cpu;
use crate::drivers::console;

/// Ends the machine with a status, after all output so far has been sent. If the port takes nothing for a minute (see
/// [`console::flush`]), the machine ends all the same, with status [`OUTPUT_LOST`]. Callable from everywhere.
///
/// QEMU exits through its `isa-debug-exit` device. A machine without it prints the status and is turned off by ACPI, or
/// halts if that is not possible. After a panic it halts in any case, so that the report can be read.
pub fn exit(status: u8) -> ! {
    let status = if console::flush() { status } else { OUTPUT_LOST };
    end_qemu(status);
    crate::println!("The program has ended with status {status}.");
    console::flush();
    acpi::power_off();
    crate::println!("The machine can be turned off.");
    console::flush();
    cpu::halt()
}

/// Makes QEMU exit. Returns only without QEMU, or without that device.
pub(crate) fn end_qemu(status: u8) {
    let mut port = Port::<u32>::new(DEBUG_EXIT_PORT);
    // SAFETY: a write to a port without a device does nothing.
    unsafe { port.write(debug_exit_value(status)) };
}
