//! Ranges of addresses whose pages have frames only while they are used: the buffers of connections.
//!
//! The owner of a range withdraws some of its pages, and goes on using the range. So unlike the addresses of a stack or
//! of a page run, the address of a withdrawn page may be needed again before every CPU has flushed its translation
//! ([`tlb`]). Until then the page table entry keeps the frame, but is not present: if the page is needed sooner, it
//! gets the same frame again, for which old translations are right.
//!
//! ```text
//!                 commit                          withdraw
//!   no frame ─────────────────▶ frame, present ─────────────▶ frame, not present
//!       ▲                              ▲         commit               │
//!       │                              └──────────────────────────────┤
//!       └─────────────────────────────────────────────────────────────┘
//!                      reclaim, after an epoch has passed
//! ```

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::structures::paging::PhysFrame;

use super::address::{PAGE_SIZE, SPARSE, VirtAddr, WINDOW_BYTES};
use super::error::OutOfMemory;
use super::frame::{self, Priority};
use super::{paging, pressure, tlb};
use crate::cpu::sync::{InterruptMutex, with_interrupts_off};

/// How many pages a range has.
const PAGES: u32 = u32::BITS;
const BYTES: u64 = PAGES as u64 * PAGE_SIZE as u64;

/// How many frames are taken from the frame allocator, and given back to it, at a time. A call of the frame allocator
/// touches two more pages of the caller's stack (see `mm::stack::ahead`), and a G that then waits for its peer keeps
/// them. With batches, most callers do not need these pages.
const BATCH: usize = 16;

/// Frames that are not in use.
static FRAMES: InterruptMutex<heapless::Vec<PhysFrame, { 2 * BATCH }>> = InterruptMutex::new(heapless::Vec::new());

/// Takes a frame from [`FRAMES`], or from the frame allocator if `FRAMES` is empty.
fn take_frame() -> Result<PhysFrame, OutOfMemory> {
    let ready = FRAMES.lock().pop();
    ready.map_or_else(take_frames, Ok)
}

/// Takes a frame, and more for later. When frames run short, frees cached memory.
#[cold]
fn take_frames() -> Result<PhysFrame, OutOfMemory> {
    if !pressure::make_room_for(BATCH, Priority::Ordinary) {
        return Err(OutOfMemory);
    }
    for _ in 1..BATCH {
        let Ok(frame) = frame::allocate_for(Priority::Ordinary, 1) else { break };
        free_frame(frame);
    }
    frame::allocate_for(Priority::Ordinary, 1)
}

/// Frees a frame that [`take_frame`] has returned, and that is mapped nowhere. Keeps the frame in [`FRAMES`], unless
/// that list is full.
fn free_frame(frame: PhysFrame) {
    if FRAMES.lock().push(frame).is_err() {
        free_frames(frame);
    }
}

#[cold]
fn free_frames(last: PhysFrame) {
    let mut next = Some(last);
    for _ in 0..BATCH {
        let Some(frame) = next else { break };
        #[expect(unsafe_code, reason = "frees frames")]
        // SAFETY: the frame came from `take_frames`, and is mapped nowhere.
        unsafe {
            frame::free(frame);
        }
        next = FRAMES.lock().pop();
    }
    if let Some(frame) = next {
        free_frame(frame);
    }
}

/// The first free address of the window.
static NEXT: AtomicU64 = AtomicU64::new(SPARSE);

/// A range of 32 pages. Its addresses are never used for anything else, so it should not be dropped.
#[derive(Debug)]
pub(crate) struct Sparse {
    start: VirtAddr,
    /// The pages that have a frame and are not present.
    withdrawn: u32,
    /// The epoch that must pass before the frames of these pages are freed.
    epoch: u64,
}

impl Sparse {
    /// Takes the addresses of a range.
    ///
    /// # Errors
    /// If no addresses are left.
    pub(crate) fn reserve() -> Result<Self, OutOfMemory> {
        let room = |start: u64| Some(start + BYTES).filter(|&end| end <= SPARSE + WINDOW_BYTES);
        let start = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).map_err(|_| OutOfMemory)?;
        Ok(Self { start: VirtAddr::new(start), withdrawn: 0, epoch: 0 })
    }

    /// Returns the address of the first page.
    pub(crate) fn start(&self) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.start.as_u64() as usize)).expect("not the null address")
    }

    fn address(&self, page: u32) -> VirtAddr {
        self.start + u64::from(page % PAGES) * PAGE_SIZE as u64
    }

    /// Gives a frame to a page that has none, or back to a page that was withdrawn.
    ///
    /// # Errors
    /// If there are too few frames.
    pub(crate) fn commit(&mut self, page: u32) -> Result<(), OutOfMemory> {
        let address = self.address(page);
        if self.withdrawn & 1 << (page % PAGES) != 0 {
            self.withdrawn &= !(1 << (page % PAGES));
            paging::show(address);
            return Ok(());
        }
        paging::add(address, take_frame).map(drop)
    }

    /// Makes pages inaccessible. `pages` has a bit for each page, all of which must have been committed.
    pub(crate) fn withdraw(&mut self, pages: u32) {
        for page in (0..PAGES).filter(|page| pages & 1 << page != 0) {
            paging::hide(self.address(page));
        }
        self.withdrawn |= pages;
        self.epoch = tlb::begin_epoch() & (u64::MAX >> (u64::BITS - tlb::STORED_BITS));
    }

    /// Frees the frames of the pages that were withdrawn, if no CPU uses a cached translation of them any more. Returns
    /// `false` if a CPU may still use one. The caller must have withdrawn the pages under the same lock.
    pub(crate) fn reclaim(&mut self) -> bool {
        if self.withdrawn != 0 && !tlb::has_passed(self.epoch) {
            // This CPU may take its next interrupt, at which it would flush its TLB, only at the end of a slice. So
            // flush the TLB now.
            with_interrupts_off(tlb::pass);
            if !tlb::has_passed(self.epoch) {
                return false;
            }
        }
        for page in (0..PAGES).filter(|page| self.withdrawn & 1 << page != 0) {
            if let Some(frame) = paging::take_hidden(self.address(page)) {
                free_frame(frame);
            }
        }
        self.withdrawn = 0;
        true
    }
}
