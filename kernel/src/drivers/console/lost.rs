//! Counts output that was dropped because the ring was full. Later a line with the counts is printed in place of that
//! output.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many messages, and how many bytes, were dropped because the ring was full and have not been reported yet.
/// Changed under the console's lock.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Counts a message that is dropped.
pub(super) fn count(message: &[u8]) {
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(message.len(), Ordering::Relaxed);
}

/// Whether output was dropped that has not been reported yet.
pub(super) fn is_any() -> bool {
    MESSAGES.load(Ordering::Relaxed) != 0
}

/// How much output was dropped, without the output whose loss has been reported already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    messages: usize,
    bytes: usize,
}

impl Lost {
    pub(super) fn now() -> Self {
        Self { messages: MESSAGES.load(Ordering::Relaxed), bytes: BYTES.load(Ordering::Relaxed) }
    }

    /// Returns how much output was dropped and has not been reported yet, and sets the counters to zero. The caller
    /// reports it.
    pub(super) fn take() -> Self {
        Self { messages: MESSAGES.swap(0, Ordering::Relaxed), bytes: BYTES.swap(0, Ordering::Relaxed) }
    }

    /// Returns the number of bytes that were dropped.
    pub(super) fn bytes(self) -> usize {
        self.bytes
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, bytes } = self;
        write!(f, "[the console was full: {messages} messages of {bytes} bytes are lost]")
    }
}
