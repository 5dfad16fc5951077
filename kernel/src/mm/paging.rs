//! The kernel's page tables: one address space for all CPUs.
//!
//! After the setup, entries are changed by compare-exchange, without a lock: several page fault handlers may add pages at the
//! same time, and [`translate`] may be called at any moment. Tables are never freed. Pages are added, and are removed from
//! stacks that are not in use; `super::tlb` describes how other CPUs flush their translations. Access rights never change.

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
    DEVICES, ENTRY_BYTES, HEAP, PAGE_SIZE, PHYSICAL_MAP_BYTES, PHYSICAL_OFFSET, PhysAddr, STACKS, STACKS_BYTES,
    VirtAddr, WINDOW_BYTES, physical_to_virtual,
};
use super::error::OutOfMemory;
use super::frame::{self, Frames, Priority};
use super::layout::{self, Access};

/// End of the physical addresses, on every processor.
const PHYSICAL_END: u64 = 1 << 52;

/// Bits of a page table entry that hold the physical address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Access rights of memory for data.
pub(super) const DATA: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::NO_EXECUTE);
/// Access rights in upper tables; those of the last level decide.
const TABLE: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE);

/// The top table.
static TOP: Once<PhysFrame> = Once::new();
static NEXT_DEVICE: AtomicU64 = AtomicU64::new(DEVICES);

/// Builds the kernel's page tables from those in use and loads them. Their frames are below 4 GiB, since no other memory is
/// available yet.
pub(crate) fn init(regions: &[MemoryRegion]) {
    let frame = frame::allocate().expect("no memory for page tables");
    // SAFETY: the frame is mapped, and was allocated here.
    let top = unsafe { &mut *physical_to_virtual(frame.start_address()).as_mut_ptr::<PageTable>() };
    top.zero();
    keep_boot_mappings(top);
    // SAFETY: `top` is a valid table, and physical memory is mapped at the offset.
    let mut tables = unsafe { OffsetPageTable::new(top, VirtAddr::new(PHYSICAL_OFFSET)) };
    map_image(&mut tables);
    map_physical_memory(&mut tables, regions);
    // SAFETY: the new tables map the code, data and stack in use where they were.
    unsafe { Cr3::write(frame, Cr3Flags::empty()) };
    TOP.call_once(|| frame);
}

/// Loads the kernel's page tables on a CPU that was started with others.
pub(crate) fn load() {
    let top = *TOP.get().expect("paging is up");
    // SAFETY: these tables map all of the kernel, at the same addresses as those that a CPU starts with.
    unsafe { Cr3::write(top, Cr3Flags::empty()) };
}

/// Copies the kernel's upper half into another top table. The copy stays complete: later mappings are made in tables that both
/// share.
pub(crate) fn copy_upper_half(to: &mut PageTable) {
    let top = top();
    for index in (256..512).map(PageTableIndex::new) {
        let entry = entry(top, index).load(Ordering::Relaxed);
        to[index].set_addr(PhysAddr::new(entry & ADDRESS), PageTableFlags::from_bits_truncate(entry & !ADDRESS));
    }
}

/// Fills the upper half of the top table with its constant entries: shared tables for the windows, and the mappings of the
/// boot protocol outside of them (with the bootloader: the stack in use and the boot information).
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
    for window in [DEVICES, HEAP].into_iter().chain(stacks) {
        let table = frame::allocate().expect("no memory for page tables");
        let pointer = physical_to_virtual(table.start_address()).as_mut_ptr::<PageTable>();
        // SAFETY: the frame is mapped, and was allocated here; all-zero bytes are an empty table.
        unsafe { pointer.write(PageTable::new()) };
        top[VirtAddr::new(window).p4_index()].set_frame(table, TABLE);
    }
}

/// Maps the image page by page with the rights of its parts. The boot protocol determines its frames.
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
        // SAFETY: the image stays where it is, with the rights that its parts need.
        match unsafe { tables.map_to_with_table_flags(page, frame, flags, TABLE, &mut Frames) } {
            // These tables are not in use yet.
            Ok(flush) => flush.ignore(),
            Err(error) => panic!("cannot map the image at {address:#x}: {error:?}"),
        }
    }
}

/// Maps physical memory at its offset: below 4 GiB all regions of the memory map, since firmware leaves its tables in
/// regions of any kind; above that usable regions.
fn map_physical_memory(tables: &mut OffsetPageTable<'static>, regions: &[MemoryRegion]) {
    const LARGE: u64 = 2 << 20;
    for region in regions {
        if region.kind != MemoryRegionKind::Usable && region.end > 1 << 32 {
            continue;
        }
        for start in (region.start / LARGE * LARGE..region.end.min(PHYSICAL_MAP_BYTES)).step_by(LARGE as usize) {
            let frame = PhysFrame::<Size2MiB>::containing_address(PhysAddr::new(start));
            let page = Page::containing_address(physical_to_virtual(frame.start_address()));
            // SAFETY: the mapping is where unsafe code accesses memory that it owns; nothing else relies on it.
            match unsafe { tables.map_to_with_table_flags(page, frame, DATA, TABLE, &mut Frames) } {
                // The page was not mapped before, so no CPU has a translation of it.
                Ok(flush) => flush.ignore(),
                // Two regions may share a large page.
                Err(MapToError::PageAlreadyMapped(_)) => {}
                Err(error) => panic!("cannot map physical memory at {start:#x}: {error:?}"),
            }
        }
    }
}

