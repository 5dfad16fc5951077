//! The kernel's page tables: one address space for all CPUs.
//!
//! After the setup, page table entries are changed atomically, without a lock. So the page fault handlers of several
//! CPUs may add pages at the same time, and [`translate`] may be called at any moment. Tables are never freed, and
//! access rights never change. Pages are removed only from stacks and page runs that are not in use, and from sparse
//! ranges. After that, the other CPUs must flush their translations of these pages: see `super::tlb`.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use spin::Once;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::mapper::MapToError;
use x86_64::structures::paging::{
    Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PageTableIndex, PhysFrame, Size2MiB, Size4KiB,
};

use super::address::{
    DEVICES, ENTRY_BYTES, HEAP, HEAP_BYTES, PAGE_SIZE, PHYSICAL_MAP_BYTES, PHYSICAL_OFFSET, PhysAddr, SPARSE, STACKS,
    STACKS_BYTES, VirtAddr, WINDOW_BYTES, physical_to_virtual,
};
use super::error::OutOfMemory;
use super::frame::{self, Frames, Priority};
use super::layout::{self, Access};

/// The end of the physical addresses that the architecture allows.
const PHYSICAL_END: u64 = 1 << 52;

/// The bits of a page table entry that contain the physical address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The flags of an entry for a page of data.
pub(super) const DATA: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::NO_EXECUTE);
/// The flags of an entry for a table of a lower level. These flags allow all accesses, so that only the entry of the
/// last level restricts them.
const TABLE: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE);

/// The frame of the top-level page table.
static TOP: Once<PhysFrame> = Once::new();
/// The first free address in the window for devices.
static NEXT_DEVICE: AtomicU64 = AtomicU64::new(DEVICES);

/// Builds the kernel's own page tables from those of the boot protocol, and loads them. The frames of the new page
/// tables are below 4 GiB, because the allocator has no other frames yet.
pub(crate) fn init(regions: &[MemoryRegion]) {
    let frame = frame::allocate().expect("no memory for page tables");
    // SAFETY: the frame was just allocated, so nothing else uses it, and all frames below 4 GiB are mapped.
    let top = unsafe { &mut *physical_to_virtual(frame.start_address()).as_mut_ptr::<PageTable>() };
    top.zero();
    keep_boot_mappings(top);
    // SAFETY: `top` is a valid page table, and all physical memory that contains page tables is mapped at
    // `PHYSICAL_OFFSET`.
    let mut tables = unsafe { OffsetPageTable::new(top, VirtAddr::new(PHYSICAL_OFFSET)) };
    map_image(&mut tables);
    map_physical_memory(&mut tables, regions);
    // SAFETY: the new page tables map the code, the data and the current stack at the same addresses as the old ones.
    unsafe { Cr3::write(frame, Cr3Flags::empty()) };
    TOP.call_once(|| frame);
}

/// Loads the kernel's page tables on a CPU that was started with the page tables of the trampoline.
pub(crate) fn load() {
    let top = *TOP.get().expect("paging is up");
    // SAFETY: these page tables map the whole kernel, at the same addresses as the page tables of the trampoline.
    unsafe { Cr3::write(top, Cr3Flags::empty()) };
}

/// Copies the entries of the kernel's upper half into another top-level page table. The copy stays complete, because
/// the entries never change. Later mappings are made in lower tables, which both top-level tables share.
pub(crate) fn copy_upper_half(to: &mut PageTable) {
    let top = top();
    for index in (256..512).map(PageTableIndex::new) {
        let entry = entry(top, index).load(Ordering::Relaxed);
        to[index].set_addr(PhysAddr::new(entry & ADDRESS), PageTableFlags::from_bits_truncate(entry & !ADDRESS));
    }
}

