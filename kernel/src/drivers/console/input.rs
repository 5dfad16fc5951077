//! Input for programs, byte by byte.

use core::sync::atomic::{AtomicBool, Ordering};

use super::output;
use super::received;
use super::state::with_port;

/// Whether the kernel has asked the sender at the other end of the port for input.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks the sender for input, when the program reads for the first time. A program that never reads gets no input. So
/// its run does not depend on when input arrives.
fn request() {
    if received::is_enabled()
        && !IS_REQUESTED.load(Ordering::Relaxed)
        && !IS_REQUESTED.swap(true, Ordering::Relaxed)
        && !output::request_input()
    {
        // The console had no room for the request, and the caller cannot wait. The next call of this function tries
        // again.
        IS_REQUESTED.store(false, Ordering::Relaxed);
    }
}

/// Returns the next byte of the input, if one has been received. [`END_OF_INPUT`](boot_protocol::console::END_OF_INPUT)
/// is returned like any other byte. Callable from everywhere.
pub fn try_read() -> Option<u8> {
    request();
    loop {
        let byte = received::take();
        let is_paused = received::is_paused();
        if is_paused {
            with_port(received::receive);
        }
        // `receive` may have put bytes into the ring, and no interrupt will report them. So the ring is checked again
        // before `None` is returned.
        if byte.is_some() || !is_paused {
            return byte;
        }
    }
}
