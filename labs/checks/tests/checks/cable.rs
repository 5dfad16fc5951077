//! Two simulated computers with a cable between them. Both stacks of protocols run on the Gs of one simulated machine.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, OnceLock};

use gmp_sched::sim::{Sim, go};
use kernel_net::{Configuration, FRAME_BYTES, Link};

use crate::guarded;

pub(crate) type Stack = kernel_net::Stack<Sim>;

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// How many frames the sender of an end can hold.
const SENT: usize = 16;

/// One direction of the cable: the frames that have arrived, and the stack that takes them.
#[derive(Default)]
struct Direction {
    frames: Mutex<VecDeque<Vec<u8>>>,
    to: OnceLock<&'static Stack>,
}

/// One end of the cable.
struct End {
    mac: [u8; 6],
    /// The frames that are sent when the stack calls `flush`.
    sent: Vec<Vec<u8>>,
    /// Whether the stack waits until there is room.
    is_awaited: bool,
    out: Arc<Direction>,
    in_: Arc<Direction>,
    /// One frame of so many is lost. 0 stands for none.
    lost: u64,
    count: u64,
}

impl Link for End {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        if !self.can_send() {
            return None;
        }
        let received = self.in_.frames.lock().expect("no panic").pop_front()?;
        frame[..received.len()].copy_from_slice(&received);
        Some(received.len())
    }

    fn can_send(&mut self) -> bool {
        self.is_awaited = self.sent.len() >= SENT;
        !self.is_awaited
    }

    fn send(&mut self, frame: &[u8]) {
        self.count += 1;
        if self.lost == 0 || !self.count.is_multiple_of(self.lost) {
            self.sent.push(frame.to_vec());
        }
    }

    /// The device of the other end interrupts, and the own one if there is room again.
    fn flush(&mut self) {
        let has_sent = !self.sent.is_empty();
        // The lock is not held while another simulated CPU may go on.
        self.out.frames.lock().expect("no panic").extend(self.sent.drain(..));
        if let (true, Some(to)) = (has_sent, self.out.to.get()) {
            to.announce();
        }
        if let (true, Some(own)) = (core::mem::take(&mut self.is_awaited), self.in_.to.get()) {
            own.announce();
        }
    }
}

/// Makes the two computers, the server and the client. The cable loses one frame of `lost`; 0 stands for none.
pub(crate) fn pair(lost: u64, seed: u64) -> [&'static Stack; 2] {
    let ways = [Arc::new(Direction::default()), Arc::new(Direction::default())];
    let stack = |number: usize, address| {
        let end = End {
            mac: [2, 0, 0, 0, 0, number as u8],
            sent: Vec::new(),
            is_awaited: false,
            out: ways[number].clone(),
            in_: ways[1 - number].clone(),
            lost,
            count: seed + number as u64,
        };
        let seed = seed + number as u64;
        let configuration = Configuration { address: Some((address, 24)), gateway: None, dns: None, seed };
        let stack = Stack::new(Box::new(end), guarded::make, &configuration).expect("memory");
        let stack: &'static Stack = Box::leak(Box::new(stack));
        let _ = ways[1 - number].to.set(stack);
        go(move || stack.serve()).detach();
        stack
    };
    [stack(0, SERVER), stack(1, CLIENT)]
}
