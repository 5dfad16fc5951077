//! The page runs of the heap, and their frames.
//!
//! [`kernel_heap::runs`] decides which addresses a run has. This module maps frames there before the run is used, and
//! takes them away when memory is short or a CPU has nothing else to do. Other CPUs may still cache translations of
//! pages without frames, so the addresses are reused only after an epoch has passed ([`tlb`]). Until then the run is in
//! a queue.
//!
//! Frames are mapped and unmapped without a lock, because the run belongs to the caller. So preemption is off only
//! while a run is searched or freed.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};

use kernel_heap::idle::IdleRuns;
use kernel_heap::runs::{Arena, LEVELS, Refusal, Run, Runs, Size, Tables, arenas_of};
use kernel_heap::spans::Memory;

use super::address::{HEAP, PAGE_SIZE, VirtAddr, WINDOW_BYTES};
use super::error::OutOfMemory;
use super::frame::{self, Priority};
use super::shared_lock::SharedLock;
use super::{paging, pressure, tlb};

/// How many frames are allocated at a time, if there is a free block of this size.
const BATCH: usize = 16;
/// How many of the runs that wait for an epoch are freed, at most, when a run is allocated.
const WAITING_AT_ONCE: usize = 4;
/// The number of pages of a window.
const WINDOW_PAGES: usize = WINDOW_BYTES as usize / PAGE_SIZE;

/// The window for tables is divided into a part for each level, and each part into two halves, for the two tables.
const TABLES: u64 = HEAP + LEVELS as u64 * WINDOW_BYTES;
const TABLE_BYTES: usize = WINDOW_BYTES as usize / LEVELS.next_power_of_two() / 2;

static RUNS: SharedLock<Runs> = SharedLock::new(Runs::new({
    let mut all = [tables(0); LEVELS];
    let mut level = 1;
    while level < LEVELS {
        all[level] = tables(level);
        level += 1;
    }
    all
}));
static IDLE: SharedLock<IdleRuns> = SharedLock::new(IdleRuns::new());
/// How many pages of the heap's windows have frames.
static COMMITTED: AtomicUsize = AtomicUsize::new(0);

const fn tables(level: usize) -> Tables {
    let capacity = arenas_of(level, WINDOW_PAGES);
    let (arenas, entries) = Tables::bytes(capacity);
    assert!(arenas <= TABLE_BYTES && entries <= TABLE_BYTES);
    let start = TABLES as usize + 2 * level * TABLE_BYTES;
    let arenas = ptr::with_exposed_provenance_mut::<Arena>(start);
    // SAFETY: both addresses are aligned to a page, and this part of the window belongs to the tables of this level.
    unsafe { Tables::new(arenas, ptr::with_exposed_provenance_mut(start + TABLE_BYTES), capacity) }
}

/// Returns where the spans and their headers are: in the window and in the table of level 0.
#[inline(always)]
pub(super) fn span_memory() -> Memory {
    let pages = ptr::with_exposed_provenance_mut(HEAP as usize);
    let headers = ptr::with_exposed_provenance_mut(TABLES as usize + TABLE_BYTES);
    // SAFETY: the table of level 0 has an entry for each page of the window, which only this level uses. While a run is
    // allocated, `Runs` uses neither its pages nor its entries.
    unsafe { Memory::new(pages, headers) }
}

/// Returns the address of a run.
fn start(run: Run) -> VirtAddr {
    VirtAddr::new(HEAP + run.level() as u64 * WINDOW_BYTES + (run.first_page() * PAGE_SIZE) as u64)
}

/// Returns how many bytes the heap has, with both its allocated and its free memory, and its tables.
pub(super) fn bytes() -> usize {
    COMMITTED.load(Ordering::Relaxed) * PAGE_SIZE
}

/// Allocates a run of this size, with frames for all its pages. When frames run short, frees cached memory.
///
/// # Errors
/// If there are too few frames, or no addresses are left.
pub(super) fn allocate(size: Size) -> Result<Run, OutOfMemory> {
    // A request that cannot succeed fails here, before it takes all free memory in vain.
    if !pressure::make_room_for(size.pages(), Priority::Ordinary) {
        return Err(OutOfMemory);
    }
    let run = reserve(size)?;
    if commit(start(run), size.pages()).is_err() {
        release(run);
        return Err(OutOfMemory);
    }
    pressure::note_growth();
    Ok(run)
}

