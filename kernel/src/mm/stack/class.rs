//! The slots of one class, and their free lists: with memory and without.
//!
//! A free stack keeps its memory and is reused, last in, first out; it is not cleared. When memory is short, free stacks lose
//! their frames ([`give_back`]). Then the slot is *bare*: since other CPUs may still cache translations of its pages, it is put
//! at the end of a queue, and reused when an epoch has passed ([`tlb`]).
//!
//! The lists need no memory: the link of a free stack is in its highest word, that of a bare slot in the page table entry of
//! its highest page, whose other bits are unused while it is not present:
//!
//! ```text
//!   63            26 25                        1 0
//!   ┌───────────────┬───────────────────────────┬─┐
//!   │epoch, low bits│ next bare slot + 1, or 0  │0│
//!   └───────────────┴───────────────────────────┴─┘
//! ```

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use x86_64::structures::paging::PhysFrame;

use super::slot::{CLASSES, Commit, Slot, capacity};
use crate::cpu::sync::InterruptMutex;
use crate::mm::error::OutOfMemory;
use crate::mm::frame::{self, Priority};
use crate::mm::{paging, tlb};

/// New stacks are made in batches of this size, each with its highest page: with one critical section of the frame
/// allocator, and with page tables that are in the processor's caches. Their pages fill a block of frames.
const BATCH: usize = 16;

const NEXT_BITS: u32 = 25;
const NEXT_SHIFT: u32 = 1;
const EPOCH_SHIFT: u32 = NEXT_SHIFT + NEXT_BITS;
const _: () = assert!(EPOCH_SHIFT + tlb::STORED_BITS == u64::BITS);

pub(super) static ALL: [Class; CLASSES] = {
    let mut classes = [const { Class::new(0) }; CLASSES];
    let mut number = 0;
    while number < CLASSES {
        classes[number].number = number;
        number += 1;
    }
    classes
};

/// Number of pages of stacks that have a frame.
pub(super) static COMMITTED: AtomicUsize = AtomicUsize::new(0);

/// The slots of one class.
pub(super) struct Class {
    number: usize,
    lists: InterruptMutex<Lists>,
}

/// Free slots.
struct Lists {
    /// The free stack to be used next: its index plus 1; 0 if there is none.
    free: usize,
    free_count: usize,
    /// The first and the last bare slot.
    bare: Option<(usize, usize)>,
    bare_count: usize,
    /// Number of slots that have been used: the others have no page tables yet.
    made: usize,
}

/// Numbers of slots of a class at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// With memory: in use, or free.
    pub(super) with_memory: usize,
    /// Free.
    pub(super) free: usize,
}

impl Class {
    const fn new(number: usize) -> Self {
        let lists = Lists { free: 0, free_count: 0, bare: None, bare_count: 0, made: 0 };
        Self { number, lists: InterruptMutex::new(lists) }
    }

    /// A slot with memory: a free one, otherwise a new one.
    pub(super) fn take(&self) -> Result<Slot, OutOfMemory> {
        let free = self.lists.lock().pop_free(self.number);
        match free {
            Some(slot) => Ok(slot),
            None if self.commit() == Commit::OnTouch => self.make_batch(),
            None => self.make_whole(),
        }
    }

    /// Frees a slot with its memory.
    pub(super) fn put(&self, slot: Slot) {
        self.lists.lock().push_free(slot);
    }

    pub(super) fn count(&self) -> Count {
        let lists = self.lists.lock();
        Count { with_memory: lists.made - lists.bare_count, free: lists.free_count }
    }

    fn commit(&self) -> Commit {
        Slot { class: self.number, index: 0 }.commit()
    }

    /// Makes a batch of stacks, or a single one if there is no block of frames for more; returns one of them.
    #[cold]
    fn make_batch(&self) -> Result<Slot, OutOfMemory> {
        let (first, count) = match frame::allocate_for(Priority::Spawn, BATCH) {
            Ok(first) => (first, BATCH),
            Err(OutOfMemory) => (frame::allocate_for(Priority::Spawn, 1)?, 1),
        };
        let mut slots = [None; BATCH];
        let slots = &mut slots[..count];
        {
            let mut lists = self.lists.lock();
            slots.iter_mut().for_each(|slot| *slot = lists.take_bare(self.number));
        }
        for (slot, index) in slots.iter_mut().zip(0..) {
            *slot = self.begin(*slot, first + index);
        }
        let mut lists = self.lists.lock();
        // In reverse order, so that they are used from the first to the last.
        slots.iter().skip(1).rev().flatten().for_each(|&slot| lists.push_free(slot));
        slots[0].or_else(|| lists.pop_free(self.number)).ok_or(OutOfMemory)
    }

