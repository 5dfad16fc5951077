//! The frame allocator: a buddy system ([`Buddies`]) for the usable memory of the firmware's memory map.
//!
//! The state of a frame is in tables, nine bytes for each frame, and not in the frame itself. So free memory is not
//! touched, and in a virtual machine the host need not provide it. The first tables describe only the memory below 4
//! GiB, which is mapped first. On a computer with more memory, tables for all frames later replace the first tables.
//! The new tables are in the memory above 4 GiB.
//!
//! Memory below 1 MiB is never allocated: the other CPUs start there, and it may contain tables of the firmware.
//!
//! All functions may be called from everywhere, including the handlers of interrupts and page faults, but not from
//! handlers of non-maskable interrupts. They take one lock, whose holder takes no other lock. The page fault handler
//! takes this lock, too, when a page of a stack is touched for the first time. So the holder of the lock must not touch
//! such a page: see `lock`.
//!
//! # When memory runs short
//!
//! Each request has a `Priority`. Requests of the heap must leave a reserve of free frames, and requests for new stacks
//! of Gs must leave twice as many. So existing stacks can still get frames for their pages when no other request can be
//! met.

use core::ops::Range;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use kernel_formats::memory_map::usable_parts;
use x86_64::structures::paging::{FrameAllocator, PhysFrame, Size4KiB};

use super::address::{PAGE_SIZE, PHYSICAL_MAP_BYTES, PHYSICAL_OFFSET, PhysAddr, VirtAddr, physical_to_virtual};
use super::buddies::{Buddies, Links, NOT_FREE, ORDERS, STALE, Tables};
use super::error::OutOfMemory;
use super::former_use::FormerUse;
use super::shared_lock::Measured;
use super::stack::ahead;
use crate::cpu::sync::{InterruptMutex, InterruptMutexGuard};

/// Frames below this address are not allocated.
const FIRST_ADDRESS: u64 = 1 << 20;

/// The end of the physical memory that is mapped before the kernel has page tables of its own.
const EARLY_END: u64 = 1 << 32;
/// The end of the physical memory that the kernel can use. It is the lower of two limits: a frame number has 32
/// bits, and the window for physical memory has a fixed size.
const HIGHEST_END: u64 = if PHYSICAL_MAP_BYTES < 1 << 44 { PHYSICAL_MAP_BYTES } else { 1 << 44 };

/// The reserve (the free frames that only urgent requests may take) is the number of all frames divided by this
/// constant. But it is never less than [`RESERVE_LEAST`], nor more than [`RESERVE_MOST`].
const RESERVE_SHARE: usize = 64;
/// The smallest reserve, in frames.
const RESERVE_LEAST: usize = 64;
/// The largest reserve, in frames.
const RESERVE_MOST: usize = 4096;

static MEMORY: InterruptMutex<Memory> = InterruptMutex::new(Memory {
    buddies: Buddies::new(),
    reserve: 0,
    total_frames: 0,
    former_use: FormerUse::SeaBios,
});

/// The priority of a request for frames. When memory runs short, requests of lower priority fail first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Priority {
    /// For new stacks of Gs. Such a request must leave twice the reserve free. So these requests fail first, which does
    /// little harm, because a spawn can return an error.
    Spawn,
    /// For the heap and for the buffers of connections, with their page tables, and for stacks that get all their
    /// frames at once. Such a request must leave the reserve free.
    Ordinary,
    /// For pages of stacks that are in use, for all other page tables, and for devices. Such a request may take the
    /// last frame.
    Urgent,
}

/// The address of a usable page below 1 MiB, in which the other CPUs can start. 0 if there is none.
static LOW_PAGE: AtomicU64 = AtomicU64::new(0);
/// The beginning of the range in which [`LOW_PAGE`] is searched. Below this address are the interrupt table of real
/// mode and data of boot loaders.
const LOW_START: u64 = 0x1000;
/// The end of the range in which [`LOW_PAGE`] is searched. At and above this address there may be data of the firmware.
const LOW_END: u64 = 0x9_0000;

