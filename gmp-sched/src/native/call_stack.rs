//! The calls that led to the caller, for a profile and for the report of a process that is about to end.

use core::ffi::{c_int, c_void};

use crate::record::trace_ring::FRAMES;

// The unwinder with which `std` is linked. It finds the calls by the unwind tables, so the program needs no frame
// pointers.
unsafe extern "C" {
    /// Calls `visit` for each call, beginning with that of the function that calls `_Unwind_Backtrace`, until `visit`
    /// returns another value than 0.
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;

    /// Returns the address at which a call continues. Sets `is_exact` to 1 if this is the address of an instruction
    /// that raised an exception, and to 0 if it is a return address.
    fn _Unwind_GetIPInfo(call: *mut c_void, is_exact: *mut c_int) -> usize;
}

/// The argument of [`visit`].
struct Found<'a> {
    addresses: &'a mut [u64],
    count: usize,
}

extern "C" fn visit(call: *mut c_void, found: *mut c_void) -> c_int {
    // SAFETY: `read` passes a pointer to a `Found` that nothing else uses meanwhile.
    let found = unsafe { &mut *found.cast::<Found<'_>>() };
    let Some(address) = found.addresses.get_mut(found.count) else { return 1 };
    let mut is_exact = 0;
    // SAFETY: the unwinder passes a valid `call`.
    let next = unsafe { _Unwind_GetIPInfo(call, &raw mut is_exact) };
    // After the outermost call the unwinder may report one more, with the address 0.
    if next != 0 {
        *address = next as u64 - u64::from(is_exact == 0);
        found.count += 1;
    }
    0
}

/// Finds the calls that led to the call of this function. For each call, stores the return address minus one in
/// `addresses`, beginning with the innermost call. Stores at most [`FRAMES`] addresses, and no more than `addresses`
/// has room for. Returns the number of stored addresses. Does not allocate.
#[inline(never)]
pub(super) fn read(addresses: &mut [u64]) -> usize {
    let limit = addresses.len().min(FRAMES);
    let mut found = Found { addresses: &mut addresses[..limit], count: 0 };
    // SAFETY: `visit` receives the pointer to `found`.
    unsafe { _Unwind_Backtrace(visit, (&raw mut found).cast()) };
    found.count
}
