//! Random numbers of the host. No function waits, but those of the machine may wait. So, as there, a G must not call
//! them where it must not block.

use gmp_sched::cancel::ContextError;
use gmp_sched::native;

use super::platform::Limit;

/// Returns a random number of the host. Go: `math/rand/v2.Uint64`.
///
/// # Panics
///
/// If the caller is a G that must not block, or if the host has no random numbers.
#[must_use]
#[track_caller]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Like [`random`]. On the host this function does not wait, so it never returns an error. On the machine it may wait
/// for a device, but no longer than `limit`.
///
/// # Errors
///
/// None on the host.
///
/// # Panics
///
/// If the caller is a G that must not block, or if the host has no random numbers.
#[track_caller]
pub fn random_until<'l>(_limit: impl Into<Limit<'l>>) -> Result<u64, ContextError> {
    Ok(random())
}

/// Fills `bytes` with random bytes of the host. Go: `crypto/rand.Read`.
///
/// # Panics
///
/// If the caller is a G that must not block, or if the host has no random numbers.
#[track_caller]
pub fn fill_random(bytes: &mut [u8]) {
    native::assert_may_wait();
    getrandom::fill(bytes).expect("the host has random numbers");
}

/// Like [`fill_random`]. On the host this function does not wait, so it never returns an error. On the machine it may
/// wait for a device, but no longer than `limit`.
///
/// # Errors
///
/// None on the host.
///
/// # Panics
///
/// If the caller is a G that must not block, or if the host has no random numbers.
#[track_caller]
pub fn fill_random_until<'l>(bytes: &mut [u8], _limit: impl Into<Limit<'l>>) -> Result<(), ContextError> {
    fill_random(bytes);
    Ok(())
}
