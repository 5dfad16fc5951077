//! Addresses, as programs write them.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use gmp_sched::cancel::Limit;

use crate::error::NetError;
use crate::stack::Network;

/// An address that a call of this crate accepts: a socket address, a pair of an IP address and a port, or text such as
/// `10.0.2.2:80`. Names are not resolved: see [`lookup_host`].
pub trait ToSocketAddr {
    /// Returns the address.
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidInput`] if the text is not an address with a port.
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError>;
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

impl ToSocketAddr for (&str, u16) {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok(SocketAddr::new(self.0.parse().map_err(|_| NetError::InvalidInput)?, self.1))
    }
}

impl ToSocketAddr for (Ipv4Addr, u16) {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        Ok(SocketAddr::new(self.0.into(), self.1))
    }
}

impl ToSocketAddr for str {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        self.parse().map_err(|_| NetError::InvalidInput)
    }
}

impl<T: ToSocketAddr + ?Sized> ToSocketAddr for &T {
    fn to_socket_addr(&self) -> Result<SocketAddr, NetError> {
        (**self).to_socket_addr()
    }
}

/// Splits text such as `example.org:80` into the name and the port.
///
/// # Errors
///
/// [`NetError::InvalidInput`] if there is no port.
pub fn split_host(text: &str) -> Result<(&str, u16), NetError> {
    let (name, port) = text.rsplit_once(':').ok_or(NetError::InvalidInput)?;
    Ok((name, port.parse().map_err(|_| NetError::InvalidInput)?))
}

/// Returns the addresses of text such as `example.org:80` or `10.0.2.2:80`, at least one. Blocks the calling G until
/// they are known. The name `localhost` stands for the loopback.
///
/// # Errors
///
/// In the cases of [`Stack::lookup`](crate::Stack::lookup), and if there is no network or the text has no port.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn lookup_host<'l, Plat: Network>(
    text: &str,
    limit: impl Into<Limit<'l, Plat>>,
) -> Result<Vec<SocketAddr>, NetError> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let (name, port) = split_host(text)?;
    if name == "localhost" {
        return Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]);
    }
    let addresses = Plat::stack(IpAddr::V4(Ipv4Addr::UNSPECIFIED))?.lookup(name, limit)?;
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}
