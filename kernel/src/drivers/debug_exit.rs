//! QEMU's `isa-debug-exit` device, which makes QEMU exit with a status.

use boot_protocol::status::{DEBUG_EXIT_PORT, debug_exit_value};
use x86_64::instructions::port::Port;

/// Makes QEMU exit with the exit code that encodes `status`. Returns only if the computer has no such device. Callable
/// from everywhere.
pub(crate) fn end_qemu(status: u8) {
    let mut port = Port::<u32>::new(DEBUG_EXIT_PORT);
    // SAFETY: the only effect of this write is that the device ends QEMU. Without the device the write has no effect.
    unsafe { port.write(debug_exit_value(status)) };
}
