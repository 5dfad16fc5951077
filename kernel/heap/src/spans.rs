//! Spans, and what the CPUs share of one class: chains of free objects, and the spans that have free objects.
//!
//! A *span* is a page run that is divided into objects of one class. Each page has a [`Header`] in a table, so that the
//! span of an object is found from the object's address. The header of a span's first page describes the whole span.
//!
//! An object that is in use, or free in a chain, counts as *used* by its span. When no object of a span is used, the
//! pages of the span can be used for something else.

use core::ptr::{self, NonNull};

use crate::PAGE_SIZE;
use crate::classes::{FIRST_PAGES, LATER_PAGES, SIZES};
use crate::magazine::{Chain, Object};

/// The largest number of pages of a span.
pub const MOST_PAGES: usize = 16;
/// When a class has this many spans, its further spans have [`LATER_PAGES`] pages.
const FEW_SPANS: usize = 8;
/// Objects are aligned to this many bytes. Offsets of objects are stored in this unit.
const UNIT: usize = 16;

/// What is known about a page of a span. The header of the first page describes the span. In the others only `back` is
/// used.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// The distance from the first page of the span, in pages.
    back: u8,
    /// The number of pages of the span.
    pages: u8,
    /// The first free object: its offset in the span in [`UNIT`]s, plus one; 0 if no object is free.
    free: u16,
    used: u16,
    capacity: u16,
    /// The neighbours in the list of spans with free objects: the number of a page plus one, or 0 at the ends.
    previous: u32,
    next: u32,
}

const _: () = assert!(size_of::<Header>() == crate::runs::ENTRY_BYTES);

/// Where the pages of all spans are, and their headers.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pages: *mut u8,
    headers: *mut Header,
}

impl Memory {
    /// # Safety
    /// `headers` must be the address of a table with an entry for each page from `pages` on. While a run is a span, its
    /// pages and their headers must have memory, which belongs to the span alone.
    #[must_use]
    #[inline(always)]
    pub const unsafe fn new(pages: *mut u8, headers: *mut Header) -> Self {
        Self { pages, headers }
    }

    fn header(self, page: usize) -> *mut Header {
        self.headers.wrapping_add(page)
    }

    fn offset(self, object: NonNull<Object>) -> usize {
        object.addr().get() - self.pages.addr()
    }

    fn object(self, offset: usize) -> *mut Object {
        self.pages.wrapping_add(offset).cast()
    }

    /// Divides a run into objects of a class, and returns all of them as one chain.
    ///
    /// # Safety
    /// The run of `pages` pages from page `first` on must have memory and be used for nothing else.
    #[must_use]
    pub unsafe fn divide(self, class: usize, first: usize, pages: usize) -> Chain {
        let size = SIZES[class];
        let capacity = pages * PAGE_SIZE / size;
        for back in 0..pages {
            let back = back as u8;
            let all = capacity as u16;
            let header = Header { back, pages: pages as u8, free: 0, used: all, capacity: all, previous: 0, next: 0 };
            // SAFETY: the caller promises that the run is unused, so the headers of its pages are, too.
            unsafe { self.header(first + usize::from(back)).write(header) };
        }
        let mut chain = Chain::new();
        // The first object is pushed last, so that a new span is used from its beginning.
        for index in (0..capacity).rev() {
            if let Some(object) = NonNull::new(self.object(first * PAGE_SIZE + index * size)) {
                // SAFETY: the object is inside the run, which is not in use. Objects do not overlap.
                unsafe { chain.push(object) };
            }
        }
        chain
    }
}

/// A span of which no object is used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unused {
    /// The number of the first page.
    pub first: usize,
    /// The number of pages.
    pub pages: usize,
}

/// What the CPUs share of one class.
#[derive(Debug)]
pub struct Class {
    /// The first object of the first chain. The word `chain` of that object comes from [`packed`].
    chains: *mut Object,
    /// The first span with free objects: the number of its first page plus one, or 0 if there is none.
    partial: u32,
    /// The number of spans.
    spans: usize,
}

// SAFETY: the memory to which a class refers belongs to no particular CPU.
unsafe impl Send for Class {}

impl Class {
    /// Makes a class without spans.
    #[must_use]
    pub const fn new() -> Self {
        Self { chains: ptr::null_mut(), partial: 0, spans: 0 }
    }

    /// Takes a chain that was [put](Self::put), or else all free objects of a span.
    pub fn take(&mut self, memory: Memory) -> Option<Chain> {
        self.take_chain(memory).or_else(|| self.take_partial(memory))
    }

    /// Takes the chain that was [put](Self::put) last.
    pub fn take_chain(&mut self, memory: Memory) -> Option<Chain> {
        let head = NonNull::new(self.chains)?;
        // SAFETY: the object is the first of a shared chain, so it is free, and `put` has written the word.
        let word = unsafe { (*head.as_ptr()).chain };
        let (next, count) = unpacked(word);
        self.chains = next.map_or(ptr::null_mut(), |offset| memory.object(offset));
        Some(Chain { head: head.as_ptr(), count })
    }

