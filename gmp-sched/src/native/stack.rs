//! Stacks of Gs on the host: mapped with a guard page below, committed by the operating system on first touch.

use core::ops::Range;
use core::ptr;

use crate::base::error::OutOfResources;

/// The size of a page in bytes. This is the smallest page size of x86-64. All operating systems for x86-64 use it.
pub(super) const PAGE: usize = 4096;

/// The size of a G's stack in bytes, unless the program chooses another size. It is enough for code that was written
/// for threads, such as a parser that recurses 128 levels in a debug build. The unused part of a stack costs only page
/// tables: 1 KiB for this size, 4 KiB for the 2 MiB of a thread.
pub(super) const DEFAULT: usize = 512 * 1024;

/// Maps a stack of at least `size` bytes with a guard page below.
#[expect(unsafe_code, reason = "maps memory")]
pub(crate) fn allocate(size: usize) -> Result<Range<usize>, OutOfResources> {
    let size = size.checked_next_multiple_of(PAGE).ok_or(OutOfResources)?;
    let mapped = size.checked_add(PAGE).ok_or(OutOfResources)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new private mapping at an address chosen by the system affects no existing memory.
    let base = unsafe { libc::mmap(ptr::null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(OutOfResources);
    }
    // SAFETY: `base` is the lowest page of the new mapping, which is not used yet.
    let is_guarded = unsafe { guard(base) };
    let bottom = base.expose_provenance() + PAGE;
    if !is_guarded {
        // SAFETY: this range and the page below it are the mapping made above, to which no reference exists.
        unsafe { release(bottom..bottom + size) };
        return Err(OutOfResources);
    }
    #[cfg(gmp_tsan)]
    crate::context::fibers::add(&(bottom..bottom + size));
    Ok(bottom..bottom + size)
}

/// Makes any access to the page at `base` fault; returns whether that succeeded.
///
/// # Safety
///
/// The page is mapped and unused.
#[expect(unsafe_code, reason = "changes mappings")]
unsafe fn guard(base: *mut libc::c_void) -> bool {
    /// A kind of advice that Linux 6.13 and later know. Unlike `mprotect`, it does not split the mapping; a process may
    /// have only 65,530 mappings.
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    // SAFETY: the caller guarantees that the page is mapped and unused.
    let is_installed = unsafe { libc::madvise(base, PAGE, MADV_GUARD_INSTALL) } == 0;
    // SAFETY: the caller guarantees that the page is mapped and unused.
    is_installed || unsafe { libc::mprotect(base, PAGE, libc::PROT_NONE) } == 0
}

/// Unmaps a stack with its guard page.
///
/// # Safety
///
/// [`allocate`] returned `stack`, and nothing uses the stack any more.
#[expect(unsafe_code, reason = "unmaps memory")]
pub(crate) unsafe fn release(stack: Range<usize>) {
    #[cfg(gmp_tsan)]
    crate::context::fibers::remove(&stack);
    // SAFETY: the caller guarantees that this range, with the page below it, is a mapping made by `allocate` and not in
    // use.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(stack.start - PAGE), stack.len() + PAGE) };
}
