//! Output: copies text from the caller into the ring, and sends as much of the ring as the port accepts at once.

use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::goroutine::Status;

use super::lost;
use super::port::{IN_THE_PORT, RING};
use super::state::{BURST, locked, wait_for_room};
use crate::arch::x86_64::timer;
use crate::sched::goroutines;
use crate::sched::platform::{self, Mutex, MutexGuard};

/// Most bytes that are put at once. Longer output is put in parts, without output of other Gs in between.
const PART: usize = 16 * 1024;

/// Held by the G that puts bytes into the ring. It is handed over in FIFO order.
static WRITER: Mutex<()> = Mutex::new(());

/// The timeout for a port that takes nothing at shutdown, in ns.
static PATIENCE: AtomicU64 = AtomicU64::new(60_000_000_000);

/// Sets the timeout for a port that takes nothing at shutdown.
pub(super) fn set_patience(patience: Duration) {
    PATIENCE.store(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Whether the caller may be parked: a G that runs its own code, with its M and P.
fn can_park() -> bool {
    goroutines::in_user_code().is_some_and(|goroutine| goroutine.status() == Status::Running)
}

/// Prints bytes; up to 16 KiB are not mixed with other output. Returns whether all of them will be sent.
///
/// Blocks the calling G, not its M, if there is no room. Callable from everywhere except handlers of non-maskable
/// interrupts. If the caller cannot block, bytes without room are dropped and counted, and the count is printed in their
/// place.
pub fn write(bytes: &[u8]) -> bool {
    if !can_park() {
        // No short circuit: each part that is dropped has to be counted.
        return bytes.chunks(PART).fold(true, |all, part| {
            let fits = locked(|console| {
                let fits = console.put_or_lose(part);
                console.send(part.len().min(BURST));
                fits
            });
            send_rest(part.len());
            all & fits
        });
    }
    let writer = WRITER.lock();
    for part in bytes.chunks(PART) {
        while !locked(|console| {
            let fits = console.put_waiting(part);
            console.send(part.len().min(BURST));
            fits
        }) {
            wait_for_room();
        }
        send_rest(part.len());
    }
    MutexGuard::<()>::unlock_fair(writer);
    true
}

/// Sends the rest of `bytes` after the first burst, burst by burst, as long as the port takes it.
fn send_rest(bytes: usize) {
    let mut left = bytes.saturating_sub(BURST);
    while left > 0 {
        match locked(|console| console.send(left.min(BURST))) {
            0 => return,
            sent => left -= sent,
        }
    }
}

/// Waits until everything printed before the call has been sent, whatever other Gs print meanwhile. Returns whether it has
/// been: there is a timeout for a port that takes nothing, of a minute or of as many seconds as the kernel option `drain_s` says.
///
/// Blocks the calling G; a caller that cannot block polls. Callable from everywhere but handlers of non-maskable interrupts.
pub fn flush() -> bool {
    // A loss is reported when there is room, after the current contents of the ring.
    let mut is_all_put = !lost::is_any();
    let mut end = RING.end();
    let (mut taken, mut since) = (RING.taken(), timer::now());
    loop {
        let is_out = locked(|console| {
            let has_sent = console.send(BURST) > 0;
            // Output of other Gs may keep the port from ever being empty.
            !has_sent && RING.is_taken_to(end) && console.port.is_empty()
        });
        if is_out || RING.is_taken_to(end.wrapping_add(IN_THE_PORT)) {
            if is_all_put {
                return true;
            }
            (is_all_put, end) = (true, RING.end());
        }
        let (taken_before, now) = (taken, timer::now());
        taken = RING.taken();
        if taken != taken_before {
            since = now;
        } else if now.saturating_sub(since) > PATIENCE.load(Ordering::Relaxed) {
            return false;
        } else if can_park() {
            platform::sleep(Duration::from_millis(1));
        } else {
            hint::spin_loop();
        }
    }
}

/// The timeout for a port that takes nothing at shutdown, in ns.
pub(super) fn patience() -> u64 {
    PATIENCE.load(Ordering::Relaxed)
}
