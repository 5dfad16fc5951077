//! The console on the first serial port: `println!`, the log, input.
//!
//! What one call of `print!` prints stays together. It is formatted on the caller's side and put into a ring as a
//! whole; whoever finds nobody else at it empties the ring into the port, preemption off, 16 bytes at a time, which is
//! what the port takes at once. So nobody waits for the port with a lock held, and nobody waits for a CPU that does not
//! run: if the ring is full, the caller helps to empty it. Lines end with `\n` alone; the terminal adds what it needs.
//!
//! Everything may be called from everywhere, interrupt handlers included. A panic goes past all of it (`Emergency`).

mod emergency;
mod history;
mod input;
mod line;
mod lines;
mod logger;
mod ring;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use spin::Once;
use uart_16550::backend::PioBackend;
use uart_16550::spec::registers::LSR;
use uart_16550::{BaudRate, Config, Uart16550};

pub use boot_protocol::console::SincePowerOn;

pub(crate) use self::emergency::Emergency;
pub(crate) use self::input::enable as enable_input;
pub use self::input::{set_input_waker, try_read};
pub(crate) use self::line::LineWriter;
pub use self::lines::read_line;
pub(crate) use self::logger::{set_level as set_log_level, write_history};
use self::ring::Ring;
use crate::percpu::{CpuId, PreemptGuard};
use crate::sync::InterruptMutex;
pub use crate::{print, println};

/// The first serial port.
const PORT: u16 = 0x3f8;
/// What the port takes at once.
const PORT_BYTES: usize = 16;
/// What stays together at most. Longer output goes in parts.
const RING_BYTES: usize = 16 * 1024;

type Uart = Uart16550<PioBackend>;

/// What was printed and has not been sent. Filled under [`FILL`], emptied under [`UART`].
static RING: Ring<RING_BYTES> = Ring::new();
static FILL: InterruptMutex<()> = InterruptMutex::new(());
static UART: InterruptMutex<Uart> = InterruptMutex::new(uart());
/// Whether the port answers. Output of a machine without one is dropped.
static IS_THERE: Once<bool> = Once::new();
/// Whether someone is emptying the ring.
static IS_DRAINING: AtomicBool = AtomicBool::new(false);
/// The last byte that was sent.
static LAST_SENT: AtomicU8 = AtomicU8::new(b'\n');

/// Prints to the console, like the macro of `std`.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!($($arg)*)) };
}

/// Prints a line to the console, like the macro of `std`.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!("{}\n", ::core::format_args!($($arg)*))) };
}

/// The port, not set up.
const fn uart() -> Uart {
    // SAFETY: the port of the PC's first serial interface. Its users take turns by the lock, but for a panic, which
    // stops them.
    match unsafe { Uart16550::new_port(PORT) } {
        Ok(uart) => uart,
        Err(_) => panic!("the registers do not fit into the address space"),
    }
}

const fn config() -> Config {
    Config { baud_rate: BaudRate::Baud115200, ..Config::DEFAULT }
}

/// Sets up the port, and the log.
pub(crate) fn init() {
    IS_THERE.call_once(|| UART.lock().init(config()).is_ok());
    logger::init();
}

/// Prints, as one piece up to 16 KiB.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, write);
}

/// Prints bytes, as one piece up to 16 KiB.
pub fn write(bytes: &[u8]) {
    for piece in bytes.chunks(RING_BYTES) {
        put(piece);
        drain();
    }
}

/// Puts a piece into the ring.
fn put(piece: &[u8]) {
    loop {
        let fill = FILL.lock();
        if RING.room() >= piece.len() {
            RING.put(piece);
            return;
        }
        drop(fill);
        send_some();
    }
}

/// Empties the ring, or leaves that to the one who is at it.
fn drain() {
    let _preempt = PreemptGuard::new();
    // Ordering: these exchanges form one sequence. If this one finds `true`, the drainer's `false` comes after it, and
    // then its look at the ring sees what this caller has put in.
    while !IS_DRAINING.swap(true, Ordering::AcqRel) {
        while send_some() {}
        IS_DRAINING.swap(false, Ordering::AcqRel);
        if RING.is_empty() {
            return;
        }
    }
}

/// Sends what the port takes now. Returns whether the ring has more.
fn send_some() -> bool {
    let mut uart = UART.lock();
    send_from_ring(&mut uart, IS_THERE.get() == Some(&true));
    !RING.is_empty()
}

/// Moves bytes from the ring to a port, or drops them if there is none.
fn send_from_ring(uart: &mut Uart, is_there: bool) {
    let mut bytes = [0; PORT_BYTES];
    let count = RING.peek(&mut bytes);
    let sent = if is_there { uart.send_bytes(&bytes[..count]) } else { count };
    RING.skip(sent);
    if let Some(last) = bytes[..sent].last() {
        LAST_SENT.store(*last, Ordering::Relaxed);
    }
}

/// Whether this CPU, which is stuck, keeps everyone else from printing.
pub(crate) fn is_held_by(cpu: CpuId) -> bool {
    FILL.is_held_by(cpu) || UART.is_held_by(cpu)
}

/// Calls `body` while nobody can print and what was printed stays in the ring: for a test of what a panic gets past.
#[doc(hidden)]
pub fn with_all_locked<R>(body: impl FnOnce() -> R) -> R {
    let _fill = FILL.lock();
    let _uart = UART.lock();
    body()
}

/// Waits until everything printed before the call has left the machine, whatever others print meanwhile.
pub fn flush() {
    let end = RING.end();
    while !RING.is_taken(end) {
        send_some();
        core::hint::spin_loop();
    }
    // Others would send more.
    let mut uart = UART.lock();
    while IS_THERE.get() == Some(&true) && !uart.lsr().contains(LSR::TRANSMITTER_EMPTY) {
        core::hint::spin_loop();
    }
}
