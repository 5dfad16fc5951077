//! The state that the console's lock guards: the port, the ring that feeds it, and the input that the program has not
//! read yet. [`Console::settle`] establishes the invariant that holds while the lock is free.

use core::fmt::{self, Write as _};
use core::mem;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;

use boot_protocol::console::{Stream, encode, encoded_len};
use gmp_sched::device_signals::Signal;
use uart_16550::spec::registers::IER;
use x86_64::instructions::interrupts::without_interrupts;

use super::bulk::{self, Bulk, CHUNK};
use super::input::Unread;
use super::lost::LOST;
use super::port::Port;
use super::ring::{RING, RING_BYTES};
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync::{InterruptMutex, InterruptMutexGuard, wait_while};
use crate::sched::kthread;
use crate::sched::platform::Kernel;

/// The number of bytes of the ring that are reserved for callers that cannot wait.
pub(super) const RESERVE: usize = RING_BYTES / 2;
/// A G that waits for room is woken only when this many bytes are free in addition to the reserve. Then this G, and the
/// Gs that wait after it, can print many lines before the ring is full again.
const WORTH_WAKING: usize = 16 * 1024;
/// The time between two checks of a port that has no interrupt, in ns.
const POLL: u64 = 1_000_000;
/// The time between two checks whether the virtio console still works, in ns. These checks are made while a chunk is in
/// flight to the virtio console.
const CHECK: u64 = 250_000_000;
/// The largest number of bytes that are sent by the serial port when the lock is released.
pub(super) const BURST: usize = 128;

static CONSOLE: InterruptMutex<Console> = InterruptMutex::new(Console::new());
/// The number of interrupt handlers that wait for the lock.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// The number of times that the lock was taken or released. Odd while the lock is held.
static HOLDS: AtomicU64 = AtomicU64::new(0);
/// The signal that wakes the G that waits for room in the ring. At most one G waits for this signal, because the others
/// wait for the lock `WRITER` of the module `output`.
static ROOM: Signal<Kernel> = Signal::new();
/// Whether timers send the contents of the ring, because the port has no interrupt.
pub(super) static IS_POLLED: AtomicBool = AtomicBool::new(false);
/// Whether the last text that was put into the ring ended without a newline. Changed under the lock.
static IS_IN_LINE: AtomicBool = AtomicBool::new(false);

/// The state that the lock guards. The lock also guards the positions of the ring, which are in [`RING`] itself.
#[derive(Debug)]
pub(super) struct Console {
    pub(super) port: Port,
    pub(super) input: Unread,
    /// Whether the port's interrupt sends the contents of the ring.
    pub(super) has_interrupt: bool,
    bulk: Bulk,
    /// Whether the virtio console has failed and this has not been reported.
    is_failure_unreported: bool,
    /// If a G waits for room, the position in the ring that [`Ring::taken`](super::ring::Ring::taken) must reach before
    /// this G can continue.
    awaited: Option<usize>,
    /// The stream of the last text that was put into the ring.
    stream: Stream,
}

/// What is put into the ring as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Text(Stream, &'a [u8]),
    /// A byte with a meaning, such as the request for input.
    Request(u8),
}

impl Piece<'_> {
    /// Returns the largest number of bytes that the piece takes in the ring.
    pub(super) fn room(self) -> usize {
        match self {
            // If the stream changes, one byte that marks the change is put before the text.
            Self::Text(_, text) => 1 + encoded_len(text),
            Self::Request(_) => 1,
        }
    }
}

/// Whether a caller of [`Console::put`] waits for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// The reserve of the ring stays free for other callers. If there is no room, [`ROOM`] will be raised when the
    /// caller should try again.
    Waits,
    /// If there is no room, the piece is dropped and counted.
    Loses,
}

impl Console {
    const fn new() -> Self {
        Self {
            port: Port::new(),
            input: Unread::new(),
            has_interrupt: false,
            bulk: Bulk::new(),
            is_failure_unreported: false,
            awaited: None,
            stream: Stream::Output,
        }
    }

