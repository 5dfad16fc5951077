//! What is printed: from its printer through the ring to the port. The module above draws the way.

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
use crate::program::args;
use crate::sched::kthread;
use crate::sched::platform::{self, Kernel, Mutex, MutexGuard};

pub(super) const RING_BYTES: usize = 128 * 1024;
/// The part of the ring that is left to those who cannot wait.
const RESERVE: usize = RING_BYTES / 2;
/// What is put at once. Longer output goes in parts, with nothing of other Gs in between.
const PART: usize = 16 * 1024;
/// What is sent in one hold of the lock.
const BURST: usize = 128;
/// A G that has found no room waits until there is so much of it, so that it, or those behind it, fill it at one go.
const WORTH_WAKING: usize = PART;
/// Time between two looks at a port without an interrupt, in ns.
const POLL: u64 = 1_000_000;
/// No time.
const NEVER: u64 = u64::MAX;

/// What was printed and has not been sent. Changed under the lock of [`CONSOLE`].
pub(super) static RING: Ring<RING_BYTES> = Ring::new();
static CONSOLE: InterruptMutex<Console> = InterruptMutex::new(Console::new());
/// Handlers that wait for the lock.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// How often the lock was taken and freed: odd while it is held.
static HOLDS: AtomicU64 = AtomicU64::new(0);

/// Held by the G that puts something into the ring. It is handed over in FIFO order.
static TURN: Mutex<()> = Mutex::new(());
/// What that G waits for.
static ROOM: Once<Signal<Kernel>> = Once::new();

/// What did not fit, since that was last said: messages, and bytes. Changed under the lock.
static LOST_MESSAGES: AtomicUsize = AtomicUsize::new(0);
static LOST_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The last byte that was sent.
static LAST_SENT: AtomicU8 = AtomicU8::new(b'\n');
/// Whether the port has no interrupt, so that timers look at it.
static IS_POLLED: AtomicBool = AtomicBool::new(false);
/// How long a port that takes nothing is waited for at the end, in ns.
static PATIENCE: AtomicU64 = AtomicU64::new(60_000_000_000);

/// What the lock protects besides the two ends of the ring.
#[derive(Debug)]
struct Console {
    port: Port,
    /// The port interrupts.
    has_interrupt: bool,
    /// The position in the ring which a G waits to be sent, see [`Ring::taken`].
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

    /// Puts a piece into the ring, if that leaves the reserve, and there is nothing lost that has to be said before it.
    fn put_waiting(&mut self, piece: &[u8]) -> bool {
        let fits = !is_any_lost() && RING.room() >= piece.len() + RESERVE;
        if fits {
            self.put(piece);
        } else {
            // The position at which there is room enough.
            let room = RESERVE + piece.len().max(WORTH_WAKING);
            self.awaited = Some(RING.end().wrapping_sub(RING_BYTES).wrapping_add(room));
        }
        fits
    }

    /// Puts a piece into the ring, or counts it as lost. Returns whether it is in there.
    fn put_or_lose(&mut self, piece: &[u8]) -> bool {
        // After a loss nothing more gets in before that has been said: there is one gap, where the count is.
        let fits = !is_any_lost() && RING.room() >= piece.len();
        if fits {
            self.put(piece);
        } else {
            LOST_MESSAGES.fetch_add(1, Ordering::Relaxed);
            LOST_BYTES.fetch_add(piece.len(), Ordering::Relaxed);
        }
        fits
    }

    /// Sends up to `most` bytes, as far as the port takes them. Returns how many.
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

    /// Says what was lost, when there is room for more than that.
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

    /// What holds whenever the lock is free: if the ring is not empty the port will interrupt, or a timer will. Returns
    /// whether the G that waits has what it waits for.
    fn settle(&mut self) -> bool {
        self.say_what_was_lost();
        let is_more = !RING.is_empty();
        let mut wanted = IER::empty();
        if self.has_interrupt {
            wanted.set(IER::THR_EMPTY, is_more && !self.port.is_stalled);
            wanted.set(IER::DATA_READY, input::is_wanted());
        } else if is_more && IS_POLLED.load(Ordering::Relaxed) {
            kthread::arm(kthread::now().after(Duration::from_nanos(POLL)));
        }
        self.port.set_interrupts(wanted);
        self.awaited.take_if(|position| RING.is_taken_to(*position)).is_some()
    }
}

/// Takes the lock. Handlers come first, so that each waits for one hold at most: the others spin with interrupts as they
/// are, and take the lock again and again.
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

/// Calls `body` with the lock held, and wakes the G that waits if there is what it waits for.
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
        // As in a handler: this CPU is not to be left in between.
        without_interrupts(|| room.raise(scheduler));
    }
    result
}

fn is_any_lost() -> bool {
    LOST_MESSAGES.load(Ordering::Relaxed) != 0
}

