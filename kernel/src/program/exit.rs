//! Ends the kernel with an exit status.

use boot_protocol::status::OUTPUT_LOST;

use super::entry;
use crate::arch::acpi;
use crate::arch::x86_64::cpu;
use crate::drivers::{console, debug_exit};

/// Sends all output so far, and then ends the run with a status. If the console accepts no bytes for too long (see
/// [`console::flush`]), the run ends with the status [`OUTPUT_LOST`] instead. Callable from everywhere except handlers
/// of non-maskable interrupts.
///
/// A status above 100 is replaced by 100, and a message on standard error says so. The kernel uses the higher statuses
/// for itself.
///
/// QEMU exits through its `isa-debug-exit` device. Without that device the kernel prints the status and turns the
/// computer off by ACPI. If that is not possible either, the computer halts. (After a panic the computer is not turned
/// off, so that the report can be read.)
pub fn exit(status: u8) -> ! {
    let status = entry::allowed_status(status.into());
    let status = if console::flush() { status } else { OUTPUT_LOST };
    debug_exit::end_qemu(status);
    crate::eprintln!("The program has ended with status {status}.");
    console::flush();
    acpi::power_off();
    crate::eprintln!("The machine can be turned off.");
    console::flush();
    cpu::halt()
}
