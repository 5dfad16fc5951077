//! Interrupt vectors for tests.

use kernel::internals::{self, Vector};
use kernel::percpu::CpuId;

/// Allocates a vector permanently. `handler` must do only what handlers may do. The only exceptions are tests that
/// expect the kernel to detect the misuse.
pub(crate) fn allocate(handler: fn(usize)) -> Vector {
    // SAFETY: the handlers of the tests count, print, check registers, lock an `InterruptMutex`, raise signals, and
    // interrupt CPUs. All of this is allowed in a handler. In a test of misuse, the kernel panics before the handler
    // does what is forbidden.
    unsafe { internals::allocate_vector(handler, 0) }.expect("a vector is free")
}

/// Sends an interrupt with this vector to the CPU `to`.
pub(crate) fn send(to: CpuId, vector: Vector) {
    assert!(vector.0 >= Vector::FIRST_INTERRUPT && vector.0 < 0xf0, "a vector for devices");
    // SAFETY: either the vector belongs to a test, or it has no handler. In the second case the kernel only counts the
    // interrupt.
    unsafe { internals::send(to, vector) };
}

/// Sends an interrupt with this vector to all CPUs except the calling one.
pub(crate) fn send_to_others(vector: Vector) {
    assert!(vector.0 >= Vector::FIRST_INTERRUPT && vector.0 < 0xf0, "a vector for devices");
    // SAFETY: either the vector belongs to a test, or it has no handler. In the second case the kernel only counts the
    // interrupts.
    unsafe { internals::send_to_others(vector) };
}
