//! What finds the connection of a frame.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// What peers choose is hashed, and not the protocol and the few addresses of this computer.
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

/// Returns the address that stands for all addresses of the kind of `address`.
pub(crate) const fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