/// Takes the addresses of a run.
fn reserve(size: Size) -> Result<Run, OutOfMemory> {
    for _ in 0..WAITING_AT_ONCE {
        let epoch = RUNS.lock().first_epoch();
        // `has_passed` reads the state of every CPU, so it is called without the lock.
        let Some(epoch) = epoch.filter(|&epoch| tlb::has_passed(epoch)) else { break };
        // SAFETY: all CPUs have flushed their translations of the runs that wait for this epoch.
        unsafe { RUNS.lock().free_waiting(epoch) };
    }
    loop {
        let refusal = match RUNS.lock().allocate(size) {
            Ok(run) => return Ok(run),
            Err(refusal) => refusal,
        };
        match refusal {
            Refusal::Retry => {}
            Refusal::Full => return Err(OutOfMemory),
            Refusal::NeedsTables { parts, arenas } => {
                for part in parts {
                    for page in (part.start / PAGE_SIZE * PAGE_SIZE..part.end).step_by(PAGE_SIZE) {
                        let page = VirtAddr::new(page as u64);
                        if paging::translate(page).is_none() {
                            let added = paging::add(page, || frame::allocate_for(Priority::Ordinary, 1))?;
                            COMMITTED.fetch_add(usize::from(added), Ordering::Relaxed);
                        }
                    }
                }
                // SAFETY: the loop above has mapped the parts.
                unsafe { RUNS.lock().add_tables(size.level(), arenas) };
            }
        }
    }
}

/// Maps frames at `pages` pages from `start` on, which have none.
fn commit(start: VirtAddr, pages: usize) -> Result<(), OutOfMemory> {
    let mut done = 0;
    while done < pages {
        match commit_some(start + (done * PAGE_SIZE) as u64, (pages - done).min(BATCH)) {
            0 if pressure::relieve(pages - done) == 0 => return Err(OutOfMemory),
            count => done += count,
        }
    }
    Ok(())
}

/// Maps frames at up to `most` pages from `start` on. Returns how many frames it has mapped.
fn commit_some(start: VirtAddr, most: usize) -> usize {
    let block = frame::allocate_for(Priority::Ordinary, most).map(|first| (first, most));
    let block = block.or_else(|_| frame::allocate_for(Priority::Ordinary, 1).map(|first| (first, 1)));
    let Ok((first, count)) = block else { return 0 };
    let mapped = paging::map_frames(start, first, count);
    COMMITTED.fetch_add(mapped, Ordering::Relaxed);
    if mapped < count {
        // SAFETY: these frames were allocated above, and are mapped nowhere.
        unsafe { frame::free_contiguous(first + mapped as u64, count - mapped) };
    }
    mapped
}

/// Frees a run that is not in use, and its frames. Returns how many frames were freed.
pub(super) fn release(run: Run) -> usize {
    let mut frames = 0;
    for page in 0..run.pages() {
        if let Some(frame) = paging::unmap(start(run) + (page * PAGE_SIZE) as u64) {
            frames += 1;
            // SAFETY: the frame was mapped only at this address. Some CPUs may still cache the translation, but no code
            // accesses the address before the run is allocated again, which is after an epoch has passed.
            unsafe { frame::free(frame) };
        }
    }
    COMMITTED.fetch_sub(frames, Ordering::Relaxed);
    let mut runs = RUNS.lock();
    // The epoch begins under the lock, so the runs are queued in the order of their epochs.
    let epoch = tlb::begin_epoch() & (u64::MAX >> (u64::BITS - tlb::STORED_BITS));
    // SAFETY: the caller does not use the run.
    unsafe { runs.free_after(run, epoch) };
    frames
}

/// Releases idle runs until at least `frames` frames are freed or no idle run is left. Returns how many frames were
/// freed.
pub(super) fn release_idle(frames: usize) -> usize {
    let mut freed = 0;
    while freed < frames {
        let idle = IDLE.lock().take_any();
        let Some((_, run)) = idle else { break };
        freed += release(run);
    }
    freed
}

/// Allocates a page run for an object without a size class.
#[inline(never)]
pub(super) fn allocate_large(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    let size = Size::of(layout.size(), layout.align()).ok_or(OutOfMemory)?;
    let idle = IDLE.lock().take(size.level(), size.pages());
    let memory = match idle {
        Some((memory, _)) => memory,
        None => ptr::with_exposed_provenance_mut(start(allocate(size)?).as_u64() as usize),
    };
    NonNull::new(memory).ok_or(OutOfMemory)
}

/// Frees a page run. The run keeps its frames until they are wanted.
///
/// # Safety
/// The memory must have come from [`allocate_large`] with the same layout, and must not be in use.
#[inline(never)]
pub(super) unsafe fn free_large(memory: NonNull<u8>, layout: Layout) {
    let size = Size::of(layout.size(), layout.align()).expect("a layout that was allocated");
    let page = (memory.addr().get() - HEAP as usize) % WINDOW_BYTES as usize / PAGE_SIZE;
    // SAFETY: the caller promises that the memory is a run of this size, and that the run is not in use.
    unsafe { IDLE.lock().put(memory.as_ptr(), Run::at(size, page)) };
    pressure::note_growth();
}