    /// Makes a stack with all its memory.
    #[cold]
    fn make_whole(&self) -> Result<Slot, OutOfMemory> {
        let frame = frame::allocate_for(Priority::Ordinary, 1)?;
        let slot = self.lists.lock().take_bare(self.number);
        let slot = self.begin(slot, frame).ok_or(OutOfMemory)?;
        for page in slot.pages().skip(1) {
            match paging::add(page, || frame::allocate_for(Priority::Ordinary, 1)) {
                Ok(_) => COMMITTED.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    self.strip(slot);
                    return Err(error);
                }
            };
        }
        Ok(slot)
    }

    /// Makes `frame` the highest page of a slot without memory. If there is no slot, or no memory for its page tables, the
    /// frame is freed.
    fn begin(&self, slot: Option<Slot>, frame: PhysFrame) -> Option<Slot> {
        let entry = slot.and_then(|slot| paging::entry_for(slot.highest_page(), &mut frame::allocate).ok());
        match entry {
            // Ordering: nothing is published here; the entry is published together with the stack.
            Some(entry) => {
                entry.store(paging::value(frame, paging::DATA), Ordering::Relaxed);
                COMMITTED.fetch_add(1, Ordering::Relaxed);
                slot
            }
            None => {
                // SAFETY: the caller allocated it, and it is mapped nowhere.
                unsafe { frame::free(frame) };
                self.lists.lock().unmake(slot?);
                None
            }
        }
    }

    /// Takes all memory from a free slot. Returns the number of frames that are free now.
    fn strip(&self, slot: Slot) -> usize {
        let mut frames = 0;
        for page in slot.pages() {
            let Some(entry) = paging::find_entry(page) else { continue };
            if let Some(frame) = paging::frame_of(entry.swap(0, Ordering::Relaxed)) {
                frames += 1;
                // SAFETY: it was mapped here only. CPUs that still cache the translation do not access the address before the
                // slot is reused, which is after the epoch.
                unsafe { frame::free(frame) };
            }
        }
        COMMITTED.fetch_sub(frames, Ordering::Relaxed);
        let epoch = tlb::begin_epoch();
        self.lists.lock().push_bare(slot, epoch);
        frames
    }
}

impl Lists {
    fn pop_free(&mut self, class: usize) -> Option<Slot> {
        let slot = Slot { class, index: self.free.checked_sub(1)? };
        // SAFETY: the stack is free, so its highest word was written by `push_free`.
        self.free = unsafe { link(slot).read() };
        self.free_count -= 1;
        Some(slot)
    }

    fn push_free(&mut self, slot: Slot) {
        // SAFETY: the stack has its highest page, and the caller does not use it any more.
        unsafe { link(slot).write(self.free) };
        self.free = slot.index + 1;
        self.free_count += 1;
    }

    /// A slot without memory of which no CPU caches translations.
    fn take_bare(&mut self, class: usize) -> Option<Slot> {
        self.pop_bare(class).or_else(|| self.make(class))
    }

    /// The bare slot that has waited longest, if its epoch has passed.
    fn pop_bare(&mut self, class: usize) -> Option<Slot> {
        let (first, last) = self.bare?;
        let slot = Slot { class, index: first };
        let link = bare_link(slot).load(Ordering::Relaxed);
        if !tlb::has_passed(link >> EPOCH_SHIFT) {
            return None;
        }
        let next = (link >> NEXT_SHIFT) as usize & ((1 << NEXT_BITS) - 1);
        self.bare = next.checked_sub(1).map(|next| (next, last));
        self.bare_count -= 1;
        Some(slot)
    }

    fn push_bare(&mut self, slot: Slot, epoch: u64) {
        bare_link(slot).store(epoch << EPOCH_SHIFT, Ordering::Relaxed);
        let first = match self.bare {
            Some((first, last)) => {
                let last = bare_link(Slot { index: last, ..slot });
                last.fetch_or((slot.index as u64 + 1) << NEXT_SHIFT, Ordering::Relaxed);
                first
            }
            None => slot.index,
        };
        self.bare = Some((first, slot.index));
        self.bare_count += 1;
    }

    /// A slot that has never been used.
    fn make(&mut self, class: usize) -> Option<Slot> {
        let slot = (self.made < capacity(class)).then_some(Slot { class, index: self.made })?;
        self.made += 1;
        Some(slot)
    }

    /// Undoes [`make`](Self::make) for a slot that did not get its first page. It may have no page table, and so no room for a
    /// link: if other slots were made since, its addresses are never used.
    fn unmake(&mut self, slot: Slot) {
        if self.made == slot.index + 1 {
            self.made = slot.index;
        }
    }
}

/// The highest word of a stack.
fn link(slot: Slot) -> *mut usize {
    core::ptr::with_exposed_provenance_mut::<usize>(slot.top()).wrapping_sub(1)
}

/// The page table entry of a stack's highest page, for a slot that has had that page.
fn bare_link(slot: Slot) -> &'static AtomicU64 {
    paging::find_entry(slot.highest_page()).expect("page tables are never freed")
}

/// Takes the frames from free stacks of Gs until `frames` are freed, or there are no more. Returns how many.
pub(in crate::mm) fn give_back(frames: usize) -> usize {
    let mut freed = 0;
    for class in ALL.iter().filter(|class| class.commit() == Commit::OnTouch) {
        while freed < frames {
            let free = class.lists.lock().pop_free(class.number);
            let Some(slot) = free else { break };
            freed += class.strip(slot);
        }
    }
    freed
}
