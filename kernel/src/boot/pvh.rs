//! The PVH entry: the protocol by which QEMU starts an ELF that is given with `-kernel`. Nearly all tests that start
//! the kernel use this boot path.
//!
//! QEMU loads the segments at their physical addresses, and finds the address of the entry in an ELF note (name `Xen`,
//! type 18). It jumps to the entry in 32-bit protected mode without paging, with the physical address of an
//! [`hvm_start_info`] in EBX.
//!
//! The entry stub (`pvh.s`) turns on SSE and long mode. Its page tables are data in the same file. They map the first 4
//! GiB of physical memory at address 0, for the stub itself, and at [`PHYSICAL_OFFSET`](crate::mm::PHYSICAL_OFFSET).
//! They also map the first 2 GiB at -2 GiB, where the image is linked.
//!
//! [`hvm_start_info`]: https://xenbits.xen.org/docs/unstable/misc/pvh.html

use core::arch::global_asm;
use core::ffi::CStr;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};

use boot_protocol::console::Stream;
use boot_protocol::status::{DEBUG_EXIT_PORT, KERNEL_BROKEN, debug_exit_value};
use bootloader_api::BootInfo;
use bootloader_api::info::{MemoryRegion, MemoryRegionKind, Optional};
use kernel_formats::in_use::InUse;
use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::mm::{self, FormerUse, PhysAddr};

global_asm!(
    include_str!("pvh.s"),
    stack_bytes = const EARLY_STACK_BYTES,
    main = sym pvh_main,
    exit_port = const DEBUG_EXIT_PORT,
    exit_value = const debug_exit_value(KERNEL_BROKEN),
    error_stream = const Stream::Error.mark(),
    options(att_syntax)
);

/// The size of the stack on which the boot CPU runs until `boot::start` switches to its final stack, in bytes.
const EARLY_STACK_BYTES: usize = 64 * 1024;

/// The first word of a valid start info: "xEn3" with the top bit of the E set.
const START_INFO_MAGIC: u32 = 0x336e_c578;

/// `hvm_start_info`, version 1 (Xen, `public/arch-x86/hvm/start_info.h`).
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    module_count: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// `hvm_memmap_table_entry`: a memory region and its E820 type.
#[repr(C)]
struct MemoryMapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// The end of the physical memory that the stub's page tables map.
const EARLY_END: u64 = 1 << 32;

/// The E820 type of memory that is free for use.
const E820_RAM: u32 = 1;

/// The largest number of memory regions that the kernel uses. UEFI firmware has been seen to report 145.
const MAX_REGIONS: usize = 512;

/// The number of memory regions for which [`REGIONS`] had no room.
static IGNORED_REGIONS: AtomicUsize = AtomicUsize::new(0);

static REGIONS: SpinMutex<[MemoryRegion; MAX_REGIONS]> = SpinMutex::new([MemoryRegion::empty(); MAX_REGIONS]);
static BOOT_INFO: SpinMutex<Option<BootInfo>> = SpinMutex::new(None);

/// The first Rust function, which the stub calls. Converts the start info to a [`BootInfo`] and passes that to
/// `boot::start`.
extern "C" fn pvh_main(start_info: u32) -> ! {
    let start_info = mm::physical_to_virtual(PhysAddr::new(u64::from(start_info))).as_ptr::<StartInfo>();
    // SAFETY: the loader has put the start info at this physical address, which the stub's page tables map. Nothing has
    // overwritten the start info yet.
    let start_info = unsafe { &*start_info };
    assert!(start_info.magic == START_INFO_MAGIC, "the PVH start info is not there");
    assert!(start_info.version >= 1, "the PVH start info has no memory map (version {})", start_info.version);

    let map = mm::physical_to_virtual(PhysAddr::new(start_info.memory_map)).as_ptr::<MemoryMapEntry>();
    // SAFETY: the start info has the physical address and the length of the table, which the stub's page tables map.
    // Nothing has overwritten the table yet.
    let map = unsafe { slice::from_raw_parts(map, start_info.memory_map_entries as usize) };
    let regions = SpinMutexGuard::leak(REGIONS.lock());
    let command_line = command_line(start_info.command_line);
    let count = copy_memory_map(map, &in_use(start_info.command_line, command_line.len()), regions);

    let mut boot_info = BootInfo::new((&mut regions[..count]).into());
    boot_info.physical_memory_offset = Optional::Some(mm::PHYSICAL_OFFSET);
    boot_info.rsdp_addr = if start_info.rsdp == 0 { Optional::None } else { Optional::Some(start_info.rsdp) };
    let boot_info = SpinMutexGuard::leak(BOOT_INFO.lock()).insert(boot_info);
    super::start(boot_info, command_line, FormerUse::SeaBios)
}

/// Logs how many memory regions are not used. Called when the log works.
pub(super) fn warn_of_ignored_regions() {
    let ignored = IGNORED_REGIONS.load(Ordering::Relaxed);
    if ignored > 0 {
        log::warn!("{ignored} memory regions are not used: the kernel uses at most {MAX_REGIONS}");
    }
}

/// Returns the physical memory that is in use although the loader's memory map calls it usable: the image and the
/// command line. The command line has `length` bytes and is at the physical address `text`. If `text` is 0, there is no
/// command line.
fn in_use(text: u64, length: usize) -> InUse {
    let image = mm::layout::boot_start()..mm::layout::image_end() - mm::layout::KERNEL_BASE;
    InUse::new(image, text, length)
}

/// Fills `regions` from the loader's memory map. The parts of usable regions that are `in_use` become regions of
/// their own, which are not usable. Returns the number of regions stored. Regions for which `regions` has no room are
/// counted in [`IGNORED_REGIONS`].
fn copy_memory_map(map: &[MemoryMapEntry], in_use: &InUse, regions: &mut [MemoryRegion]) -> usize {
    let mut count = 0;
    let mut push = |start: u64, end: u64, kind| {
        if start < end {
            match regions.get_mut(count) {
                Some(region) => *region = MemoryRegion { start, end, kind },
                None => {
                    IGNORED_REGIONS.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
            count += 1;
        }
    };
    // On some boards the map ends with empty entries.
    for entry in map.iter().filter(|entry| entry.size != 0) {
        let (start, end) = (entry.address, entry.address.saturating_add(entry.size));
        if entry.kind != E820_RAM {
            push(start, end, MemoryRegionKind::UnknownBios(entry.kind));
            continue;
        }
        in_use.split(start..end, |part, is_in_use| {
            let kind = if is_in_use { MemoryRegionKind::Bootloader } else { MemoryRegionKind::Usable };
            push(part.start, part.end, kind);
        });
    }
    count
}

/// Returns the command line at a physical address. Address 0 means that there is none.
fn command_line(address: u64) -> &'static str {
    if address == 0 {
        return "";
    }
    assert!(address < EARLY_END, "the command line is at {address:#x}, where no memory is mapped yet");
    let text = mm::physical_to_virtual(PhysAddr::new(address)).as_ptr();
    // SAFETY: the loader has put the text at this physical address, which the stub's page tables map, and has ended it
    // with a zero byte. `in_use` keeps this memory from being allocated, and it is never unmapped.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    super::valid_text(bytes)
}
