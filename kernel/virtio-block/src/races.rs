//! A device that writes to the shared memory while a function of the driver runs: between any two of its reads of this
//! memory.

#![expect(unsafe_code, reason = "writes to memory that the driver accesses, too")]

use std::cell::RefCell;

use crate::memory::Memory;
use crate::ring;

std::thread_local! {
    /// The random numbers of the device, if it writes between the reads of the driver.
    static RANDOM: RefCell<Option<fastrand::Rng>> = const { RefCell::new(None) };
}

/// From now on, the device writes between the reads of the driver on this thread, until the next call with `None`.
pub(crate) fn set(random: Option<fastrand::Rng>) {
    RANDOM.set(random);
}

/// Called by the driver before each of its reads of shared memory.
pub(crate) fn before_shared_read() {
    RANDOM.with_borrow_mut(|random| {
        if let Some(random) = random
            && random.u32(..32) == 0
        {
            write_somewhere(random);
        }
    });
}

/// Writes a byte to the memory of a queue. Most writes go to the beginning of the used ring, because the driver reads
/// only that. There most values are small, because only small values can be those of requests in flight.
fn write_somewhere(random: &mut fastrand::Rng) {
    let blocks = Memory::small_blocks();
    let Some(block) = random.choice(blocks) else { return };
    let entries = [16, 32, 64, 128, 256][random.usize(..5)];
    let at = match random.u32(..100) {
        // The flags and the index.
        0..50 => ring::used_offset(entries) + random.usize(..4),
        50..99 => ring::used_offset(entries) + 4 + random.usize(..64),
        _ => random.usize(..block.len()),
    };
    let value = if random.u32(..8) == 0 { random.u8(..) } else { random.u8(..4) };
    if at < block.len() {
        // SAFETY: the offset is within the block.
        let byte = unsafe { block.cast::<u8>().add(at) };
        // SAFETY: the block is allocated as long as the driver uses it.
        unsafe { byte.write_volatile(value) };
    }
}
