//! Addresses, as programs write them.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use gmp_sched::cancel::Limit;
use gmp_sched::platform::Platform;

use crate::error::NetError;
use crate::memory::collect;
use crate::stack::{Network, Stack};

/// An address that a call of this crate accepts: a socket address, a pair of an IP address and a port, or text such as
/// `10.0.2.2:80` or `[fec0::2]:80`. `bind`, `connect` and `send_to` also accept a name in place of the IP address.
pub trait ToSocketAddr {
    /// Returns the address.
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidInput`] if the text is not an address with a port.
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError>;

    /// Returns the name, or the IP address, and the port of text that has both.
    fn to_name(&self) -> Option<(&str, u16)> {
        None
    }
}

impl ToSocketAddr for SocketAddr {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok(*self)
    }
}

impl ToSocketAddr for SocketAddrV4 {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok((*self).into())
    }
}

impl ToSocketAddr for SocketAddrV6 {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok((*self).into())
    }
}

impl ToSocketAddr for (&str, u16) {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok(SocketAddr::new(self.0.parse().map_err(|_| NetError::InvalidInput)?, self.1))
    }

    fn to_name(&self) -> Option<(&str, u16)> {
        Some(*self)
    }
}

impl ToSocketAddr for (Ipv4Addr, u16) {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok(SocketAddr::new(self.0.into(), self.1))
    }
}

impl ToSocketAddr for (Ipv6Addr, u16) {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok(SocketAddr::new(self.0.into(), self.1))
    }
}

impl ToSocketAddr for (IpAddr, u16) {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok((*self).into())
    }
}

impl ToSocketAddr for str {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        self.parse().map_err(|_| NetError::InvalidInput)
    }

    fn to_name(&self) -> Option<(&str, u16)> {
        split_host(self).ok()
    }
}

impl<T: ToSocketAddr + ?Sized> ToSocketAddr for &T {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        (**self).to_socket_addr()
    }

    fn to_name(&self) -> Option<(&str, u16)> {
        (**self).to_name()
    }
}

/// Calls `act` with an address. If the address is a name, calls `act` with each address that `lookup` returns, until it
/// succeeds. An IPv4 address that is written as IPv6, such as `::ffff:10.0.2.2`, is passed as IPv4.
///
/// # Errors
///
/// The error of the last call of `act`, or that of `lookup`. [`NetError::InvalidInput`] if there is neither an address
/// nor a name.
pub(crate) fn with_each<R>(
    address: impl ToSocketAddr,
    lookup: impl FnOnce(&str, u16) -> Result<Vec<SocketAddr>, NetError>,
    mut act: impl FnMut(SocketAddr) -> Result<R, NetError>,
) -> Result<R, NetError> {
    let (Err(NetError::InvalidInput), Some((name, port))) = (address.to_socket_addr(), address.to_name()) else {
        let address = address.to_socket_addr()?;
        let is_ipv4 = address.ip().to_canonical() != address.ip();
        return act(if is_ipv4 { (address.ip().to_canonical(), address.port()).into() } else { address });
    };
    let mut result = Err(NetError::NameNotFound);
    for address in lookup(name, port)? {
        result = act(address);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Returns the address of a datagram's receiver, if a socket with the address `own` can send to it.
///
/// # Errors
///
/// [`NetError::AddrNotAvailable`] if one of the two is an IPv4 address and the other one an IPv6 address, or if the
/// receiver's address or port is unspecified.
pub(crate) fn datagram_peer(own: SocketAddr, peer: SocketAddr) -> Result<SocketAddr, NetError> {
    let is_possible = own.is_ipv4() == peer.is_ipv4() && !peer.ip().is_unspecified() && peer.port() != 0;
    if is_possible { Ok(peer) } else { Err(NetError::AddrNotAvailable) }
}

/// Splits text such as `example.org:80` into the name and the port.
///
/// # Errors
///
/// [`NetError::InvalidInput`] if there is no name, or no port.
pub fn split_host(text: &str) -> Result<(&str, u16), NetError> {
    let (name, port) = text.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or(NetError::InvalidInput)?;
    Ok((name, port.parse().map_err(|_| NetError::InvalidInput)?))
}

/// Returns the addresses of a name, with this port. The name `localhost` stands for the loopback.
///
/// # Errors
///
/// In the cases of [`Stack::lookup`](crate::Stack::lookup), and if there is no network.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn lookup_name<Plat: Network>(name: &str, port: u16, limit: Limit<'_, Plat>) -> Result<Vec<SocketAddr>, NetError> {
    match own_name(name, port) {
        Some(addresses) => addresses,
        None => Plat::stack(IpAddr::V4(Ipv4Addr::UNSPECIFIED))?.lookup_with_port(name, port, limit),
    }
}

/// Returns the addresses of the name of this computer.
fn own_name(name: &str, port: u16) -> Option<Result<Vec<SocketAddr>, NetError>> {
    let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    (name == "localhost").then(|| with_port(&both, port))
}

fn with_port(addresses: &[IpAddr], port: u16) -> Result<Vec<SocketAddr>, NetError> {
    Ok(collect(addresses.iter().map(|&address| SocketAddr::new(address, port)))?)
}

impl<Plat: Platform> Stack<Plat> {
    /// Returns the addresses of a name that this stack, and no other one, looks up.
    #[track_caller]
    pub(crate) fn lookup_with_port(
        &'static self,
        name: &str,
        port: u16,
        limit: Limit<'_, Plat>,
    ) -> Result<Vec<SocketAddr>, NetError> {
        if let Some(addresses) = own_name(name, port) {
            return addresses;
        }
        with_port(&self.lookup(name, limit)?, port)
    }
}
