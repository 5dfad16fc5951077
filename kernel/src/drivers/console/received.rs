//! Received bytes. The port's interrupt moves them into a ring. If the input comes from [memory](super::timed), a timer
//! moves them instead.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use boot_protocol::input::{Input, Received};
use spin::Once;

use super::port::Port;
use super::ring::Ring;
use crate::cpu::sync::InterruptMutex;

/// Bytes that were received and that the program has not read yet. Filled under the console's lock, emptied under
/// [`TAKE`].
static RING: Ring<4096> = Ring::new();
static TAKE: InterruptMutex<()> = InterruptMutex::new(());
/// How the input has ended: one of the values of [`GOES_ON`], [`ENDED`] and [`FAILED`]. What is received after the end
/// is dropped. Changed under the console's lock.
static END: AtomicU8 = AtomicU8::new(GOES_ON);
const GOES_ON: u8 = 0;
const ENDED: u8 = 1;
const FAILED: u8 = 2;
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

/// Takes a byte out of the ring, if there is one. Returns the end of the input if the ring is empty and the input has
/// ended.
pub(super) fn take() -> Option<Input> {
    let _take = TAKE.lock();
    // Ordering: Acquire; partner: the Release store in `accept`. So if the input has ended, all its bytes are in the
    // ring.
    let end = END.load(Ordering::Acquire);
    let mut byte = [0];
    let count = RING.peek(&mut byte);
    RING.skip(count);
    match (count, end) {
        (1, _) => Some(Input::Byte(byte[0])),
        (_, ENDED) => Some(Input::End),
        (_, FAILED) => Some(Input::Failed),
        _ => None,
    }
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

/// Puts a received byte into the ring, which has room for it, or records the end of the input. The inspection key
/// requests a report, also after the end. The caller holds the console's lock.
pub(super) fn accept(received: Received) {
    let input = match received {
        Received::Inspect => return IS_INSPECTION_WANTED.store(true, Ordering::Relaxed),
        Received::Input(input) => input,
    };
    if END.load(Ordering::Relaxed) == GOES_ON {
        // Ordering: Release; partner: the Acquire load in `take`.
        match input {
            Input::Byte(byte) => RING.put(&[byte]),
            Input::End => END.store(ENDED, Ordering::Release),
            Input::Failed => END.store(FAILED, Ordering::Release),
        }
    }
}

/// Moves received bytes from the port into the ring. Pauses the input if the ring becomes full, and otherwise ends a
/// pause. The caller holds the console's lock.
pub(super) fn receive(port: &mut Port) {
    while RING.room() > 0 {
        let Ok(byte) = port.uart.try_receive_byte() else {
            IS_PAUSED.store(false, Ordering::Relaxed);
            return;
        };
        port.input.decode(byte).into_iter().for_each(accept);
    }
    IS_PAUSED.store(true, Ordering::Relaxed);
}
