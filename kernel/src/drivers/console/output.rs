//! Output: from the caller through the ring to the port, see the module above.

use core::fmt::{self, Write as _};
use core::hint;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::goroutine::Status;
use spin::Once;
use uart_16550::spec::registers::IER;
use x86_64::instructions::interrupts::without_interrupts;

use super::input;
use super::port::{self, IN_THE_PORT, Port};
use super::ring::Ring;
use crate::arch::x86_64::timer;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync::{InterruptMutex, InterruptMutexGuard};
use crate::sched::platform::{self, Kernel, Mutex, MutexGuard};
use crate::sched::{goroutines, kthread};

pub(super) const RING_BYTES: usize = 128 * 1024;
/// The part of the ring that is left to callers that cannot wait.
const RESERVE: usize = RING_BYTES / 2;
/// Most bytes that are put at once. Longer output is put in parts, without output of other Gs in between.
const PART: usize = 16 * 1024;
/// Most bytes that are sent while the lock is held.
const BURST: usize = 128;
/// A G that has found no room waits until there is that much of it, so that it, or the next ones, fill it at once.
const WORTH_WAKING: usize = PART;
/// Time between two checks of a port without an interrupt, in ns.
const POLL: u64 = 1_000_000;
/// Never.
const NEVER: u64 = u64::MAX;

/// Output that has not been sent. Changed under the lock of [`CONSOLE`].
pub(super) static RING: Ring<RING_BYTES> = Ring::new();
static CONSOLE: InterruptMutex<Console> = InterruptMutex::new(Console::new());
/// Number of handlers that wait for the lock.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// How often the lock was taken and released: odd while it is held.
static HOLDS: AtomicU64 = AtomicU64::new(0);

/// Held by the G that puts bytes into the ring. It is handed over in FIFO order.
static TURN: Mutex<()> = Mutex::new(());
/// The event that this G waits for.
static ROOM: Once<Signal<Kernel>> = Once::new();

/// Messages and bytes that were dropped since the last report of that. Changed under the lock.
static LOST_MESSAGES: AtomicUsize = AtomicUsize::new(0);
static LOST_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The last byte that was sent.
static LAST_SENT: AtomicU8 = AtomicU8::new(b'\n');
/// Whether the port has no interrupt, so that timers check it.
static IS_POLLED: AtomicBool = AtomicBool::new(false);
/// The timeout for a port that takes nothing at the end, in ns.
static PATIENCE: AtomicU64 = AtomicU64::new(60_000_000_000);

/// The state under the lock, besides the two ends of the ring.
#[derive(Debug)]
struct Console {
    port: Port,
    /// Whether the port interrupts.
    has_interrupt: bool,
    /// The position in the ring that a G waits for to be sent, see [`Ring::taken`].
    awaited: Option<usize>,
    /// The last byte that was put into the ring.
    last_put: u8,
}

impl Console {
    const fn new() -> Self {
        Self { port: Port::new(), has_interrupt: false, awaited: None, last_put: b'\n' }
    }

    fn put(&mut self, piece: &[u8]) {
        RING.put(piece);
        self.last_put = piece.last().copied().unwrap_or(self.last_put);
    }

    /// Puts a piece into the ring, if that leaves the reserve free and no loss has to be reported first.
    fn put_waiting(&mut self, piece: &[u8]) -> bool {
        let fits = !is_any_lost() && RING.room() >= piece.len() + RESERVE;
        if fits {
            self.put(piece);
        } else {
            // The position at which there is enough room.
            let room = RESERVE + piece.len().max(WORTH_WAKING);
            self.awaited = Some(RING.end().wrapping_sub(RING_BYTES).wrapping_add(room));
        }
        fits
    }

    /// Puts a piece into the ring, or counts it as dropped. Returns whether it was put.
    fn put_or_lose(&mut self, piece: &[u8]) -> bool {
        // After a loss nothing is put before it has been reported: so there is one gap, where the report is.
        let fits = !is_any_lost() && RING.room() >= piece.len();
        if fits {
            self.put(piece);
        } else {
            LOST_MESSAGES.fetch_add(1, Ordering::Relaxed);
            LOST_BYTES.fetch_add(piece.len(), Ordering::Relaxed);
        }
        fits
    }

