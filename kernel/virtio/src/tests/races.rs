//! A device that writes to the shared memory while a function of the driver runs: between any two reads of this memory
//! by the function.

#![expect(unsafe_code, reason = "writes to memory that the driver accesses, too")]

use std::cell::RefCell;

use super::memory::Memory;

std::thread_local! {
    /// The random numbers of the device, if it writes between the reads of the driver, and how rarely it does that.
    static RANDOM: RefCell<Option<(fastrand::Rng, u32)>> = const { RefCell::new(None) };
}

/// From now on, the device writes between the reads of the driver on this thread, until the next call with `None`. Some
/// devices write before half of the reads, others more rarely, so that many requests succeed before a write.
pub(super) fn set(random: Option<fastrand::Rng>) {
    RANDOM.set(random.map(|mut random| {
        let one_of = [2, 8, 32, 128][random.usize(..4)];
        (random, one_of)
    }));
}

/// Called by the driver before each of its reads of shared memory: of `bytes` bytes at `address`. If [`set`] has turned
/// writes on, checks that this memory is shared, and writes to it at random. So if the driver reads something twice, it
/// can get different values.
pub(crate) fn before_shared_read(address: *const u8, bytes: usize) {
    RANDOM.with_borrow_mut(|random| {
        let Some((random, one_of)) = random else { return };
        let memory = Memory::shared(address.addr() as u64, bytes).expect("the driver reads only shared memory");
        if bytes != 0 && random.u32(..*one_of) == 0 {
            // SAFETY: the byte is in the memory that the driver is about to read. This memory is allocated.
            let byte = unsafe { memory.add(random.usize(..bytes)) };
            // Most values are small, because the tokens of the requests in flight are usually small numbers.
            let value = if random.u32(..4) == 0 { random.u8(..) } else { random.u8(..4) };
            // SAFETY: the byte is in allocated memory, to which the driver has no references but those to atomic integers.
            unsafe { byte.write_volatile(value) };
        }
    });
}
