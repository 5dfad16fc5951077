//! The buffers of a connection. They are as large as the window of the connection, but only the pages that hold data
//! have memory.
//!
//! The window is the largest one that the header of a segment can name without a shift. A shift would round it down
//! when the buffer has an odd number of bytes, so that the window would end earlier than before. If the peer is
//! smoltcp, too, it then probes the window with the byte after those that it has sent, and never sends again those that
//! did not arrive.
//!
//! A socket of smoltcp gets its buffers when it is made, and keeps them. So the buffers are addresses, and a page gets
//! memory before a call in which smoltcp may write to it. Which pages need memory follows from numbers that are known
//! anyway:
//!
//! ```text
//!                         at, first     at + received         the byte with the sequence number n
//!                          │                │                is at at + n - first, modulo the size
//!   to receive  ░░░░░░░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░
//!   to send     ░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░
//!                   └ not confirmed ┘ end, 0 again when the buffer is empty
//! ```
//!
//! Pages without data keep their memory for a while, because most connections that were just used will be used again:
//! see [`Connections`](crate::connections::Connections).

#![expect(unsafe_code, reason = "makes buffers of addresses")]

use core::ptr::NonNull;
use core::slice;

use gmp_sched::platform::OutOfResources;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::socket::udp;

use crate::memory::room;
use crate::packet::Segment;

/// The size of the buffer for the datagrams that a UDP socket has received, and of that for those to send.
const DATAGRAM_BYTES: usize = 16 * 1024;

/// How many datagrams each of the two buffers of a UDP socket holds at most.
const DATAGRAMS: usize = 16;

/// The size of a page of a [`Room`].
pub const PAGE_BYTES: usize = 4096;
/// The number of pages of a buffer.
const BUFFER_PAGES: u32 = 16;
/// The size of the buffer for what is to be sent.
const SEND_BYTES: usize = BUFFER_PAGES as usize * PAGE_BYTES;
/// The size of the buffer for what was received, which is that of the window.
pub(crate) const WINDOW_BYTES: usize = u16::MAX as usize;
/// The number of pages of a [`Room`]: the buffer for what was received, and then that for what is to be sent.
pub const ROOM_PAGES: u32 = 2 * BUFFER_PAGES;

/// Addresses for the buffers of a connection, whose [`ROOM_PAGES`] pages have memory only while they are used.
///
/// # Safety
///
/// [`start`](Self::start) must always return the same address, aligned to a page. From a successful
/// [`commit`](Self::commit) of a page until it is withdrawn, the page must be memory that only the owner of the room uses,
/// and that keeps what was written to it.
pub unsafe trait Room: Send {
    /// Returns the address of the first page.
    fn start(&self) -> NonNull<u8>;

    /// Gives memory to a page that has none. What it contains is undefined.
    ///
    /// # Errors
    ///
    /// There is no memory.
    fn commit(&mut self, page: u32) -> Result<(), OutOfResources>;

    /// Takes back the pages whose bits are set, which the caller no longer uses. Their memory may stay reserved until
    /// [`reclaim`](Self::reclaim).
    fn withdraw(&mut self, pages: u32);

    /// Frees the memory of the pages that were withdrawn, if nothing can use it any more. Returns whether it was freed.
    fn reclaim(&mut self) -> bool;
}

/// Makes a room. Rooms are not freed, but used again.
pub type MakeRoom = fn() -> Result<&'static mut dyn Room, OutOfResources>;

/// A room, and what is in it.
pub(crate) struct Buffers {
    room: &'static mut dyn Room,
    /// The pages that have memory.
    present: u32,
    /// The sequence number of the first byte that the program has not taken. Not known before the peer has answered.
    first: Option<u32>,
    /// The place of the byte `first`, and how many bytes from there on may have been received, including bytes that
    /// came too early.
    at: u16,
    received: u16,
    /// Where the bytes to send end.
    end: u16,
}

/// Returns the pages of a buffer, which is a ring, that contain the `bytes` bytes from the offset `from` on.
fn pages_of(from: usize, bytes: usize) -> u32 {
    if bytes == 0 {
        return 0;
    }
    let (page, offset) = (from / PAGE_BYTES % BUFFER_PAGES as usize, from % PAGE_BYTES);
    let count = (offset + bytes).div_ceil(PAGE_BYTES).min(BUFFER_PAGES as usize);
    let from_zero = (1_u32 << count) - 1;
    (from_zero << page | from_zero >> (BUFFER_PAGES as usize - page)) & ((1 << BUFFER_PAGES) - 1)
}

impl Buffers {
    pub(crate) fn new(room: &'static mut dyn Room) -> Self {
        Self { room, present: 0, first: None, at: 0, received: 0, end: 0 }
    }

