//! Stacks of Gs on the host: mapped with a guard page below, committed by the operating system on first touch.

use core::ops::Range;
use core::ptr;

use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

use crate::base::atomic::{Ordering, StaticU64};
use crate::base::error::OutOfResources;

/// The size of a page in bytes. This is the smallest page size of x86-64. All operating systems for x86-64 use it.
pub(super) const PAGE: usize = 4096;

/// The size of a G's stack in bytes, unless the program chooses another size. This size is enough for code that was
/// written for threads, such as a parser that recurses 128 levels in a debug build. A page of the stack that is never
/// used costs at most its entry in a page table. The entries for a stack of this size take 1 KiB. (A stack of a thread
/// has 2 MiB, and its entries take 4 KiB.)
pub(super) const DEFAULT: usize = 512 * 1024;

/// The number of different colours of stacks.
const COLOURS: usize = 16;
/// The distance in bytes between neighbouring colours. It is two cache lines.
const COLOUR_BYTES: usize = 128;
// The colour takes at most half of the page that contains the top of a stack. The other half is enough for the frames
// of most Gs that wait, so the stack of such a G uses only one page.
const _: () = assert!(COLOURS * COLOUR_BYTES <= PAGE / 2);

static NEXT_COLOUR: StaticU64 = StaticU64::new(0);

/// The distance from the top of a new stack to the next page boundary, which is the *colour* of the stack. Successive
/// stacks have different colours.
///
/// The cache set of an address depends on its offset in its page. If all stacks ended at a page boundary, the frames of
/// all Gs would compete for the same few sets. So if a thousand Gs ran one after the other, each switch would cause
/// cache misses, although the caches have room for the frames of all these Gs. See Bonwick, "The Slab Allocator"
/// (1994), section 4.
fn colour() -> usize {
    let number = NEXT_COLOUR.fetch_add(1, Ordering::Relaxed) as usize;
    (1 + number % COLOURS) * COLOUR_BYTES
}

/// The page boundary at which the guard page of a stack ends. `bottom` is the lowest address of the stack.
pub(super) fn guard_end(bottom: usize) -> usize {
    bottom / PAGE * PAGE
}

/// Allocates a stack of at least `size` bytes with a guard page below. The guard page ends at [`guard_end`].
pub(crate) fn allocate(size: usize) -> Result<Range<usize>, OutOfResources> {
    let size = size.checked_next_multiple_of(PAGE).ok_or(OutOfResources)?;
    let mapped = mapped_size(size).ok_or(OutOfResources)?;
    let base = if size == DEFAULT { take_guarded(mapped)? } else { map_guarded(mapped, 1)? };
    // The colour is less than a page and not zero, so this address is in the page above the guard page.
    let bottom = base + 2 * PAGE - colour();
    #[cfg(gmp_tsan)]
    crate::context::fibers::add(&(bottom..bottom + size));
    Ok(bottom..bottom + size)
}

/// The number of bytes that are mapped for a stack of `size` bytes, which is a multiple of the page size. At least two
/// pages are added: the guard page, and one page because the stack begins and ends inside of a page.
///
/// The result is an odd number of pages. The TLB set of a page depends on the lower bits of the page's number. If the
/// distance between neighbouring stacks was an even number of pages, the pages in use of all stacks would compete for
/// half of the sets. (With a distance of 130 pages, a hop in the benchmark `ring_1000` took 35 ns. With 131 pages it
/// takes 27 ns.)
fn mapped_size(size: usize) -> Option<usize> {
    Some(size.checked_add(2 * PAGE)? | PAGE)
}

/// The number of stacks of the default size that are mapped at once. If threads mapped each stack separately, they
/// would often wait for each other, because the system changes only one mapping of a process at a time.
///
/// The first page of each stack is not populated in advance. These pages are not neighbours, so `MADV_POPULATE_WRITE`
/// needs a call, or a part of a call (`process_madvise`), for each of them. On Linux 6.18, a page then takes 1.88 us of
/// CPU time with a call each, and 1.60 us with 32 in a call, but 1.41 us if the first touch faults (medians of five
/// times 3,200 pages).
const MAPPED_AT_ONCE: usize = 32;

/// Memory for stacks of the default size, each with its guard page, that no G has yet. This memory takes only addresses
/// and entries of page tables, because nothing has touched it.
static GUARDED: Mutex<Range<usize>> = Mutex::new(0..0);

/// Returns the address of `bytes` bytes of memory with a guard page, the memory of one stack of the default size. If
/// none is left in [`GUARDED`], maps more.
fn take_guarded(bytes: usize) -> Result<usize, OutOfResources> {
    // The lock is not held across a switch, and no code below can panic.
    let mut guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
    if guarded.is_empty() {
        let Ok(base) = map_guarded(bytes, MAPPED_AT_ONCE) else {
            // There may still be room for a single stack.
            return map_guarded(bytes, 1);
        };
        *guarded = base..base + MAPPED_AT_ONCE * bytes;
    }
    let base = guarded.start;
    guarded.start += bytes;
    Ok(base)
}