/// Maps new frames at `pages` pages from `start` on, which must be in a window of this module. Pages that are mapped already
/// stay as they are. The memory is not cleared. Callable from everywhere.
///
/// # Errors
/// If there are too few frames. The first pages may have been mapped then; they stay so.
pub(super) fn commit(start: VirtAddr, pages: usize) -> Result<(), OutOfMemory> {
    for address in (start.as_u64()..).step_by(PAGE_SIZE).take(pages) {
        let address = VirtAddr::new(address);
        if translate(address).is_none() {
            add(address, || frame::allocate_for(Priority::Ordinary, 1))?;
        }
    }
    Ok(())
}

/// Maps a frame at the page of `address`, unless one is mapped already. Returns whether it has mapped one. Takes no lock except
/// that of `allocate`, which is also called for page tables.
///
/// # Errors
/// If `allocate` returns one.
pub(super) fn add(
    address: VirtAddr,
    mut allocate: impl FnMut() -> Result<PhysFrame, OutOfMemory>,
) -> Result<bool, OutOfMemory> {
    let entry = entry_for(address, &mut allocate)?;
    Ok(install(entry, allocate()?, DATA))
}

/// Maps `bytes` bytes of device registers, uncached. The mapping is permanent. Callable from everywhere.
///
/// # Errors
/// If there is no memory for page tables, or the window is full.
pub(crate) fn map_device(physical: PhysAddr, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let flags = DATA | PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH;
    let offset = physical.as_u64() % PAGE_SIZE as u64;
    // Address and size come from the device or the firmware.
    let length = offset.checked_add(bytes as u64).and_then(|end| end.checked_next_multiple_of(PAGE_SIZE as u64));
    let length = length.filter(|&length| length <= PHYSICAL_END - (physical.as_u64() - offset)).ok_or(OutOfMemory)?;
    let pages = length / PAGE_SIZE as u64;
    let room = |start: u64| start.checked_add(length).filter(|&end| end <= DEVICES + WINDOW_BYTES);
    let start = NEXT_DEVICE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).map_err(|_| OutOfMemory)?;
    let first_frame = PhysFrame::<Size4KiB>::containing_address(physical);
    for index in 0..pages {
        let page = VirtAddr::new(start + index * PAGE_SIZE as u64);
        let entry = entry_for(page, &mut frame::allocate)?;
        entry.store(value(first_frame + index, flags), Ordering::Release);
    }
    NonNull::new(VirtAddr::new(start + offset).as_mut_ptr()).ok_or(OutOfMemory)
}

/// The entry that maps `frame`.
pub(super) fn value(frame: PhysFrame, flags: PageTableFlags) -> u64 {
    frame.start_address().as_u64() | flags.bits()
}

/// The frame that an entry of the last level maps; `None` if it maps none.
pub(super) fn frame_of(value: u64) -> Option<PhysFrame> {
    let is_present = value & PageTableFlags::PRESENT.bits() != 0;
    is_present.then(|| PhysFrame::containing_address(PhysAddr::new(value & ADDRESS)))
}

/// Makes an empty entry map `frame`, and returns whether it has. If another CPU was faster, the frame is freed.
fn install(entry: &AtomicU64, frame: PhysFrame, flags: PageTableFlags) -> bool {
    // Ordering: Release, so that other CPUs see a new table cleared. The processor does not cache missing translations, so
    // there is nothing to flush.
    let installed = entry.compare_exchange(0, value(frame, flags), Ordering::Release, Ordering::Relaxed);
    if installed.is_err() {
        // SAFETY: the caller allocated it, and it is mapped nowhere.
        unsafe { frame::free(frame) };
    }
    installed.is_ok()
}

/// The entry of the last level for `address`, in a window of this module. Adds missing tables on the way.
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
            // SAFETY: the frame is mapped, and was allocated here; all-zero bytes are an empty table.
            unsafe { pointer.write_bytes(0, 1) };
            install(entry, new, TABLE);
        }
        // Ordering: pairs with `install`: the table is cleared.
        table = PhysAddr::new(entry.load(Ordering::Acquire) & ADDRESS);
    }
    Ok(entry(table, address.p1_index()))
}

/// The entry of the last level for `address`, in a window of this module, if there are tables that lead there.
pub(super) fn find_entry(address: VirtAddr) -> Option<&'static AtomicU64> {
    entry_for(address, &mut || Err(OutOfMemory)).ok()
}

/// The top table.
fn top() -> PhysAddr {
    TOP.get().expect("paging is up").start_address()
}

/// One entry of a page table.
fn entry(table: PhysAddr, index: PageTableIndex) -> &'static AtomicU64 {
    let entries = physical_to_virtual(table).as_mut_ptr::<u64>();
    // SAFETY: `table` is a page table, so the index is inside of it.
    let entry = unsafe { entries.add(usize::from(index)) };
    // SAFETY: mapped and aligned; page tables are never freed, and their entries are only accessed as a whole.
    unsafe { AtomicU64::from_ptr(entry) }
}

/// The physical address behind `address`, or `None` if nothing is mapped there. Takes no lock; callable from
/// everywhere.
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
