//! Two computers with a cable between them, which may lose, repeat and reorder frames.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gmp_sched::native::{Native, go};
use kernel_net::{Configuration, FRAME_BYTES, Link};

use crate::guarded;

pub(crate) type Stack = kernel_net::Stack<Native>;

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// What the cable does to frames: one of so many is lost, repeated, or overtaken by the next one. 0 stands for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u32,
    pub(crate) repeated: u32,
    pub(crate) overtaken: u32,
}

/// How many frames the sender of an end can hold, and how many frames that have arrived. Further ones are lost.
const SENT: usize = 16;
const ARRIVED: usize = 256;

/// One direction of the cable: the frames that have arrived, and the stack that takes them.
#[derive(Default)]
struct Direction {
    frames: Mutex<VecDeque<Vec<u8>>>,
    to: OnceLock<&'static Stack>,
}

/// One end of the cable.
pub(crate) struct End {
    mac: [u8; 6],
    /// The frames that are sent when the stack calls `flush`.
    sent: Vec<Vec<u8>>,
    /// Whether the stack waits until there is room.
    is_awaited: bool,
    is_broken: Arc<AtomicBool>,
    out: Arc<Direction>,
    in_: Arc<Direction>,
    faults: Faults,
    random: fastrand::Rng,
}

impl Link for End {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        if !self.can_send() {
            return None;
        }
        let received = self.in_.frames.lock().unwrap().pop_front()?;
        frame[..received.len()].copy_from_slice(&received);
        Some(received.len())
    }

    fn can_send(&mut self) -> bool {
        self.is_awaited = self.sent.len() >= SENT;
        !self.is_awaited
    }

    fn send(&mut self, frame: &[u8]) {
        self.sent.push(frame.to_vec());
    }

    fn flush(&mut self) {
        let mut one_of = |count: u32| count != 0 && self.random.u32(..count) == 0;
        let mut frames = self.out.frames.lock().unwrap();
        for frame in self.sent.drain(..) {
            let (is_lost, is_repeated, overtakes) =
                (one_of(self.faults.lost), one_of(self.faults.repeated), one_of(self.faults.overtaken));
            if is_lost || frames.len() >= ARRIVED {
                continue;
            }
            if is_repeated {
                frames.push_back(frame.clone());
            }
            let at = frames.len() - usize::from(overtakes && !frames.is_empty());
            frames.insert(at, frame);
        }
        let has_frames = !frames.is_empty();
        drop(frames);
        if let (true, Some(to)) = (has_frames, self.out.to.get()) {
            to.announce();
        }
        if let (true, Some(own)) = (core::mem::take(&mut self.is_awaited), self.in_.to.get()) {
            own.announce();
        }
    }
}

/// Makes two computers with a cable between them: the server and the client. Both are served by Gs. The devices of both
/// break when `is_broken` is set.
pub(crate) fn pair(faults: Faults, seed: u64, is_broken: &Arc<AtomicBool>) -> [&'static Stack; 2] {
    let ways = [Arc::new(Direction::default()), Arc::new(Direction::default())];
    let end = |number: usize| End {
        mac: [2, 0, 0, 0, 0, number as u8],
        sent: Vec::new(),
        is_awaited: false,
        is_broken: is_broken.clone(),
        out: ways[number].clone(),
        in_: ways[1 - number].clone(),
        faults,
        random: fastrand::Rng::with_seed(seed + number as u64),
    };
    let stack = |number: usize, address| {
        let configuration =
            Configuration { address: Some((address, 24)), gateway: None, dns: None, seed: seed + number as u64 };
        let stack = Stack::new(Box::new(end(number)), guarded::make, &configuration).expect("memory");
        let stack: &'static Stack = Box::leak(Box::new(stack));
        let _ = ways[1 - number].to.set(stack);
        go(move || stack.serve()).detach();
        stack
    };
    [stack(0, SERVER), stack(1, CLIENT)]
}
