//! A link from a computer to itself.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gmp_sched::time::Instant;

use crate::link::Link;

/// The number of frames for which there is room. Who sends more has to wait.
const FRAMES: usize = 1024;

/// A link that receives what it sends. No frame leaves the computer, so nothing depends on a device.
#[derive(Debug, Default)]
pub struct Loopback {
    frames: VecDeque<Vec<u8>>,
}

impl Loopback {
    /// Makes a link.
    #[must_use]
    pub const fn new() -> Self {
        Self { frames: VecDeque::new() }
    }
}

impl Link for Loopback {
    fn mac(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 1]
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn may_damage(&self) -> bool {
        false
    }

    /// The frame that is received makes room for its answer.
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        let received = self.frames.pop_front()?;
        frame[..received.len()].copy_from_slice(&received);
        Some(received.len())
    }

    fn can_send(&mut self) -> bool {
        self.frames.len() < FRAMES
    }

    /// Loses the frame if there is no room or no memory, as an Ethernet may.
    fn send(&mut self, frame: &[u8]) {
        let mut copy = Vec::new();
        if self.frames.len() < FRAMES
            && self.frames.try_reserve(1).is_ok()
            && copy.try_reserve_exact(frame.len()).is_ok()
        {
            copy.extend_from_slice(frame);
            self.frames.push_back(copy);
        }
    }

    fn flush(&mut self) {}

    /// A frame is due at once. So who has sent it wakes the G that serves the link, after unlocking the stack.
    fn due(&mut self) -> Instant {
        if self.frames.is_empty() { Instant::NEVER } else { Instant::from_nanos(0) }
    }
}