/// Fills in the entries of the upper half of the top-level table, except those of physical memory and of the image. The
/// windows for devices, stacks, sparse ranges and the heap get new, empty tables. The other entries are copied from the
/// page tables of the boot protocol. If the rust-osdev bootloader has started the kernel, the copied entries map the
/// current stack and the boot information.
fn keep_boot_mappings(top: &mut PageTable) {
    let boot_top = Cr3::read().0.start_address();
    let physical_map_end = VirtAddr::new(DEVICES).p4_index();
    let image = VirtAddr::new(layout::KERNEL_BASE).p4_index();
    for index in (256..512).map(PageTableIndex::new) {
        let entry = entry(boot_top, index).load(Ordering::Relaxed);
        if index >= physical_map_end && index != image && entry & PageTableFlags::PRESENT.bits() != 0 {
            top[index].set_addr(PhysAddr::new(entry & ADDRESS), PageTableFlags::from_bits_truncate(entry & !ADDRESS));
        }
    }
    let stacks = (STACKS..STACKS + STACKS_BYTES).step_by(ENTRY_BYTES as usize);
    let heap = (HEAP..HEAP + HEAP_BYTES).step_by(ENTRY_BYTES as usize);
    for window in [DEVICES, SPARSE].into_iter().chain(stacks).chain(heap) {
        let table = frame::allocate().expect("no memory for page tables");
        let pointer = physical_to_virtual(table.start_address()).as_mut_ptr::<PageTable>();
        // SAFETY: the frame was just allocated, so nothing else uses it, and all frames below 4 GiB are mapped.
        unsafe { pointer.write(PageTable::new()) };
        top[VirtAddr::new(window).p4_index()].set_frame(table, TABLE);
    }
}

/// Maps the image page by page, with the access rights of its parts. The image stays in the frames that the boot
/// protocol has chosen.
fn map_image(tables: &mut OffsetPageTable<'static>) {
    for address in (layout::image_start()..layout::image_end()).step_by(PAGE_SIZE) {
        let address = VirtAddr::new(address);
        let frame = PhysFrame::containing_address(translate(address).expect("the image is mapped"));
        let flags = match layout::access(address) {
            Access::Execute => PageTableFlags::PRESENT,
            Access::Read => PageTableFlags::PRESENT | PageTableFlags::NO_EXECUTE,
            Access::Write => DATA,
        };
        let page = Page::<Size4KiB>::containing_address(address);
        // SAFETY: the image stays at the same virtual and physical addresses, with the access rights that its parts
        // need.
        match unsafe { tables.map_to_with_table_flags(page, frame, flags, TABLE, &mut Frames) } {
            // These page tables are not in use yet, so there is no translation to flush.
            Ok(flush) => flush.ignore(),
            Err(error) => panic!("cannot map the image at {address:#x}: {error:?}"),
        }
    }
}

/// Maps physical memory at [`PHYSICAL_OFFSET`]. Maps all regions of the memory map that end at or below 4 GiB, because
/// firmware tables may be in regions of any kind. Maps the other regions only if they are usable.
fn map_physical_memory(tables: &mut OffsetPageTable<'static>, regions: &[MemoryRegion]) {
    const LARGE: u64 = 2 << 20;
    for region in regions {
        if region.kind != MemoryRegionKind::Usable && region.end > 1 << 32 {
            continue;
        }
        for start in (region.start / LARGE * LARGE..region.end.min(PHYSICAL_MAP_BYTES)).step_by(LARGE as usize) {
            let frame = PhysFrame::<Size2MiB>::containing_address(PhysAddr::new(start));
            let page = Page::containing_address(physical_to_virtual(frame.start_address()));
            // SAFETY: no Rust object is at these addresses. Unsafe code accesses an address here only if it owns the
            // physical memory behind that address.
            match unsafe { tables.map_to_with_table_flags(page, frame, DATA, TABLE, &mut Frames) } {
                // The page was not mapped before, so no CPU has a translation of it to flush.
                Ok(flush) => flush.ignore(),
                // This page contains parts of two regions, and is mapped already.
                Err(MapToError::PageAlreadyMapped(_)) => {}
                Err(error) => panic!("cannot map physical memory at {start:#x}: {error:?}"),
            }
        }
    }
}

/// Maps `count` consecutive frames from `first` on at as many pages from `start` on, as far as there is memory for page
/// tables. The pages must be in a window of the heap, and not be mapped. Returns how many frames are mapped.
pub(super) fn map_frames(start: VirtAddr, first: PhysFrame, count: usize) -> usize {
    for index in 0..count as u64 {
        let mut allocate = || frame::allocate_for(Priority::Ordinary, 1);
        let Ok(entry) = entry_for(start + index * PAGE_SIZE as u64, &mut allocate) else { return index as usize };
        // Ordering: Relaxed, because nothing is published here. Another CPU gets the memory only from the caller, which
        // makes the entry visible to that CPU.
        entry.store(value(first + index, DATA), Ordering::Relaxed);
    }
    count
}

/// Removes the mapping of a page of the heap or of a stack. Returns the frame that was mapped there, if any.
pub(super) fn unmap(address: VirtAddr) -> Option<PhysFrame> {
    frame_of(find_entry(address)?.swap(0, Ordering::Relaxed))
}

