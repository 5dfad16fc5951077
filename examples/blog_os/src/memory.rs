//! Memory: a heap that never frees, and stacks with guard pages.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// A static area of memory. No code makes a reference to the array; code only computes addresses in the area.
#[repr(C, align(0x20_0000))]
pub(crate) struct Area<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: the bytes are in an `UnsafeCell`, and safe code can only take their address.
unsafe impl<const BYTES: usize> Sync for Area<BYTES> {}

/// Allocates from [`HEAP`] by one atomic addition. An allocation takes no lock, so a G may be preempted at any point in
/// it.
struct Heap {
    used: AtomicUsize,
}

static HEAP: Area<{ 8 * MIB }> = Area(UnsafeCell::new([0; 8 * MIB]));

#[global_allocator]
static ALLOCATOR: Heap = Heap { used: AtomicUsize::new(0) };

// SAFETY: each allocation gets a range of `HEAP` that no other allocation gets, and that is aligned as the layout
// requires.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size() + layout.align() - 1;
        let offset = self.used.fetch_add(bytes, Relaxed);
        let base = HEAP.0.get().cast::<u8>();
        let aligned = (base.addr() + offset).next_multiple_of(layout.align()) - base.addr();
        if aligned + layout.size() > 8 * MIB { ptr::null_mut() } else { base.wrapping_add(aligned) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Number of bytes of a slot. A slot is the memory for one stack: a guard page, the reserve and the stack itself, in
/// the order of their addresses.
const SLOT: usize = 128 * 1024;
/// Number of bytes of the reserve below a stack. In the reserve a preempted G saves its registers and calls the
/// scheduler, even if the stack itself is almost full.
const RESERVE: usize = 3 * PAGE;
const SLOTS: usize = 64;
pub(crate) const STACKS_BYTES: usize = SLOTS * SLOT;

/// The slots of all stacks. The boot stack is in the last slot, which is never free.
pub(crate) static STACKS: Area<STACKS_BYTES> = Area(UnsafeCell::new([0; STACKS_BYTES]));
static USED: AtomicU64 = AtomicU64::new(1 << (SLOTS - 1));

/// Page tables for `STACKS`.
#[repr(C, align(4096))]
struct Tables(UnsafeCell<[u64; STACKS_BYTES / PAGE]>);

// SAFETY: only `init` accesses the tables, and it is called once.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables(UnsafeCell::new([0; STACKS_BYTES / PAGE]));

unsafe extern "C" {
    /// The page directory of the first GiB, in `boot.s`.
    static mut page_directory: [u64; 512];
}

/// Unmaps the guard pages. Called once, at the start.
pub fn init() {
    const PRESENT_AND_WRITABLE: u64 = 3;
    let stacks = STACKS.0.get().addr();
    for page in 0..STACKS_BYTES / PAGE {
        let is_guard = (page * PAGE).is_multiple_of(SLOT);
        let entry = if is_guard { 0 } else { (stacks + page * PAGE) as u64 | PRESENT_AND_WRITABLE };
        // SAFETY: the entry is in the tables, and nothing else accesses them.
        unsafe { TABLES.0.get().cast::<u64>().add(page).write(entry) };
    }
    for table in 0..STACKS_BYTES / (2 * MIB) {
        let address = TABLES.0.get().addr() + table * PAGE;
        // SAFETY: the new table maps the same pages as the entry that it replaces, except for the guard pages, which
        // nothing uses.
        unsafe { page_directory[stacks / (2 * MIB) + table] = address as u64 | PRESENT_AND_WRITABLE };
    }
    // SAFETY: this writes the value that CR3 already has. The write only makes the CPU discard the translations that it
    // has cached.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _) };
}

/// Takes a free stack of at least `size` bytes. Below the stack are the reserve and an unmapped page.
pub fn allocate_stack(size: usize) -> Option<Range<usize>> {
    if size > SLOT - PAGE - RESERVE {
        return None;
    }
    let used = USED.fetch_update(Acquire, Relaxed, |used| (used != u64::MAX).then_some(used | (used + 1))).ok()?;
    let begin = STACKS.0.get().addr() + used.trailing_ones() as usize * SLOT;
    Some(begin + PAGE + RESERVE..begin + SLOT)
}

/// Frees a stack.
///
/// # Safety
///
/// [`allocate_stack`] returned this stack, and nothing uses it any more.
pub unsafe fn release_stack(stack: Range<usize>) {
    let slot = (stack.start - STACKS.0.get().addr()) / SLOT;
    USED.fetch_and(!(1 << slot), Release);
}