    fn take_partial(&mut self, memory: Memory) -> Option<Chain> {
        let first = self.partial.checked_sub(1)? as usize;
        // SAFETY: the span is on the list, so its header is in use as such, and the caller has this class to itself.
        let span = unsafe { &mut *memory.header(first) };
        let head = memory.object(first * PAGE_SIZE + (usize::from(span.free) - 1) * UNIT);
        let chain = Chain { head, count: usize::from(span.capacity - span.used) };
        (span.free, span.used) = (0, span.capacity);
        self.partial = span.next;
        if let Some(next) = self.partial.checked_sub(1) {
            // SAFETY: this is the header of the next span on the list, which only this caller uses, too.
            unsafe { (*memory.header(next as usize)).previous = 0 };
        }
        Some(chain)
    }

    /// Adds a chain, for any CPU to take.
    ///
    /// # Safety
    /// The objects must be of this class.
    pub unsafe fn put(&mut self, memory: Memory, chain: Chain) {
        let Some(head) = NonNull::new(chain.head) else { return };
        let next = NonNull::new(self.chains).map(|next| memory.offset(next));
        // SAFETY: the object is free, and only the owner of the chain accesses it. Objects of every class have two
        // words.
        unsafe { (*head.as_ptr()).chain = packed(next, chain.count) };
        self.chains = head.as_ptr();
    }

    /// Counts a span that the caller is about to make, and returns how many pages it is to have.
    pub fn begin_span(&mut self, class: usize) -> usize {
        let pages = if self.spans < FEW_SPANS { FIRST_PAGES[class] } else { LATER_PAGES[class] };
        self.spans += 1;
        usize::from(pages)
    }

    /// Undoes [`begin_span`](Self::begin_span), because the span could not be made.
    pub fn cancel_span(&mut self) {
        self.spans -= 1;
    }

    /// Returns an object to its span. If no object of the span is used any more, removes the span and returns it.
    ///
    /// # Safety
    /// The object must be of this class, and must not be in use.
    pub unsafe fn give_back(&mut self, memory: Memory, object: NonNull<Object>) -> Option<Unused> {
        let offset = memory.offset(object);
        let page = offset / PAGE_SIZE;
        // SAFETY: the object is in a span of this class, so the page has a header. `back` does not change.
        let first = page - usize::from(unsafe { (*memory.header(page)).back });
        // SAFETY: this is the header of the span that contains the object. The caller has this class, with the headers of
        // its spans, to itself.
        let span = unsafe { &mut *memory.header(first) };
        let was_full = span.free == 0;
        let next = if was_full {
            ptr::null_mut()
        } else {
            memory.object(first * PAGE_SIZE + (usize::from(span.free) - 1) * UNIT)
        };
        // SAFETY: the caller promises that the object is not in use.
        unsafe { (*object.as_ptr()).next = next };
        span.free = ((offset - first * PAGE_SIZE) / UNIT) as u16 + 1;
        span.used -= 1;
        if span.used == 0 {
            let pages = usize::from(span.pages);
            let (previous, next) = (span.previous, span.next);
            if !was_full {
                self.unlink(memory, previous, next);
            }
            self.spans -= 1;
            return Some(Unused { first, pages });
        }
        if was_full {
            (span.previous, span.next) = (0, self.partial);
            self.partial = first as u32 + 1;
            if let Some(next) = span.next.checked_sub(1) {
                // SAFETY: the next span is on the list, and is another one.
                unsafe { (*memory.header(next as usize)).previous = self.partial };
            }
        }
        None
    }

    /// Removes the span with these neighbours from the list.
    fn unlink(&mut self, memory: Memory, previous: u32, next: u32) {
        match previous.checked_sub(1) {
            // SAFETY: the neighbours are on the list, so their headers are in use as such.
            Some(previous) => unsafe { (*memory.header(previous as usize)).next = next },
            None => self.partial = next,
        }
        if let Some(next) = next.checked_sub(1) {
            // SAFETY: the neighbours are on the list, so their headers are in use as such.
            unsafe { (*memory.header(next as usize)).previous = previous };
        }
    }
}

impl Default for Class {
    fn default() -> Self {
        Self::new()
    }
}

/// How many bits of a packed word contain the number of objects.
const COUNT_BITS: u32 = 16;

/// Packs the offset of the next chain and the number of objects of this one into a word.
fn packed(next: Option<usize>, count: usize) -> usize {
    next.map_or(0, |offset| offset / UNIT + 1) << COUNT_BITS | count
}

fn unpacked(word: usize) -> (Option<usize>, usize) {
    let next = (word >> COUNT_BITS).checked_sub(1).map(|offset| offset * UNIT);
    (next, word & ((1 << COUNT_BITS) - 1))
}
