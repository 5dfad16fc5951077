//! Random numbers of the host. No function waits, but those of the machine may wait. So, as there, a G must not call
//! them where it must not block.

use gmp_sched::cancel::ContextError;
use gmp_sched::native;

use super::platform::Limit;

pub use self::numbers::{fill_random, random, random_until};

#[path = "../drivers/random/numbers.rs"]
mod numbers;

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
    native::assert_may_wait();
    getrandom::fill(bytes).expect("the host has random numbers");
    Ok(())
}
