//! Interrupt vectors: which one is for what, and the handlers of devices.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use spin::Once;
use x86_64::instructions::port::Port;

pub use super::trap::Vector;

/// First of the vectors that [`allocate`] returns. The vectors below are left to the legacy interrupt controllers, whose
/// spurious interrupts cannot be masked.
const FIRST_DEVICE: u8 = 0x30;
const DEVICES: usize = 0xf0 - FIRST_DEVICE as usize;

/// The local APIC's timer.
pub(crate) const TIMER: Vector = Vector(0xf0);
/// Sent by another CPU: a thread is ready, a G is to be preempted, or this CPU is to check the sender.
pub(crate) const RESCHEDULE: Vector = Vector(0xf1);
/// The local APIC found an error.
pub(crate) const ERROR: Vector = Vector(0xfe);
/// The interrupt that was signalled is gone.
pub(crate) const SPURIOUS: Vector = Vector(0xff);

/// A function and its argument, called on the interrupt stack, with interrupts off.
type Handler = (fn(usize), usize);

static HANDLERS: [Once<Handler>; DEVICES] = [const { Once::new() }; DEVICES];
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static UNEXPECTED: AtomicUsize = AtomicUsize::new(0);

/// All vectors for devices are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoVectorLeft;

impl fmt::Display for NoVectorLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all interrupt vectors are taken")
    }
}

impl core::error::Error for NoVectorLeft {}

/// Allocates a vector, which is never freed. `handler` is called with `argument` on the CPU that gets the interrupt, with
/// interrupts off. It must not allocate, and may take only interrupt-safe locks. The caller of the handler signals the end of
/// the interrupt.
///
/// # Errors
/// If all are allocated.
pub(crate) fn allocate(handler: fn(usize), argument: usize) -> Result<Vector, NoVectorLeft> {
    let index = ALLOCATED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < DEVICES).then_some(count + 1))
        .map_err(|_| NoVectorLeft)?;
    HANDLERS[index].call_once(|| (handler, argument));
    Ok(Vector(FIRST_DEVICE + u8::try_from(index).expect("fewer than 256 vectors")))
}

/// How many interrupts without a handler have come, spurious ones included.
pub(crate) fn unexpected_count() -> usize {
    UNEXPECTED.load(Ordering::Relaxed)
}

/// Masks the legacy interrupt controllers (two 8259s), which might deliver on the vectors of exceptions.
pub(crate) fn init() {
    for (base, vector, cascade) in [(0x20, 0x20_u8, 4_u8), (0xa0, 0x28, 2)] {
        let (mut command, mut data) = (Port::<u8>::new(base), Port::<u8>::new(base + 1));
        // SAFETY: the ports of the controller, which nothing else uses. Initialisation words 1 to 4 of its data sheet.
        unsafe { command.write(0x11) };
        for word in [vector, cascade, 0x01] {
            // SAFETY: as above.
            unsafe { data.write(word) };
        }
        // SAFETY: as above; masks all inputs.
        unsafe { data.write(0xff) };
    }
}

/// Calls the handler of a device's vector. Called on the interrupt stack, with interrupts off.
pub(crate) fn serve_device(vector: Vector) {
    let index = usize::from(vector.0).wrapping_sub(usize::from(FIRST_DEVICE));
    match HANDLERS.get(index).and_then(Once::get) {
        Some((handler, argument)) => handler(*argument),
        None => count_unexpected(),
    }
}

/// Counts an interrupt that has no handler.
pub(crate) fn count_unexpected() {
    UNEXPECTED.fetch_add(1, Ordering::Relaxed);
}
