//! The entry from the rust-osdev `bootloader`, which can boot the same ELF from a BIOS or UEFI disk.
//!
//! The bootloader has no command line. The crate `boot/image` puts the command line into the ramdisk of the disk image,
//! and the bootloader loads the ramdisk into memory.

use core::arch::naked_asm;
use core::slice;

use bootloader_api::config::Mapping;
use bootloader_api::{BootInfo, BootloaderConfig};

use crate::mm::{self, FormerUse, VirtAddr};

/// The configuration that the kernel requests from the bootloader. All mappings have fixed addresses, because the
/// bootloader finds no free level-4 entry for dynamic addresses when the kernel is at -2 GiB.
const CONFIG: BootloaderConfig = {
    let mut config = BootloaderConfig::new_default();
    config.kernel_stack_size = 64 * 1024;
    config.mappings.physical_memory = Some(Mapping::FixedAddress(mm::PHYSICAL_OFFSET));
    config.mappings.kernel_stack = Mapping::FixedAddress(0xffff_f000_0000_0000);
    config.mappings.boot_info = Mapping::FixedAddress(0xffff_f100_0000_0000);
    config.mappings.framebuffer = Mapping::FixedAddress(0xffff_f200_0000_0000);
    config.mappings.ramdisk_memory = Mapping::FixedAddress(0xffff_f300_0000_0000);
    config
};

/// The serialised [`CONFIG`]. The bootloader searches for it in this section of the ELF file.
#[used]
#[unsafe(link_section = ".bootloader-config")]
static SERIALIZED_CONFIG: [u8; BootloaderConfig::SERIALIZED_LEN] = CONFIG.serialize();

/// The entry to which the bootloader jumps, in long mode. The entry must be assembly, because Rust code needs SSE,
/// which the bootloader's BIOS stages leave off. `bootloader_api::entry_point!` cannot be used, because it defines a
/// Rust function as the entry.
#[unsafe(naked)]
#[unsafe(export_name = "_start")]
unsafe extern "C" fn bootloader_start(boot_info: &'static mut BootInfo) -> ! {
    naked_asm!(
        // In CR0, clear EM and TS, and set MP, NE and WP.
        "mov rax, cr0",
        "and eax, 0xfffffff3",
        "or eax, 0x10022",
        "mov cr0, rax",
        // In CR4, set OSFXSR and OSXMMEXCPT.
        "mov rax, cr4",
        "or eax, 0x600",
        "mov cr4, rax",
        // Align the stack pointer, because the boot protocol does not say whether a return address is on the stack.
        "and rsp, -16",
        // Backtraces end at a frame pointer of zero.
        "xor ebp, ebp",
        "call {main}",
        "ud2",
        main = sym bootloader_main,
    )
}

/// The first Rust function. It has the signature that `entry_point!` would require.
extern "C" fn bootloader_main(boot_info: &'static mut BootInfo) -> ! {
    assert!(
        boot_info.physical_memory_offset.into_option() == Some(mm::PHYSICAL_OFFSET),
        "the bootloader did not map physical memory where it was asked to"
    );
    let command_line = command_line(boot_info);
    super::start(boot_info, command_line, FormerUse::Code)
}

/// Returns the command line, which is the content of the ramdisk.
fn command_line(boot_info: &BootInfo) -> &'static str {
    let Some(address) = boot_info.ramdisk_addr.into_option() else { return "" };
    let bytes = VirtAddr::new(address).as_ptr::<u8>();
    let length = usize::try_from(boot_info.ramdisk_len).expect("64 bits");
    // SAFETY: the bootloader has mapped this many bytes at this address, and nothing writes to them. The kernel's page
    // tables keep the mapping (`mm::paging`). The memory map does not list the memory as usable, so it is never
    // allocated.
    super::valid_text(unsafe { slice::from_raw_parts(bytes, length) })
}
