//! Selects that wait for sockets: of a stack on threads, of the machine, and of the host. The module that includes this
//! file has imported the names of its network.

use core::net::SocketAddr;
use core::time::Duration;

use super::{Receiver, Shutdown, TcpListener, TcpStream, TryRecvError, UdpSocket, go, select};

/// The listener and the UDP socket are new. In the end, each of two Gs has sent `bytes` to the other one.
pub(crate) fn wait_for_sockets(
    listener: TcpListener,
    datagrams: UdpSocket,
    connect: impl FnOnce(SocketAddr) -> TcpStream,
    bytes: usize,
) {
    let (accepts, arrives) = (listener.readable().unwrap(), datagrams.readable().unwrap());
    assert_eq!((accepts.try_recv(), arrives.try_recv()), (Err(TryRecvError::Empty), Err(TryRecvError::Empty)));
    // What comes after the receiver was made, and what came before.
    let near = connect(listener.local_addr());
    accepts.recv().unwrap();
    listener.readable().unwrap().recv().unwrap();
    let (far, _) = listener.accept().unwrap();
    assert_eq!(listener.readable().unwrap().try_recv(), Err(TryRecvError::Empty));
    datagrams.send_to(b"data", datagrams.local_addr()).unwrap();
    arrives.recv().unwrap();
    assert_eq!(datagrams.recv(&mut [0; 9]), Ok(4));
    assert_eq!(datagrams.readable().unwrap().try_recv(), Err(TryRecvError::Empty));
    // Two Gs at both ends, each with a select for reads and writes.
    let pump = move |stream: &TcpStream| {
        let (mut buffer, mut read, mut written) = ([0; 10_000], 0, 0);
        while read < bytes || written < bytes {
            let readable = if read < bytes { stream.readable().unwrap() } else { Receiver::never() };
            let writable = if written < bytes { stream.writable().unwrap() } else { Receiver::never() };
            select! {
                recv(readable) -> _ => read += stream.read(&mut buffer).expect("data is there"),
                recv(writable) -> _ => {
                    let count = (bytes - written).min(buffer.len());
                    written += stream.write(&buffer[..count]).expect("there is room");
                }
                timeout(Duration::from_secs(60)) => panic!("{read} bytes read, {written} written"),
            }
        }
    };
    let other = go(move || {
        pump(&far);
        far
    });
    pump(&near);
    let far = other.join().unwrap();
    // The end of the peer's data, and of the own half, need no wait.
    let waits = far.readable().unwrap();
    assert_eq!(waits.try_recv(), Err(TryRecvError::Empty));
    near.shutdown(Shutdown::Write).unwrap();
    waits.recv().unwrap();
    assert_eq!(far.read(&mut [0; 9]), Ok(0));
    drop(far);
    // The channel ends with its socket.
    drop(listener);
    assert!(accepts.is_closed() && waits.is_closed());
}