/// What was lost and has not been said, if there is something.
pub(super) fn lost() -> Option<Lost> {
    is_any_lost().then(Lost::now)
}

/// What did not fit into the ring.
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

/// Reads the kernel options.
pub(super) fn configure() {
    if let Some(seconds) = args::number("drain_s", 0..=1_000_000) {
        PATIENCE.store(seconds * 1_000_000_000, Ordering::Relaxed);
    }
}

/// Lets the port interrupt: input can arrive, and output leaves without its printer.
pub(crate) fn enable_interrupt() {
    if port::route_interrupt(|_| interrupt()) {
        input::enable();
        locked(|console| console.has_interrupt = true);
    } else if port::is_there() {
        log::warn!("the console has no interrupt: no input, and slow output");
        IS_POLLED.store(true, Ordering::Relaxed);
    }
}

/// The port has received something, or takes more.
fn interrupt() {
    locked(|console| {
        // See `port`. What is wanted is enabled when the lock is freed.
        console.port.set_interrupts(IER::empty());
        input::receive(&mut console.port.uart);
        console.send(BURST);
    });
    input::serve();
}

/// Looks at a port that has no interrupt. Returns when to look again, in ns. Called by the timer's handler.
pub(crate) fn tick(now: u64) -> u64 {
    if !IS_POLLED.load(Ordering::Relaxed) || RING.is_empty() {
        return NEVER;
    }
    // Whoever has the lock sees to it that some timer looks again.
    let sent = CONSOLE.try_lock().map(|console| hold_during(console, |console| console.send(BURST)));
    if sent.is_none() || RING.is_empty() { NEVER } else { now + POLL }
}

/// Calls `body` with the port, and what it has received.
pub(super) fn with_port<R>(body: impl FnOnce(&mut port::Uart) -> R) -> R {
    locked(|console| body(&mut console.port.uart))
}

/// Whether the caller may be parked: a G in code of its own, with its M and P.
fn can_park() -> bool {
    platform::goroutine_in_user_code().is_some_and(|goroutine| goroutine.status() == Status::Running)
}

/// Prints bytes, as one piece up to 16 KiB. Returns whether all of them will be seen.
///
/// Blocks the calling G, not its M, if there is no room. Callable from everywhere but handlers of non-maskable interrupts;
/// a caller that cannot block loses what there is no room for, which is counted, and said where it is missing.
pub fn write(bytes: &[u8]) -> bool {
    if !can_park() {
        // No short circuit: each part that is lost is counted.
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

/// Sends what is left of `bytes` after the first burst, burst by burst, as long as the port takes it.
fn send_rest(bytes: usize) {
    let mut left = bytes.saturating_sub(BURST);
    while left > 0 {
        match locked(|console| console.send(left.min(BURST))) {
            0 => return,
            sent => left -= sent,
        }
    }
}

/// Waits until everything printed before the call has left the machine, whatever others print meanwhile. Returns whether it
/// has: a port that takes nothing for a minute is given up, or for as many seconds as the kernel option `drain_s` says.
///
/// Blocks the calling G; a caller that cannot block polls. Callable from everywhere but handlers of non-maskable interrupts.
pub fn flush() -> bool {
    // If something is lost, that is said when there is room, behind what is in the ring now.
    let mut is_all_put = !is_any_lost();
    let mut end = RING.end();
    let (mut taken, mut since) = (RING.taken(), timer::now());
    loop {
        let is_out = locked(|console| {
            let has_sent = console.send(BURST) > 0;
            // What others print may keep the port from ever being empty.
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

/// How long a port that takes nothing is waited for at the end, in ns.
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

/// One hold of the console's lock, or a time in which it was free: to be compared with a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold(u64);

/// What the console's lock is at this moment. Callable from everywhere.
pub(crate) fn hold() -> Hold {
    Hold(HOLDS.load(Ordering::Relaxed))
}

impl Hold {
    /// A time in which the lock was free, long ago.
    pub(crate) const NONE: Self = Self(0);

    /// Whether it is a hold, and still the same: nobody else has had the lock since.
    pub(crate) fn goes_on(self) -> bool {
        self.0 % 2 == 1 && hold() == self
    }

    /// Whether it is that of `cpu`. Only of use if it goes on.
    pub(crate) fn is_of(self, cpu: CpuId) -> bool {
        self.goes_on() && CONSOLE.is_held_by(cpu)
    }
}

/// Calls `body` while nobody can print and what was printed stays in the ring: for a test of what a panic gets past.
pub(crate) fn with_all_locked<R>(body: impl FnOnce() -> R) -> R {
    locked(|_| body())
}

/// The port takes nothing as long as this exists, as if nobody read: for tests.
#[derive(Debug)]
pub struct Stalled(());

impl Stalled {
    /// Stalls the port.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        locked(|console| console.port.is_stalled = true);
        Self(())
    }

    /// How many bytes were lost since that was last said.
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
