//! Input: the interrupt of the port moves what arrives into a ring.

use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::{INPUT_READY, INSPECT_KEY};
use spin::Once;
use uart_16550::spec::registers::IER;

use super::ring::Ring;
use super::{IS_THERE, UART, Uart};
use crate::arch::x86_64::{interrupts, ioapic};
use crate::inspection;
use crate::percpu::CpuId;
use crate::sync::InterruptMutex;

/// The interrupt of the first serial port.
const IRQ: u8 = 4;

/// What has arrived and was not read. Filled under the lock of the port, emptied under [`TAKE`].
static RING: Ring<4096> = Ring::new();
static TAKE: InterruptMutex<()> = InterruptMutex::new(());
/// The ring is full and the port's interrupt off: the sender waits until something has been read.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);
static WAKER: Once<fn()> = Once::new();
/// The key was pressed that asks what the machine is doing, and that has not been told yet.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// The last byte was that key.
static WAS_KEY: AtomicBool = AtomicBool::new(false);

/// Input can arrive, and whoever sends it has not been told so.
static IS_HELD_BACK: AtomicBool = AtomicBool::new(false);

/// Lets input arrive.
pub(crate) fn enable() {
    if IS_THERE.get() != Some(&true) {
        return;
    }
    let routed = interrupts::allocate(|_| interrupt(), 0)
        .is_ok_and(|vector| ioapic::route_isa(IRQ, vector, CpuId::BOOT).is_ok());
    if !routed {
        log::warn!("the console has no interrupt: no input");
        return;
    }
    UART.lock().enable_interrupts(IER::DATA_READY);
    IS_HELD_BACK.store(true, Ordering::Relaxed);
}

/// Asks for input, when the program wants some for the first time. One that never does gets none, so that its run does not
/// depend on when the host would have sent it.
fn ask() {
    if IS_HELD_BACK.load(Ordering::Relaxed) && IS_HELD_BACK.swap(false, Ordering::Relaxed) {
        super::write(&[INPUT_READY]);
    }
}

/// Sets what the interrupt calls, on its stack, after input has arrived. Only the first call has an effect.
pub fn set_input_waker(waker: fn()) {
    WAKER.call_once(|| waker);
}

/// The next byte of the input, if one has arrived. [`END_OF_INPUT`](boot_protocol::console::END_OF_INPUT) is passed on
/// like any other. Callable from everywhere.
pub fn try_read() -> Option<u8> {
    ask();
    loop {
        let byte = take();
        let is_paused = IS_PAUSED.load(Ordering::Relaxed);
        if is_paused {
            receive(&mut UART.lock());
        }
        // What has just been received raises no interrupt any more, so "nothing there" would be the wrong answer.
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

fn interrupt() {
    receive(&mut UART.lock());
    if IS_ASKED.swap(false, Ordering::Relaxed) {
        inspection::write("the console");
    }
    if let Some(waker) = WAKER.get() {
        waker();
    }
}

/// Moves what the port has received into the ring. Turns its interrupt off if the ring is full, and on again if it is
/// not.
fn receive(uart: &mut Uart) {
    while RING.room() > 0 {
        let Ok(byte) = uart.try_receive_byte() else {
            if IS_PAUSED.swap(false, Ordering::Relaxed) {
                uart.enable_interrupts(IER::DATA_READY);
            }
            return;
        };
        let follows_key = WAS_KEY.swap(byte == INSPECT_KEY, Ordering::Relaxed);
        if byte == INSPECT_KEY {
            IS_ASKED.store(true, Ordering::Relaxed);
        } else if !(follows_key && matches!(byte, b'\n' | b'\r')) {
            RING.put(&[byte]);
        }
    }
    if !IS_PAUSED.swap(true, Ordering::Relaxed) {
        uart.disable_interrupts(IER::DATA_READY);
    }
}
