//! The switch as ThreadSanitizer has to be told of it (`--cfg gmp_tsan`, see CONTRIBUTING): to it each stack is a
//! *fiber* with a history of its own.
//!
//! Stacks are registered page by page, in a table that is read and written with relaxed accesses: a lock here would
//! order what the scheduler itself has to order, and hide what is looked for.

use core::ffi::c_void;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::cell::Cell;

use super::{SavedContext, Transfer, x86_64};

unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut c_void;
    fn __tsan_create_fiber(flags: u32) -> *mut c_void;
    fn __tsan_destroy_fiber(fiber: *mut c_void);
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
}

const PAGE: usize = 4096;

/// Pages that can be registered; a power of two.
const PAGES: usize = 1 << 20;

/// From a page, 0 if the entry is free, to its fiber, null if it has none any more.
struct Entry {
    page: AtomicUsize,
    fiber: AtomicPtr<c_void>,
}

static TABLE: [Entry; PAGES] =
    [const { Entry { page: AtomicUsize::new(0), fiber: AtomicPtr::new(ptr::null_mut()) } }; PAGES];

std::thread_local! {
    /// Of the thread's own stack.
    static OWN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// The entry of a page, which may be a free one.
fn entry(page: usize) -> &'static Entry {
    let first = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - PAGES.ilog2());
    (first..first + PAGES)
        .map(|index| &TABLE[index % PAGES])
        .find(|entry| matches!(entry.page.load(Ordering::Relaxed), found if found == page || found == 0))
        .expect("the table has room for every page of every stack")
}

/// `stack` is to be switched to from now on.
pub(crate) fn add(stack: &Range<usize>) {
    // SAFETY: makes a fiber; nothing runs on it yet.
    let fiber = unsafe { __tsan_create_fiber(0) };
    for page in stack.clone().step_by(PAGE).map(|address| address / PAGE) {
        loop {
            let entry = entry(page);
            let mine = entry.page.compare_exchange(0, page, Ordering::Relaxed, Ordering::Relaxed);
            if mine.is_ok() || mine == Err(page) {
                entry.fiber.store(fiber, Ordering::Relaxed);
                break;
            }
        }
    }
}

/// Nothing runs on `stack` any more.
pub(crate) fn remove(stack: &Range<usize>) {
    let fiber = entry(stack.start / PAGE).fiber.load(Ordering::Relaxed);
    for page in stack.clone().step_by(PAGE).map(|address| address / PAGE) {
        entry(page).fiber.store(ptr::null_mut(), Ordering::Relaxed);
    }
    // SAFETY: made by `add`, and nothing runs on its stack any more.
    unsafe { __tsan_destroy_fiber(fiber) };
}

/// The fiber to which the stack pointer `to` belongs: that of a registered stack, else the thread's own. That of a fresh context
/// is the end of its stack.
#[inline(never)]
fn find(to: usize) -> *mut c_void {
    let here = entry(ptr::from_ref(&to).addr() / PAGE).fiber.load(Ordering::Relaxed);
    if here.is_null() {
        // SAFETY: asks which fiber this is.
        OWN.set(unsafe { __tsan_get_current_fiber() });
    }
    let there = entry((to - 1) / PAGE).fiber.load(Ordering::Relaxed);
    if there.is_null() { OWN.get() } else { there }
}

/// [`x86_64::switch_without_control_words`], announced.
///
/// # Safety
///
/// As for that; stacks of the calling thread aside, all have been registered.
#[inline(always)]
pub unsafe fn switch(save: *const SavedContext, to: *const SavedContext, transfer: Transfer) -> Transfer {
    // SAFETY: by the caller it is a context.
    let fiber = find(unsafe { (*to).stack_pointer() });
    // Nothing instrumented may come between this and the switch: it would be booked to the wrong fiber.
    // SAFETY: `fiber` is that of the stack which the next step switches to.
    unsafe { __tsan_switch_to_fiber(fiber, 0) };
    // SAFETY: by the caller.
    unsafe { x86_64::switch_without_control_words(save, to, transfer) }
}

/// [`x86_64::resume_without_control_words`], announced.
///
/// # Safety
///
/// As for [`switch`].
#[inline(always)]
pub unsafe fn resume(to: *const SavedContext, transfer: Transfer) -> ! {
    // SAFETY: by the caller it is a context.
    let fiber = find(unsafe { (*to).stack_pointer() });
    // SAFETY: as in `switch`.
    unsafe { __tsan_switch_to_fiber(fiber, 0) };
    // SAFETY: by the caller.
    unsafe { x86_64::resume_without_control_words(to, transfer) }
}
