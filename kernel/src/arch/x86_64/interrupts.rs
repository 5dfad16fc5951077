//! Interrupt vectors: the purpose of each, and the handlers of devices. Also masks the legacy interrupt controllers.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use spin::Once;
use x86_64::instructions::port::Port;

pub use super::trap::Vector;

/// The first of the vectors that [`allocate`] returns. The vectors from 0x20 to 0x2f are left to the legacy interrupt
/// controllers, whose spurious interrupts cannot be masked.
const FIRST_DEVICE: u8 = 0x30;
const DEVICES: usize = 0xf0 - FIRST_DEVICE as usize;

/// The vector of the local APIC's timer.
pub(crate) const TIMER: Vector = Vector(0xf0);
/// The vector by which a CPU interrupts another CPU. The receiver then runs a thread that has become ready, preempts
/// its current G, or goes on watchdog duty: from then on it checks whether other CPUs are stuck. During the boot, the
/// interrupt makes the other CPUs run kernel threads.
pub(crate) const RESCHEDULE: Vector = Vector(0xf1);
/// The vector on which the local APIC reports that it has detected an error.
pub(crate) const ERROR: Vector = Vector(0xfe);
/// The vector of spurious interrupts. The local APIC uses this vector if an interrupt is withdrawn before it is
/// delivered.
pub(crate) const SPURIOUS: Vector = Vector(0xff);

/// The handler of a device's interrupt.
struct Device {
    /// The name of the device, for traces.
    name: &'static str,
    /// Called on the interrupt stack, with interrupts off.
    handler: fn(usize),
    argument: usize,
}

static HANDLERS: [Once<Device>; DEVICES] = [const { Once::new() }; DEVICES];
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static UNEXPECTED: AtomicUsize = AtomicUsize::new(0);

/// The error that all vectors for devices are allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoVectorLeft;

impl fmt::Display for NoVectorLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all interrupt vectors are taken")
    }
}

impl core::error::Error for NoVectorLeft {}

/// Allocates a vector for the device `name`. The vector is never freed. When an interrupt comes on this vector,
/// `handler` is called with `argument`, with interrupts off, on the CPU that takes the interrupt. The handler must not
/// allocate memory, and of all locks it may take only `InterruptMutex`es. The handler need not signal the end of the
/// interrupt, because its caller does.
///
/// # Errors
/// If all vectors are allocated.
pub(crate) fn allocate(name: &'static str, handler: fn(usize), argument: usize) -> Result<Vector, NoVectorLeft> {
    let index = ALLOCATED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < DEVICES).then_some(count + 1))
        .map_err(|_| NoVectorLeft)?;
    HANDLERS[index].call_once(|| Device { name, handler, argument });
    Ok(Vector(FIRST_DEVICE + u8::try_from(index).expect("fewer than 256 vectors")))
}

/// Returns how many interrupts without a handler have come, including spurious ones.
pub(crate) fn unexpected_count() -> usize {
    UNEXPECTED.load(Ordering::Relaxed)
}

/// Moves the legacy interrupt controllers (two 8259s) to vectors from 0x20 on, and masks all their inputs. Otherwise
/// they might deliver interrupts on the vectors of exceptions.
pub(crate) fn init() {
    for (base, vector, cascade) in [(0x20, 0x20_u8, 4_u8), (0xa0, 0x28, 2)] {
        let (mut command, mut data) = (Port::<u8>::new(base), Port::<u8>::new(base + 1));
        // SAFETY: these are the ports of the controller, and no other code uses them. The data sheet defines the
        // initialisation words 1 to 4.
        unsafe { command.write(0x11) };
        for word in [vector, cascade, 0x01] {
            // SAFETY: this is the data port of the controller, and the words are valid by its data sheet.
            unsafe { data.write(word) };
        }
        // SAFETY: this is the data port of the controller. The write masks all inputs.
        unsafe { data.write(0xff) };
    }
}

/// Calls the handler for which `vector` was allocated. If there is none, counts the interrupt as unexpected. Called on
/// the interrupt stack, with interrupts off.
pub(crate) fn serve_device(vector: Vector) {
    match handler_of(vector) {
        Some(device) => (device.handler)(device.argument),
        None => count_unexpected(),
    }
}

fn handler_of(vector: Vector) -> Option<&'static Device> {
    HANDLERS.get(usize::from(vector.0).wrapping_sub(usize::from(FIRST_DEVICE))).and_then(Once::get)
}

/// Returns the name of an interrupt, for traces.
pub(crate) fn name(vector: Vector) -> &'static str {
    match vector {
        TIMER => "timer",
        RESCHEDULE => "IPI",
        ERROR => "APIC error",
        SPURIOUS => "spurious",
        _ => handler_of(vector).map_or("unexpected", |device| device.name),
    }
}

/// Counts an interrupt that has no handler, or is spurious.
pub(crate) fn count_unexpected() {
    UNEXPECTED.fetch_add(1, Ordering::Relaxed);
}
