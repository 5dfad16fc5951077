//! The driver of network devices (virtio 1.2, 5.1): one queue for the Ethernet frames that arrive, and one for those to
//! send.
//!
//! The driver uses no control queue. It uses two offloads if the device offers them. In received frames, the device may
//! put several segments of a connection together, and may leave their checksums out. In sent frames, the driver passes
//! long segments to the device, which cuts them into several and computes the checksums (`offload.rs`). So a frame has
//! the data of many segments, but costs little more than one segment.
//!
//! # Reset
//!
//! A device is reset and set up again if it breaks the protocol of a queue, says in its status that it needs a reset,
//! or has left no room for a frame to send for five seconds. (A device that passes no frame to the driver cannot be
//! distinguished from a quiet network. The calls that wait for a peer end by their own limits.) The frames that it had
//! are lost, as an Ethernet may lose frames, so TCP sends them again. The driver gives a device up that cannot be set up
//! again as it was, or that would have to be reset a ninth time before it passes a frame. So a device that is broken for
//! good is an error for the callers, and not a loop.

mod frames;
mod offload;

use core::fmt;

pub use self::frames::{FRAME_BYTES, Frames, MERGED_FRAME_BYTES, Received};
use self::frames::{MERGED, MERGED_ENTRIES};
use self::offload::CUT;
pub use self::offload::CUT_FRAME_BYTES;
use crate::{Dma, Doorbell, OpenError, Transport, needs_reset, negotiate, start};

/// `VIRTIO_NET_F_MAC`, which the driver needs.
const HAS_MAC: u64 = 1 << 5;
/// `VIRTIO_NET_F_STATUS`, which the driver uses if the device has it.
const STATUS: u64 = 1 << 16;
/// The offset, in the configuration, of the word with the first four bytes of the device's address.
const MAC: usize = 0;
/// The offset of the word with the other two bytes of the address, and the status.
const MAC_AND_STATUS: usize = 4;
/// The bit of that word that says that the link is up.
const LINK_UP: u32 = 1 << 16;
/// The numbers of the queues.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// How often a device is reset, at most, before it passes a frame.
const MOST_RESETS: u32 = 8;
/// How long a device may leave no room for a frame to send, in nanoseconds.
pub const SILENCE_NS: u64 = 5_000_000_000;

/// A network device.
pub struct Device<T, D> {
    transport: T,
    features: u64,
    mac: [u8; 6],
    receive: Frames<D>,
    send: Frames<D>,
    /// How often the device was reset.
    resets: u32,
    /// How often it was reset since it has last passed a frame.
    vain_resets: u32,
    is_gone: bool,
    /// When [`check_silence`](Self::check_silence) first found no room for a frame to send. Cleared when
    /// [`can_send`](Self::can_send) finds room.
    full_since: Option<u64>,
}

impl<T, D> fmt::Debug for Device<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("mac", &self.mac).field("resets", &self.resets).finish_non_exhaustive()
    }
}

impl<T: Transport, D: Doorbell> Device<T, D> {
    /// Sets up a device. `doorbell` returns that of the queue with this number. If the device can, it interrupts when its
    /// configuration changes and when it needs a reset: see [`check`](Self::check).
    ///
    /// # Errors
    /// If there is no memory, the device lacks or refuses something that the driver needs, or `doorbell` returns an
    /// error. The caller must then reset the device. The memory of its queues is never freed.
    pub fn open<M: Dma, E: From<OpenError>>(
        mut transport: T,
        doorbell: impl Fn(&T, u16) -> Result<D, E>,
    ) -> Result<Self, E> {
        let (features, mac) = agree(&mut transport)?;
        let [receive, send] = [RECEIVE, SEND].map(|queue| doorbell(&transport, queue));
        let receive = Frames::receiving::<M>(&mut transport, RECEIVE, features & MERGED != 0, receive?)?;
        let send = Frames::sending::<M>(&mut transport, SEND, features & CUT != 0, send?)?;
        let (resets, vain_resets) = (0, 0);
        let mut device =
            Self { transport, features, mac, receive, send, resets, vain_resets, is_gone: false, full_since: None };
        device.start();
        Ok(device)
    }

    fn start(&mut self) {
        start(&mut self.transport);
        self.receive.flush();
    }

    /// Returns the address of the device.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Returns the length of the largest frame that may arrive.
    pub fn largest_frame(&self) -> usize {
        if self.features & MERGED != 0 { MERGED_FRAME_BYTES } else { FRAME_BYTES }
    }

    /// Returns the length of the largest frame whose segment the device cuts, or `None` if it cuts none. A device that
    /// cuts segments also computes the checksum of every segment of TCP.
    pub fn largest_to_cut(&self) -> Option<usize> {
        (self.features & CUT != 0).then_some(CUT_FRAME_BYTES)
    }

    /// Whether the link is connected, as far as the device knows.
    pub fn is_up(&self) -> bool {
        let status = || self.transport.configuration(MAC_AND_STATUS);
        !self.is_gone && (self.features & STATUS == 0 || status().is_some_and(|status| status & LINK_UP != 0))
    }

    /// Whether the driver has given the device up. It then neither receives nor sends any more.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the registers of the device.
    #[cfg(test)]
    pub(crate) fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns how often the device was reset since it was set up.
    pub fn resets(&self) -> u32 {
        self.resets
    }