/// The usable memory.
#[derive(Debug)]
struct Memory {
    buddies: Buddies,
    /// The number of free frames that only urgent requests may take.
    reserve: usize,
    /// The number of all frames of the usable memory, free or not.
    total_frames: usize,
    former_use: FormerUse,
}

impl Memory {
    /// Returns how many free frames a request of this priority must leave.
    fn kept_from(&self, priority: Priority) -> usize {
        match priority {
            Priority::Spawn => 2 * self.reserve,
            Priority::Ordinary => self.reserve,
            Priority::Urgent => 0,
        }
    }
}

fn address(frame: u64) -> PhysAddr {
    PhysAddr::new(frame * PAGE_SIZE as u64)
}

/// Returns the usable frames of `regions` between two addresses, each frame once. Each item consists of the first frame
/// and the number of frames of a region, or of a part of a region that overlaps others.
fn usable(regions: &[MemoryRegion], from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    let region_of = |region: &MemoryRegion| (region.start..region.end, region.kind == MemoryRegionKind::Usable);
    usable_parts(regions, region_of).filter_map(move |part| {
        let first = part.start.max(from).div_ceil(PAGE_SIZE as u64);
        let end = part.end.min(to) / PAGE_SIZE as u64;
        (first < end).then(|| (first, end - first))
    })
}

/// Returns the size of the tables for the first `frames` frames of memory. The size is a number of frames, too.
fn table_frames(frames: usize) -> u64 {
    (frames * (size_of::<Links>() + size_of::<u8>())).div_ceil(PAGE_SIZE) as u64
}

/// Makes the tables for the first `frames` frames of memory. Marks the frames `stale` as stale, and none as free. The
/// tables begin in the frame `table`.
///
/// # Safety
/// The memory for the tables must be mapped, and nothing else must ever use it.
unsafe fn make_tables(table: u64, frames: usize, stale: [Range<usize>; 2]) -> Tables {
    let links = physical_to_virtual(address(table)).as_mut_ptr::<Links>();
    let states = links.wrapping_add(frames).cast::<u8>();
    let tables = table as usize..table as usize + table_frames(frames) as usize;
    if stale.iter().any(|stale| stale.start < tables.end && tables.start < stale.end) {
        // The tables are in stale frames themselves. The states are written below, the links only one by one later.
        // SAFETY: the caller promises that this memory is mapped and not used otherwise.
        unsafe { ptr::write_bytes(links, 0, frames) };
    }
    // SAFETY: the caller promises that this memory is mapped and not used otherwise.
    unsafe { ptr::write_bytes(states, NOT_FREE, frames) };
    // SAFETY: the line above has initialised these bytes, and nothing else uses them.
    let states = unsafe { slice::from_raw_parts_mut(states, frames) };
    stale.into_iter().for_each(|stale| states[stale].iter_mut().for_each(|state| *state |= STALE));
    // SAFETY: the address is aligned to a page, and nothing else uses this memory. Any bytes are valid `Links`.
    let links = unsafe { slice::from_raw_parts_mut(links, frames) };
    Tables { states, links }
}

/// Sets the allocator up with the usable memory below 4 GiB, which every boot protocol has mapped.
pub(crate) fn init(regions: &[MemoryRegion], former_use: FormerUse) {
    if let Some((first, count)) = usable(regions, LOW_START, LOW_END).max() {
        LOW_PAGE.store(address(first + count - 1).as_u64(), Ordering::Relaxed);
    }
    let (first, count) = usable(regions, 0, EARLY_END).max().expect("the memory map has no usable memory below 4 GiB");
    let frames = usize::try_from(first + count).expect("64 bits");
    let (table, _) = usable(regions, FIRST_ADDRESS, EARLY_END)
        .find(|&(_, count)| count >= table_frames(frames))
        .expect("no room for the tables of frames");
    // SAFETY: this is usable memory below 4 GiB, which is mapped. Nothing else uses it, since the loop below does not
    // add it to the allocator.
    let tables = unsafe { make_tables(table, frames, former_use.stale(frames)) };
    let mut memory = lock();
    memory.former_use = former_use;
    memory.buddies.replace_tables(tables);
    for (first, count) in usable(regions, FIRST_ADDRESS, EARLY_END) {
        let taken = if first == table { table_frames(frames) } else { 0 };
        memory.buddies.free_range(first + taken, count - taken);
    }
}

