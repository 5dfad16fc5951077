//! The context switch under ThreadSanitizer (`--cfg gmp_tsan`, see CONTRIBUTING). ThreadSanitizer must be notified of
//! each switch, because it treats each stack as a *fiber* with a history of its own.
//!
//! A table maps each page of each stack to its fiber. All accesses to the table are relaxed atomics. A lock would also
//! order the accesses that the scheduler must order by itself, and would so hide data races of the scheduler.

use core::ffi::c_void;
use core::ops::{Range, RangeInclusive};
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

/// The maximum number of registered pages; a power of two.
const PAGES: usize = 1 << 22;

/// An entry of the hash table: a page (0 if the entry is free) and its fiber (null if the stack has been removed).
struct Entry {
    page: AtomicUsize,
    fiber: AtomicPtr<c_void>,
}

static TABLE: [Entry; PAGES] =
    [const { Entry { page: AtomicUsize::new(0), fiber: AtomicPtr::new(ptr::null_mut()) } }; PAGES];

std::thread_local! {
    /// The fiber of the thread's own stack.
    static OWN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Returns the entry of `page`, or the free entry in which it is to be stored.
fn entry(page: usize) -> &'static Entry {
    let first = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - PAGES.ilog2());
    (first..first + PAGES)
        .map(|index| &TABLE[index % PAGES])
        .find(|entry| matches!(entry.page.load(Ordering::Relaxed), found if found == page || found == 0))
        .expect("the table has room for every page of every stack")
}

/// The pages of `stack`, which need not begin or end at a page boundary.
fn pages(stack: &Range<usize>) -> RangeInclusive<usize> {
    stack.start / PAGE..=(stack.end - 1) / PAGE
}

/// Registers `stack` before the first switch to it.
pub(crate) fn add(stack: &Range<usize>) {
    // SAFETY: this only creates a fiber. Nothing runs on it yet.
    let fiber = unsafe { __tsan_create_fiber(0) };
    for page in pages(stack) {
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

/// Unregisters `stack`, on which nothing runs any more.
pub(crate) fn remove(stack: &Range<usize>) {
    let fiber = entry(stack.start / PAGE).fiber.load(Ordering::Relaxed);
    for page in pages(stack) {
        entry(page).fiber.store(ptr::null_mut(), Ordering::Relaxed);
    }
    // SAFETY: `add` created the fiber, and the caller guarantees that nothing runs on its stack any more.
    unsafe { __tsan_destroy_fiber(fiber) };
}

/// Returns the fiber of the registered stack to which the stack pointer `to` belongs. If `to` is on no registered
/// stack, returns the fiber of the thread's own stack. The stack pointer of a fresh context is the end of its stack,
/// just above its last page, so the address below `to` is looked up.
#[inline(never)]
fn find(to: usize) -> *mut c_void {
    let here = entry(ptr::from_ref(&to).addr() / PAGE).fiber.load(Ordering::Relaxed);
    if here.is_null() {
        // SAFETY: this call only returns the current fiber.
        OWN.set(unsafe { __tsan_get_current_fiber() });
    }
    let there = entry((to - 1) / PAGE).fiber.load(Ordering::Relaxed);
    if there.is_null() { OWN.get() } else { there }
}

/// Like [`x86_64::switch_without_control_words`], but notifies ThreadSanitizer.
///
/// # Safety
///
/// The requirements of [`x86_64::switch_without_control_words`] apply. In addition, all stacks except the thread's own
/// must be registered.
#[inline(always)]
pub unsafe fn switch(save: *const SavedContext, to: *const SavedContext, transfer: Transfer) -> Transfer {
    // SAFETY: the caller guarantees that `to` points to a saved or prepared context.
    let fiber = find(unsafe { (*to).stack_pointer() });
    // No instrumented code may run between this call and the switch, because it would be attributed to the wrong fiber.
    // SAFETY: `fiber` belongs to the stack to which the next statement switches.
    unsafe { __tsan_switch_to_fiber(fiber, 0) };
    // SAFETY: the contract of this function includes that of the called function.
    unsafe { x86_64::switch_without_control_words(save, to, transfer) }
}

/// Like [`x86_64::resume_without_control_words`], but notifies ThreadSanitizer.
///
/// # Safety
///
/// The requirements of [`switch`] apply.
#[inline(always)]
pub unsafe fn resume(to: *const SavedContext, transfer: Transfer) -> ! {
    // SAFETY: the caller guarantees that `to` points to a saved or prepared context.
    let fiber = find(unsafe { (*to).stack_pointer() });
    // SAFETY: `fiber` belongs to the stack to which the next statement switches.
    unsafe { __tsan_switch_to_fiber(fiber, 0) };
    // SAFETY: the contract of this function includes that of the called function.
    unsafe { x86_64::resume_without_control_words(to, transfer) }
}
