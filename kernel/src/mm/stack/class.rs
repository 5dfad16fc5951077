//! The slots of one class, in two lists: the free slots with memory, and the free slots without memory.
//!
//! A freed stack keeps its memory, which is not cleared. The stack that was freed last is reused first. When memory is
//! short or a CPU has nothing else to do, free stacks lose their frames ([`give_back`]), and their slots are then
//! called *bare*. Other CPUs may still cache translations of a bare slot's pages. So bare slots wait in a queue (first
//! in, first out), and a slot is reused only after an epoch has passed ([`tlb`]).
//!
//! The lists need no memory of their own. The link of a free stack is in the highest word of the stack. The link of a
//! bare slot is in the page table entry of the slot's highest page. While that page is not present, the processor
//! ignores all bits of the entry except the lowest. The other bits are used as follows:
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
use crate::mm::address::PAGE_SIZE;
use crate::mm::error::OutOfMemory;
use crate::mm::frame::{self, Priority};
use crate::mm::{paging, tlb};

/// How many new stacks are made at a time. Each stack gets a frame for its highest page, and these frames are allocated
/// as one block. So a batch takes the lock of the frame allocator only once, and uses page tables that are still in the
/// CPU's caches.
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

/// The number of stack pages that have a frame.
pub(super) static COMMITTED: AtomicUsize = AtomicUsize::new(0);

/// All slots of one class.
pub(super) struct Class {
    number: usize,
    lists: InterruptMutex<Lists>,
}

/// The free slots of one class.
struct Lists {
    /// The slot at the head of the list of free stacks: its index plus 1, or 0 if no stack is free.
    free: usize,
    free_count: usize,
    /// The indices of the first and of the last slot in the queue of bare slots. `None` if the queue is empty.
    bare: Option<(usize, usize)>,
    bare_count: usize,
    /// How many slots of the class have been used at least once. Slots with this index or a higher one may have no page
    /// tables yet.
    made: usize,
}

/// How many slots of a class there are at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// Slots with memory, both in use and free.
    pub(super) with_memory: usize,
    /// Free slots with memory.
    pub(super) free: usize,
}

impl Class {
    const fn new(number: usize) -> Self {
        let lists = Lists { free: 0, free_count: 0, bare: None, bare_count: 0, made: 0 };
        Self { number, lists: InterruptMutex::new(lists) }
    }

    /// Returns a slot with memory. Takes a free slot if there is one, and otherwise makes a new one.
    pub(super) fn take(&self) -> Result<Slot, OutOfMemory> {
        let free = self.lists.lock().pop_free(self.number);
        match free {
            Some(slot) => Ok(slot),
            None if self.commit() == Commit::OnTouch => self.make_batch(),
            None => self.make_whole(),
        }
    }

    /// Frees a slot. The slot keeps its memory.
    pub(super) fn put(&self, slot: Slot) {
        self.lists.lock().push_free(slot);
    }

    /// Frees a slot and its memory.
    pub(super) fn free_with_frames(&self, slot: Slot) {
        self.strip(slot);
    }

    pub(super) fn count(&self) -> Count {
        let lists = self.lists.lock();
        Count { with_memory: lists.made - lists.bare_count, free: lists.free_count }
    }

    /// Returns the priority of the requests for the first frames of a stack.
    pub(super) fn priority(&self) -> Priority {
        match self.commit() {
            Commit::OnTouch => Priority::Spawn,
            Commit::Whole => Priority::Ordinary,
        }
    }

    /// Returns how many frames are to be free when a slot is made: those of a batch, or those of a whole stack.
    pub(super) fn frames_wanted(&self) -> usize {
        match self.commit() {
            Commit::OnTouch => BATCH,
            Commit::Whole => Slot { class: self.number, index: 0 }.bytes() / PAGE_SIZE,
        }
    }

    fn commit(&self) -> Commit {
        Slot { class: self.number, index: 0 }.commit()
    }

