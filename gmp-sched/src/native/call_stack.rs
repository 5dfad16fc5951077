//! The call stack of the calling G, for a profile.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::record::trace_ring::FRAMES;

/// Finds the calls that led to the call of this function. For each call, stores the return address minus one in
/// `addresses`, beginning with the innermost call. Stores at most `FRAMES` addresses, and no more than `addresses` has
/// room for. Returns the number of stored addresses, which is 0 if the C library is not that of GNU.
///
/// The C library finds the calls by the unwind tables, so the program needs no frame pointers. The first call of `read`
/// may allocate memory.
pub(super) fn read(addresses: &mut [u64]) -> usize {
    let mut found = [ptr::null_mut::<c_void>(); FRAMES];
    let limit = addresses.len().min(FRAMES);
    #[cfg(target_env = "gnu")]
    // SAFETY: the array has room for `limit` addresses.
    let count = unsafe { libc::backtrace(found.as_mut_ptr(), limit as c_int) };
    #[cfg(not(target_env = "gnu"))]
    let count: c_int = 0;
    let count = usize::try_from(count).map_or(0, |count| count.min(limit));
    for (address, found) in addresses.iter_mut().zip(&found[..count]) {
        *address = (found.addr() as u64).saturating_sub(1);
    }
    count
}
