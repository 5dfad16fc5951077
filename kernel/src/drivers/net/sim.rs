//! A network of simulated hosts, for tests and for experiments: [`kernel_net::sim`], on the platform of this program.

use kernel_net::{StackDatagrams, StackListener, StackStream};

use crate::platform::Kernel;

pub use kernel_net::sim::{Conditions, Totals};

/// A network of simulated hosts. See [`kernel_net::sim::Network`].
pub type Network = kernel_net::sim::Network<Kernel>;

/// A host of such a network. See [`kernel_net::Stack`].
pub type Host = kernel_net::Stack<Kernel>;

/// A port of a simulated host. See [`kernel_net::TcpListener::bind_on`].
pub type TcpListener = kernel_net::TcpListener<StackListener<Kernel>>;

/// A connection of a simulated host. See [`kernel_net::TcpStream::connect_on`].
pub type TcpStream = kernel_net::TcpStream<StackStream<Kernel>>;

/// A UDP socket of a simulated host. See [`kernel_net::UdpSocket::bind_on`].
pub type UdpSocket = kernel_net::UdpSocket<StackDatagrams<Kernel>>;

/// Makes a network without hosts. See [`kernel_net::sim::Network::new`]. On the machine, the buffers of connections have
/// memory only for the data that they hold, as those of the real network.
#[must_use]
pub fn network(seed: u64) -> Network {
    super::with_rooms(Network::new(seed))
}