    /// Puts a piece of at most `room` bytes into the ring. Returns `false` if there is no room, or if a loss has to be
    /// reported first. After text was dropped, all further text is dropped until the loss has been reported. So the
    /// output has one gap, and the report of the loss is in that gap.
    pub(super) fn put(&mut self, piece: Piece<'_>, room: usize, patience: Patience) -> bool {
        let reserve = if patience == Patience::Waits { RESERVE } else { 0 };
        let fits = !LOST.is_any() && RING.room() >= room + reserve;
        match (piece, patience) {
            (Piece::Text(stream, text), _) if fits => self.put_text(stream, text),
            (Piece::Request(byte), _) if fits => RING.put(&[byte]),
            (_, Patience::Waits) => {
                // Wake the caller when this many bytes of the ring are free.
                let room = RESERVE + room.max(WORTH_WAKING);
                self.awaited = Some(RING.end().wrapping_sub(RING_BYTES).wrapping_add(room));
            }
            (Piece::Text(_, text), Patience::Loses) => LOST.count(text),
            (Piece::Request(_), Patience::Loses) => {}
        }
        fits
    }

    /// Puts text into the ring, which has room for it.
    fn put_text(&mut self, stream: Stream, text: &[u8]) {
        if self.stream != stream {
            RING.put(&[stream.mark()]);
            self.stream = stream;
        }
        encode(text, |part| RING.put(part));
        if let Some(last) = text.last() {
            IS_IN_LINE.store(*last != b'\n', Ordering::Relaxed);
        }
    }

    /// Puts the reports that are due into the ring: of text that was dropped, and of a virtio console that has failed.
    /// Does so only if a quarter of the ring is free, so that there is also room for output after the reports. Returns
    /// whether it has put any.
    fn put_reports(&mut self) -> bool {
        if RING.room() < RESERVE / 2 {
            return false;
        }
        let is_lost = LOST.is_any();
        if is_lost {
            self.put_report(format_args!("{LOST}"));
            LOST.clear();
        }
        let has_failed = mem::take(&mut self.is_failure_unreported);
        if has_failed {
            let most = CHUNK / 1024;
            self.put_report(format_args!(
                "[the virtio console does not answer: the serial port continues, and up to {most} KiB may come twice]"
            ));
        }
        is_lost || has_failed
    }

    /// Puts a line of at most 126 bytes into the ring, which has room for it.
    fn put_report(&mut self, report: fmt::Arguments<'_>) {
        let mut line = heapless::String::<128>::new();
        let start = if is_in_line() { "\n" } else { "" };
        // This cannot fail: the callers' texts fit.
        let _ = writeln!(line, "{start}{report}");
        self.put_text(Stream::Error, line.as_bytes());
    }

    /// Called before the lock is released. Sends a part of the ring: as much as a virtio console accepts if one is in
    /// use, and otherwise a burst. Then establishes the invariant that holds while the lock is free: if the ring is not
    /// empty, the interrupt of the port or of a timer will come. The invariant does not hold before the module
    /// `service` has been started, nor while a test stalls the port. Returns whether a G that waited for room can
    /// continue.
    fn settle(&mut self) -> bool {
        loop {
            self.is_failure_unreported |= !self.port.is_stalled && self.bulk.has_failed_to_send();
            if !bulk::is_in_use() {
                self.port.send(BURST);
            }
            // What was sent may have made room for reports. They are sent, too.
            if !self.put_reports() {
                break;
            }
        }
        let is_more = !RING.is_empty();
        let mut wanted = IER::empty();
        if self.has_interrupt {
            wanted.set(IER::THR_EMPTY, is_more && !self.port.is_stalled && !bulk::is_in_use());
            wanted.set(IER::DATA_READY, self.input.is_wanted());
        }
        if is_more && let Some(interval) = check_interval() {
            kthread::arm(kthread::now() + Duration::from_nanos(interval));
        }
        self.port.set_interrupts(wanted);
        self.awaited.take_if(|position| RING.is_taken_to(*position)).is_some()
    }
}

