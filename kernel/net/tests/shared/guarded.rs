//! Rooms for tests: a page without memory cannot be accessed, so that a wrong access ends the test.

extern crate std;

use core::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use gmp_sched::platform::OutOfResources;

use super::{PAGE_BYTES, ROOM_PAGES, Room};

/// How many pages of all rooms have memory, also of those that were withdrawn and not reclaimed.
pub(crate) static COMMITTED: AtomicUsize = AtomicUsize::new(0);

const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
const ROOM_BYTES: usize = ROOM_PAGES as usize * PAGE_BYTES;

struct Guarded {
    start: NonNull<u8>,
    present: u32,
    withdrawn: u32,
    /// Whether the last call of `reclaim` was in vain.
    is_tried: bool,
}

// SAFETY: the memory is accessed by the owner of the room only.
unsafe impl Send for Guarded {}

pub(crate) fn make() -> Result<&'static mut dyn Room, OutOfResources> {
    // SAFETY: the system chooses the addresses.
    let start = unsafe { libc::mmap(ptr::null_mut(), ROOM_BYTES, libc::PROT_NONE, FLAGS, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(OutOfResources);
    }
    let start = NonNull::new(start.cast()).ok_or(OutOfResources)?;
    Ok(&mut std::vec![Guarded { start, present: 0, withdrawn: 0, is_tried: false }].leak()[0])
}

impl Guarded {
    fn page(&self, page: u32) -> NonNull<u8> {
        assert!(page < ROOM_PAGES);
        // SAFETY: the page is in the room.
        unsafe { self.start.add(page as usize * PAGE_BYTES) }
    }
}

// SAFETY: a page that was committed can be read and written, and is in no other room.
unsafe impl Room for Guarded {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn commit(&mut self, page: u32) -> Result<(), OutOfResources> {
        assert_eq!(self.present & 1 << page, 0, "page {page} has memory");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the page is in the room, and becomes accessible.
        let result = unsafe { libc::mprotect(self.page(page).as_ptr().cast(), PAGE_BYTES, access) };
        assert_eq!(result, 0);
        if self.withdrawn & 1 << page == 0 {
            COMMITTED.fetch_add(1, Ordering::Relaxed);
        }
        self.present |= 1 << page;
        self.withdrawn &= !(1 << page);
        // SAFETY: the page has memory now. Nobody may expect anything in it.
        unsafe { self.page(page).write_bytes(0x5a, PAGE_BYTES) };
        Ok(())
    }

    fn withdraw(&mut self, pages: u32) {
        assert_eq!(pages & !self.present, 0, "{pages:#x} of {:#x}", self.present);
        for page in (0..ROOM_PAGES).filter(|page| pages & 1 << page != 0) {
            // Rooms are never unmapped, and a fuzz test makes many thousands. So the page is mapped anew, which frees its
            // memory, and lets the system join the page with its neighbours again.
            let flags = FLAGS | libc::MAP_FIXED;
            // SAFETY: the page is in the room, and nothing in it is used any more.
            let mapped =
                unsafe { libc::mmap(self.page(page).as_ptr().cast(), PAGE_BYTES, libc::PROT_NONE, flags, -1, 0) };
            assert_ne!(mapped, libc::MAP_FAILED);
        }
        self.present &= !pages;
        self.withdrawn |= pages;
        self.is_tried = false;
    }

    /// Like a kernel whose other CPUs need some time.
    fn reclaim(&mut self) -> bool {
        if self.withdrawn != 0 && !self.is_tried {
            self.is_tried = true;
            return false;
        }
        COMMITTED.fetch_sub(self.withdrawn.count_ones() as usize, Ordering::Relaxed);
        self.withdrawn = 0;
        true
    }
}