/// Maps the memory of `count` stacks, which are at most [`MAPPED_AT_ONCE`], and makes the first page of each stack its
/// guard page. Each stack has `bytes` bytes. Returns the address of the first stack.
#[expect(unsafe_code, reason = "maps memory")]
fn map_guarded(bytes: usize, count: usize) -> Result<usize, OutOfResources> {
    let total = bytes.checked_mul(count).ok_or(OutOfResources)?;
    let base = map(total)?;
    if count > 1 {
        no_huge_pages(base, total);
    }
    // SAFETY: `map` has just mapped this memory, so all of its pages are mapped and unused.
    let mut is_guarded = unsafe { guard_at_once(base, bytes, count) };
    if !is_guarded {
        is_guarded = (0..count).map(|index| base + index * bytes).all(|page| {
            // SAFETY: the page is mapped, and nothing uses it yet.
            unsafe { guard(ptr::with_exposed_provenance_mut(page)) }
        });
    }
    if !is_guarded {
        // SAFETY: nothing refers to this memory.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(base), total) };
        return Err(OutOfResources);
    }
    Ok(base)
}

/// Asks the system to use only small pages in the `bytes` bytes at `base`. Linux might otherwise use a huge page when a
/// G touches the first page of its stack, and the stack would take 2 MiB. Since Linux 6.7, `MAP_STACK` has the same
/// effect.
#[expect(unsafe_code, reason = "advises the system")]
fn no_huge_pages(base: usize, bytes: usize) {
    // SAFETY: this request does not change the contents of memory. If it fails, stacks only take more memory.
    unsafe { libc::madvise(ptr::with_exposed_provenance_mut(base), bytes, libc::MADV_NOHUGEPAGE) };
}

/// Maps `bytes` bytes of memory, and returns their address.
#[expect(unsafe_code, reason = "maps memory")]
fn map(bytes: usize) -> Result<usize, OutOfResources> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new private mapping at an address chosen by the system affects no existing memory.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if base == libc::MAP_FAILED { Err(OutOfResources) } else { Ok(base.expose_provenance()) }
}

/// The request to `madvise` for a guard page, which Linux supports since 6.13. Unlike `mprotect`, it does not split the
/// mapping. (A process may have only 65,530 mappings.)
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Makes any access to the page at `base` fault; returns whether that succeeded.
///
/// # Safety
///
/// The page is mapped and unused.
#[expect(unsafe_code, reason = "changes mappings")]
unsafe fn guard(base: *mut libc::c_void) -> bool {
    // SAFETY: the caller guarantees that the page is mapped and unused.
    let is_installed = unsafe { libc::madvise(base, PAGE, MADV_GUARD_INSTALL) } == 0;
    // SAFETY: the caller guarantees that the page is mapped and unused.
    is_installed || unsafe { libc::mprotect(base, PAGE, libc::PROT_NONE) } == 0
}

/// Like [`guard`], for the first page of each of `count` stacks of `bytes` bytes, by one system call; returns whether
/// that succeeded. Older versions of Linux do not support this. If the call fails, some of the pages may be guard pages.
/// Calling [`guard`] for these pages again is harmless.
///
/// # Safety
///
/// The pages are mapped and unused.
#[expect(unsafe_code, reason = "changes mappings")]
unsafe fn guard_at_once(base: usize, bytes: usize, count: usize) -> bool {
    /// Names the calling process. The system call accepts this number in place of a file descriptor that refers to a
    /// process.
    const PIDFD_SELF: libc::c_int = -10_001;
    let pages: [libc::iovec; MAPPED_AT_ONCE] = core::array::from_fn(|index| libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(base + index * bytes),
        iov_len: PAGE,
    });
    // SAFETY: the caller guarantees that the pages are mapped and unused. The system only reads the array.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            PIDFD_SELF,
            pages.as_ptr(),
            count,
            MADV_GUARD_INSTALL,
            0 as libc::c_uint,
        )
    };
    advised == (count * PAGE) as libc::c_long
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
    let memory = memory_of(&stack);
    // SAFETY: the caller guarantees that `allocate` has made this stack and that the stack is not in use.
    unsafe { unmap(memory) };
}

/// Stacks of threads that have ended, all of the default size. If each thread mapped and unmapped its stacks, making a
/// thread on one of two CPUs would take a quarter longer.
static OF_ENDED_THREADS: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// The largest number of stacks in [`OF_ENDED_THREADS`].
const KEPT_LIMIT: usize = 1024;