    /// Resets the device if it says that it needs this. The caller calls this function after the interrupt for changes of
    /// the configuration.
    pub fn check(&mut self) {
        if !self.is_gone && needs_reset(&self.transport) {
            self.reset();
        }
    }

    /// Breaks the protocol, so that the device finds an error, after which it needs a reset. Tests use this.
    pub fn mislead(&mut self) {
        self.send.mislead();
    }

    /// Copies the next frame that has arrived to the beginning of `frame`, which should have room for the
    /// [largest](Self::largest_frame). Returns `None` if no frame has arrived, if there is no room to send an answer, or
    /// if the device is broken. A frame that cannot be right is received as an empty one. When the caller has received
    /// what there is, it must call [`flush`](Self::flush).
    pub fn receive(&mut self, frame: &mut [u8]) -> Option<Received> {
        let received = if self.can_send() { self.receive.receive(frame) } else { None };
        match received {
            // Not counted as a frame, because the device may have broken the protocol in the middle of it.
            Some(Received { bytes: 0, .. }) => {}
            Some(_) => self.vain_resets = 0,
            None if self.receive.is_broken() => self.reset(),
            None => {}
        }
        received
    }

    /// Whether the device says that a frame has arrived.
    pub fn has_arrived(&self) -> bool {
        self.receive.has_completed()
    }

    /// Whether there is room for a frame to send. If there is none, the device interrupts when it has sent a frame.
    pub fn can_send(&mut self) -> bool {
        let can_send = self.send.can_send() || self.has_room_after_flush();
        if can_send {
            self.full_since = None;
        }
        can_send
    }

    /// Passes the frames that wait for that to the device, and asks for an interrupt. Returns whether there is room now.
    fn has_room_after_flush(&mut self) -> bool {
        self.send.flush();
        self.send.set_interrupts(true);
        if self.send.is_broken() {
            self.reset();
        }
        // The device may have sent a frame just before its interrupts were turned on.
        let has_room = self.send.can_send();
        if has_room {
            self.send.set_interrupts(false);
        }
        has_room
    }

    /// Resets the device if there has been no room for a frame to send for [`SILENCE_NS`]. `now` is the current time in
    /// nanoseconds. Returns when the caller must call this function again, or `None` if there is room or the driver has
    /// given the device up.
    pub fn check_silence(&mut self, now: u64) -> Option<u64> {
        if self.is_gone || self.can_send() {
            return None;
        }
        let due = self.full_since.get_or_insert(now).saturating_add(SILENCE_NS);
        if now < due {
            return Some(due);
        }
        self.full_since = None;
        self.reset();
        None
    }

    /// Sends a frame of at most [`FRAME_BYTES`] bytes. Drops it if there is no room. When the caller has sent what there
    /// is, it must call [`flush`](Self::flush).
    ///
    /// # Panics
    /// As [`send_to_cut`](Self::send_to_cut).
    pub fn send(&mut self, frame: &[u8]) {
        self.send_to_cut(frame, u16::MAX);
    }

    /// Sends a frame as [`send`](Self::send) does. A device that [cuts](Self::largest_to_cut) frames cuts it into segments
    /// of at most `segment_bytes` bytes of data.
    ///
    /// # Panics
    /// If the frame is longer than [`largest_to_cut`](Self::largest_to_cut), or than [`FRAME_BYTES`] if the device does not
    /// cut frames.
    pub fn send_to_cut(&mut self, frame: &[u8], segment_bytes: u16) {
        self.send.set_interrupts(false);
        self.send.send(frame, segment_bytes);
    }

    /// Notifies the device of the frames to send, and of the free buffers for frames that arrive.
    pub fn flush(&mut self) {
        self.receive.flush();
        self.send.flush();
    }

    /// Resets the device and sets it up again, with the memory that it had. If that fails, or has been in vain too often,
    /// gives the device up.
    fn reset(&mut self) {
        if self.is_gone {
            return;
        }
        self.resets = self.resets.wrapping_add(1);
        self.vain_resets += 1;
        if self.vain_resets <= MOST_RESETS && self.set_up_again().is_ok() {
            self.start();
        } else {
            self.is_gone = true;
            self.receive.give_up();
            self.send.give_up();
        }
    }

    fn set_up_again(&mut self) -> Result<(), OpenError> {
        // Until the device has confirmed the reset, it may access the buffers that it has.
        if agree(&mut self.transport)? != (self.features, self.mac) {
            return Err(OpenError::Refused);
        }
        self.receive.renew(&mut self.transport)?;
        self.send.renew(&mut self.transport)
    }
}

/// Resets the device, agrees with it on features, and reads its address.
fn agree(transport: &mut impl Transport) -> Result<(u64, [u8; 6]), OpenError> {
    let can_merge =
        transport.offered_features() & MERGED == MERGED && transport.queue_entries(RECEIVE) >= MERGED_ENTRIES;
    let can_cut = transport.offered_features() & CUT == CUT;
    let optional = STATUS | if can_merge { MERGED } else { 0 } | if can_cut { CUT } else { 0 };
    let features = negotiate(transport, HAS_MAC, optional)?;
    let words = [MAC, MAC_AND_STATUS].map(|offset| transport.configuration(offset).map(u32::to_le_bytes));
    let [Some([a, b, c, d]), Some([e, f, ..])] = words else { return Err(OpenError::NotSupported) };
    Ok((features, [a, b, c, d, e, f]))
}
