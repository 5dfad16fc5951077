//! The functions that return random numbers or wait without a limit, on the machine and on the host. The module
//! `host/random` includes this file by its path.

use gmp_sched::cancel::ContextError;

use super::fill_random_until;
use crate::platform::Limit;

/// Returns a random number.
///
/// Blocks the calling G, but not its M. Not callable from interrupt handlers. Go: `math/rand/v2.Uint64`.
///
/// # Panics
///
/// If the caller is not a G, or must not block. On the host, if there are no random numbers.
#[must_use]
#[track_caller]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Like [`random`], but waits no longer than `limit`.
///
/// # Errors
///
/// If the limit ends the wait. Never on the host.
///
/// # Panics
///
/// In the cases of [`random`].
#[track_caller]
pub fn random_until<'l>(limit: impl Into<Limit<'l>>) -> Result<u64, ContextError> {
    let mut bytes = [0; 8];
    fill_random_until(&mut bytes, limit)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fills `bytes` with random bytes. With the kernel option `seed`, which `--icount` sets, they come from a generator,
/// and are the same in every run. Otherwise they come from the host's source of random numbers if a virtio entropy
/// device is in use. If none is in use, they come from the processor, or from the clock if the processor has no random
/// numbers. A program on the host gets the random bytes of the host.
///
/// Blocks the calling G, but not its M. Not callable from interrupt handlers. Go: `crypto/rand.Read`.
///
/// # Panics
///
/// In the cases of [`random`].
#[track_caller]
pub fn fill_random(bytes: &mut [u8]) {
    fill_random_until(bytes, Limit::NONE).expect("a wait without a limit is not ended by one");
}
