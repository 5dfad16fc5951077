//! Tests of what calls of the network do when one of their allocations fails. The first two operations use the loopback
//! and the network for the first time, so they also make the shards and the Gs that serve them.
//!
//! A frame for which there is no memory is lost, as on any link. The call that sends the frame succeeds nevertheless,
//! because the frame is sent again. Here, such a call counts as one that has returned an error.

use core::sync::atomic::Ordering;

use gmp_sched::platform::OutOfResources;
use kernel::net::sim::{Conditions, network};
use kernel::net::{NetError, TcpListener, TcpStream, UdpSocket, lookup_host_until};
use kernel::platform::Limit;

use super::operations::Operation;
use super::operations::Shortage::{self, IsAnError, IsImpossible};
use super::{HAS_FAILED, counted};

/// The address of the listeners and UDP sockets of the loopback.
const LOOPBACK: &str = "127.0.0.1:0";

pub(super) const OPERATIONS: &[(&str, Shortage, Operation)] = &[
    ("listener, and the first use of the loopback", IsAnError, || check(counted(|| TcpListener::bind(LOOPBACK)))),
    ("UDP socket, and the first use of the network", IsAnError, || check(counted(|| UdpSocket::bind("0.0.0.0:0")))),
    ("names", IsAnError, || {
        check(counted(|| lookup_host_until("localhost:7", Limit::NONE)))?;
        check(counted(|| lookup_host_until("127.0.0.1:7", Limit::NONE)))
    }),
    ("connection", IsAnError, || {
        let listener = listen();
        let near = keep(counted(|| TcpStream::connect(listener.local_addr())))?;
        let (far, _) = keep(counted(|| listener.accept()))?;
        check(counted(|| near.write_all(&[7; 3_000])))?;
        check(counted(|| far.read(&mut [0; 3_000])))?;
        check(counted(|| far.readable()))
    }),
    // This allocates nothing, because the loopback has kept the memory of an earlier frame.
    ("datagram", IsImpossible, || {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind(LOOPBACK).expect("there is memory again"));
        check(counted(|| from.send_to(b"data", to.local_addr())))?;
        check(counted(|| to.recv_from(&mut [0; 9])))
    }),
    ("simulated host", IsAnError, || {
        let network = network(1);
        check(counted(|| network.host([10, 0, 0, 1])))?;
        let [one, two] = [1, 2].map(|last| network.host([10, 0, 0, last + 1]).expect("there is memory again"));
        network.set_conditions(Conditions { loss: 0.1, ..Conditions::default() });
        let listener = kernel::net::sim::TcpListener::bind_on(one, "10.0.0.2:7").expect("there is memory again");
        let near = counted(|| kernel::net::sim::TcpStream::connect_on(two, listener.local_addr(), Limit::NONE));
        check(near.and_then(|near| counted(|| near.write_all(b"data"))))
    }),
];

fn listen() -> TcpListener {
    TcpListener::bind(LOOPBACK).expect("there is memory again")
}

/// Returns an error if the call has failed or if one of its allocations has failed. In the second case a frame was
/// lost.
fn check<R>(result: Result<R, NetError>) -> Result<(), OutOfResources> {
    keep(result).map(drop)
}

fn keep<R>(result: Result<R, NetError>) -> Result<R, OutOfResources> {
    let result = result.map_err(|error| {
        assert_eq!(error, NetError::OutOfResources);
        OutOfResources
    })?;
    if HAS_FAILED.load(Ordering::Relaxed) { Err(OutOfResources) } else { Ok(result) }
}