/// Whether the text that was put into the ring ends without a newline.
pub(super) fn is_in_line() -> bool {
    IS_IN_LINE.load(Ordering::Relaxed)
}

/// Returns the time between two checks by a timer while the ring is not empty, in ns, or `None` if no timer is needed.
pub(super) fn check_interval() -> Option<u64> {
    match () {
        () if bulk::is_in_use() => Some(CHECK),
        () if IS_POLLED.load(Ordering::Relaxed) => Some(POLL),
        () => None,
    }
}

/// Takes the lock. Interrupt handlers have precedence: while a handler waits, a caller that is not a handler spins
/// before it tries to take the lock. So a handler waits only for the present holder, for other handlers, and for
/// callers that were trying to take the lock already.
fn lock() -> InterruptMutexGuard<'static, Console> {
    if percpu::trap_depth() == 0 {
        wait_while(|| HANDLERS.load(Ordering::Relaxed) != 0);
        return CONSOLE.lock();
    }
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    let console = CONSOLE.lock();
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
    console
}

/// Takes the lock, and calls `body` with the state that the lock guards. Then sends a part of the ring, releases the
/// lock, and wakes the G that waits for room if it can continue.
pub(super) fn locked<R>(body: impl FnOnce(&mut Console) -> R) -> R {
    hold_during(lock(), body)
}

/// Like [`locked`], but if the lock is not free, returns `None` without calling `body`.
pub(super) fn try_locked<R>(body: impl FnOnce(&mut Console) -> R) -> Option<R> {
    CONSOLE.try_lock().map(|console| hold_during(console, body))
}

fn hold_during<R>(mut console: InterruptMutexGuard<'_, Console>, body: impl FnOnce(&mut Console) -> R) -> R {
    HOLDS.fetch_add(1, Ordering::Relaxed);
    let result = body(&mut console);
    let can_continue = console.settle();
    HOLDS.fetch_add(1, Ordering::Relaxed);
    drop(console);
    if can_continue {
        // Interrupts are off while the signal is raised, as in a handler, because this CPU must not be preempted
        // meanwhile.
        without_interrupts(|| ROOM.raise());
    }
    result
}

/// Blocks the calling G until there is room. Called after [`Console::put`] has returned `false`.
pub(super) fn wait_for_room() {
    ROOM.wait();
}

/// A period during which the console's lock was held without interruption, or was free. If two calls of [`hold`] return
/// equal periods, the lock was neither taken nor released between these calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold(u64);

/// Returns the current period of the console's lock. Callable from everywhere.
pub(crate) fn hold() -> Hold {
    Hold(HOLDS.load(Ordering::Relaxed))
}

impl Hold {
    /// The period before the lock was first taken.
    pub(crate) const NONE: Self = Self(0);

    /// Whether this period has not ended yet and the lock is held in it.
    pub(crate) fn goes_on(self) -> bool {
        self.0 % 2 == 1 && hold() == self
    }

    /// Whether this period has not ended yet and `cpu` holds the lock in it.
    pub(crate) fn is_of(self, cpu: CpuId) -> bool {
        self.goes_on() && CONSOLE.is_held_by(cpu)
    }
}

/// Calls `body` with the console's lock held. Meanwhile no CPU can print, and the ring is not emptied. Tests use this
/// to check that a panic can still print.
pub(crate) fn with_all_locked<R>(body: impl FnOnce() -> R) -> R {
    locked(|_| body())
}

/// As long as this value exists, the port accepts no bytes, like a port whose output is not read. Tests use this.
#[derive(Debug)]
pub struct Stalled(());

impl Stalled {
    /// Stalls the port.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        locked(|console| console.port.is_stalled = true);
        Self(())
    }

    /// Returns the number of bytes of output that were dropped because the ring was full, and that no report of a loss
    /// in the output has counted yet.
    pub fn lost(&self) -> usize {
        LOST.bytes()
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        locked(|console| console.port.is_stalled = false);
    }
}
