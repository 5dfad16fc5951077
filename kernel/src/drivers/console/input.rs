//! Input, as programs read it: byte by byte.

use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::INPUT_READY;

use super::output;
use super::received;
use super::state::with_port;

/// Whether the sender has been asked for input.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks the sender for input, when the program reads for the first time. A program that never reads gets none, so its run does
/// not depend on when the host would have sent it.
fn request() {
    if received::is_enabled()
        && !IS_REQUESTED.load(Ordering::Relaxed)
        && !IS_REQUESTED.swap(true, Ordering::Relaxed)
        && !output::write(&[INPUT_READY])
    {
        // There was no room, and the caller cannot wait: the next call tries again.
        IS_REQUESTED.store(false, Ordering::Relaxed);
    }
}

/// The next byte of the input, if one has been received. [`END_OF_INPUT`](boot_protocol::console::END_OF_INPUT) is returned
/// like any other. Callable from everywhere.
pub fn try_read() -> Option<u8> {
    request();
    loop {
        let byte = received::take();
        let is_paused = received::is_paused();
        if is_paused {
            with_port(received::receive);
        }
        // A byte that was received just now raises no further interrupt, so `None` would be wrong.
        if byte.is_some() || !is_paused {
            return byte;
        }
    }
}
