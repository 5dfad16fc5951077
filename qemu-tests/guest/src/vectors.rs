//! Interrupts of the tests' own.

use kernel::internals::{self, Vector};
use kernel::percpu::CpuId;

/// Takes a vector for good. `handler` keeps to what a handler may do, or is there to be found out.
pub(crate) fn allocate(handler: fn(usize)) -> Vector {
    // SAFETY: the handlers of the tests count, signal, and pass on; where one does what it must not, that is a panic.
    unsafe { internals::allocate_vector(handler, 0) }.expect("a vector is free")
}

/// Interrupts a CPU.
pub(crate) fn send(to: CpuId, vector: Vector) {
    assert!(vector.0 >= Vector::FIRST_INTERRUPT && vector.0 < 0xf0, "a vector for devices");
    // SAFETY: a vector that a test has taken, or that nobody serves.
    unsafe { internals::send(to, vector) };
}

/// Interrupts all CPUs but the calling one.
pub(crate) fn send_to_others(vector: Vector) {
    assert!(vector.0 >= Vector::FIRST_INTERRUPT && vector.0 < 0xf0, "a vector for devices");
    // SAFETY: as in `send`.
    unsafe { internals::send_to_others(vector) };
}
