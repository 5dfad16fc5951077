//! Input: the port's interrupt moves received bytes into a ring.

use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::{INPUT_READY, INSPECT_KEY};
use spin::Once;

use super::output::with_port;
use super::port::Uart;
use super::ring::Ring;
use crate::cpu::sync::InterruptMutex;

/// Bytes that were received and not read. Filled under the console's lock, emptied under [`TAKE`].
static RING: Ring<4096> = Ring::new();
static TAKE: InterruptMutex<()> = InterruptMutex::new(());
/// Whether the port's interrupt reaches a CPU.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);
/// Whether the ring is full and the port's interrupt off: the sender waits until some bytes have been read.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);
static WAKER: Once<fn()> = Once::new();
/// What prints the report that the key requests.
static INSPECTOR: Once<fn()> = Once::new();
/// Whether the key for a report of what the machine is doing was pressed, and the report has not begun.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// Whether the last byte was that key.
static WAS_KEY: AtomicBool = AtomicBool::new(false);

/// Whether input can be received, and the sender has not been told yet.
static IS_HELD_BACK: AtomicBool = AtomicBool::new(false);

/// Enables input. `inspect` prints a report of what the kernel is doing, when the key for it is pressed; it is called on the
/// interrupt's stack.
pub(super) fn enable(inspect: fn()) {
    INSPECTOR.call_once(|| inspect);
    IS_HELD_BACK.store(true, Ordering::Relaxed);
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Whether the port is to interrupt when it receives a byte. The caller has the console's lock.
pub(super) fn is_wanted() -> bool {
    IS_ENABLED.load(Ordering::Relaxed) && !IS_PAUSED.load(Ordering::Relaxed)
}

/// Tells the sender to send input, when the program reads for the first time. A program that never reads gets none, so its
/// run does not depend on when the host would have sent it.
fn ask() {
    if IS_HELD_BACK.load(Ordering::Relaxed)
        && IS_HELD_BACK.swap(false, Ordering::Relaxed)
        && !super::write(&[INPUT_READY])
    {
        // There was no room, and the caller cannot wait: the next call tries again.
        IS_HELD_BACK.store(true, Ordering::Relaxed);
    }
}

/// Sets the function that the interrupt calls, on its stack, after it has received input. Only the first call has an effect.
pub(super) fn set_input_waker(waker: fn()) {
    WAKER.call_once(|| waker);
}

/// The next byte of the input, if one has been received. [`END_OF_INPUT`](boot_protocol::console::END_OF_INPUT) is returned
/// like any other. Callable from everywhere.
pub fn try_read() -> Option<u8> {
    ask();
    loop {
        let byte = take();
        let is_paused = IS_PAUSED.load(Ordering::Relaxed);
        if is_paused {
            with_port(receive);
        }
        // A byte that was received just now raises no further interrupt, so `None` would be wrong.
        if byte.is_some() || !is_paused {
            return byte;
        }
    }
}

/// Takes a byte out of the ring.
fn take() -> Option<u8> {
    let _take = TAKE.lock();
    let mut byte = [0];
    let count = RING.peek(&mut byte);
    RING.skip(count);
    (count == 1).then_some(byte[0])
}

/// Handles what [`receive`] has found. Called by the port's handler, without the lock.
pub(super) fn serve() {
    if IS_ASKED.swap(false, Ordering::Relaxed)
        && let Some(inspect) = INSPECTOR.get()
    {
        inspect();
    }
    if let Some(waker) = WAKER.get() {
        waker();
    }
}

/// Moves received bytes from the port into the ring, and pauses the input if the ring is full. The caller has the lock.
pub(super) fn receive(uart: &mut Uart) {
    while RING.room() > 0 {
        let Ok(byte) = uart.try_receive_byte() else {
            IS_PAUSED.store(false, Ordering::Relaxed);
            return;
        };
        let follows_key = WAS_KEY.swap(byte == INSPECT_KEY, Ordering::Relaxed);
        if byte == INSPECT_KEY {
            IS_ASKED.store(true, Ordering::Relaxed);
        } else if !(follows_key && matches!(byte, b'\n' | b'\r')) {
            RING.put(&[byte]);
        }
    }
    IS_PAUSED.store(true, Ordering::Relaxed);
}