/// Returns the page below 1 MiB in which the other CPUs can start, if there is one.
pub(crate) fn low_page() -> Option<PhysAddr> {
    let page = LOW_PAGE.load(Ordering::Relaxed);
    (page != 0).then(|| PhysAddr::new(page))
}

/// Adds the memory above 4 GiB, and sets the reserve. Called when the kernel's own page tables are in use, because only
/// these map the memory above 4 GiB.
pub(crate) fn add_high_memory(regions: &[MemoryRegion]) {
    let high = || usable(regions, EARLY_END, HIGHEST_END);
    if let Some((first, count)) = high().max() {
        let frames = usize::try_from(first + count).expect("64 bits");
        match high().find(|&(_, count)| count >= table_frames(frames)) {
            Some((table, _)) => {
                grow_tables(table, frames);
                for (first, count) in high() {
                    let taken = if first == table { table_frames(frames) } else { 0 };
                    lock().buddies.free_range(first + taken, count - taken);
                }
            }
            None => log::warn!("no memory above 4 GiB is used: no region there has room for the tables of frames"),
        }
    }
    let ignored: u64 = usable(regions, HIGHEST_END, u64::MAX).map(|(_, count)| count).sum();
    if ignored > 0 {
        log::warn!("{} GiB of memory are not used: their addresses are too high", (ignored * PAGE_SIZE as u64) >> 30);
    }
    let mut memory = lock();
    let total: u64 = usable(regions, FIRST_ADDRESS, HIGHEST_END).map(|(_, count)| count).sum();
    memory.total_frames = usize::try_from(total).expect("64 bits");
    memory.reserve = (memory.total_frames / RESERVE_SHARE).clamp(RESERVE_LEAST, RESERVE_MOST);
}

/// Replaces the tables by larger ones, which cover the first `frames` frames of memory. The new tables are put into the
/// usable memory that begins with the frame `table`. Frees the memory of the old tables.
fn grow_tables(table: u64, frames: usize) {
    let mut memory = lock();
    let stale = match memory.former_use {
        // SeaBIOS has used only memory below 4 GiB.
        FormerUse::SeaBios => [0..0, 0..0],
        FormerUse::Code => FormerUse::Code.stale(frames),
    };
    // SAFETY: this is usable memory above 4 GiB, which the kernel's page tables map. Nothing else uses it, since the
    // caller does not add it to the allocator.
    let tables = unsafe { make_tables(table, frames, stale) };
    let old = memory.buddies.replace_tables(tables);
    let address = VirtAddr::from_ptr(old.links.as_ptr()).as_u64() - PHYSICAL_OFFSET;
    memory.buddies.free_range(address / PAGE_SIZE as u64, table_frames(old.links.len()));
}

/// Takes the lock. Before that, touches the next two pages of the caller's stack. The holder of the lock needs no more
/// stack than these two pages. So the holder causes no page fault, whose handler would take the same lock.
fn lock() -> Measured<InterruptMutexGuard<'static, Memory>> {
    ahead::touch_ahead();
    Measured::new(MEMORY.lock())
}

/// Takes a frame, even the last free one. The contents of the frame are undefined.
///
/// # Errors
/// If no frame is free.
pub(crate) fn allocate() -> Result<PhysFrame, OutOfMemory> {
    allocate_contiguous(1)
}

