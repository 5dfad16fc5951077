//! The entry for the rust-osdev `bootloader`, which can put the same ELF on a BIOS or UEFI disk.
//!
//! Only the PVH path is exercised by the tests: building a disk image needs a nightly compiler. By hand, `tour` was booted
//! from a BIOS disk image of bootloader 0.11.17 in QEMU, and ran as it does by PVH. This path carries no command line.

use core::arch::naked_asm;

use bootloader_api::config::Mapping;
use bootloader_api::{BootInfo, BootloaderConfig};

use crate::mm;

/// What the bootloader is asked for. Dynamic mappings find no free level-4 entry beside a kernel at -2 GiB, so all are
/// fixed.
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

/// Where the bootloader jumps to, in long mode. `bootloader_api::entry_point!` would make this a Rust function, but the
/// BIOS stages leave SSE off.
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
        // Whether there is a return address on the stack is not said; the zero frame pointer ends backtraces.
        "and rsp, -16",
        "xor ebp, ebp",
        "call {main}",
        "ud2",
        main = sym bootloader_main,
    )
}

/// Checked by the compiler to be what `entry_point!` asks for.
extern "C" fn bootloader_main(boot_info: &'static mut BootInfo) -> ! {
    assert!(
        boot_info.physical_memory_offset.into_option() == Some(mm::PHYSICAL_OFFSET),
        "the bootloader did not map physical memory where it was asked to"
    );
    super::start(boot_info, "")
}
