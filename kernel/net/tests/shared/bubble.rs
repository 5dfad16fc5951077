//! A bubble whose Gs wait for a network that is outside of it: that of the machine, and that of the host. The module that
//! includes this file has imported the names of its network.

use core::time::Duration;

use super::{TcpListener, TcpStream, channel, go, now, select, sleep, synctest};

/// The peer is outside of the bubble, and does each thing when a G of the bubble waits for it. Meanwhile another G of the
/// bubble sleeps. If the clock of the bubble advanced during a wait for the network, it would do so by an hour.
pub(crate) fn clock_stands_during_waits() {
    let (tell, told) = channel(1);
    let (read, was_read) = channel(1);
    let peer = go(move || {
        let address = told.recv().unwrap();
        sleep(Duration::from_millis(5));
        let stream = TcpStream::connect(address).unwrap();
        sleep(Duration::from_millis(5));
        assert_eq!(stream.write(b"late"), Ok(4));
        // Otherwise both messages may have arrived before the first read.
        was_read.recv().unwrap();
        sleep(Duration::from_millis(5));
        assert_eq!(stream.write(b"late"), Ok(4));
        assert_eq!(stream.read(&mut [0; 9]), Ok(0));
    });
    let took = synctest::test(move || {
        let begin = now();
        let sleeps = go(|| sleep(Duration::from_secs(3_600)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tell.send(listener.local_addr()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(stream.read(&mut [0; 9]), Ok(4));
        read.send(()).unwrap();
        select! {
            recv(stream.readable().unwrap()) -> _ => assert_eq!(stream.read(&mut [0; 9]), Ok(4)),
            timeout(Duration::from_secs(3_600)) => panic!("the clock has advanced"),
        }
        let took = now() - begin;
        drop((stream, listener));
        sleeps.join().unwrap();
        took
    });
    assert_eq!(took, Duration::ZERO);
    peer.join().unwrap();
}