/// Makes a page of a sparse range inaccessible. Its entry keeps the frame.
pub(super) fn hide(address: VirtAddr) {
    if let Some(entry) = find_entry(address) {
        entry.fetch_and(!PageTableFlags::PRESENT.bits(), Ordering::Relaxed);
    }
}

/// Makes a page accessible again that was [hidden](hide), with the same frame.
pub(super) fn show(address: VirtAddr) {
    if let Some(entry) = find_entry(address) {
        entry.fetch_or(PageTableFlags::PRESENT.bits(), Ordering::Relaxed);
    }
}

/// Removes the entry of a page that was [hidden](hide). Returns the frame.
pub(super) fn take_hidden(address: VirtAddr) -> Option<PhysFrame> {
    frame_of(find_entry(address)?.swap(0, Ordering::Relaxed) | PageTableFlags::PRESENT.bits())
}

/// Maps a new frame at the page of `address`. If another CPU has mapped a frame there meanwhile, frees the new frame.
/// Returns whether the new frame is mapped. `allocate` is called for the frame and for each missing page table. Takes
/// only the locks that `allocate` and `frame::free` take.
///
/// # Errors
/// If `allocate` returns an error.
pub(super) fn add(
    address: VirtAddr,
    mut allocate: impl FnMut() -> Result<PhysFrame, OutOfMemory>,
) -> Result<bool, OutOfMemory> {
    let entry = entry_for(address, &mut allocate)?;
    Ok(install(entry, allocate()?, DATA))
}

/// Maps `bytes` bytes at `physical`, uncached: registers or memory of a device, or a firmware table. The mapping is
/// permanent. Callable from everywhere except handlers of non-maskable interrupts.
///
/// # Errors
/// If there is no memory for page tables, the window is full, or the range extends beyond the physical addresses that
/// the architecture allows.
pub(crate) fn map_device(physical: PhysAddr, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let flags = DATA | PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH;
    let offset = physical.as_u64() % PAGE_SIZE as u64;
    // The device or the firmware has reported the address and the size. They may be wrong, so the sums are checked for
    // overflow.
    let length = offset.checked_add(bytes as u64).and_then(|end| end.checked_next_multiple_of(PAGE_SIZE as u64));
    let length = length.filter(|&length| length <= PHYSICAL_END - (physical.as_u64() - offset)).ok_or(OutOfMemory)?;
    let first_frame = PhysFrame::<Size4KiB>::containing_address(physical);
    let start = map_in_device_window(length, |index| value(first_frame + index, flags))?;
    NonNull::new((start + offset).as_mut_ptr()).ok_or(OutOfMemory)
}

/// Maps `frame` read-only at `pages` consecutive pages. Returns the address of the first page. The mapping is
/// permanent.
///
/// # Errors
/// If there is no memory for page tables, or the window for devices is full.
pub(super) fn map_repeatedly(frame: PhysFrame, pages: usize) -> Result<VirtAddr, OutOfMemory> {
    let flags = PageTableFlags::PRESENT | PageTableFlags::NO_EXECUTE;
    map_in_device_window((pages * PAGE_SIZE) as u64, |_| value(frame, flags))
}

/// Takes `length` bytes of the window for devices, a multiple of the page size, and stores the page table entry
/// `entry_of(index)` for each page. Returns the address of the first page. Refuses a length whose page tables would
/// take more than a quarter of the free memory.
fn map_in_device_window(length: u64, entry_of: impl Fn(u64) -> u64) -> Result<VirtAddr, OutOfMemory> {
    // A device may report a size that is far too large, and page tables are never freed.
    const TABLE_ENTRIES: u64 = 512;
    if length / PAGE_SIZE as u64 / TABLE_ENTRIES > frame::free_frames() as u64 / 4 {
        return Err(OutOfMemory);
    }
    let room = |start: u64| start.checked_add(length).filter(|&end| end <= DEVICES + WINDOW_BYTES);
    let start = NEXT_DEVICE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).map_err(|_| OutOfMemory)?;
    for index in 0..length / PAGE_SIZE as u64 {
        let entry = entry_for(VirtAddr::new(start + index * PAGE_SIZE as u64), &mut frame::allocate)?;
        // Ordering: Relaxed, because another CPU uses the address only after it got it from this one, which synchronizes.
        entry.store(entry_of(index), Ordering::Relaxed);
    }
    Ok(VirtAddr::new(start))
}

