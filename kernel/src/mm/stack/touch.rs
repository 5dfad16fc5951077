//! The first touch of a page of a stack: the page fault handler maps a frame for the page.
//!
//! Code may touch its own stack, or the stack of another G to store a result there. So a page fault may occur at any
//! moment, even while the CPU holds a lock. The only exception is the lock of the frame allocator. The handler takes
//! this lock, so code that holds it must cause no page fault. Such code touches the next pages of its stack before it
//! takes the lock (`ahead`).

use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::structures::paging::PhysFrame;

use super::class::COMMITTED;
use super::slot::{Commit, Slot};
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::mm::address::{PhysAddr, VirtAddr};
use crate::mm::error::OutOfMemory;
use crate::mm::{frame, paging};

/// The result of [`first_touch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// The page is mapped, so the interrupted instruction can be executed again.
    Committed,
    /// The address is in the guard page of a stack that has memory.
    Overflow(Slot),
    /// There is no frame for the page.
    OutOfMemory,
    /// The address is not in a stack whose pages get frames when they are touched.
    Elsewhere,
}

/// The source of the frame for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The frame comes from the frame allocator.
    Allocator,
    /// The frame comes from the reserve of this CPU, for code that must not fail when the frame allocator has no frame
    /// left.
    LastFrames,
}

/// Handles an access to `address`, where no page is mapped. If the address is in a G's stack that has memory, and not
/// in its guard page, maps a frame there. Called by the page fault handler, with interrupts off.
pub(crate) fn first_touch(address: usize, source: Source) -> Touch {
    let Some(slot) = Slot::containing(address).filter(|slot| is_in_use(*slot)) else { return Touch::Elsewhere };
    if slot.guard_contains(address) {
        return Touch::Overflow(slot);
    }
    if slot.commit() == Commit::Whole {
        return Touch::Elsewhere;
    }
    let last_frames = LAST_FRAMES.here();
    let added = match source {
        Source::Allocator => paging::add(VirtAddr::new(address as u64), frame::allocate),
        Source::LastFrames => paging::add(VirtAddr::new(address as u64), || last_frames.take().ok_or(OutOfMemory)),
    };
    match added {
        Ok(added) => {
            // If another CPU has mapped the page meanwhile (`added` is false), that CPU has counted the page.
            COMMITTED.fetch_add(usize::from(added), Ordering::Relaxed);
            if source == Source::Allocator {
                last_frames.fill();
            }
            Touch::Committed
        }
        Err(OutOfMemory) => Touch::OutOfMemory,
    }
}

/// Whether a slot has memory. It has memory exactly if its highest page has a frame. Such a slot is in use, or is free
/// but keeps its memory.
fn is_in_use(slot: Slot) -> bool {
    paging::translate(slot.highest_page()).is_some()
}

impl Slot {
    /// Returns the number of bytes from the lowest page that has been touched to the top of the stack. This is the
    /// largest part of the stack that was ever in use since the stack got its memory, rounded up to pages. The result
    /// includes the room for preemption. Callable from everywhere.
    pub fn touched(self) -> usize {
        let lowest = self.pages().filter(|&page| paging::translate(page).is_some()).last();
        lowest.map_or(0, |lowest| self.top() - lowest.as_u64() as usize)
    }
}

/// The number of frames in the reserve of each CPU. It is enough for the pages that code may touch while preemption is
/// off, and for their page tables. It is also enough for a G that ends for lack of memory.
const LAST_FRAMES_COUNT: usize = 12;

cpu_local! {
    static LAST_FRAMES: LastFrames = LastFrames::new();
}

/// Fills the reserves of all CPUs. Called before Gs run.
pub(crate) fn fill_last_frames() {
    cpus::all().filter_map(|cpu| LAST_FRAMES.of(cpu)).for_each(LastFrames::fill);
}

/// The reserve of one CPU: frames for pages of stacks, which are used when the frame allocator has no frame left. (The
/// frame allocator has another reserve, which all CPUs share.) An entry is the address of a frame, or 0 if the entry is
/// empty.
#[derive(Debug)]
struct LastFrames([AtomicU64; LAST_FRAMES_COUNT]);

impl LastFrames {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; LAST_FRAMES_COUNT])
    }

    fn take(&self) -> Option<PhysFrame> {
        self.0.iter().map(|place| place.swap(0, Ordering::Relaxed)).find(|&frame| frame != 0).map(|frame| {
            // The entry contained the address of a frame that `fill` has allocated. The swap has emptied the entry, so
            // only the caller uses this frame.
            PhysFrame::containing_address(PhysAddr::new(frame))
        })
    }

    /// Fills the empty entries with new frames, until all entries are full or no frame is free. Called with interrupts
    /// off, or before the CPU runs Gs.
    fn fill(&self) {
        // `take` empties the entries from the first on, and the loop below fills the first entry last. So if the first
        // entry is full, all entries are full.
        if self.0[0].load(Ordering::Relaxed) != 0 {
            return;
        }
        for place in self.0.iter().rev().filter(|place| place.load(Ordering::Relaxed) == 0) {
            let Ok(frame) = frame::allocate() else { return };
            place.store(frame.start_address().as_u64(), Ordering::Relaxed);
        }
    }
}
