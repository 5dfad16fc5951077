//! QEMU's devices for debugging: `isa-debug-exit` makes QEMU exit with a status, and `isa-debugcon` passes a byte to the
//! host.

use boot_protocol::input_memory::PACE_PORT;
use boot_protocol::status::{DEBUG_EXIT_PORT, debug_exit_value};
use x86_64::instructions::port::Port;

/// Makes QEMU exit with the exit code that encodes `status`. Returns only if the computer has no such device. Callable
/// from everywhere.
pub(crate) fn end_qemu(status: u8) {
    let mut port = Port::<u32>::new(DEBUG_EXIT_PORT);
    // SAFETY: the only effect of this write is that the device ends QEMU. Without the device the write has no effect.
    unsafe { port.write(debug_exit_value(status)) };
}

/// Lets the host make the machine wait, if its clock is ahead of the host's. Callable from everywhere.
pub(crate) fn wait_for_host() {
    let mut port = Port::<u8>::new(PACE_PORT);
    // SAFETY: the only effect of this write is that the host gets the byte. Without the device the write has no effect.
    unsafe { port.write(0) };
}
