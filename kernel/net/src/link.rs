//! What a device that passes frames offers.

use alloc::vec::Vec;

use gmp_sched::time::Instant;

/// The largest frame of an Ethernet: its header and 1,500 bytes.
pub const FRAME_BYTES: usize = 1514;

/// A link that passes Ethernet frames. Its functions do not block. When frames have arrived, or when there is room for
/// a frame after [`can_send`](Self::can_send) has returned false, the device calls
/// [`Stack::announce`](crate::Stack::announce). It need not announce room that `can_send` has seen meanwhile.
pub trait Link: Send {
    /// The address of the device.
    fn mac(&self) -> [u8; 6];

    /// Whether the link is connected, as far as the device knows.
    fn is_up(&self) -> bool;

    /// Whether the device has broken its protocol. It then neither receives nor sends any more.
    fn is_broken(&self) -> bool;

    /// Whether a frame may be damaged on its way, so that its checksums are needed.
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

    /// The length of the largest frame with a segment that the device cuts into several ones, if it can, which is at most
    /// 65,535. Such a device also computes the checksum of each segment, also of one that need not be cut.
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

    /// Whether the device knows that the data of the frame is right that [`receive`](Self::receive) has returned last. Its
    /// checksums of TCP and UDP may then be wrong, and are not looked at.
    fn is_checked(&self) -> bool {
        !self.may_damage()
    }

    /// Whether there is room for a frame to send.
    fn can_send(&mut self) -> bool;

    /// Sends a frame of at most [so many](Self::largest_to_send) bytes. Drops the frame if there is no room.
    fn send(&mut self, frame: &[u8]);

    /// Sends the first `bytes` bytes of `room`, which has the length of the [largest](Self::largest_to_send) frame, as
    /// [`send`](Self::send) does. A link may keep `room` and leave one of the same length, so that it need not copy.
    fn send_from(&mut self, room: &mut Vec<u8>, bytes: usize) {
        self.send(&room[..bytes]);
    }

    /// Sends a frame as [`send`](Self::send) does, which may be as long as the device [cuts](Self::largest_to_cut): into
    /// segments of at most `segment_bytes` bytes of data. Called only if it does.
    fn send_to_cut(&mut self, _frame: &[u8], _segment_bytes: u16) {}

    /// Makes the device look at what was sent, and at the room that `receive` has made. The device may look earlier.
    fn flush(&mut self);

    /// Returns when the link has to be asked again, if the device does not announce it before: whether there is room for a
    /// frame, if [`can_send`](Self::can_send) has returned false last, and otherwise whether a frame has arrived. There may
    /// be room meanwhile, which is then due at once.
    fn due(&mut self) -> Instant {
        Instant::NEVER
    }
}
