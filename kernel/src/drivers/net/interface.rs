//! What programs use of the network, for the machine and for the host. The module `host/net` includes this file by its
//! path. Each half has the sockets, and the functions `own_address`, `lookup_name` and `objects_in_use`, which do the work.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

use super::{Datagrams, Listener, Stream};
use crate::platform::Limit;

pub use kernel_net::{MAX_DATAGRAM, NetError, Shutdown, ToSocketAddr, Usage};

/// A port on which peers can connect. See [`kernel_net::TcpListener`].
pub type TcpListener = kernel_net::TcpListener<Listener>;

/// An iterator over the connections of a listener. See [`kernel_net::Incoming`].
pub type Incoming<'a> = kernel_net::Incoming<'a, Listener>;

/// A TCP connection. See [`kernel_net::TcpStream`].
///
/// ```
/// # #![no_std]
/// # #![cfg_attr(not(test), no_main)]
/// # kernel::main!(main);
/// # fn main(_: &[&str]) { talk().unwrap(); }
/// use kernel::net::{NetError, TcpListener, TcpStream};
/// use kernel::prelude::*;
///
/// /// Reads what the peer sends, until another G ends that.
/// fn read(stream: &TcpStream, end: &Receiver<()>) -> Result<usize, NetError> {
///     let (mut buffer, mut total) = ([0; 100], 0);
///     loop {
///         let readable = stream.readable()?;
///         select! {
///             recv(readable) -> _ => match stream.read(&mut buffer)? {
///                 0 => return Ok(total),
///                 count => total += count,
///             },
///             recv(end) -> _ => return Ok(total),
///             timeout(Duration::from_secs(60)) => return Ok(total),
///         }
///     }
/// }
/// # fn talk() -> Result<(), NetError> {
/// #     let listener = TcpListener::bind("[::1]:0")?;
/// #     let near = TcpStream::connect(listener.local_addr())?;
/// #     let (far, _) = listener.accept()?;
/// #     near.write_all(b"data")?;
/// #     let (end, ended) = channel(1);
/// #     let reads = go(move || read(&far, &ended));
/// #     sleep(Duration::from_millis(5));
/// #     end.send(()).unwrap();
/// #     assert_eq!(reads.join().unwrap(), Ok(4));
/// #     Ok(())
/// # }
/// ```
pub type TcpStream = kernel_net::TcpStream<Stream>;

/// A UDP socket. See [`kernel_net::UdpSocket`].
pub type UdpSocket = kernel_net::UdpSocket<Datagrams>;

/// Waits until the computer has an IPv4 address, and returns it. (On the host, this is the loopback address.) Blocks the
/// calling G.
///
/// # Errors
///
/// If there is no network, or the limit ends the wait.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn address_until<'l>(limit: impl Into<Limit<'l>>) -> Result<Ipv4Addr, NetError> {
    super::own_address(limit.into())
}

/// Returns the addresses of text such as `example.org:80` or `10.0.2.2:80`, at least one. Blocks the calling G until
/// they are known. The name `localhost` stands for the loopback. (On the host, the limit is obeyed only before the call
/// of the host's resolver.)
///
/// # Errors
///
/// [`NetError::NameNotFound`] if no server knows the name, or there is no answer. If the text has no port, there is no
/// network, or the limit ends the wait.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn lookup_host_until<'l>(text: &str, limit: impl Into<Limit<'l>>) -> Result<Vec<SocketAddr>, NetError> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        let mut one = Vec::new();
        one.try_reserve_exact(1).map_err(|_| NetError::OutOfResources)?;
        one.extend([address]);
        return Ok(one);
    }
    let (name, port) = kernel_net::split_host(text)?;
    super::lookup_name(name, port, limit.into())
}

/// Returns how many connections, listeners and UDP sockets there are, in the network and on the loopback. (The host does
/// not know which connections are half-open, or whose rest is being sent.)
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn usage() -> Usage {
    super::objects_in_use()
}
