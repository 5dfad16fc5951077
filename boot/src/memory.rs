//! Checks that a machine has enough memory for a program.

use std::fs;
use std::path::Path;

use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, Error as ElfError};

use crate::Error;
use crate::qemu::Firmware;

/// How many bytes the kernel needs on a machine with one CPU before `main` begins, in addition to the program's ELF
/// file. These bytes are for the scheduler (`startup::frames_for_start` in the kernel), for what the kernel allocates
/// earlier, and for the ACPI tables. The value was measured with programs of several sizes and rounded up.
const BYTES_TO_START: u64 = 2940 << 10;
const MIB: u64 = 1 << 20;

/// Checks that `mebibytes` of memory are enough to start the program `elf`.
///
/// The kernel itself cannot check this. If there is very little memory, QEMU's firmware overwrites parts of the kernel.
///
/// # Errors
///
/// [`Error::Usage`] if the memory is not enough. The message contains the least amount that is enough.
pub fn check(elf: &Path, mebibytes: u32, firmware: Firmware) -> Result<(), Error> {
    // If the file cannot be read or is not an ELF file, QEMU reports this.
    let Some(least) = least(elf, firmware).filter(|&least| mebibytes < least) else { return Ok(()) };
    let message = format!("--memory {mebibytes}: too little memory; this program needs at least {least} MiB to start");
    Err(Error::Usage(message))
}

/// Returns how many MiB of memory a machine needs at least to start the program `elf`. Returns `None` if the file
/// cannot be read or is not an ELF file.
pub fn least(elf: &Path, firmware: Firmware) -> Option<u32> {
    let bytes = fs::read(elf).ok()?;
    let end = end_of_program(&bytes).ok()?;
    u32::try_from((end + BYTES_TO_START + before_program(firmware, bytes.len() as u64)).div_ceil(MIB)).ok()
}

/// Returns how many bytes of memory the firmware and the bootloader use and do not free before the program starts. This
/// includes the whole ELF file, of `length` bytes, which the bootloader keeps in memory.
fn before_program(firmware: Firmware, length: u64) -> u64 {
    match firmware {
        Firmware::Pvh => 0,
        // The bootloader loads the file at 16 MiB.
        Firmware::Bios => 16 * MIB + length,
        // With less memory, OVMF does not start the bootloader.
        Firmware::Uefi => 96 * MIB + length,
    }
}

/// Returns the physical address at which the program ends in memory when QEMU has loaded it. `elf` is the content of
/// the ELF file. The result includes the first MiB of memory, which belongs to the firmware.
fn end_of_program(elf: &[u8]) -> Result<u64, ElfError> {
    let header = FileHeader64::<Endianness>::parse(elf)?;
    let order = header.endian()?;
    let segments = header.program_headers(order, elf)?.iter();
    let loaded = segments.filter(|segment| segment.p_type(order) == PT_LOAD);
    let ends = loaded.map(|segment| segment.p_paddr(order).saturating_add(segment.p_memsz(order)));
    Ok(ends.max().unwrap_or_default())
}