    /// Makes a batch of stacks, or a single one if there is no block of frames for a batch. Returns one of the new
    /// stacks, and frees the others.
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
        // Free the stacks in reverse order, so that they are later taken in the order of their frames.
        slots.iter().skip(1).rev().flatten().for_each(|&slot| lists.push_free(slot));
        slots[0].or_else(|| lists.pop_free(self.number)).ok_or(OutOfMemory)
    }

    /// Makes a stack whose pages all have frames from the start.
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

    /// Maps `frame` as the highest page of a slot without memory, and returns the slot. If `slot` is `None`, or there
    /// is no memory for page tables, frees the frame and returns `None`.
    fn begin(&self, slot: Option<Slot>, frame: PhysFrame) -> Option<Slot> {
        let entry = slot.and_then(|slot| paging::entry_for(slot.highest_page(), &mut frame::allocate).ok());
        match entry {
            // Ordering: Relaxed, because nothing is published here. Another CPU gets the stack only through the lock of
            // the list or from the caller, and both make the entry visible to that CPU.
            Some(entry) => {
                entry.store(paging::value(frame, paging::DATA), Ordering::Relaxed);
                COMMITTED.fetch_add(1, Ordering::Relaxed);
                slot
            }
            None => {
                // SAFETY: the caller has allocated this frame, and it is mapped nowhere.
                unsafe { frame::free(frame) };
                self.lists.lock().unmake(slot?);
                None
            }
        }
    }

    /// Frees all frames of a slot that is not in use and not in a list. Afterwards the slot is bare: it has no memory.
    /// Returns how many frames were freed.
    fn strip(&self, slot: Slot) -> usize {
        let mut frames = 0;
        for page in slot.pages() {
            if let Some(frame) = paging::unmap(page) {
                frames += 1;
                // SAFETY: the frame was mapped only at this address. Some CPUs may still cache the translation, but no
                // code accesses the address before the slot is reused. The slot is reused only after an epoch has
                // passed. By then each CPU has flushed its TLB, or is halted and will flush it when it wakes.
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
        // SAFETY: the stack is free, so its highest page has a frame, and `push_free` has written its highest word.
        self.free = unsafe { link(slot).read() };
        self.free_count -= 1;
        Some(slot)
    }

    fn push_free(&mut self, slot: Slot) {
        // SAFETY: the highest page of the stack has a frame, and the caller does not use the stack any more.
        unsafe { link(slot).write(self.free) };
        self.free = slot.index + 1;
        self.free_count += 1;
    }

    /// Takes a slot without memory. This is a bare slot whose epoch (the grace period of its TLB flush) has passed, if
    /// there is one, and otherwise a slot that was never used. In both cases no CPU will use an old translation of the
    /// slot's pages.
    fn take_bare(&mut self, class: usize) -> Option<Slot> {
        self.pop_bare(class).or_else(|| self.make(class))
    }

    /// Takes the first slot in the queue of bare slots if its epoch has passed. Otherwise takes none. The other slots
    /// were queued later, so their epochs have most likely not passed either.
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

    /// Takes a slot that was never used, if there is one.
    fn make(&mut self, class: usize) -> Option<Slot> {
        let slot = (self.made < capacity(class)).then_some(Slot { class, index: self.made })?;
        self.made += 1;
        Some(slot)
    }

    /// Undoes [`make`](Self::make) for a slot that did not get its first page. If other slots have been made since, the
    /// addresses of the slot are never used again. The slot cannot become a bare slot, because a bare slot needs a page
    /// table entry for its link, and the page table may not exist.
    fn unmake(&mut self, slot: Slot) {
        if self.made == slot.index + 1 {
            self.made = slot.index;
        }
    }
}

/// Returns the address of a stack's highest word. While the stack is free, this word contains the link to the next free
/// stack.
fn link(slot: Slot) -> *mut usize {
    core::ptr::with_exposed_provenance_mut::<usize>(slot.top()).wrapping_sub(1)
}

/// Returns the page table entry of a stack's highest page. While the slot is bare, this entry contains the link to the
/// next bare slot. The highest page must have had a frame before, because otherwise its page table may not exist.
fn bare_link(slot: Slot) -> &'static AtomicU64 {
    paging::find_entry(slot.highest_page()).expect("page tables are never freed")
}

/// Frees the frames of free stacks of Gs, until at least `frames` frames are freed or no such stack is left. Returns
/// how many frames were freed.
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
