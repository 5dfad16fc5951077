//! A connection, or a UDP socket.

use core::net::SocketAddr;
use core::time::Duration;

use gmp_sched::platform::OutOfResources;
use gmp_sched::time::Instant;
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{RecvError, Socket, State};
use smoltcp::socket::udp;

use crate::abandoned::Users;
use crate::buffers::{Buffers, datagrams};
use crate::error::NetError;
use crate::key::{Key, Protocol};
use crate::link::FRAME_BYTES;
use crate::memory::room;
use crate::packet::{Segment, std_duration};
use crate::sequence::Sent;
use crate::settings::CONNECTING;
use crate::state::{CLOSING, HALF_OPEN, SILENCE};

/// The number of the first segment with data, counted from the beginning of a connection, whose acknowledgement may wait. Those
/// before it are acknowledged at once.
const QUICK: u8 = 16;

/// How long an acknowledgement waits for data that could take it along. It does not wait if there is a second segment.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(10);

/// To whom a connection belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// To the listener with this index. The peer has not confirmed the connection yet.
    HalfOpen(usize),
    /// To the listener with this index, in its queue for `accept`.
    Queued(usize),
    /// To a stream of the program.
    Stream,
    /// To a UDP socket of the program.
    Datagrams,
    /// To a G that has ended without dropping the stream or the UDP socket: see `abandoned`.
    Abandoned,
    /// To no one: the program has dropped its stream, and the rest of the data is being sent.
    Closing,
}

/// A connection, or a UDP socket.
pub(crate) struct Connection {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    pub(crate) users: Users,
    /// The socket is alone in its set: see the documentation of the crate.
    pub(crate) sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// The buffers of a TCP socket. A UDP socket keeps those of an earlier connection for a later one.
    pub(crate) buffers: Option<Buffers>,
    /// The only peer of a UDP socket, if the program has chosen one.
    pub(crate) peer: Option<SocketAddr>,
    /// For a connection that belongs to no stream, or is in the state LAST-ACK: when it is given up if nothing arrives. For a
    /// UDP socket: when its datagrams are dropped if the neighbour does not answer.
    pub(crate) end: Instant,
    pub(crate) sent: Sent,
    /// What an ICMP message has said about its last segments or datagrams: see `icmp`.
    pub(crate) refusal: Option<NetError>,
    /// After how much silence the peer is asked whether it is still there.
    pub(crate) keepalive: Option<Duration>,
    /// Whether the program has shut down the half for reading, and the half for writing.
    pub(crate) is_shut: [bool; 2],
    /// Whether the program has written bytes after the last attempt to send.
    pub(crate) has_written: bool,
    /// How many bytes the program has written (this number may overflow), and how many of them it has written since all
    /// earlier bytes were sent.
    written: u32,
    recently_written: usize,
    /// How many segments with data have still to arrive until acknowledgements may wait. The last of these segments is the
    /// first whose acknowledgement may: see [`acknowledge`](Self::acknowledge).
    quick: u8,
}

impl Connection {
    /// Takes `buffers`, which a TCP socket needs. An error leaves them where they are. No other connection uses them.
    pub(crate) fn new(key: Key, owner: Owner, buffers: &mut Option<Buffers>) -> Result<Self, OutOfResources> {
        // The set does not allocate memory when the socket is added.
        let mut storage = room(1)?;
        storage.push(SocketStorage::EMPTY);
        let mut sockets = SocketSet::new(storage);
        let handle = match buffers.as_mut().filter(|_| key.protocol == Protocol::Tcp) {
            #[expect(unsafe_code, reason = "the socket and its buffers have one owner, which is this connection")]
            // SAFETY: `Connections` has the buffers only after it has dropped the socket of the last connection.
            Some(buffers) => sockets.add(unsafe { buffers.make_socket() }),
            None => sockets.add(udp::Socket::new(datagrams()?, datagrams()?)),
        };
        Ok(Self {
            key,
            owner,
            users: Users::Nobody,
            sockets,
            handle,
            buffers: buffers.take(),
            peer: None,
            end: Instant::NEVER,
            sent: Sent::new(),
            refusal: None,
            keepalive: None,
            is_shut: [false; 2],
            has_written: false,
            written: 0,
            recently_written: 0,
            quick: QUICK,
        })
    }

    /// Whether a read, and a write, need not wait.
    pub(crate) fn is_ready(&mut self) -> [bool; 2] {
        match self.owner {
            Owner::Abandoned => [true; 2],
            Owner::Datagrams if self.refusal.is_some() => [true; 2],
            Owner::Datagrams => [self.datagrams().can_recv(), self.datagrams().can_send()],
            _ => {
                let ([end_in, end_out], it) = (self.is_shut, self.socket());
                [it.can_recv() || !it.may_recv() || end_in, it.can_send() || !it.may_send() || end_out]
            }
        }
    }

    /// Returns the TCP socket. The owner is not [`Owner::Datagrams`].
    pub(crate) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Returns why a TCP socket has ended although its peer has not closed its half of the connection.
    pub(crate) fn reset(&self) -> NetError {
        self.refusal.unwrap_or(NetError::ConnectionReset)
    }

    /// Passes bytes to a TCP socket, which sends them. Returns how many of them it has taken.
    ///
    /// # Errors
    /// That of [`reset`](Self::reset) if the socket does not send any more, or if there is no memory.
    pub(crate) fn send(&mut self, data: &[u8]) -> Result<usize, NetError> {
        let queued = self.socket().send_queue();
        let Some(buffers) = &mut self.buffers else { return Err(NetError::Other) };
        buffers.prepare_to_send(queued, data.len())?;
        let sent = self.socket().send_slice(data).map_err(|_| self.reset())?;
        if let Some(buffers) = &mut self.buffers {
            buffers.put(sent);
        }
        self.has_written = true;
        if self.unsent() == 0 {
            self.recently_written = 0;
        }
        self.written = self.written.wrapping_add(sent as u32);
        self.recently_written += sent;
        Ok(sent)
    }

