//! The allocator of programs on the host: that of the C library.
//!
//! A G is not preempted inside of the allocator. Otherwise it would keep the allocator's lock, and on the only P
//! another G could wait for this lock for ever: a G that holds a spin lock must not be preempted, but may allocate.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

use gmp_sched::platform::Pinned;

use super::platform::Kernel;

struct Unpreempted;

#[global_allocator]
static HEAP: Unpreempted = Unpreempted;

// SAFETY: the allocator of the system does everything.
unsafe impl GlobalAlloc for Unpreempted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _pinned = Pinned::<Kernel>::new();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _pinned = Pinned::<Kernel>::new();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _pinned = Pinned::<Kernel>::new();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _pinned = Pinned::<Kernel>::new();
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
