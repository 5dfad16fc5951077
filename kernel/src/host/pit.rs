//! The function `wait`, which polls a device on the machine. On the host, programs cannot access that device, so the
//! function polls the clock instead.

use core::hint;
use core::time::Duration;

use gmp_sched::native::assert_may_wait;

use super::clock;

pub use self::wait::{NotCounting, wait};

#[path = "../drivers/pit/wait.rs"]
mod wait;

fn poll(duration: Duration) -> Result<(), NotCounting> {
    let start = clock::now();
    while u128::from(clock::now() - start) < duration.as_nanos() {
        hint::spin_loop();
    }
    Ok(())
}