    /// Sends up to `most` bytes, as many as the port takes. Returns how many.
    fn send(&mut self, most: usize) -> usize {
        let mut sent = 0;
        while sent < most {
            match self.port.send(most - sent) {
                0 => break,
                count => sent += count,
            }
        }
        sent
    }

    /// Reports the loss, if there is room for more than the report.
    fn say_what_was_lost(&mut self) {
        if !is_any_lost() || RING.room() < RESERVE / 2 {
            return;
        }
        let mut line = heapless::String::<128>::new();
        let start = if self.last_put == b'\n' { "" } else { "\n" };
        // There is room: two numbers have 40 digits.
        let _ = writeln!(line, "{start}{}", Lost::now());
        LOST_MESSAGES.store(0, Ordering::Relaxed);
        LOST_BYTES.store(0, Ordering::Relaxed);
        self.put(line.as_bytes());
    }

    /// Ensures the invariant that holds whenever the lock is free: if the ring is not empty the port will interrupt, or a
    /// timer will. Returns whether the G that waits can go on.
    fn settle(&mut self) -> bool {
        self.say_what_was_lost();
        let is_more = !RING.is_empty();
        let mut wanted = IER::empty();
        if self.has_interrupt {
            wanted.set(IER::THR_EMPTY, is_more && !self.port.is_stalled);
            wanted.set(IER::DATA_READY, input::is_wanted());
        } else if is_more && IS_POLLED.load(Ordering::Relaxed) {
            kthread::arm(kthread::now() + Duration::from_nanos(POLL));
        }
        self.port.set_interrupts(wanted);
        self.awaited.take_if(|position| RING.is_taken_to(*position)).is_some()
    }
}

/// Takes the lock. Handlers come first, so each of them waits for at most one holder: the others leave interrupts as they
/// are while they spin, and try again and again.
fn lock() -> InterruptMutexGuard<'static, Console> {
    if percpu::trap_depth() == 0 {
        while HANDLERS.load(Ordering::Relaxed) != 0 {
            hint::spin_loop();
        }
        return CONSOLE.lock();
    }
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    let console = CONSOLE.lock();
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
    console
}

/// Calls `body` with the lock held, and wakes the G that waits if it can go on.
fn locked<R>(body: impl FnOnce(&mut Console) -> R) -> R {
    hold_during(lock(), body)
}

fn hold_during<R>(mut console: InterruptMutexGuard<'_, Console>, body: impl FnOnce(&mut Console) -> R) -> R {
    HOLDS.fetch_add(1, Ordering::Relaxed);
    let result = body(&mut console);
    let has_come = console.settle();
    HOLDS.fetch_add(1, Ordering::Relaxed);
    drop(console);
    if has_come && let (Some(room), Some(scheduler)) = (ROOM.get(), platform::scheduler()) {
        // As in a handler: this CPU must not be preempted in between.
        without_interrupts(|| room.raise(scheduler));
    }
    result
}

fn is_any_lost() -> bool {
    LOST_MESSAGES.load(Ordering::Relaxed) != 0
}

/// The report of the loss, if there was one since the last.
pub(super) fn lost() -> Option<Lost> {
    is_any_lost().then(Lost::now)
}

/// Output that did not fit into the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    messages: usize,
    bytes: usize,
}

impl Lost {
    fn now() -> Self {
        Self { messages: LOST_MESSAGES.load(Ordering::Relaxed), bytes: LOST_BYTES.load(Ordering::Relaxed) }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, bytes } = self;
        write!(f, "[the console was full: {messages} messages of {bytes} bytes are lost]")
    }
}

/// Sets up the port.
pub(super) fn init() {
    locked(|console| console.port.init());
}

