//! TCP and UDP for Gs. A call that waits for the network blocks only its G.
//!
//! ```text
//!   a G             accept, connect, read, write ──▶ the state, under one lock ◀── serve             the G that serves
//!                        │  ▲                        ┌──────────────────────────┐     ▲ wake
//!                   park │  │ ready                  │ connections, by addresses│     │
//!                        ▼  │                        │ and ports; listeners     │   signal ◀── interrupt of the link
//!                   wait queues of a connection      └──────────────────────────┘
//!                                                          frames ▲ ▼
//!                                                             the link
//! ```
//!
//! The protocols are those of the crate `smoltcp`, which knows nothing of Gs. A [`Stack`] adds the rest:
//!
//! | module | what |
//! |---|---|
//! | `link`, `loopback` | what a device that passes frames offers; a link from a computer to itself |
//! | `stack`, `wake` | the lock, the G that serves the link, what wakes it, and its timer |
//! | `state` | what the lock guards; which connection gets a frame; when a connection sends |
//! | `services` | the clients of DHCP and DNS |
//! | `ipv6` | the IPv6 addresses of the computer |
//! | `deadlines` | which connection needs attention first |
//! | `calls` | what programs do with the state: listeners, new connections, and the end of both |
//! | `abandoned` | what a G leaves behind that ends without dropping its values, and the end of a whole stack |
//! | `key` | what finds the connection of a frame |
//! | `connection`, `connections` | a connection, which has a set of sockets with one socket; the table of connections |
//! | `readiness` | wait queues, and a channel for selects |
//! | `buffers` | which pages of a connection's buffers have memory |
//! | `checksums` | whether a frame has arrived as it was sent |
//! | `packet`, `sequence` | one frame at a time, as a device of smoltcp; the sequence numbers of segments without data |
//! | `time_wait` | what is left of connections that this computer has closed first |
//! | `icmp`, `split` | messages about packets that did not arrive; segments for a path with a small MTU |
//! | `stream`, `settings`, `listener`, `udp` | what programs use |
//! | `socket` | what sockets do: those of a stack, in `stack`, and on the host those of the operating system |
//! | `address`, `error` | addresses and errors, for programs on the host, too |
//! | [`sim`] | a network of simulated hosts, for tests |
//!
//! # The cost of a frame does not depend on the number of connections
//!
//! smoltcp asks each socket of a set whether a frame is for it. So each connection has a set of its own, and the frame
//! goes to the set that is found by its addresses and ports in a hash table. Frames for no connection go to a set
//! without TCP sockets, which answers with a reset.
//!
//! # Who works
//!
//! The G that serves the link passes on the frames that have arrived, and does what is due at a certain time, such as
//! a retransmission. It parks until the interrupt of the link, or until something is due: while nothing happens, no
//! timer fires. A G that writes sends its segments itself.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod abandoned;
mod address;
mod buffers;
mod calls;
mod checksums;
mod connection;
mod connections;
mod deadlines;
mod error;
#[cfg(test)]
mod fuzz;
mod icmp;
mod ipv6;
mod key;
mod link;
mod listener;
mod loopback;
mod packet;
#[cfg(test)]
mod peers;
mod readiness;
mod sequence;
mod services;
mod settings;
pub mod sim;
mod socket;
mod split;
mod stack;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod time_wait;
mod udp;
mod wake;

pub use address::{ToSocketAddr, lookup_name, split_host};
pub use buffers::{MakeRoom, PAGE_BYTES, ROOM_PAGES, Room};
pub use error::NetError;
pub use link::{FRAME_BYTES, Link};
pub use listener::{Incoming, TcpListener};
pub use loopback::Loopback;
pub use readiness::Readiness;
pub use settings::{Shutdown, check_keepalive};
pub use socket::{DatagramSocket, ListenerSocket, Open, Socket, StreamSocket, Take, Way};
pub use stack::{Configuration, Ipv6, Network, Stack, StackDatagrams, StackListener, StackStream, Usage};
pub use stream::TcpStream;
pub use udp::{MAX_DATAGRAM, UdpSocket};
