//! Touching pages of a stack before they are needed, so that code which must not take a page fault takes none.

use core::arch::asm;

use super::slot::{Commit, Slot};
use crate::mm::address::PAGE_SIZE;

/// Touches the next two pages below the caller's stack pointer, which can then be used without a page fault. The guard page is
/// not touched: code that gets there has overflowed the stack anyway.
#[inline]
pub(in crate::mm) fn touch_ahead() {
    touch_pages_ahead(2);
}

/// [`touch_ahead`] for another number of pages.
pub(crate) fn touch_pages_ahead(pages: usize) {
    let here: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    let Some(slot) = Slot::containing(here).filter(|slot| slot.commit() == Commit::OnTouch) else { return };
    for page in 1..=pages {
        let address = here - page * PAGE_SIZE;
        if address >= slot.lowest() {
            // SAFETY: a byte of the caller's own stack, below what is in use.
            unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() };
        }
    }
}