/// Sets the timeout for a port that takes nothing at the end.
pub(super) fn set_patience(patience: Duration) {
    PATIENCE.store(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// How the port is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// By its interrupt, if that can be routed to a CPU.
    ByInterrupt,
    /// By a timer: there is no input.
    Polled,
}

/// Begins to serve the port: output is sent without its caller, and with an interrupt input can be received. `inspect` is
/// called by that interrupt when the key for a report is pressed.
pub(crate) fn serve(service: Service, inspect: fn()) {
    if service == Service::ByInterrupt && port::route_interrupt(|_| interrupt()) {
        input::enable(inspect);
        locked(|console| console.has_interrupt = true);
    } else if port::is_there() {
        log::warn!("the console has no interrupt: no input, and slow output");
        IS_POLLED.store(true, Ordering::Relaxed);
    }
}

/// The port has received bytes, or can take more.
fn interrupt() {
    locked(|console| {
        // See `port`. The wanted reasons are enabled when the lock is released.
        console.port.set_interrupts(IER::empty());
        input::receive(&mut console.port.uart);
        console.send(BURST);
    });
    input::serve();
}

/// Checks a port that has no interrupt. Returns when to check again, in ns. Called by the timer's handler.
pub(crate) fn tick(now: u64) -> u64 {
    if !IS_POLLED.load(Ordering::Relaxed) || RING.is_empty() {
        return NEVER;
    }
    // The holder of the lock makes some timer check again.
    let sent = CONSOLE.try_lock().map(|console| hold_during(console, |console| console.send(BURST)));
    if sent.is_none() || RING.is_empty() { NEVER } else { now + POLL }
}

/// Calls `body` with the port and the received bytes.
pub(super) fn with_port<R>(body: impl FnOnce(&mut port::Uart) -> R) -> R {
    locked(|console| body(&mut console.port.uart))
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
    let turn = TURN.lock();
    for part in bytes.chunks(PART) {
        while !locked(|console| {
            let fits = console.put_waiting(part);
            console.send(part.len().min(BURST));
            fits
        }) {
            ROOM.call_once(Signal::new).wait();
        }
        send_rest(part.len());
    }
    MutexGuard::<()>::unlock_fair(turn);
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

/// Waits until everything printed before the call has been sent, whatever others print meanwhile. Returns whether it has:
/// there is a timeout of a minute for a port that takes nothing, or of as many seconds as the kernel option `drain_s` says.
///
/// Blocks the calling G; a caller that cannot block polls. Callable from everywhere but handlers of non-maskable interrupts.
pub fn flush() -> bool {
    // A loss is reported when there is room, after the current contents of the ring.
    let mut is_all_put = !is_any_lost();
    let mut end = RING.end();
    let (mut taken, mut since) = (RING.taken(), timer::now());
    loop {
        let is_out = locked(|console| {
            let has_sent = console.send(BURST) > 0;
            // Output of others may keep the port from ever being empty.
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

/// The timeout for a port that takes nothing at the end, in ns.
pub(super) fn patience() -> u64 {
    PATIENCE.load(Ordering::Relaxed)
}

/// Bytes have gone to the port.
pub(super) fn note_sent(bytes: &[u8]) {
    if let Some(last) = bytes.last() {
        LAST_SENT.store(*last, Ordering::Relaxed);
    }
}

/// The last byte that went to the port.
pub(super) fn last_sent() -> u8 {
    LAST_SENT.load(Ordering::Relaxed)
}

/// One period in which the console's lock was held, or was free: to be compared with a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold(u64);

/// The current period of the console's lock. Callable from everywhere.
pub(crate) fn hold() -> Hold {
    Hold(HOLDS.load(Ordering::Relaxed))
}

impl Hold {
    /// A period in which the lock was free, long ago.
    pub(crate) const NONE: Self = Self(0);

    /// Whether the lock was held, and that period has not ended.
    pub(crate) fn goes_on(self) -> bool {
        self.0 % 2 == 1 && hold() == self
    }

    /// Whether the holder is `cpu`. The answer is valid only if the period has not ended.
    pub(crate) fn is_of(self, cpu: CpuId) -> bool {
        self.goes_on() && CONSOLE.is_held_by(cpu)
    }
}

/// Calls `body` while no CPU can print and the ring is not emptied: for a test of what a panic can still print.
pub(crate) fn with_all_locked<R>(body: impl FnOnce() -> R) -> R {
    locked(|_| body())
}

/// The port takes nothing as long as this exists, as if nothing read it: for tests.
#[derive(Debug)]
pub struct Stalled(());

impl Stalled {
    /// Stalls the port.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        locked(|console| console.port.is_stalled = true);
        Self(())
    }

    /// Number of bytes dropped since the last report.
    pub fn lost(&self) -> usize {
        Lost::now().bytes
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        locked(|console| {
            console.port.is_stalled = false;
            console.send(BURST);
        });
    }
}
