//! Received bytes. The port's interrupt moves them into a ring. If the input comes from [memory](super::timed), a timer
//! moves them instead.

use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::INSPECT_KEY;
use spin::Once;

use super::port::Uart;
use super::ring::Ring;
use crate::cpu::sync::InterruptMutex;

/// Bytes that were received and that the program has not read yet. Filled under the console's lock, emptied under
/// [`TAKE`].
static RING: Ring<4096> = Ring::new();
static TAKE: InterruptMutex<()> = InterruptMutex::new(());
/// Whether input can be received, which is so if the port's interrupt reaches a CPU.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);
/// Whether input is paused. Input is paused when the ring is full: the port does not interrupt for received bytes, and
/// the sender waits until the program has read some bytes.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);
/// The function that wakes the reader after bytes have been received: see [`set_waker`].
static WAKER: Once<fn()> = Once::new();
/// The function that prints the report when the inspection key has been pressed.
static INSPECTOR: Once<fn()> = Once::new();
/// Whether the inspection key was pressed and no report has begun since then.
static IS_INSPECTION_WANTED: AtomicBool = AtomicBool::new(false);
/// Whether the last received byte was the inspection key.
static WAS_KEY: AtomicBool = AtomicBool::new(false);

/// Enables input. From then on, pressing the inspection key calls `inspect`, which prints a report of what the kernel
/// is doing. The call is made on the interrupt stack.
pub(super) fn enable(inspect: fn()) {
    INSPECTOR.call_once(|| inspect);
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Whether input can be received.
pub(super) fn is_enabled() -> bool {
    IS_ENABLED.load(Ordering::Relaxed)
}

/// Whether the port must interrupt when it receives a byte. The caller holds the console's lock.
pub(super) fn is_wanted() -> bool {
    is_enabled() && !is_paused()
}

/// Whether input is paused because the ring was full. While input is paused, the port does not interrupt for received
/// bytes.
pub(super) fn is_paused() -> bool {
    IS_PAUSED.load(Ordering::Relaxed)
}

/// Sets the function that the handler of the port's interrupt, or of the timer, calls after input has been received.
/// The call is made on the interrupt stack. If this function is called several times, only the first call has an
/// effect.
pub(super) fn set_waker(waker: fn()) {
    WAKER.call_once(|| waker);
}

/// Takes a byte out of the ring, if there is one.
pub(super) fn take() -> Option<u8> {
    let _take = TAKE.lock();
    let mut byte = [0];
    let count = RING.peek(&mut byte);
    RING.skip(count);
    (count == 1).then_some(byte[0])
}

/// Starts the report if [`receive`] has found the inspection key, and wakes the reader. The handler of the port's
/// interrupt, or of the timer, calls this after it has released the console's lock.
pub(super) fn notify() {
    if IS_INSPECTION_WANTED.swap(false, Ordering::Relaxed)
        && let Some(inspect) = INSPECTOR.get()
    {
        inspect();
    }
    if let Some(waker) = WAKER.get() {
        waker();
    }
}

/// Returns the number of bytes for which the ring has room.
pub(super) fn room() -> usize {
    RING.room()
}

/// Puts a received byte into the ring, which has room for it. The inspection key is not put into the ring, but requests
/// a report. A newline or carriage return directly after the key is dropped. The caller holds the console's lock.
pub(super) fn accept(byte: u8) {
    let follows_key = WAS_KEY.swap(byte == INSPECT_KEY, Ordering::Relaxed);
    if byte == INSPECT_KEY {
        IS_INSPECTION_WANTED.store(true, Ordering::Relaxed);
    } else if !(follows_key && matches!(byte, b'\n' | b'\r')) {
        RING.put(&[byte]);
    }
}

/// Moves received bytes from the port into the ring. Pauses the input if the ring becomes full, and otherwise ends a
/// pause. The caller holds the console's lock.
pub(super) fn receive(uart: &mut Uart) {
    while RING.room() > 0 {
        let Ok(byte) = uart.try_receive_byte() else {
            IS_PAUSED.store(false, Ordering::Relaxed);
            return;
        };
        accept(byte);
    }
    IS_PAUSED.store(true, Ordering::Relaxed);
}
