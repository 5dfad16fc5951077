//! The network on the host: the sockets of the operating system. A call that waits blocks only its G.

#[path = "../../drivers/net/interface.rs"]
mod interface;
mod listener;
mod readiness;
#[path = "../../drivers/net/sim.rs"]
pub mod sim;
mod stream;
mod udp;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;

use gmp_sched::platform::Platform as _;
use rustix::io::Errno;

use crate::host::platform::{Kernel, Limit};

use self::listener::Listener;
use self::stream::Stream;
use self::udp::Datagrams;

pub use self::interface::{
    Incoming, MAX_DATAGRAM, NetError, Shutdown, TcpListener, TcpStream, ToSocketAddr, UdpSocket, Usage, address_until,
    lookup_host_until, usage,
};

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
static LISTENERS: AtomicUsize = AtomicUsize::new(0);
static UDP_SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// Leaves the buffers of a simulated network as they are: the system gives memory to the pages that are used.
fn with_rooms(network: sim::Network) -> sim::Network {
    network
}

/// Returns the error of this crate for an error of the host.
fn error(error: &io::Error) -> NetError {
    if let Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOSPC) = Errno::from_io_error(error) {
        return NetError::OutOfResources;
    }
    match error.kind() {
        io::ErrorKind::AddrInUse => NetError::AddrInUse,
        io::ErrorKind::AddrNotAvailable => NetError::AddrNotAvailable,
        io::ErrorKind::ConnectionRefused => NetError::ConnectionRefused,
        io::ErrorKind::HostUnreachable => NetError::HostUnreachable,
        io::ErrorKind::NetworkUnreachable => NetError::NetworkUnreachable,
        // The peer has reset the connection. (If the program has shut the connection down, `Stream::send` does not ask
        // the host, but returns `BrokenPipe` itself.)
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::BrokenPipe => NetError::ConnectionReset,
        io::ErrorKind::TimedOut => NetError::TimedOut,
        io::ErrorKind::OutOfMemory => NetError::OutOfResources,
        _ => NetError::Other,
    }
}

/// A number that is one larger as long as this value exists.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(number: &'static AtomicUsize) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the host's loopback address of the same kind (IPv4 or IPv6), with the same port. Returns an error if
/// `address` is neither unspecified nor this loopback address. For listeners and UDP sockets.
fn loopback(address: SocketAddr) -> Result<SocketAddr, NetError> {
    let own = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
    let is_own = address.ip().is_unspecified() || address.ip() == own;
    if is_own { Ok(SocketAddr::new(own, address.port())) } else { Err(NetError::AddrNotAvailable) }
}

/// Panics if the caller is not a G that may block. Each call that may wait for a socket checks this, also if it need
/// not wait, so that it panics in the same places as on the machine.
#[track_caller]
fn assert_may_block() {
    gmp_sched::native::assert_may_wait();
    let is_goroutine = Kernel::current_machine().is_some_and(|machine| machine.processor().is_some());
    assert!(is_goroutine, "a call of the network on a thread that runs no G, or in a system call");
}

/// Does what [`address_until`] says.
#[track_caller]
fn own_address(_: Limit<'_>) -> Result<Ipv4Addr, NetError> {
    assert_may_block();
    Ok(Ipv4Addr::LOCALHOST)
}

/// Returns the addresses of a name, with this port, by the resolver of the host.
#[track_caller]
fn lookup_name(name: &str, port: u16, limit: Limit<'_>) -> Result<Vec<SocketAddr>, NetError> {
    assert_may_block();
    if let Some(ended) = limit.err() {
        return Err(NetError::Limit(ended));
    }
    let host = (name, port);
    let found = gmp_sched::native::blocking(|| std::net::ToSocketAddrs::to_socket_addrs(&host));
    // If the resolver has failed by a system call, the error has its number.
    let failed = |it: io::Error| if it.raw_os_error().is_some() { error(&it) } else { NetError::NameNotFound };
    let mut addresses: Vec<_> = found.map_err(failed)?.collect();
    // IPv4 addresses first, as on the machine.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    if addresses.is_empty() { Err(NetError::NameNotFound) } else { Ok(addresses) }
}

/// Returns how many objects are in use.
#[track_caller]
fn objects_in_use() -> Usage {
    assert_may_block();
    let connections = CONNECTIONS.load(Ordering::Relaxed);
    let (listeners, udp_sockets) = (LISTENERS.load(Ordering::Relaxed), UDP_SOCKETS.load(Ordering::Relaxed));
    Usage { connections, half_open: 0, listeners, udp_sockets }
}
