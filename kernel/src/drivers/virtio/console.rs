//! The virtio console device (virtio 1.2, 5.3), as a fast way for output.
//!
//! The device has several ports. This driver uses only port 1, and only for output. Port 0 is for terminals, and QEMU
//! drops what the reader of port 0 does not accept at once. From port 1 nothing is dropped: if the reader is slow, the
//! device uses a buffer only after the reader has accepted all of it.
//!
//! Ports are opened by messages on two control queues. The device uses these messages even if its reader is slow. So a
//! message shows whether the device still works: see [`OutputPort::probe`].

use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use kernel_virtio::{Lane, Mailbox, negotiate, start};

use super::dma_pool::DmaPool;
use super::transport::{self, Doorbell, PciTransport};
use crate::arch::x86_64::timer;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::drivers::pci;

/// `VIRTIO_CONSOLE_F_MULTIPORT`, which the driver needs.
const MULTIPORT: u64 = 1 << 1;

/// The port that is used, and the numbers of three queues. The device has two queues for each port. The two queues for
/// control messages come after those of port 0.
const PORT: u32 = 1;
const OUTPUT: u16 = 5;
const CONTROL_IN: u16 = 2;
const CONTROL_OUT: u16 = 3;

/// Events of control messages (virtio 1.2, 5.3.6.2).
const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;

/// How long the set-up waits for each answer of the device, in ns.
const PATIENCE: u64 = 1_000_000_000;
/// The size of the output queue's memory: 16 KiB of data, and a page in which the rings are.
const OUTPUT_PAGES: usize = 5;

/// Why the device cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenError {
    Setup(SetupError),
    /// The device does not answer.
    Silent,
    /// The device has no port 1, or nothing on the host is connected to this port.
    NotConnected,
}

impl From<SetupError> for OpenError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Silent => f.write_str("the device does not answer"),
            Self::NotConnected => f.write_str("nothing is connected to the device's port"),
        }
    }
}

/// A port of the device, for output.
pub(crate) struct OutputPort {
    output: Lane<Doorbell>,
    control: Lane<Doorbell>,
    events: Mailbox<Doorbell>,
    registers: pci::Registers,
}

/// Sets up the device, and opens its port. The interrupts of the device go to `cpu`, where they call `handler`. Waits a
/// few seconds at most for answers of the device. Called once, after the clock was set up.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used. If the error came after the
/// driver had begun to negotiate the features, the device has been reset.
pub(crate) fn open(cpu: CpuId, handler: fn(usize)) -> Result<OutputPort, OpenError> {
    let mut transport = transport::open_first(transport::CONSOLE, cpu, "virtio console", handler)?;
    let registers = transport.common();
    let port = set_up(&mut transport).map_err(OpenError::from);
    port.and_then(|port| port.connect().map(|()| port)).inspect_err(|_| transport::reset(registers))
}

/// Negotiates the features, and sets up the queues.
fn set_up(transport: &mut PciTransport) -> Result<OutputPort, SetupError> {
    negotiate(transport, MULTIPORT, 0)?;
    let [events, control, output] = [CONTROL_IN, CONTROL_OUT, OUTPUT].map(|queue| transport.doorbell(queue));
    let port = OutputPort {
        events: Mailbox::new::<DmaPool>(transport, CONTROL_IN, events?)?,
        control: Lane::sending::<DmaPool>(transport, CONTROL_OUT, 1, control?)?,
        output: Lane::sending::<DmaPool>(transport, OUTPUT, OUTPUT_PAGES, output?)?,
        registers: transport.common(),
    };
    start(transport);
    Ok(port)
}

impl OutputPort {
    /// Opens the port on both sides.
    fn connect(&self) -> Result<(), OpenError> {
        self.tell(0, DEVICE_READY)?;
        self.await_event(PORT_ADD)?;
        self.tell(PORT, PORT_READY)?;
        self.await_event(PORT_OPEN)?;
        self.tell(PORT, PORT_OPEN)
    }

    /// Sends a control message, and waits until the device has used it.
    fn tell(&self, port: u32, event: u16) -> Result<(), OpenError> {
        self.send_control(port, event);
        wait(|| self.control.is_idle()).then_some(()).ok_or(OpenError::Silent)
    }

    fn send_control(&self, port: u32, event: u16) {
        let [p0, p1, p2, p3] = port.to_le_bytes();
        let [e0, e1] = event.to_le_bytes();
        let message = [p0, p1, p2, p3, e0, e1, 1, 0];
        for (to, byte) in self.control.buffer().iter().zip(message) {
            to.store(byte, Ordering::Relaxed);
        }
        self.control.send(message.len());
    }

    fn await_event(&self, event: u16) -> Result<(), OpenError> {
        let has_come = || core::iter::from_fn(|| self.next_event()).any(|it| it == (event, 1));
        wait(has_come).then_some(()).ok_or(OpenError::NotConnected)
    }

    /// Returns the next event that the device has reported for the port, and the value of the event.
    fn next_event(&self) -> Option<(u16, u16)> {
        loop {
            let [p0, p1, p2, p3, e0, e1, v0, v1] = self.events.read::<8>()?;
            if u32::from_le_bytes([p0, p1, p2, p3]) == PORT {
                return Some((u16::from_le_bytes([e0, e1]), u16::from_le_bytes([v0, v1])));
            }
        }
    }

    /// Returns the queue for output.
    pub(crate) fn output(&self) -> &Lane<Doorbell> {
        &self.output
    }

    /// Whether the device has reported since the last call that the host has closed the port. In this case the device
    /// drops further output. Only one caller at a time may call this.
    pub(crate) fn has_closed(&self) -> bool {
        core::iter::from_fn(|| self.next_event()).any(|event| event == (PORT_OPEN, 0))
    }

    /// Whether the device has used the last control message.
    pub(crate) fn has_answered(&self) -> bool {
        self.control.is_idle()
    }

    /// Notifies the device again of its output, and sends a control message that changes nothing. If the device works,
    /// it uses the message soon, even if its reader is slow: see [`has_answered`](Self::has_answered). While the last
    /// control message has not been used, no other one is sent. Only one caller at a time may call this.
    pub(crate) fn probe(&self) {
        self.output.resume();
        if self.has_answered() {
            self.send_control(PORT, PORT_OPEN);
        }
    }

    /// Notifies the device of everything that was sent.
    pub(crate) fn resume(&self) {
        self.output.resume();
        self.control.resume();
    }

    /// Resets the device. It then does not access its queues any more, and produces no output.
    pub(crate) fn reset(&self) {
        transport::reset(self.registers);
    }

    /// Withholds all further notifications from the device. Tests use this. A device that is not notified never
    /// answers.
    pub(crate) fn mute(&self) {
        self.output.mute();
        self.control.mute();
    }
}

/// Waits until `is_done` returns `true`, for [`PATIENCE`] at most. Returns `false` if this time has passed.
fn wait(is_done: impl Fn() -> bool) -> bool {
    let start = timer::now();
    while !is_done() {
        if timer::now().saturating_sub(start) > PATIENCE {
            return false;
        }
        spin_loop();
    }
    true
}
