//! Allocations that return an error if there is no memory. The functions of `alloc` that return no error would end the
//! calling G.

use alloc::vec::Vec;

use gmp_sched::platform::OutOfResources;

/// Allocates room for `count` values.
///
/// # Errors
/// There is no memory.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>, OutOfResources> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| OutOfResources)?;
    Ok(room)
}

/// Collects values.
///
/// # Errors
/// There is no memory.
pub(crate) fn collect<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, OutOfResources> {
    let mut all = room(values.len())?;
    all.extend(values);
    Ok(all)
}

/// Copies a frame.
///
/// # Errors
/// There is no memory.
pub(crate) fn copy(frame: &[u8]) -> Result<Vec<u8>, OutOfResources> {
    let mut copy = room(frame.len())?;
    copy.extend_from_slice(frame);
    Ok(copy)
}

/// Memory for one value that will exist for ever. Code that needs several of these allocates all of them before it
/// fills one. So if there is no memory for all of them, those that were allocated are freed. On stable Rust, safe code
/// can allocate memory for one value fallibly only as a vector.
pub(crate) struct Reserved<T>(Vec<T>);

impl<T> Reserved<T> {
    /// # Errors
    /// There is no memory.
    pub(crate) fn new() -> Result<Self, OutOfResources> {
        room(1).map(Self)
    }

    /// Puts the value into the memory.
    pub(crate) fn fill(mut self, value: T) -> &'static mut T {
        self.0.push(value);
        &mut self.0.leak()[0]
    }
}
