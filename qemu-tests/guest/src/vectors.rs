//! Interrupt vectors for tests.

use kernel::internals::{self, Vector};
use kernel::percpu::CpuId;

/// Allocates a vector permanently. `handler` does only what handlers may do, unless the test expects that to be detected.
pub(crate) fn allocate(handler: fn(usize)) -> Vector {
    // SAFETY: the handlers of the tests count, signal, and interrupt others; one that does something forbidden panics.
    unsafe { internals::allocate_vector(handler, 0) }.expect("a vector is free")
}

/// Interrupts a CPU.
pub(crate) fn send(to: CpuId, vector: Vector) {
    assert!(vector.0 >= Vector::FIRST_INTERRUPT && vector.0 < 0xf0, "a vector for devices");
    // SAFETY: a vector that a test has allocated, or one without a handler.
    unsafe { internals::send(to, vector) };
}

/// Interrupts all other CPUs.
pub(crate) fn send_to_others(vector: Vector) {
    assert!(vector.0 >= Vector::FIRST_INTERRUPT && vector.0 < 0xf0, "a vector for devices");
    // SAFETY: as in `send`.
    unsafe { internals::send_to_others(vector) };
}
