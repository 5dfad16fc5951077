//! Counts output that was dropped because the ring was full. Later a line with the counts is printed in place of that
//! output.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What was dropped and has not been reported yet. Changed under the console's lock.
pub(super) static LOST: Lost = Lost { messages: AtomicUsize::new(0), bytes: AtomicUsize::new(0) };

#[derive(Debug)]
pub(super) struct Lost {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Lost {
    /// Counts a message that is dropped.
    pub(super) fn count(&self, message: &[u8]) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(message.len(), Ordering::Relaxed);
    }

    pub(super) fn is_any(&self) -> bool {
        self.messages.load(Ordering::Relaxed) != 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Forgets what was counted, because it has been reported.
    pub(super) fn clear(&self) {
        self.messages.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = self.messages.load(Ordering::Relaxed);
        write!(f, "[the console was full: {messages} messages of {} bytes are lost]", self.bytes())
    }
}
