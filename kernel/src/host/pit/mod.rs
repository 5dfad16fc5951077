//! The function `wait`, which polls a device on the machine. On the host, programs cannot access that device, so the
//! function polls the clock instead.

use core::hint;
use core::time::Duration;

use gmp_sched::native;

use crate::host::clock;
use crate::host::platform::Mutex;

pub use self::error::NotCounting;

#[path = "../../drivers/pit_error.rs"]
mod error;

/// Held by the G that polls, as on the machine, where only one G at a time can use the device.
static CHANNEL: Mutex<()> = Mutex::new(());

/// Waits for `duration` by polling the clock. On the machine this function polls the programmable interval timer. If
/// there is other work for the P of the calling G, sysmon retakes the P.
///
/// Programs should wait with [`sleep`](crate::platform::sleep), which needs no CPU. If another G polls, the calling G
/// first parks until that G is done.
///
/// # Errors
///
/// None on the host.
///
/// # Panics
///
/// If the caller is not a G.
#[track_caller]
pub fn wait(duration: Duration) -> Result<(), NotCounting> {
    let _channel = CHANNEL.lock();
    native::syscall(|| {
        let start = clock::now();
        while u128::from(clock::now() - start) < duration.as_nanos() {
            hint::spin_loop();
        }
    });
    Ok(())
}
