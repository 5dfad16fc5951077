//! The frame allocator: a buddy system over the real memory map.
//!
//! Free memory is kept as blocks of 2^k frames, aligned to their size, for k up to 10 (4 MiB). A request takes the smallest
//! block that is large enough and returns the halves that it does not need. A freed block is merged with its buddy (the
//! neighbour with which it forms a block of twice the size) as long as that is free too. (Knuth, The Art of Computer
//! Programming 1, 2.5, algorithms R and S.) The state of a frame is in tables, nine bytes for each, and not in the frame:
//! memory that is not in use is not touched, and the host need not back it.
//!
//! Memory below 1 MiB is never allocated: the other CPUs start there, and firmware leaves tables in it.
//!
//! All functions may be called from everywhere, interrupt and page fault handlers included, and take one leaf lock. A page
//! fault handler that commits a stack takes it as well, so no page of a stack may be touched for the first time while it is
//! held: see `lock`.
//!
//! # When memory runs short
//!
//! Each request has a `Priority`. The heap must leave a reserve of frames, and new stacks twice as many, so that pages of
//! existing stacks can be committed when nothing else can be allocated.

use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use x86_64::structures::paging::{FrameAllocator, PhysFrame, Size4KiB};

use super::address::{PAGE_SIZE, PhysAddr, physical_to_virtual};
use super::error::OutOfMemory;
use super::stack::ahead;
use crate::cpu::sync::{InterruptMutex, InterruptMutexGuard};

/// Block sizes: 1 to 1024 frames.
const ORDERS: usize = 11;

/// Frames below this address are not allocated.
const FIRST_ADDRESS: u64 = 1 << 20;

/// The end of the memory that is mapped before the kernel has page tables of its own.
const EARLY_END: u64 = 1 << 32;

/// The reserve is this share of all frames,
const RESERVE_SHARE: usize = 64;
/// but at least so many
const RESERVE_LEAST: usize = 64;
/// and at most so many.
const RESERVE_MOST: usize = 4096;

/// The byte of a frame that is not the first of a free block. Otherwise the byte is the order of the block.
const NOT_FREE: u8 = 0xff;

static FRAMES: InterruptMutex<Buddies> = InterruptMutex::new(Buddies::new());

/// The priority of a request for a frame. Lower ones fail first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Priority {
    /// New stacks: spawning can fail. Leaves twice the reserve.
    Spawn,
    /// The heap and devices. Leaves the reserve.
    Ordinary,
    /// Pages of stacks that are in use, and page tables. Takes the last frame.
    Urgent,
}

/// A usable page below 1 MiB, or 0: where a CPU can start.
static LOW_PAGE: AtomicU64 = AtomicU64::new(0);
/// Its range: below are the interrupt table and data of boot loaders, above is data of the firmware.
const LOW_START: u64 = 0x1000;
const LOW_END: u64 = 0x9_0000;

/// Links of a free block.
#[derive(Clone, Copy, Debug)]
struct Links {
    previous: Option<FrameNumber>,
    next: Option<FrameNumber>,
}

/// Physical address divided by the page size. Never 0, since the first MiB is not allocated. Enough for 16 TiB.
type FrameNumber = core::num::NonZeroU32;

/// Free blocks by order.
#[derive(Debug)]
struct Buddies {
    heads: [Option<FrameNumber>; ORDERS],
    /// For each frame, the order of the free block that begins there, or [`NOT_FREE`].
    states: &'static mut [u8],
    /// For each frame, the links of the free block that begins there; undefined if none does.
    links: &'static mut [Links],
    free_frames: usize,
    /// Frames that only urgent requests get.
    reserve: usize,
    /// Number of frames under this allocator, free or not.
    total_frames: usize,
}

impl Buddies {
    const fn new() -> Self {
        Self { heads: [None; ORDERS], states: &mut [], links: &mut [], free_frames: 0, reserve: 0, total_frames: 0 }
    }

    /// Whether a request of that priority may take `frames` frames.
    fn may_give(&self, frames: usize, priority: Priority) -> bool {
        let kept = match priority {
            Priority::Spawn => 2 * self.reserve,
            Priority::Ordinary => self.reserve,
            Priority::Urgent => 0,
        };
        frames + kept <= self.free_frames
    }

