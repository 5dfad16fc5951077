//! A link from a computer to itself.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gmp_sched::time::Instant;

use crate::link::Link;
use crate::memory::copy;

/// The number of frames for which there is room.
const FRAMES: usize = 1024;

/// Who sends waits when the frames have this many bytes.
const BYTES: usize = 1024 * 1024;

/// The largest frame. The data of two of them fill the window of a connection. If one did, each would have to wait until
/// the one before is confirmed.
const LARGEST: usize = 14 + 20 + 20 + 32 * 1024;

/// A link that receives what it sends. No frame leaves the computer, so nothing depends on a device.
#[derive(Debug, Default)]
pub struct Loopback {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Loopback {
    /// Makes a link.
    #[must_use]
    pub const fn new() -> Self {
        Self { frames: VecDeque::new(), bytes: 0 }
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

    fn largest_to_send(&self) -> usize {
        LARGEST
    }

    /// The frame that is received makes room for its answer.
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        let received = self.frames.pop_front()?;
        self.bytes -= received.len();
        frame[..received.len()].copy_from_slice(&received);
        Some(received.len())
    }

    fn can_send(&mut self) -> bool {
        self.frames.len() < FRAMES && self.bytes < BYTES
    }

    /// Loses the frame if there is no room or no memory, as an Ethernet may.
    fn send(&mut self, frame: &[u8]) {
        if self.frames.len() < FRAMES
            && self.frames.try_reserve(1).is_ok()
            && let Ok(copy) = copy(frame)
        {
            self.bytes += frame.len();
            self.frames.push_back(copy);
        }
    }

    fn flush(&mut self) {}

    /// A frame is due at once. So who has sent it wakes the G that serves the link, after unlocking the stack.
    fn due(&mut self) -> Instant {
        if self.frames.is_empty() { Instant::NEVER } else { Instant::from_nanos(0) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn frames_have_a_bounded_size_and_each_makes_room_for_an_answer() {
        for bytes in [60, LARGEST] {
            let mut link = Loopback::new();
            let mut frame = vec![1; bytes];
            while link.can_send() {
                link.send(&frame);
            }
            assert_eq!(link.frames.len(), FRAMES.min(BYTES.div_ceil(bytes)));
            // The answer may be longer.
            for _ in 0..10 {
                assert_eq!(link.receive(&mut frame), Some(bytes));
                link.send(&vec![2; LARGEST]);
            }
            let left: usize = link.frames.iter().map(Vec::len).sum();
            assert_eq!(link.bytes, left);
        }
    }
}
