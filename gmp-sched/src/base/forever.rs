//! Values that are never freed, so that references to them are valid forever.

use alloc::vec::Vec;

use crate::base::error::OutOfResources;

/// Allocates a value that is never freed. `make` is called after the memory has been reserved, so there is nothing to
/// undo if there is no memory. On stable Rust, safe code can allocate one value fallibly only as a vector.
///
/// # Errors
///
/// There is no memory for the value, or `make` has failed. In the second case, the memory is freed.
pub(crate) fn make_forever<T>(make: impl FnOnce() -> Result<T, OutOfResources>) -> Result<&'static T, OutOfResources> {
    let mut one = Vec::new();
    one.try_reserve_exact(1).map_err(|_| OutOfResources)?;
    one.push(make()?);
    Ok(&one.leak()[0])
}
