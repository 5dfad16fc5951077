//! Exit statuses.
//!
//! `boot` ends with the status of the program, which is 0 to [`LAST_OF_PROGRAM`], or with one of the other statuses
//! below. If `boot` cannot run the program or write a result, it ends with a status from `sysexits.h`, such as 64.
//!
//! The guest ends QEMU by writing a 32-bit value to the `isa-debug-exit` device. QEMU then exits with `2 * value + 1`.
//! QEMU itself exits with 1 if it fails, and with 0 after a triple fault (because of `-no-reboot`). The guest adds
//! [`OFFSET`] to its status before writing it. So the exit code for a status differs from the codes that QEMU itself
//! uses.

/// The highest status of a program.
pub const LAST_OF_PROGRAM: u8 = 100;

/// The kernel has found one of its own invariants broken.
pub const KERNEL_BROKEN: u8 = 101;

/// A CPU exception in the kernel, or a triple fault.
pub const EXCEPTION: u8 = 102;

/// The time limit of `boot` was exceeded. Never used by the guest.
pub const TIMEOUT: u8 = 103;

/// QEMU is missing or has failed, or QEMU was ended by gdb or by a command to its monitor. Never used by the guest.
pub const QEMU_FAILED: u8 = 104;

/// The program ended, but its last output was lost because the console did not accept it in time.
pub const OUTPUT_LOST: u8 = 105;

/// The I/O port of the `isa-debug-exit` device, which accepts 32-bit writes.
pub const DEBUG_EXIT_PORT: u16 = 0xf4;

/// This number is added to a status before the status is written to [`DEBUG_EXIT_PORT`].
pub const OFFSET: u32 = 16;

/// Returns the value that the guest must write to [`DEBUG_EXIT_PORT`] to end with `status`.
pub const fn debug_exit_value(status: u8) -> u32 {
    status as u32 + OFFSET
}

/// Computes the status with which the guest has ended, from QEMU's exit code. Returns `None` if the guest has not ended
/// QEMU. After a triple fault, the result is also `None`, because QEMU then exits with 0.
///
/// ```
/// use boot_protocol::status::{debug_exit_value, status_of_qemu_exit};
///
/// let code_for = |status| (2 * debug_exit_value(status) + 1) as i32;
/// assert_eq!(status_of_qemu_exit(code_for(0)), Some(0));
/// assert_eq!(status_of_qemu_exit(code_for(102)), Some(102));
/// assert_eq!(status_of_qemu_exit(0), None); // a triple fault, or QEMU told to quit
/// assert_eq!(status_of_qemu_exit(1), None); // QEMU failed
/// ```
pub fn status_of_qemu_exit(code: i32) -> Option<u8> {
    let value = u32::try_from(code).ok()?;
    if value % 2 == 0 {
        return None;
    }
    let status = u8::try_from((value / 2).checked_sub(OFFSET)?).ok()?;
    (status <= EXCEPTION || status == OUTPUT_LOST).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_guest_is_recovered_from_qemus_exit_code() {
        for status in (0..=EXCEPTION).chain([OUTPUT_LOST]) {
            // An exit code has 8 bits, so QEMU's `2 * value + 1` must fit into them.
            let code = u8::try_from(2 * debug_exit_value(status) + 1).expect("an exit code");
            assert_eq!(status_of_qemu_exit(i32::from(code)), Some(status));
        }
    }

    #[test]
    fn other_exit_codes_are_no_status() {
        for code in [-1, 0, 1, 2, 31, 32, 34, 2 * 119 + 1, 241, 255, 256, i32::MAX, i32::MIN] {
            assert_eq!(status_of_qemu_exit(code), None, "{code}");
        }
    }
}