/// Returns the content of a page table entry that maps `frame`.
pub(super) fn value(frame: PhysFrame, flags: PageTableFlags) -> u64 {
    frame.start_address().as_u64() | flags.bits()
}

/// Returns the frame that a page table entry of the last level maps. `value` is the content of the entry. Returns
/// `None` if the entry maps no frame.
pub(super) fn frame_of(value: u64) -> Option<PhysFrame> {
    let is_present = value & PageTableFlags::PRESENT.bits() != 0;
    is_present.then(|| PhysFrame::containing_address(PhysAddr::new(value & ADDRESS)))
}

/// Makes `entry` map `frame` if the entry is still empty. If another CPU was faster, frees `frame`. Returns whether the
/// entry now maps `frame`.
fn install(entry: &AtomicU64, frame: PhysFrame, flags: PageTableFlags) -> bool {
    // Ordering: Release, so that other CPUs see the zeros of a new table; partner: the Acquire load in `entry_for`. No
    // flush is needed, because the processor does not cache the absence of a translation.
    let installed = entry.compare_exchange(0, value(frame, flags), Ordering::Release, Ordering::Relaxed);
    if installed.is_err() {
        // SAFETY: the caller has allocated this frame, and it is mapped nowhere else.
        unsafe { frame::free(frame) };
    }
    installed.is_ok()
}

/// Returns the entry of the last level for `address`, which must be in the window for devices, stacks, sparse ranges or
/// the heap. Allocates the page tables that are missing on the path to that entry.
pub(super) fn entry_for(
    address: VirtAddr,
    allocate: &mut impl FnMut() -> Result<PhysFrame, OutOfMemory>,
) -> Result<&'static AtomicU64, OutOfMemory> {
    let mut table = top();
    for index in [address.p4_index(), address.p3_index(), address.p2_index()] {
        let entry = entry(table, index);
        if entry.load(Ordering::Relaxed) & PageTableFlags::PRESENT.bits() == 0 {
            let new = allocate()?;
            let pointer = physical_to_virtual(new.start_address()).as_mut_ptr::<PageTable>();
            // SAFETY: the frame was just allocated, so nothing else uses it, and all frames are mapped. A table of
            // zeros is empty.
            unsafe { pointer.write_bytes(0, 1) };
            install(entry, new, TABLE);
        }
        // Ordering: Acquire, so that this CPU sees the zeros of a new table; partner: the Release store to the entry in
        // `install`.
        table = PhysAddr::new(entry.load(Ordering::Acquire) & ADDRESS);
    }
    Ok(entry(table, address.p1_index()))
}

/// Like [`entry_for`], but returns `None` if a page table on the path to that entry is missing.
pub(super) fn find_entry(address: VirtAddr) -> Option<&'static AtomicU64> {
    entry_for(address, &mut || Err(OutOfMemory)).ok()
}

/// Returns the physical address of the top-level page table.
fn top() -> PhysAddr {
    TOP.get().expect("paging is up").start_address()
}

/// Returns one entry of a page table.
fn entry(table: PhysAddr, index: PageTableIndex) -> &'static AtomicU64 {
    let entries = physical_to_virtual(table).as_mut_ptr::<u64>();
    // SAFETY: the callers pass the address of a page table, which has an entry for every `PageTableIndex`.
    let entry = unsafe { entries.add(usize::from(index)) };
    // SAFETY: the entry is mapped and aligned. Page tables are never freed. While a page table is in use, its entries
    // are accessed only atomically.
    unsafe { AtomicU64::from_ptr(entry) }
}

/// Returns the physical address to which `address` is mapped, or `None` if it is not mapped. Takes no lock. Callable
/// from everywhere.
pub(crate) fn translate(address: VirtAddr) -> Option<PhysAddr> {
    let mut table = Cr3::read().0.start_address();
    let indices = [address.p4_index(), address.p3_index(), address.p2_index(), address.p1_index()];
    for (index, shift) in indices.into_iter().zip([39, 30, 21, 12]) {
        let entry = entry(table, index).load(Ordering::Relaxed);
        let flags = PageTableFlags::from_bits_truncate(entry);
        if !flags.contains(PageTableFlags::PRESENT) {
            return None;
        }
        if shift == 12 || (shift < 39 && flags.contains(PageTableFlags::HUGE_PAGE)) {
            let offset_mask = (1 << shift) - 1;
            return Some(PhysAddr::new((entry & ADDRESS & !offset_mask) | (address.as_u64() & offset_mask)));
        }
        table = PhysAddr::new(entry & ADDRESS);
    }
    None
}
