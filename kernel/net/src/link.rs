//! What a device that passes frames offers.

use alloc::vec::Vec;

use gmp_sched::time::Instant;

/// The largest frame of an Ethernet: its header and 1,500 bytes.
pub const FRAME_BYTES: usize = 1514;

/// A link that passes Ethernet frames. Its functions do not block. When frames have arrived, or when there is room for
/// a frame after [`can_send`](Self::can_send) has returned false, the device calls
/// [`Stack::announce`](crate::Stack::announce). The device need not announce room that `can_send` has reported
/// meanwhile.
pub trait Link: Send {
    /// The address of the device.
    fn mac(&self) -> [u8; 6];

    /// Whether the link is connected, as far as the device knows.
    fn is_up(&self) -> bool;

    /// Whether the device has broken its protocol. It then neither receives nor sends any more.
    fn is_broken(&self) -> bool;

    /// Whether a frame may be damaged on its way, so that its receiver has to check its checksums.
    fn may_damage(&self) -> bool {
        true
    }

    /// The length of the largest frame that may arrive. A device may put the segments of a connection together.
    fn largest(&self) -> usize {
        self.largest_to_send()
    }

    /// The length of the largest frame to send, which is at most 65,535.
    fn largest_to_send(&self) -> usize {
        FRAME_BYTES
    }

    /// The length of the largest frame whose segment the device can cut into several ones, at most 65,535. `None` if
    /// the device cannot cut segments. A device that can also computes the checksum of each segment, even of one that
    /// need not be cut.
    fn largest_to_cut(&self) -> Option<usize> {
        None
    }

    /// Copies the next frame that has arrived to the beginning of `room`, which has the length of the
    /// [largest](Self::largest). Returns the length of the frame. Afterwards there is room for one frame to send, which is
    /// the answer. Returns `None` if no frame has arrived, or there would be no room for the answer. A link may exchange
    /// `room` for one that has the frame, and that suffices for its next frame.
    fn receive(&mut self, room: &mut Vec<u8>) -> Option<usize>;

    /// Whether a further frame has arrived, as far as the link knows without effort.
    fn has_arrived(&self) -> bool {
        false
    }

    /// Whether the device knows that the data of the frame that [`receive`](Self::receive) has returned last is right.
    /// The stack then does not look at the frame's checksums of TCP and UDP, which may be wrong.
    fn is_checked(&self) -> bool {
        !self.may_damage()
    }

    /// Whether there is room for a frame to send.
    fn can_send(&mut self) -> bool;

    /// Sends a frame, which is no longer than the [largest](Self::largest_to_send). Drops the frame if there is no
    /// room.
    fn send(&mut self, frame: &[u8]);

    /// Sends the first `bytes` bytes of `room`, which has the length of the [largest](Self::largest_to_send) frame, as
    /// [`send`](Self::send) does. A link may keep `room` and leave one of the same length, so that it need not copy.
    fn send_from(&mut self, room: &mut Vec<u8>, bytes: usize) {
        self.send(&room[..bytes]);
    }

    /// Like [`send`](Self::send), but the frame may be as long as the [largest to cut](Self::largest_to_cut), and the
    /// device cuts it into segments of at most `segment_bytes` bytes of data. Called only if the device can.
    fn send_to_cut(&mut self, _frame: &[u8], _segment_bytes: u16) {}

    /// Makes the device look at what was sent, and at the room that `receive` has made. The device may look earlier.
    fn flush(&mut self);

    /// Returns when the stack has to ask the link again if the device announces nothing before: for room if the last
    /// call of [`can_send`](Self::can_send) has returned false, and otherwise for a frame. If there is room by now,
    /// that is at once.
    fn due(&mut self) -> Instant {
        Instant::NEVER
    }
}
