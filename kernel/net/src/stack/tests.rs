//! Tests of stacks with several shards.

extern crate std;

use alloc::vec;
use std::sync::Arc;

use gmp_sched::native::{self, Limit, Native, go};

use super::*;
use crate::memory::Reserved;
use crate::sim::Network as Hosts;
use crate::tests::guarded;
use crate::{TcpListener, TcpStream};

type Stream = TcpStream<StackStream<Native>>;

const SHARDS: usize = 8;

/// Runs a test with two stacks, each with shards, which are one if `is_loopback`.
fn with_shards(is_loopback: bool, test: impl FnOnce(&'static Stack<Native>, &'static Stack<Native>) + Send + 'static) {
    #[expect(unsafe_code, reason = "enters the scheduler")]
    // SAFETY: the threads of the test stay alive until the process ends.
    unsafe { native::enter() }.run(2, move || {
        if !is_loopback {
            let network = Hosts::new(1).with_rooms(guarded::make).with_shards(SHARDS);
            let [near, far] = [1, 2].map(|last| network.host([10, 0, 0, last]).unwrap());
            return test(near, far);
        }
        let address = Some((Ipv4Addr::LOCALHOST, 8));
        let configuration = Configuration { address, shards: SHARDS, seed: 5, ..Configuration::default() };
        let stack = Stack::on_loopback(guarded::make, &configuration).unwrap();
        let stack: &'static Stack<Native> = Reserved::new().unwrap().fill(stack);
        (0..stack.servers()).for_each(|number| go(move || stack.serve(number)).detach());
        test(stack, stack);
    });
}

/// Connects, sends data to the other end and back, and drops both ends.
fn converse(from: &'static Stack<Native>, listener: &TcpListener<StackListener<Native>>, data: &[u8]) {
    let near: Stream = TcpStream::connect_on(from, listener.local_addr(), Limit::NONE).unwrap();
    let echo = listener.accept().unwrap().0;
    let bytes = data.len();
    let echoes = go(move || {
        let (mut buffer, mut left) = (vec![0; 4_000], bytes);
        while left != 0 {
            let count = echo.read(&mut buffer).unwrap();
            echo.write_all(&buffer[..count]).unwrap();
            left -= count;
        }
    });
    near.write_all(data).unwrap();
    let mut returned = vec![0; bytes];
    let mut filled = 0;
    while filled != bytes {
        filled += near.read(&mut returned[filled..]).unwrap();
    }
    echoes.join().unwrap();
    assert!(returned == data);
}

/// While the lock of a shard is held, connections of every other shard are made, used, and dropped.
#[test]
fn connections_of_different_shards_never_wait_for_each_others_lock() {
    for is_loopback in [true, false] {
        with_shards(is_loopback, move |near, far| {
            let listener = TcpListener::bind_on(far, (far.address().unwrap(), 7)).unwrap();
            // Only the owner answers the questions for the MAC address of its host.
            let first = if is_loopback { 0 } else { OWNER + 1 };
            for held in first..SHARDS {
                near.shards[held].with(|_| {
                    for begun in (0..SHARDS).filter(|&begun| begun != held) {
                        near.begun.store(begun, Ordering::Relaxed);
                        converse(near, &listener, &vec![7; 20_000]);
                    }
                });
            }
        });
    }
}

#[test]
fn connections_are_divided_evenly_and_both_ends_have_one_shard() {
    with_shards(true, |stack, _| {
        let listener = TcpListener::bind_on(stack, "127.0.0.1:7").unwrap();
        let connect = |_| TcpStream::connect_on(stack, listener.local_addr(), Limit::NONE).unwrap();
        let all: Vec<Stream> = (0..10 * SHARDS).map(connect).collect();
        for shard in &stack.shards {
            assert_eq!(shard.with(|state| state.count()), (20, 0));
        }
        drop((all, listener));
    });
}

/// A listener that ends resets its connections in all shards, and a new one has nothing of it.
#[test]
fn listener_hands_over_the_connections_of_all_shards_or_resets_them() {
    with_shards(true, |stack, _| {
        for _ in 0..20 {
            let listener = Arc::new(TcpListener::bind_on(stack, "127.0.0.1:7").unwrap());
            let connects = go(move || -> Vec<Stream> {
                let connect = |_| TcpStream::connect_on(stack, "127.0.0.1:7", Limit::NONE);
                (0..40).filter_map(|number| connect(number).ok()).collect()
            });
            let accepted: Vec<_> = (0..10).map(|_| listener.accept().unwrap().0).collect();
            drop(listener);
            let connected = connects.join().unwrap();
            let peers: Vec<_> = accepted.iter().map(TcpStream::peer_addr).collect();
            for stream in connected.iter().filter(|stream| !peers.contains(&stream.local_addr())) {
                assert!(stream.read(&mut [0]).is_err());
            }
            drop((connected, accepted));
            let end = native::now() + core::time::Duration::from_secs(60);
            while stack.usage() != Usage::default() {
                assert!(native::now() < end, "{:?}", stack.usage());
                native::sleep(core::time::Duration::from_millis(1));
            }
        }
    });
}
