//! The entry for the rust-osdev `bootloader`, which can put the same ELF on a BIOS or UEFI disk.
//!
//! The tests use only the PVH path, since building a disk image needs a nightly compiler. `tour` was once booted by hand from a
//! BIOS disk image of bootloader 0.11.17 in QEMU, and ran as with PVH. This path has no command line.

use core::arch::naked_asm;

use bootloader_api::config::Mapping;
use bootloader_api::{BootInfo, BootloaderConfig};

use crate::mm;

/// What the bootloader is asked for. All mappings have fixed addresses, since the bootloader finds no free level-4 entry for
/// dynamic ones beside a kernel at -2 GiB.
const CONFIG: BootloaderConfig = {
    let mut config = BootloaderConfig::new_default();
    config.kernel_stack_size = 64 * 1024;
    config.mappings.physical_memory = Some(Mapping::FixedAddress(mm::PHYSICAL_OFFSET));
    config.mappings.kernel_stack = Mapping::FixedAddress(0xffff_f000_0000_0000);
    config.mappings.boot_info = Mapping::FixedAddress(0xffff_f100_0000_0000);
    config.mappings.framebuffer = Mapping::FixedAddress(0xffff_f200_0000_0000);
    config
};

/// [`CONFIG`] in the section from which the bootloader reads it out of the ELF.
#[used]
#[unsafe(link_section = ".bootloader-config")]
static SERIALIZED_CONFIG: [u8; BootloaderConfig::SERIALIZED_LEN] = CONFIG.serialize();

/// Where the bootloader jumps to, in long mode. `bootloader_api::entry_point!` would make this a Rust function, but the BIOS
/// stages leave SSE off, which Rust code needs.
#[unsafe(naked)]
#[unsafe(export_name = "_start")]
unsafe extern "C" fn bootloader_start(boot_info: &'static mut BootInfo) -> ! {
    naked_asm!(
        // CR0: EM, TS off; MP, NE, WP on. CR4: OSFXSR, OSXMMEXCPT.
        "mov rax, cr0",
        "and eax, 0xfffffff3",
        "or eax, 0x10022",
        "mov cr0, rax",
        "mov rax, cr4",
        "or eax, 0x600",
        "mov cr4, rax",
        // The stack pointer is aligned, since it is not specified whether there is a return address. The zero frame pointer
        // ends backtraces.
        "and rsp, -16",
        "xor ebp, ebp",
        "call {main}",
        "ud2",
        main = sym bootloader_main,
    )
}

/// Has the signature that `entry_point!` requires.
extern "C" fn bootloader_main(boot_info: &'static mut BootInfo) -> ! {
    assert!(
        boot_info.physical_memory_offset.into_option() == Some(mm::PHYSICAL_OFFSET),
        "the bootloader did not map physical memory where it was asked to"
    );
    super::start(boot_info, "")
}
