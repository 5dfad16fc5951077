//! The key by which the connection of a frame is found, and its shard.

use core::hash::{BuildHasher as _, Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::fast::FixedState;
use smoltcp::wire::{IpAddress, IpListenEndpoint};

/// What distinguishes the connections of this computer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) protocol: Protocol,
    pub(crate) local: IpAddr,
    pub(crate) peer: IpAddr,
    pub(crate) peer_port: u16,
    pub(crate) port: u16,
}

/// A protocol with ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// The peer's address and both ports are hashed. The protocol and the few addresses of this computer are not: they distinguish
/// few connections.
impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let ports = u64::from(self.peer_port) << 16 | u64::from(self.port);
        match self.peer {
            IpAddr::V4(peer) => hasher.write_u64(ports << 32 | u64::from(peer.to_bits())),
            IpAddr::V6(peer) => {
                hasher.write_u128(peer.to_bits());
                hasher.write_u64(ports);
            }
        }
    }
}

impl Key {
    /// Returns the key of a UDP socket, which gets the datagrams of all peers.
    pub(crate) const fn of_datagrams(local: IpAddr, port: u16) -> Self {
        Self { protocol: Protocol::Udp, local, peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED), peer_port: 0, port }
    }

    /// Returns where the UDP socket with this key receives.
    pub(crate) fn endpoint(&self) -> IpListenEndpoint {
        let address = Some(self.local).filter(|address| !address.is_unspecified());
        IpListenEndpoint { addr: address.map(IpAddress::from), port: self.port }
    }
}

/// Which shard of a stack has which connections. Peers cannot choose the shard, because they do not know the seed.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    /// One less than the number of shards, which is a power of two.
    mask: usize,
    hash: FixedState,
}

impl Flows {
    /// # Panics
    /// If `shards` is not a power of two.
    #[track_caller]
    pub(crate) fn new(shards: usize, seed: u64) -> Self {
        assert!(shards.is_power_of_two(), "{shards} shards: their number must be a power of two");
        Self { mask: shards - 1, hash: FixedState::with_seed(seed.rotate_left(48)) }
    }

    pub(crate) fn shards(&self) -> usize {
        self.mask + 1
    }

    /// Whether there are several shards.
    pub(crate) fn are_divided(&self) -> bool {
        self.mask != 0
    }

    /// Returns the shard of a connection. It is the same for both ends, so a connection of this computer with itself
    /// has one shard.
    pub(crate) fn shard_of(&self, key: &Key) -> usize {
        if self.mask == 0 {
            return 0;
        }
        let end = |address: IpAddr, port: u16| self.hash.hash_one((address, port)) as usize;
        (end(key.local, key.port) ^ end(key.peer, key.peer_port)) & self.mask
    }
}

/// Whether a packet can be for both addresses: they are equal, or both are IPv4 or both IPv6 and one is unspecified.
pub(crate) fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || ((one.is_unspecified() || other.is_unspecified()) && one.is_ipv4() == other.is_ipv4())
}

/// Returns the unspecified address of the IP version of `address`. It stands for all addresses of that version.
pub(crate) const fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