    /// Returns how many of the bytes that the program has written were not sent yet. Meaningless after the end of the data
    /// was sent.
    fn unsent(&self) -> usize {
        self.written.wrapping_sub(self.sent.count()) as usize
    }

    /// Whether Nagle's algorithm keeps back a segment that may be sent.
    ///
    /// smoltcp sends a short segment only when all bytes before it are confirmed. So the rest of a long write would
    /// wait for the peer, which may delay its answer. As on Linux, the rest waits only for earlier short segments, so
    /// that at most one is under way. The last segment before the recently written bytes may have been a short one.
    pub(crate) fn keeps_rest(&mut self, largest_frame: usize) -> bool {
        let is_rest = (1..largest_frame).contains(&self.unsent());
        is_rest && self.socket().nagle_enabled() && self.socket().send_queue() <= self.recently_written
    }

    /// Takes bytes that a TCP socket has received. Returns their number.
    ///
    /// # Errors
    /// At the end of the peer's data, or of the connection.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        let taken = self.socket().recv_slice(buffer)?;
        if let Some(buffers) = &mut self.buffers {
            buffers.take(taken);
        }
        Ok(taken)
    }

    /// Notes the sequence number of the peer's segment, which is a SYN, if it has begun the connection. The socket has got
    /// the segment.
    pub(crate) fn begin(&mut self, sequence: u32) {
        if matches!(self.socket().state(), State::SynReceived | State::Established)
            && let Some(buffers) = self.buffers.as_mut().filter(|buffers| !buffers.has_begun())
        {
            buffers.begin(sequence);
        }
    }

    /// Whether the peer has acknowledged all but the end of the data.
    pub(crate) fn has_only_end_under_way(&mut self) -> bool {
        let socket = self.socket();
        socket.send_queue() == 0 && matches!(socket.state(), State::FinWait1 | State::Closing)
    }

    /// Notes a segment that arrives. The first segments with data are acknowledged at once, as by Linux: the peer may
    /// send only one segment at the beginning, and needs the acknowledgement to send more. The acknowledgement of a
    /// later segment waits, unless the segment is longer than an Ethernet frame. Then the peer or a device has put
    /// several segments together.
    pub(crate) fn acknowledge(&mut self, segment: Segment) {
        // The segments of a connection that the program has dropped are acknowledged at once: see `limit_silence`.
        if segment.bytes == 0 || self.owner == Owner::Closing {
            return;
        }
        self.quick = self.quick.saturating_sub(1);
        if self.quick == 0 {
            let is_long = segment.bytes > FRAME_BYTES;
            let delay = if is_long { std_duration(Duration::ZERO) } else { std_duration(ACK_DELAY) };
            self.socket().set_ack_delay(delay);
        }
    }

    /// Checks whether the next call of a UDP socket has to return an error. A refused datagram is reported only once.
    ///
    /// # Errors
    /// If the socket was abandoned, or an earlier datagram was refused.
    pub(crate) fn check_datagrams(&mut self) -> Result<(), NetError> {
        if self.owner == Owner::Abandoned {
            Err(NetError::ConnectionReset)
        } else {
            self.refusal.take().map_or(Ok(()), Err)
        }
    }

    /// Returns the socket of an owner that is [`Owner::Datagrams`].
    pub(crate) fn datagrams(&mut self) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Sets how long the peer may be silent. Drops the datagrams for a neighbour that does not answer, so that those for
    /// others are sent.
    pub(crate) fn limit_silence(&mut self, now: Instant) {
        let (owner, is_over) = (self.owner, now >= self.end);
        if owner == Owner::Abandoned {
            return;
        }
        if owner == Owner::Datagrams {
            if self.sent.is_unresolved && is_over {
                let at = self.key.endpoint();
                self.datagrams().close();
                // The socket is closed, and the port is not zero.
                let _ = self.datagrams().bind(at);
                self.sent.is_unresolved = false;
            }
            return;
        }
        let (keepalive, last) = (self.keepalive, self.end);
        let mut end = if owner == Owner::Closing { last } else { Instant::NEVER };
        let socket = self.socket();
        if owner == Owner::Closing && socket.state() == State::FinWait2 {
            end = end.min(now + CLOSING);
        }
        let limit = match (owner, socket.state()) {
            // Nobody reads the data that arrives. smoltcp would count the silence before the end of the stream, too.
            (Owner::Closing, _) if socket.can_recv() || is_over => {
                socket.abort();
                None
            }
            (Owner::Closing, _) => {
                // The connection may be removed as soon as its peer has closed it, too.
                socket.set_ack_delay(None);
                None
            }
            (Owner::Stream, State::LastAck) if is_over => {
                socket.abort();
                None
            }
            // smoltcp would count the answer to a probe of a closed window as silence, because it acknowledges nothing new.
            (Owner::Stream, State::LastAck) => {
                end = last.min(now + SILENCE);
                None
            }
            (Owner::HalfOpen(_), _) => Some(HALF_OPEN),
            (_, State::SynSent) => Some(CONNECTING),
            // smoltcp would also end a connection in which both sides are silent.
            _ if socket.send_queue() != 0 => Some(SILENCE),
            // The peer was asked twice, in vain.
            _ if keepalive.is_some() => keepalive.map(|interval| interval * 3),
            _ => None,
        };
        socket.set_timeout(limit.and_then(std_duration));
        self.end = end;
    }
}
