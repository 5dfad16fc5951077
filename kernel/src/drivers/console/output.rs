//! Output: copies text from the caller into the ring, and sends as many bytes of the ring as the port accepts at once.

use core::hint;
use core::iter;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use boot_protocol::console::Stream;
use gmp_sched::goroutine::Status;

use super::lost::LOST;
use super::port::IN_THE_PORT;
use super::ring::RING;
use super::state::{BURST, Patience, Piece, RESERVE, locked, wait_for_room};
use crate::arch::x86_64::timer;
use crate::mm::stack;
use crate::sched::goroutines;
use crate::sched::platform::{self, Mutex, MutexGuard};

/// The largest number of bytes that are put into the ring at once. Longer output of a G is put in parts. Other Gs
/// cannot print between these parts.
const PART: usize = 16 * 1024;

/// The number of stack pages, in addition to the one in use, that a G may need while it holds [`WRITER`].
const PAGES_TO_PRINT: usize = 2;

/// Held by a G that may park while it puts bytes into the ring, so that no other such G prints between these bytes. The
/// holder unlocks it with a handoff, so waiting Gs get it in FIFO order.
static WRITER: Mutex<()> = Mutex::new(());

/// How long [`flush`] and a panic wait while the port accepts no bytes, in ns.
static PATIENCE: AtomicU64 = AtomicU64::new(60_000_000_000);

/// Sets how long [`flush`] and a panic wait while the port accepts no bytes.
pub(super) fn set_patience(patience: Duration) {
    PATIENCE.store(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Whether the caller may be parked. This is so if the caller is a G that runs its own code and its M holds a P.
fn can_park() -> bool {
    goroutines::in_user_code().is_some_and(|goroutine| goroutine.status() == Status::Running)
}

/// Prints bytes. If they are at most 16 KiB, they are not mixed with other output. Returns `false` if some of them were
/// dropped.
///
/// If the ring has no room, the calling G blocks, but not its M. If the caller cannot block, each part of up to 16 KiB
/// that does not fit into the ring is dropped. All further output of such callers is then dropped, too, until a report
/// of the loss is in the ring. The report takes the place of the dropped output. Callable from everywhere except
/// handlers of non-maskable interrupts.
pub fn write(bytes: &[u8]) -> bool {
    write_to(Stream::Output, bytes)
}

/// Like [`write`](fn@write), but to a chosen stream.
pub(super) fn write_to(stream: Stream, bytes: &[u8]) -> bool {
    put_all(bytes.chunks(PART).map(|part| Piece::Text(stream, part)))
}

/// Sends a byte with a meaning to the other end of the port, such as the request for input. Returns `false` if the ring has
/// no room for the byte and the caller cannot wait.
pub(super) fn request(byte: u8) -> bool {
    put_all(iter::once(Piece::Request(byte)))
}

/// Puts pieces into the ring, without output of other Gs in between. Blocks in the same cases as [`write`](fn@write),
/// and returns `false` in the same cases.
fn put_all<'a>(pieces: impl Iterator<Item = Piece<'a>>) -> bool {
    let writer = can_park().then(|| {
        // If there is no frame for a page of its stack, a G panics, and with `panic=isolate` that ends only the G. If
        // it held the lock then, no other G could print any more. So the pages that it needs while it holds the lock
        // are touched before.
        stack::touch_pages_ahead(PAGES_TO_PRINT);
        WRITER.lock()
    });
    let patience = if writer.is_some() { Patience::Waits } else { Patience::Loses };
    let mut are_put = true;
    for piece in pieces {
        let room = piece.room();
        loop {
            let is_put = locked(|console| console.put(piece, room, patience));
            if is_put || patience == Patience::Loses {
                are_put &= is_put;
                break;
            }
            wait_for_room();
        }
        send_rest(room);
    }
    if let Some(writer) = writer {
        MutexGuard::<()>::unlock_fair(writer);
    }
    are_put
}

/// Sends the rest of `bytes` bytes that the caller has put into the ring. The release of the console's lock has sent
/// the first burst already, and each further release sends another one. Returns earlier if the port accepts no more.
fn send_rest(bytes: usize) {
    for _ in 1..bytes.div_ceil(BURST) {
        let before = RING.taken();
        locked(|_| ());
        if RING.taken() == before {
            return;
        }
    }
}

/// Whether the whole reserve of the ring is free. The reserve is for callers that print without waiting for room. If
/// such a caller prints much text and can wait, it should wait between its lines until this returns `true`. Otherwise
/// its text, and the text of other such callers, may be lost.
pub(crate) fn has_room_for_unwaited() -> bool {
    RING.room() >= RESERVE
}

/// Waits until everything that was printed before the call has been sent. Output that other Gs print meanwhile does not
/// prolong the wait. Returns `false` if the port accepts no bytes for the number of seconds in the kernel option
/// `drain_s`, which is 60 by default.
///
/// Blocks the calling G. A caller that cannot block polls the port. Callable from everywhere except handlers of
/// non-maskable interrupts.
pub fn flush() -> bool {
    // If text was dropped, a report of the loss follows later, after the current contents of the ring. So `flush` first
    // waits until these contents have been sent. By then the report is in the ring, and `flush` waits for it, too.
    let mut is_all_put = !LOST.is_any();
    let mut end = RING.end();
    let (mut taken, mut since) = (RING.taken(), timer::now());
    loop {
        let is_out = locked(|console| {
            // If other Gs keep printing, this condition never becomes true, because the port is never empty. The check
            // after this closure then ends the wait.
            RING.is_taken_to(end) && console.port.is_empty()
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

/// Returns how long [`flush`] and a panic wait while the port accepts no bytes, in ns.
pub(super) fn patience() -> u64 {
    PATIENCE.load(Ordering::Relaxed)
}
