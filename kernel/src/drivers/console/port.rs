//! The serial port: its registers and its interrupt.
//!
//! The port has one interrupt line for two causes: it has received data, or it can send more. The interrupt controller
//! detects only the rising edge of the line. So the handler first disables both causes, which lowers the line. When it
//! has finished, it enables the required causes again. If one of these causes is present at that time, the line rises
//! again.

use spin::Once;
use uart_16550::backend::PioBackend;
use uart_16550::spec::registers::{IER, LSR};
use uart_16550::{BaudRate, Config, Uart16550};

use super::ring::RING;
use crate::arch::x86_64::{interrupts, ioapic};
use crate::cpu::percpu::CpuId;
use crate::drivers::screen;

/// The first serial port.
const PORT: u16 = 0x3f8;
/// The port's interrupt line.
const IRQ: u8 = 4;
/// The number of bytes that the port accepts at once.
const FIFO_BYTES: usize = 16;

pub(super) type Uart = Uart16550<PioBackend>;

/// Whether the computer has the port. If it has not, all output for the port is dropped.
static IS_THERE: Once<bool> = Once::new();

/// Returns access to the port's registers. Does not set the port up.
pub(super) const fn uart() -> Uart {
    // SAFETY: these are the I/O ports of a PC's first serial interface. They are accessed only under the console's
    // lock, or by a panic after it has stopped all other CPUs.
    match unsafe { Uart16550::new_port(PORT) } {
        Ok(uart) => uart,
        Err(_) => panic!("the registers do not fit into the address space"),
    }
}

pub(super) const fn config() -> Config {
    Config { baud_rate: BaudRate::Baud115200, ..Config::DEFAULT }
}

/// The port. The console's lock guards it.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) uart: Uart,
    /// The causes for which the port interrupts at present.
    enabled: IER,
    /// Whether the port pretends to accept no bytes. Set by tests.
    pub(super) is_stalled: bool,
}

impl Port {
    /// Makes the port without setting it up: see [`init`](Self::init).
    pub(super) const fn new() -> Self {
        Self { uart: uart(), enabled: IER::empty(), is_stalled: false }
    }

    pub(super) fn init(&mut self) {
        IS_THERE.call_once(|| self.uart.init(config()).is_ok());
    }

    /// Moves up to `most` bytes from the ring to the port, or fewer if the port accepts no more.
    pub(super) fn send(&mut self, most: usize) {
        let mut left = if self.is_stalled { 0 } else { most };
        while left > 0 {
            match send_from_ring(&mut self.uart, is_there(), left) {
                0 => return,
                sent => left -= sent,
            }
        }
    }

    /// Whether everything that was sent has left the port.
    pub(super) fn is_empty(&mut self) -> bool {
        !is_there() || !self.is_stalled && self.uart.lsr().contains(LSR::TRANSMITTER_EMPTY)
    }

    /// Makes the port interrupt for the causes in `wanted` and for no other cause.
    pub(super) fn set_interrupts(&mut self, wanted: IER) {
        if !self.enabled.difference(wanted).is_empty() {
            self.uart.disable_interrupts(self.enabled.difference(wanted));
        }
        if !wanted.difference(self.enabled).is_empty() {
            self.uart.enable_interrupts(wanted.difference(self.enabled));
        }
        self.enabled = wanted;
    }
}

pub(super) fn is_there() -> bool {
    IS_THERE.get() == Some(&true)
}

/// Moves up to `most` bytes from the ring to a port, but only as many as the port accepts at once. If there is no port,
/// drops these bytes. Returns the number of bytes that have left the ring.
pub(super) fn send_from_ring(uart: &mut Uart, is_there: bool, most: usize) -> usize {
    let mut bytes = [0; FIFO_BYTES];
    let count = RING.copy_to(bytes[..most.min(FIFO_BYTES)].iter_mut(), |to, byte| *to = byte);
    let sent = if is_there { uart.send_bytes(&bytes[..count]) } else { count };
    RING.take_to(RING.taken().wrapping_add(sent));
    screen::show(&bytes[..sent]);
    sent
}

/// The largest number of bytes that can have left the ring but not the port: the FIFO, and one byte in the shift
/// register.
pub(super) const IN_THE_PORT: usize = FIFO_BYTES + 1;

/// Routes the port's interrupt to the boot CPU. Returns `false` if there is no port or the interrupt cannot be routed.
pub(super) fn route_interrupt(handler: fn(usize)) -> bool {
    is_there()
        && interrupts::allocate("serial port", handler, 0)
            .is_ok_and(|vector| ioapic::route_isa(IRQ, vector, CpuId::BOOT).is_ok())
}
