//! The heap, in levels like those of Go (mcache, mcentral, mheap).
//!
//! An object of up to 64 KiB, whose alignment is at most a page, comes from the calling CPU's cache for its size class
//! (`object_cache`). The memory for these objects, and every other object, are runs of pages (`page_runs`). The data
//! structures are in the crate `kernel-heap`.
//!
//! Free memory keeps its frames until they are wanted or a CPU has nothing else to do: see `pressure`. Then free
//! objects return to their spans, and the pages of a span whose objects are all free lose their frames.
//!
//! The heap must not be used by interrupt handlers, or while an `InterruptMutex` is held. Such a use panics: see
//! [`contexts`] for the reasons. When memory is exhausted, `try_reserve` and similar functions return their error;
//! other allocations panic.

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};

use kernel_heap::classes::class_of;

use super::error::OutOfMemory;
use super::page_runs::{allocate_large, free_large};
use super::{object_cache, page_runs, refusal};
use crate::cpu::contexts;
use crate::cpu::cpus;
use crate::cpu::local::{Word as _, cpu_local};
use crate::cpu::percpu::CpuId;

cpu_local! {
    /// How many bytes were allocated on this CPU minus how many were freed on it, modulo 2^64. An object may be freed
    /// on another CPU than that on which it was allocated, so only the sum over all CPUs has a meaning.
    static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
}

/// Returns how many bytes of the heap are in use: the sizes of all objects that were allocated and not freed, as their
/// owners have asked for them. Exact as long as no other code uses the heap.
pub(crate) fn live_bytes() -> usize {
    let all = (0..cpus::count()).filter_map(|cpu| LIVE_BYTES.of(CpuId::new(cpu)));
    all.fold(0, |sum: usize, bytes| sum.wrapping_add(bytes.load(Ordering::Relaxed)))
}

/// The global allocator of every program.
#[derive(Debug)]
pub(crate) struct KernelHeap;

// SAFETY: `object_cache` and `page_runs` return memory of at least the requested size and alignment, which nothing
// else uses until it is freed.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        contexts::assert_may_allocate();
        if refusal::refuses() {
            return ptr::null_mut();
        }
        let memory = match class_of(layout) {
            Some(class) => object_cache::allocate(class),
            None => allocate_large(layout),
        };
        let Ok(memory) = memory else { return ptr::null_mut() };
        LIVE_BYTES.add_here(layout.size());
        memory.as_ptr()
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        contexts::assert_may_allocate();
        let Some(memory) = NonNull::new(memory) else { return };
        LIVE_BYTES.add_here(layout.size().wrapping_neg());
        match class_of(layout) {
            // SAFETY: the caller promises that `alloc` has returned `memory` for this layout. The class depends only on
            // the layout, so `alloc` has used the same class.
            Some(class) => unsafe { object_cache::free(memory, class) },
            // SAFETY: the caller promises that `alloc` has returned `memory` for this layout. A layout without a class
            // is a page run of its own.
            None => unsafe { free_large(memory, layout) },
        }
    }
}

/// Frees the frames of heap memory that is not in use, until at least `frames` frames are freed or no such memory is
/// left. Returns how many frames were freed. Callable wherever memory may be allocated.
pub(super) fn release(frames: usize) -> usize {
    let freed = page_runs::release_idle(frames);
    freed + object_cache::release(frames - freed.min(frames))
}

/// Moves a value to the heap, where it is never freed.
///
/// # Errors
/// If there is no memory for it.
pub(crate) fn leak<T>(value: T) -> Result<&'static mut T, OutOfMemory> {
    leak_made(|| Ok(value))
}

/// Like [`leak`], for the value that `make` returns. Calls `make` only if there is memory for the value.
///
/// # Errors
/// If there is no memory for the value. Otherwise the error of `make`.
pub(crate) fn leak_made<T, E: From<OutOfMemory>>(make: impl FnOnce() -> Result<T, E>) -> Result<&'static mut T, E> {
    let mut values = Vec::new();
    values.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
    values.push(make()?);
    Ok(&mut values.leak()[0])
}
