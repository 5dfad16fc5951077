//! The heap: Go's mcache, mcentral, mheap over the kernel's memory.
//!
//! Objects up to 2 KiB come from caches of each CPU, by size class (`object_cache`). The memory for them, and everything larger,
//! comes from the large heap (`large_heap`).
//!
//! Not callable from interrupt handlers, which panic here instead of finding a half-changed list, nor with an `InterruptMutex`
//! held: see [`contexts`]. When memory is exhausted, `try_reserve` and its like return their error; other allocations panic.

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use super::error::OutOfMemory;
use super::large_heap::{allocate_large, free_large};
use super::object_cache;
use crate::cpu::contexts;

/// The global allocator of every program.
#[derive(Debug)]
pub(crate) struct KernelHeap;

// SAFETY: allocated memory belongs to one caller until it is freed, and has the requested size and alignment: see the two
// levels.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        contexts::assert_may_allocate();
        let memory = match object_cache::class_of(layout) {
            Some(class) => object_cache::allocate(class),
            None => allocate_large(layout),
        };
        memory.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        contexts::assert_may_allocate();
        let Some(memory) = NonNull::new(memory) else { return };
        match object_cache::class_of(layout) {
            // SAFETY: the caller's promise; the class depends on the layout only.
            Some(class) => unsafe { object_cache::free(memory, class) },
            // SAFETY: as above.
            None => unsafe { free_large(memory, layout) },
        }
    }
}

/// Puts a value on the heap and never frees it.
///
/// # Errors
/// If there is no memory for it.
pub(crate) fn leak<T>(value: T) -> Result<&'static mut T, OutOfMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
    values.push(value);
    values.leak().first_mut().ok_or(OutOfMemory)
}
