//! A link from a computer to itself.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gmp_sched::time::Instant;

use crate::link::Link;
use crate::packet::room_for_frame;

/// The largest number of frames in the loopback.
const FRAMES: usize = 1024;

/// A sender waits while the frames have this many bytes or more.
const BYTES: usize = 1024 * 1024;

/// The largest frame. The data of two of them fill the window of a connection. If one frame filled it, each frame would
/// have to wait until the previous one is confirmed.
const LARGEST: usize = 14 + 20 + 20 + 32 * 1024;

/// A frame of at least this length is not copied: its sender gets another room in exchange.
const LONG: usize = 4096;

/// How many rooms are kept for this exchange. Two of the largest frames fill the window of a connection.
const ROOMS: usize = 2;

/// A link that receives what it sends. No frame leaves the computer, so nothing depends on a device.
#[derive(Debug, Default)]
pub struct Loopback {
    frames: VecDeque<Frame>,
    /// How many bytes of memory the frames have.
    bytes: usize,
    /// Free rooms for long frames.
    rooms: Vec<Vec<u8>>,
    /// Memory for a short frame.
    short: Vec<u8>,
}

/// A frame that was sent: the first `bytes` bytes of `room`. A long one has a room for the largest frame.
#[derive(Debug)]
struct Frame {
    room: Vec<u8>,
    bytes: usize,
}

impl Loopback {
    /// Makes a link.
    #[must_use]
    pub const fn new() -> Self {
        Self { frames: VecDeque::new(), bytes: 0, rooms: Vec::new(), short: Vec::new() }
    }

    /// Adds a frame. Loses it if there is no room or no memory, as an Ethernet may.
    fn put(&mut self, frame: Frame) {
        if self.frames.len() < FRAMES && self.frames.try_reserve(1).is_ok() {
            self.bytes += frame.room.len();
            self.frames.push_back(frame);
        }
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
    fn receive(&mut self, room: &mut Vec<u8>) -> Option<usize> {
        let Frame { room: mut received, bytes } = self.frames.pop_front()?;
        self.bytes -= received.len();
        if received.len() == room.len() {
            core::mem::swap(room, &mut received);
            if self.rooms.len() < ROOMS && self.rooms.try_reserve(1).is_ok() {
                self.rooms.push(received);
            }
        } else {
            room[..bytes].copy_from_slice(&received);
            self.short = received;
        }
        Some(bytes)
    }

    fn has_arrived(&self) -> bool {
        !self.frames.is_empty()
    }

    fn can_send(&mut self) -> bool {
        self.frames.len() < FRAMES && self.bytes < BYTES
    }

    fn send(&mut self, frame: &[u8]) {
        let mut room = core::mem::take(&mut self.short);
        room.clear();
        if room.try_reserve_exact(frame.len()).is_ok() {
            room.extend_from_slice(frame);
            self.put(Frame { room, bytes: frame.len() });
        }
    }

    fn send_from(&mut self, room: &mut Vec<u8>, bytes: usize) {
        if bytes < LONG {
            return self.send(&room[..bytes]);
        }
        if let Some(other) = self.rooms.pop().or_else(|| room_for_frame(LARGEST).ok()) {
            self.put(Frame { room: core::mem::replace(room, other), bytes });
        }
    }

    fn flush(&mut self) {}

    /// If there is a frame, it is due at once. So its sender wakes the G that serves the link, after unlocking the
    /// stack.
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
        for bytes in [60, LONG - 1, LONG, LARGEST] {
            let mut link = Loopback::new();
            let (mut to_send, mut received) = (vec![0; LARGEST], vec![0; LARGEST]);
            while link.can_send() {
                (to_send[0], to_send[bytes - 1]) = (link.frames.len() as u8, 1);
                link.send_from(&mut to_send, bytes);
            }
            let memory = if bytes < LONG { bytes } else { LARGEST };
            assert_eq!(link.frames.len(), FRAMES.min(BYTES.div_ceil(memory)));
            // The answer to a frame may be longer than the frame.
            for number in 0..10 {
                assert_eq!(link.receive(&mut received), Some(bytes));
                assert_eq!((received[0], received[bytes - 1]), (number, 1));
                link.send_from(&mut to_send, LARGEST);
                assert_eq!([to_send.len(), received.len()], [LARGEST; 2]);
            }
            let left: usize = link.frames.iter().map(|frame| frame.room.len()).sum();
            assert_eq!(link.bytes, left);
            while link.receive(&mut received).is_some() {}
            assert_eq!((link.bytes, link.rooms.len() <= ROOMS), (0, true));
        }
    }
}