/// Frees a frame.
///
/// # Safety
/// The frame must have come from this module and must not be in use.
///
/// # Panics
/// If the frame is the first frame of a free block, or is not in the tables. This function does not detect that a frame
/// is freed a second time if the frame is inside a larger free block.
pub(crate) unsafe fn free(frame: PhysFrame) {
    // SAFETY: the caller promises what `free_contiguous` requires.
    unsafe { free_contiguous(frame, 1) }
}

/// Takes `pages` consecutive frames, even if no free frame is left afterwards. The first frame is aligned to the total
/// size of the frames, rounded up to a power of two.
///
/// # Errors
/// If no block is large enough, or if `pages` is 0 or more than 1024.
pub(crate) fn allocate_contiguous(pages: usize) -> Result<PhysFrame, OutOfMemory> {
    allocate_for(Priority::Urgent, pages)
}

/// Takes `pages` consecutive frames like [`allocate_contiguous`], but leaves the frames that are reserved for requests
/// of higher priority.
///
/// # Errors
/// In the cases of [`allocate_contiguous`], and if fewer frames would be left than a request of this priority must
/// leave.
pub(crate) fn allocate_for(priority: Priority, pages: usize) -> Result<PhysFrame, OutOfMemory> {
    let order = pages.checked_next_power_of_two().ok_or(OutOfMemory)?.ilog2() as usize;
    if pages == 0 || order >= ORDERS {
        return Err(OutOfMemory);
    }
    let mut memory = lock();
    if pages + memory.kept_from(priority) > memory.buddies.free_frames() {
        return Err(OutOfMemory);
    }
    let buddies = &mut memory.buddies;
    let block = buddies.allocate(order).ok_or(OutOfMemory)?;
    let first = u64::from(block.get());
    // Free the frames by which `pages` was rounded up.
    buddies.free_range(first + pages as u64, (1 << order) - pages as u64);
    let is_stale = buddies.take_stale(block, pages);
    drop(memory);
    if is_stale {
        let start = physical_to_virtual(address(first)).as_mut_ptr::<u8>();
        // SAFETY: the frames were just allocated, so nothing else uses them. All usable memory is mapped.
        unsafe { ptr::write_bytes(start, 0, pages * PAGE_SIZE) };
    }
    Ok(PhysFrame::containing_address(address(first)))
}

/// Frees `pages` frames from `first` on.
///
/// # Safety
/// The frames must have come from this module and must not be in use.
///
/// # Panics
/// The range is freed in aligned blocks. Panics if one of these blocks begins with the first frame of a free block, or
/// is not in the tables. The other frames are not checked.
pub(crate) unsafe fn free_contiguous(first: PhysFrame, pages: usize) {
    lock().buddies.free_range(first.start_address().as_u64() / PAGE_SIZE as u64, pages as u64);
}

/// Returns the number of free frames.
pub(crate) fn free_frames() -> usize {
    lock().buddies.free_frames()
}

/// Returns the number of all frames of the usable memory, free or not.
pub(crate) fn total_frames() -> usize {
    lock().total_frames
}

/// Returns how many frames requests of this priority may still take.
pub(crate) fn frames_for(priority: Priority) -> usize {
    let memory = lock();
    memory.buddies.free_frames().saturating_sub(memory.kept_from(priority))
}

/// Returns how many more frames must be free before a request of this priority may take `wanted` frames.
pub(super) fn lacking(wanted: usize, priority: Priority) -> usize {
    let memory = lock();
    (wanted + memory.kept_from(priority)).saturating_sub(memory.buddies.free_frames())
}

/// Returns the end of the memory below 4 GiB, as a number of frames. On a computer with more memory, returns a higher
/// number.
pub(crate) fn end_of_memory() -> usize {
    lock().buddies.table_len()
}

/// The frame allocator, in the form that the `x86_64` crate needs to allocate page tables.
#[derive(Debug)]
pub(crate) struct Frames;

// SAFETY: `allocate` returns a frame that is not in use, and returns no frame twice without a `free` in between.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        allocate().ok()
    }
}