    /// Takes a block of 2^`order` frames.
    fn allocate(&mut self, order: usize) -> Option<FrameNumber> {
        let found = (order..ORDERS).find(|&order| self.heads[order].is_some())?;
        let block = self.heads[found]?;
        self.unlink(block, found);
        for half in (order..found).rev() {
            let upper = FrameNumber::new(block.get() + (1 << half))?;
            self.link(upper, half);
        }
        self.free_frames -= 1 << order;
        Some(block)
    }

    /// Returns a block of 2^`order` frames.
    fn free(&mut self, block: FrameNumber, order: usize) {
        assert!(self.state(block) == Some(NOT_FREE), "frame {block:#x} was freed twice, or is no memory");
        self.free_frames += 1 << order;
        let (mut block, mut order) = (block, order);
        while order + 1 < ORDERS {
            // The buddy differs in the bit of the block's own size.
            let Some(buddy) = FrameNumber::new(block.get() ^ (1 << order)) else { break };
            if self.state(buddy).map(usize::from) != Some(order) {
                break;
            }
            self.unlink(buddy, order);
            block = block.min(buddy);
            order += 1;
        }
        self.link(block, order);
    }

    /// Returns `count` frames from `first` on, in the largest aligned blocks.
    fn free_range(&mut self, first: u64, count: u64) {
        let (mut first, end) = (first, first + count);
        while let Some(block) = u32::try_from(first).ok().and_then(FrameNumber::new).filter(|_| first < end) {
            let order = (first.trailing_zeros() as usize).min((end - first).ilog2() as usize).min(ORDERS - 1);
            self.free(block, order);
            first += 1 << order;
        }
    }

    /// The byte of a frame; `None` outside of memory.
    fn state(&self, frame: FrameNumber) -> Option<u8> {
        self.states.get(index(frame)).copied()
    }

    fn link(&mut self, block: FrameNumber, order: usize) {
        let next = self.heads[order].replace(block);
        if let Some(next) = next {
            self.links[index(next)].previous = Some(block);
        }
        self.links[index(block)] = Links { previous: None, next };
        self.states[index(block)] = u8::try_from(order).expect("few orders");
    }

    fn unlink(&mut self, block: FrameNumber, order: usize) {
        let Links { previous, next } = self.links[index(block)];
        match previous {
            Some(previous) => self.links[index(previous)].next = next,
            None => self.heads[order] = next,
        }
        if let Some(next) = next {
            self.links[index(next)].previous = previous;
        }
        self.states[index(block)] = NOT_FREE;
    }
}

fn address(frame: u64) -> PhysAddr {
    PhysAddr::new(frame * PAGE_SIZE as u64)
}

/// The number of a frame, as an index.
fn index(frame: FrameNumber) -> usize {
    frame.get() as usize
}

/// The frames of the usable parts of `regions` between two addresses, as (first frame, count).
fn usable(regions: &[MemoryRegion], from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    regions.iter().filter(|region| region.kind == MemoryRegionKind::Usable).filter_map(move |region| {
        let first = region.start.max(from).div_ceil(PAGE_SIZE as u64);
        let end = region.end.min(to) / PAGE_SIZE as u64;
        (first < end).then(|| (first, end - first))
    })
}

/// Adds the usable memory below 4 GiB, which every boot protocol has mapped.
pub(crate) fn init(regions: &[MemoryRegion]) {
    if let Some((first, count)) = usable(regions, LOW_START, LOW_END).max() {
        LOW_PAGE.store(address(first + count - 1).as_u64(), Ordering::Relaxed);
    }
    let (first, count) = usable(regions, 0, u64::MAX).max().expect("the memory map has no usable memory");
    let frames = usize::try_from(first + count).expect("64 bits");
    let table_frames = (frames * (size_of::<Links>() + size_of::<u8>())).div_ceil(PAGE_SIZE) as u64;
    let (table, _) = usable(regions, FIRST_ADDRESS, EARLY_END)
        .find(|&(_, count)| count >= table_frames)
        .expect("no room for the tables of frames");
    let links = physical_to_virtual(address(table)).as_mut_ptr::<Links>();
    let states = links.wrapping_add(frames).cast::<u8>();
    // SAFETY: usable memory, mapped, and not in the allocator: the loop below skips it.
    unsafe { ptr::write_bytes(states, NOT_FREE, frames) };
    let mut buddies = lock();
    // SAFETY: initialised by the line above and never allocated.
    buddies.states = unsafe { slice::from_raw_parts_mut(states, frames) };
    // SAFETY: aligned to a page, and never allocated; any bytes are valid links.
    buddies.links = unsafe { slice::from_raw_parts_mut(links, frames) };
    for (first, count) in usable(regions, FIRST_ADDRESS, EARLY_END) {
        if first == table {
            buddies.free_range(first + table_frames, count - table_frames);
        } else {
            buddies.free_range(first, count);
        }
    }
}