    /// Makes a socket with these buffers, which are empty.
    ///
    /// # Safety
    /// An earlier socket with these buffers must have been dropped.
    pub(crate) unsafe fn make_socket(&mut self) -> Socket<'static> {
        (self.first, self.at, self.received, self.end) = (None, 0, 0, 0);
        let [received, to_send] = [(0, WINDOW_BYTES), (SEND_BYTES, SEND_BYTES)].map(|(offset, bytes)| {
            // SAFETY: the room is as large as both buffers. The caller promises that nothing else refers to them. smoltcp
            // reads only bytes that it has written, and writes only to pages that `prepare_to_receive` and
            // `prepare_to_send` have given memory; they keep it as long as `needed` names them. The bytes of other pages
            // are not accessed, since a slice of bytes is accessed only where the code says so.
            SocketBuffer::new(unsafe {
                slice::from_raw_parts_mut(self.room.start().as_ptr().wrapping_add(offset), bytes)
            })
        });
        let mut socket = Socket::new(received, to_send);
        socket.set_congestion_control(CongestionControl::Reno);
        // At first, acknowledgements are not delayed: see `Connection::acknowledge`.
        socket.set_ack_delay(None);
        socket
    }

    /// Notes the sequence number of the peer's first segment, which the socket has accepted.
    pub(crate) fn begin(&mut self, sequence: u32) {
        self.first = Some(sequence.wrapping_add(1));
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.first.is_some()
    }

    /// Gives memory to the pages to which the socket may write when it gets this segment.
    ///
    /// # Errors
    /// There is no memory. The socket must not get the segment.
    pub(crate) fn prepare_to_receive(&mut self, segment: Segment) -> Result<(), OutOfResources> {
        let Some(first) = self.first.filter(|_| segment.bytes != 0) else { return Ok(()) };
        // Where the segment begins, from the first byte that the program has not taken.
        let at = i64::from(segment.sequence.wrapping_sub(first).cast_signed());
        // smoltcp also takes data after the end of the peer's data. That end has a sequence number, but no byte.
        let (start, end) = ((at - 1).max(0), (at + segment.bytes as i64).min(WINDOW_BYTES as i64));
        if start >= end {
            return Ok(());
        }
        self.commit(self.pages_to_receive(start as usize, (end - start) as usize))?;
        self.received = self.received.max(end as u16);
        Ok(())
    }

    /// Returns the pages that contain `bytes` bytes of what the program has not taken yet, after the first `start` bytes of
    /// that.
    fn pages_to_receive(&self, start: usize, bytes: usize) -> u32 {
        let from = (usize::from(self.at) + start) % WINDOW_BYTES;
        // After the end of the buffer, there is an unused byte on its last page.
        pages_of(from, bytes + usize::from(from + bytes > WINDOW_BYTES))
    }

    /// Notes that the program has taken bytes from the socket.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.first = self.first.map(|first| first.wrapping_add(bytes as u32));
        self.at = ((usize::from(self.at) + bytes) % WINDOW_BYTES) as u16;
        self.received -= bytes as u16;
    }

    /// Gives memory to the pages to which the socket writes when it gets bytes to send. It has `queued` bytes already.
    ///
    /// # Errors
    /// There is no memory. The socket must not get the bytes.
    pub(crate) fn prepare_to_send(&mut self, queued: usize, bytes: usize) -> Result<(), OutOfResources> {
        if queued == 0 {
            self.end = 0;
        }
        self.commit(pages_of(self.end.into(), bytes.min(SEND_BYTES - queued)) << BUFFER_PAGES)
    }

    /// Notes that the socket has got bytes to send.
    pub(crate) fn put(&mut self, bytes: usize) {
        self.end = self.end.wrapping_add(bytes as u16);
    }

    fn commit(&mut self, pages: u32) -> Result<(), OutOfResources> {
        let mut missing = pages & !self.present;
        while missing != 0 {
            let page = missing.trailing_zeros();
            self.room.commit(page)?;
            self.present |= 1 << page;
            missing &= missing - 1;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// Returns the pages that have memory and no data. `queued` is the number of bytes that the socket has to send, or
    /// `None` if there is no socket.
    pub(crate) fn spare(&self, queued: Option<usize>) -> u32 {
        let Some(queued) = queued else { return self.present };
        let to_take = self.pages_to_receive(0, self.received.into());
        let to_send = pages_of(usize::from(self.end) + SEND_BYTES - queued, queued) << BUFFER_PAGES;
        self.present & !(to_take | to_send)
    }

    /// Takes the memory of the [spare](Self::spare) pages away. Returns whether it has to be reclaimed.
    pub(crate) fn withdraw(&mut self, queued: Option<usize>) -> bool {
        let spare = self.spare(queued);
        self.present &= !spare;
        if spare != 0 {
            self.room.withdraw(spare);
        }
        spare != 0
    }

    /// Frees the memory that was taken away, if nothing can use it any more. Returns whether it was freed.
    pub(crate) fn reclaim(&mut self) -> bool {
        self.room.reclaim()
    }
}

/// Makes one of the two buffers of a UDP socket.
pub(crate) fn datagrams() -> Result<udp::PacketBuffer<'static>, OutOfResources> {
    let mut places = room(DATAGRAMS)?;
    places.resize(DATAGRAMS, udp::PacketMetadata::EMPTY);
    let mut bytes = room(DATAGRAM_BYTES)?;
    bytes.resize(DATAGRAM_BYTES, 0);
    Ok(udp::PacketBuffer::new(places, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_range_are_those_of_its_bytes() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let (from, bytes) = (random.usize(..3 * SEND_BYTES), random.usize(..=SEND_BYTES));
            let bytes = bytes >> random.u32(..17);
            let mut expected = 0;
            for byte in (from..from + bytes).step_by(PAGE_BYTES / 2).chain((bytes != 0).then(|| from + bytes - 1)) {
                expected |= 1 << (byte % SEND_BYTES / PAGE_BYTES);
            }
            assert_eq!(pages_of(from, bytes), expected, "{from} {bytes}");
        }
    }
}
