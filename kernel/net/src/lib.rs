//! TCP and UDP for Gs. A call that waits for the network blocks only its G.
//!
//! ```text
//!   a G                   connect, read, write ──▶ a shard, under its lock ◀── serve                 the G that serves
//!                        │  ▲                        ┌──────────────────────────┐     ▲ wake
//!                   park │  │ ready                  │ connections, by addresses│     │
//!                        ▼  │                        │ and ports                │   signal ◀── interrupt of the link
//!                   wait queues of a connection      └──────────────────────────┘
//!                                                          frames ▲ ▼
//!                                                     the link of the shard
//! ```
//!
//! The protocols are those of the crate `smoltcp`, which knows nothing of Gs. A [`Stack`] adds the rest:
//!
//! | module | what |
//! |---|---|
//! | `link`, `loopback` | what a device that passes frames offers; a link from a computer to itself |
//! | `stack` | the shards, and what they have in common; how a stack is made whole, or not at all if memory is short |
//! | `memory` | allocations that return an error |
//! | `shard`, `wake` | a lock, the G that serves a link, what wakes it, and its timer |
//! | `state` | what the lock of a shard guards; which connection gets a frame; when a connection sends |
//! | `steering` | a link for each shard, over one device |
//! | `listeners` | the connections that wait for `accept`, of all shards |
//! | `services`, `ipv6` | the clients of DHCP and DNS, and the IPv6 addresses of the computer |
//! | `own` | the addresses of the computer that the services have found out, as all shards know them |
//! | `deadlines` | which connection needs attention first |
//! | `calls` | what programs do with the state: new connections and UDP sockets, and the end of both |
//! | `abandoned` | what is left behind by a G that ends without dropping its values, and the end of a whole stack |
//! | `key` | by what the connection of a frame is found, and its shard |
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
//! # Shards
//!
//! With one lock for all connections, no second CPU could work for them. So they are divided among shards, by a hash of
//! the addresses and ports that is the same for both directions. A shard has all that its connections need: an
//! interface of smoltcp, a table, deadlines, TIME-WAIT, and a link. Over a loopback, the links are independent: both
//! ends of a connection are in one shard. Over a device, `steering` gives each frame to its shard. The first shard, the
//! owner, also has what is not divided: the UDP sockets, and the services.
//!
//! A G takes locks only in this order:
//!
//! 1. the lock of a shard, for its connections and its link. No G holds two of them.
//! 2. the lock of the listeners (`listeners`): a shard takes it when a connection begins and when it is confirmed.
//!    `accept` releases it before it takes the lock of a shard.
//! 3. the lock of the device (`steering`), for each frame that a shard sends, and for each frame that arrives
//! 4. the lock of the frames for a shard (`steering`), or the lock of a `wake`
//!
//! The G that serves a device also takes the lock of the receiver (`steering`), before the third one. No other G takes it.
//!
//! What a lock guards has no reference to a lock before it. Only a [`Stack`] knows all shards, and its functions lock one
//! after the other. A test holds the lock of each shard while connections of all others come and go.
//!
//! # Who works
//!
//! The G that serves the link of a shard passes on the frames that have arrived, and does what is due at a certain
//! time, such as a retransmission. It parks until the interrupt of the link, or until something is due: while nothing
//! happens, no timer fires. A G that writes sends its segments itself. With several shards, the G that serves the device
//! also passes on the frames of one of them.

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
mod listeners;
mod loopback;
mod memory;
mod own;
mod packet;
#[cfg(test)]
mod peers;
mod readiness;
mod sequence;
mod services;
mod settings;
mod shard;
pub mod sim;
mod socket;
mod split;
mod stack;
mod state;
mod steering;
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
pub use settings::{CONNECTING, Shutdown, check_keepalive};
pub use socket::{DatagramSocket, ListenerSocket, Open, Socket, StreamSocket, Take, Way};
pub use stack::{Configuration, Ipv6, Network, Stack, StackDatagrams, StackListener, StackStream, Usage};
pub use stream::TcpStream;
pub use udp::{MAX_DATAGRAM, UdpSocket};
pub use wake::WokenBy;
