//! Touches pages of a stack in advance, so that these pages have frames. Code that must not cause a page fault can then
//! use them.

use core::arch::asm;

use super::slot::{Commit, Slot};
use crate::mm::address::PAGE_SIZE;

/// Touches the next two pages below the caller's stack pointer, so that the caller can use them without a page fault.
/// If one of these pages is the guard page, it is not touched. A caller that needs the guard page overflows its stack
/// in any case.
#[inline]
pub(in crate::mm) fn touch_ahead() {
    touch_pages_ahead(2);
}

/// Touches the next `pages` pages below the caller's stack pointer, as [`touch_ahead`] does with two.
pub(crate) fn touch_pages_ahead(pages: usize) {
    let here: usize;
    // SAFETY: the instruction only reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    let Some(slot) = Slot::containing(here).filter(|slot| slot.commit() == Commit::OnTouch) else { return };
    for page in 1..=pages {
        let address = here - page * PAGE_SIZE;
        if address >= slot.lowest() {
            // SAFETY: the byte is in the caller's own stack, above the guard page. The read changes nothing but may
            // cause a page fault, which maps the page.
            unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() };
        }
    }
}
