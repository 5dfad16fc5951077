//! The network of a run that is recorded, or that repeats a recorded one. Its frames are in
//! [memory](crate::drivers::console::timed) that the machine shares with the host, and arrive at instants of the machine's
//! clock.

use alloc::vec::Vec;

use kernel_net::Link;

use crate::drivers::console::timed;

/// The network, with the numbers of the next frame to receive and to send.
pub(super) struct Recorded {
    next: usize,
    sent: usize,
}

impl Recorded {
    pub(super) const fn new() -> Self {
        Self { next: 0, sent: 0 }
    }
}

impl Link for Recorded {
    /// The address that QEMU gives its first network device.
    fn mac(&self) -> [u8; 6] {
        [0x52, 0x54, 0x00, 0x12, 0x34, 0x56]
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        timed::next_frame(&mut self.next, frame)
    }

    fn can_send(&mut self) -> bool {
        true
    }

    fn send(&mut self, frame: &[u8]) {
        timed::send_frame(self.sent, frame);
        self.sent += 1;
    }

    fn flush(&mut self) {}
}