/// The page in which other CPUs can start, if there is one.
pub(crate) fn low_page() -> Option<PhysAddr> {
    let page = LOW_PAGE.load(Ordering::Relaxed);
    (page != 0).then(|| PhysAddr::new(page))
}

/// Adds the rest of the memory, after it has been mapped, and sets the reserve.
pub(crate) fn add_high_memory(regions: &[MemoryRegion]) {
    for (first, count) in usable(regions, EARLY_END, u64::MAX) {
        lock().free_range(first, count);
    }
    let mut buddies = lock();
    let total: u64 = usable(regions, FIRST_ADDRESS, u64::MAX).map(|(_, count)| count).sum();
    buddies.total_frames = usize::try_from(total).expect("64 bits");
    buddies.reserve = (buddies.total_frames / RESERVE_SHARE).clamp(RESERVE_LEAST, RESERVE_MOST);
}

/// Takes the lock. The holder uses at most the next two pages of its stack, which are committed first.
fn lock() -> InterruptMutexGuard<'static, Buddies> {
    ahead::touch_ahead();
    FRAMES.lock()
}

/// Takes a frame, even if it is the last. Its contents are undefined.
///
/// # Errors
/// If there is none left.
pub(crate) fn allocate() -> Result<PhysFrame, OutOfMemory> {
    allocate_contiguous(1)
}

/// Returns a frame.
///
/// # Safety
/// It must have come from this module and must not be in use.
///
/// # Panics
/// If it is free already.
pub(crate) unsafe fn free(frame: PhysFrame) {
    // SAFETY: the caller's promise.
    unsafe { free_contiguous(frame, 1) }
}

/// Takes `pages` consecutive frames, even if they are the last. The first is aligned to their number, rounded up to a power
/// of two.
///
/// # Errors
/// If there is no such block, or `pages` is 0 or more than 1024.
pub(crate) fn allocate_contiguous(pages: usize) -> Result<PhysFrame, OutOfMemory> {
    allocate_for(Priority::Urgent, pages)
}

/// [`allocate_contiguous`] that leaves the reserve for more urgent requests.
///
/// # Errors
/// As [`allocate_contiguous`]; and if less than the reserve would be left.
pub(crate) fn allocate_for(priority: Priority, pages: usize) -> Result<PhysFrame, OutOfMemory> {
    let order = pages.checked_next_power_of_two().ok_or(OutOfMemory)?.ilog2() as usize;
    if pages == 0 || order >= ORDERS {
        return Err(OutOfMemory);
    }
    let mut buddies = lock();
    if !buddies.may_give(pages, priority) {
        return Err(OutOfMemory);
    }
    let first = u64::from(buddies.allocate(order).ok_or(OutOfMemory)?.get());
    // Return the frames that rounding added.
    buddies.free_range(first + pages as u64, (1 << order) - pages as u64);
    Ok(PhysFrame::containing_address(address(first)))
}

/// Returns `pages` frames from `first` on.
///
/// # Safety
/// They must have come from this module and must not be in use.
///
/// # Panics
/// If one of them is free already (not every such case is detected).
pub(crate) unsafe fn free_contiguous(first: PhysFrame, pages: usize) {
    lock().free_range(first.start_address().as_u64() / PAGE_SIZE as u64, pages as u64);
}

/// Number of free frames.
pub(crate) fn free_frames() -> usize {
    lock().free_frames
}

/// Number of frames that the allocator has taken over, free or not.
pub(crate) fn total_frames() -> usize {
    lock().total_frames
}

/// Number of frames that the heap may still take.
pub(super) fn ordinary_frames() -> usize {
    let buddies = lock();
    buddies.free_frames.saturating_sub(buddies.reserve)
}

/// The frame allocator, for the `x86_64` crate's page tables.
#[derive(Debug)]
pub(crate) struct Frames;

// SAFETY: a frame is allocated to one caller until it is freed.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        allocate().ok()
    }
}
