//! Addresses, as programs write them.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use crate::error::NetError;

/// An address that a call of this crate accepts: a socket address, a pair of an IP address and a port, or text such as
/// `10.0.2.2:80`. Names are not resolved.
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
