//! The first touch of a page of a stack.
//!
//! Any code may touch the stack of any G: its own, or that of another G to store a result. So a page fault may occur at any
//! moment, with any lock held, except the one that the handler takes: that of the frame allocator. Other code touches the next
//! pages of its stack before it takes that lock (`ahead`), so that it cannot fault while it holds it.

use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::structures::paging::PhysFrame;

use super::class::COMMITTED;
use super::slot::{Commit, Slot};
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::mm::address::{PhysAddr, VirtAddr};
use crate::mm::error::OutOfMemory;
use crate::mm::{frame, paging};

/// The outcome of a page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// The page is mapped; the instruction can be executed again.
    Committed,
    /// The address is in the guard page of a stack that is in use.
    Overflow(Slot),
    /// There is no frame for the page.
    OutOfMemory,
    /// The address is not in a stack that is committed on touch.
    Elsewhere,
}

/// Where frames come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The frame allocator.
    Allocator,
    /// The reserve of this CPU.
    LastFrames,
}

/// Maps a frame at the page of `address`, which was touched while nothing was mapped there, if it is in a stack. Called by the
/// handler of page faults, with interrupts off.
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
            // If another CPU was faster, that CPU has counted the page.
            COMMITTED.fetch_add(usize::from(added), Ordering::Relaxed);
            if source == Source::Allocator {
                last_frames.fill();
            }
            Touch::Committed
        }
        Err(OutOfMemory) => Touch::OutOfMemory,
    }
}

/// Whether a slot has its highest page: it is in use, or free with its memory.
fn is_in_use(slot: Slot) -> bool {
    paging::translate(slot.highest_page()).is_some()
}

impl Slot {
    /// Bytes from the lowest page that has been touched to the top: the most that has been used since the stack got its
    /// memory, including the room for preemption. Callable from everywhere.
    pub fn touched(self) -> usize {
        let lowest = self.pages().filter(|&page| paging::translate(page).is_some()).last();
        lowest.map_or(0, |lowest| self.top() - lowest.as_u64() as usize)
    }
}

/// Frames in the reserve of each CPU: enough for the pages that code with preemption off, or a G that ends for lack of memory,
/// may touch, and for their page tables.
const LAST_FRAMES_COUNT: usize = 12;

cpu_local! {
    static LAST_FRAMES: LastFrames = LastFrames::new();
}

/// Fills the reserve of every CPU. Called before Gs run.
pub(crate) fn fill_last_frames() {
    cpus::all().filter_map(|cpu| LAST_FRAMES.of(cpu)).for_each(LastFrames::fill);
}

/// The reserve of a CPU: frames for pages of stacks when there is no other frame. 0 is none.
#[derive(Debug)]
struct LastFrames([AtomicU64; LAST_FRAMES_COUNT]);

impl LastFrames {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; LAST_FRAMES_COUNT])
    }

    fn take(&self) -> Option<PhysFrame> {
        self.0.iter().map(|place| place.swap(0, Ordering::Relaxed)).find(|&frame| frame != 0).map(|frame| {
            // The address is of a frame, since `fill` has stored it.
            PhysFrame::containing_address(PhysAddr::new(frame))
        })
    }

    /// Fills the empty entries. Called with interrupts off, or before the CPU runs Gs.
    fn fill(&self) {
        // `take` begins with the first entry, and this loop ends with it: so if the first entry is full, all are.
        if self.0[0].load(Ordering::Relaxed) != 0 {
            return;
        }
        for place in self.0.iter().rev().filter(|place| place.load(Ordering::Relaxed) == 0) {
            let Ok(frame) = frame::allocate() else { return };
            place.store(frame.start_address().as_u64(), Ordering::Relaxed);
        }
    }
}
