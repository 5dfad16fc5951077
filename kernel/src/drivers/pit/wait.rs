//! The wait that polls, on the machine and on the host. The module `host/pit` includes this file by its path.

use core::fmt;
use core::time::Duration;

use gmp_sched::syscall::syscall;

use super::{assert_may_wait, poll};
use crate::platform::{Kernel, Mutex};

/// Held by the G that polls, because only one G at a time can use the device.
static CHANNEL: Mutex<()> = Mutex::new(());

/// Waits for `duration` by polling the output of channel 2 of the programmable interval timer (PIT), which sends no
/// interrupt. On the host, where programs cannot access that device, polls the clock. The CPU is busy meanwhile. If
/// there is other work for the P of the calling G, sysmon retakes the P.
///
/// Programs should wait with [`sleep`](crate::platform::sleep), which needs no CPU. This function shows what happens to
/// the P of a driver that polls. If another G polls, the calling G first parks until that G is done. Not callable from
/// interrupt handlers.
///
/// # Errors
///
/// If the computer has no PIT, or the PIT does not count at its rate. Never on the host.
///
/// # Panics
///
/// If the caller is not a G.
#[track_caller]
pub fn wait(duration: Duration) -> Result<(), NotCounting> {
    assert_may_wait();
    let _channel = CHANNEL.lock();
    syscall::<Kernel, _>(|| poll(duration))
}

/// There is no programmable interval timer, or it does not count at its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCounting;

impl fmt::Display for NotCounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no PIT that counts at its rate")
    }
}

impl core::error::Error for NotCounting {}