/// Like [`allocate`], for a thread, which releases the stack by [`release_of_thread`]. The stack has at least the
/// default size.
pub(super) fn allocate_for_thread(size: usize) -> Result<Range<usize>, OutOfResources> {
    let kept = if size <= DEFAULT { super::lock(&OF_ENDED_THREADS).pop() } else { None };
    kept.map_or_else(|| allocate(size.max(DEFAULT)), Ok)
}

/// Keeps a stack for another thread, or unmaps it with its guard page.
///
/// # Safety
///
/// [`allocate_for_thread`] returned `stack`, and nothing uses the stack any more.
#[expect(unsafe_code, reason = "unmaps memory")]
pub(super) unsafe fn release_of_thread(stack: Range<usize>) {
    let mut kept = super::lock(&OF_ENDED_THREADS);
    if stack.len() == DEFAULT && kept.len() < KEPT_LIMIT && kept.try_reserve(1).is_ok() {
        kept.push(stack);
        return;
    }
    drop(kept);
    // SAFETY: the caller guarantees the same.
    unsafe { release(stack) };
}

/// Unmaps stacks with their guard pages. Neighbouring stacks are unmapped by one system call, because a system call for
/// each stack would take longer than all else that is done for a G (5 us).
///
/// # Safety
///
/// [`allocate`] returned the stacks, and nothing uses them any more.
#[expect(unsafe_code, reason = "unmaps memory")]
pub(crate) unsafe fn release_all(stacks: impl Iterator<Item = Range<usize>>) {
    let mut all: Vec<Range<usize>> = Vec::new();
    for stack in stacks {
        #[cfg(gmp_tsan)]
        crate::context::fibers::remove(&stack);
        let memory = memory_of(&stack);
        if all.try_reserve(1).is_ok() {
            all.push(memory);
        } else {
            // SAFETY: the caller guarantees that `allocate` has made this stack and that the stack is not in use.
            unsafe { unmap(memory) };
        }
    }
    all.sort_unstable_by_key(|memory| memory.start);
    for neighbours in all.chunk_by(|lower, upper| lower.end == upper.start) {
        let (Some(first), Some(last)) = (neighbours.first(), neighbours.last()) else { continue };
        // SAFETY: this is the memory of stacks for which the caller guarantees the same as above.
        unsafe { unmap(first.start..last.end) };
    }
}

/// The memory that was mapped for `stack`. It begins with the guard page.
fn memory_of(stack: &Range<usize>) -> Range<usize> {
    let base = guard_end(stack.start) - PAGE;
    base..base + mapped_size(stack.len()).expect("`allocate` has computed this size before")
}

/// Unmaps memory.
///
/// # Safety
///
/// The memory was mapped for stacks, and nothing uses it any more.
#[expect(unsafe_code, reason = "unmaps memory")]
unsafe fn unmap(memory: Range<usize>) {
    // SAFETY: the caller guarantees that nothing uses this memory.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(memory.start), memory.len()) };
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::{DEFAULT, MAPPED_AT_ONCE, PAGE, allocate, guard_end, release, release_all};

    #[test]
    #[expect(unsafe_code, reason = "uses stacks")]
    fn stacks_of_one_mapping_are_disjoint_and_are_released_separately_or_together() {
        let mut stacks: Vec<_> = (0..2 * MAPPED_AT_ONCE + 1).map(|_| allocate(DEFAULT).expect("memory")).collect();
        stacks.sort_unstable_by_key(|stack| stack.start);
        for pair in stacks.windows(2) {
            let [lower, upper] = pair else { unreachable!("pairs") };
            assert!(lower.end <= guard_end(upper.start) - PAGE, "{lower:x?} and the guard page of {upper:x?} overlap");
        }
        // Of every four stacks, two neighbours are released together, one is released alone, and one is still used.
        let (used, released): (Vec<_>, Vec<_>) = stacks.into_iter().enumerate().partition(|(index, _)| index % 4 == 0);
        let (alone, together): (Vec<_>, Vec<_>) = released.into_iter().partition(|(index, _)| index % 4 == 1);
        // SAFETY: the stacks were allocated above, and nothing uses them.
        unsafe { release_all(together.into_iter().rev().map(|(_, stack)| stack)) };
        for (_, stack) in alone {
            // SAFETY: the stack was allocated above, and nothing uses it.
            unsafe { release(stack) };
        }
        for (index, stack) in used {
            for address in [stack.start, stack.end - 1] {
                let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
                // SAFETY: the address is in a stack that this test has allocated and not released.
                unsafe { byte.write_volatile(index as u8) };
            }
            // SAFETY: the stack was allocated above, and nothing uses it any more.
            unsafe { release(stack) };
        }
    }
}
