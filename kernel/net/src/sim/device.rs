//! The network device of a simulated host.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::Mutex;
use gmp_sched::time::{self, Instant};

use super::wires::{Wires, mac};
use crate::link::Link;
use crate::memory::{copy, room};
use crate::split::cut;

/// How many frames a device can hold that it has not transmitted.
const ROOM: usize = 16;

/// The largest frame that a device cuts.
const LARGEST_TO_CUT: usize = 32 * 1024;

/// What the devices of all hosts share.
pub(super) struct Shared<Plat: Platform> {
    pub(super) wires: Mutex<Wires<Plat>, Plat>,
    /// Whether the network was dropped.
    pub(super) is_closed: AtomicBool,
}

/// The device of a host, which uses it under a lock.
pub(super) struct Device<Plat: Platform> {
    shared: Arc<Shared<Plat>>,
    /// The number of the host.
    host: usize,
    /// Whether the device cuts long segments, and computes the checksums of all.
    cuts: bool,
    /// The frames that are sent when the stack calls `flush`.
    sent: Vec<Vec<u8>>,
    /// When the frames that were sent will have been transmitted.
    transmitted: Vec<Instant>,
}

impl<Plat: Platform> Device<Plat> {
    /// # Errors
    /// There is no memory.
    pub(super) fn new(shared: Arc<Shared<Plat>>, host: usize, cuts: bool) -> Result<Self, OutOfResources> {
        Ok(Self { shared, host, cuts, sent: room(ROOM)?, transmitted: room(ROOM)? })
    }

    /// Keeps a frame until it is sent. As with any Ethernet, a frame for which there is no memory is lost.
    fn put(&mut self, frame: &[u8]) {
        if self.sent.try_reserve(1).is_ok()
            && let Ok(copy) = copy(frame)
        {
            self.sent.push(copy);
        }
    }

    /// Whether there was room at the last call of `can_send`, or of `flush` after it.
    fn has_room(&self) -> bool {
        self.sent.len() + self.transmitted.len() < ROOM
    }
}

impl<Plat: Platform> Link for Device<Plat> {
    fn mac(&self) -> [u8; 6] {
        mac(self.host)
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        // Ordering: the locks of the stack order this load and what `Network::drop` does with the stack.
        self.shared.is_closed.load(Ordering::Relaxed)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        if !self.can_send() {
            return None;
        }
        let received = self.shared.wires.lock().take(self.host, time::now::<Plat>())?;
        frame[..received.len()].copy_from_slice(&received);
        Some(received.len())
    }

    fn can_send(&mut self) -> bool {
        if !self.transmitted.is_empty() {
            let now = time::now::<Plat>();
            self.transmitted.retain(|&end| end > now);
        }
        self.has_room()
    }

    fn send(&mut self, frame: &[u8]) {
        if self.cuts {
            self.send_to_cut(frame, u16::MAX);
        } else if self.can_send() {
            self.put(frame);
        }
    }

    fn largest_to_cut(&self) -> Option<usize> {
        self.cuts.then_some(LARGEST_TO_CUT)
    }

    /// The segments of a frame may be more than there is room for.
    fn send_to_cut(&mut self, frame: &[u8], segment_bytes: u16) {
        if self.can_send()
            && let Ok(mut frame) = copy(frame)
        {
            cut(&mut frame, segment_bytes.into(), |part| self.put(part));
        }
    }

    fn flush(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let (mut wires, now) = (self.shared.wires.lock(), time::now::<Plat>());
        for frame in self.sent.drain(..) {
            let end = wires.send(self.host, &frame, now);
            if end > now {
                self.transmitted.push(end);
            }
        }
    }

    /// Whether there is room is not computed anew here. If `can_send` has returned `false`, the caller has to be told when
    /// there is room, even if that time has passed by now.
    fn due(&mut self) -> Instant {
        if self.has_room() {
            self.shared.wires.lock().next(self.host)
        } else {
            self.transmitted.iter().copied().min().unwrap_or(Instant::NEVER)
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use gmp_sched::sim::{self, Config, Sim};

    use super::*;
    use crate::sim::{Conditions, Network};

    /// No frame arrives that would wake the host.
    #[test]
    fn device_that_was_full_is_due_when_there_is_room_even_if_there_is_room_already() {
        let report = sim::run(Config::default(), || {
            let network = Network::<Sim>::new(1);
            let [from, to] = [1, 2].map(|last| network.host([10, 0, 0, last]).unwrap());
            network.set_path(from, to, Conditions { rate: Some(1_000_000), ..Conditions::default() });
            let mut device = Device::new(network.shared.clone(), 0, false).unwrap();
            let mut frame = [0; 1_000];
            frame[..6].copy_from_slice(&mac(1));
            (0..ROOM).for_each(|_| device.send(&frame));
            device.flush();
            assert!(!device.can_send());
            let first = device.due();
            assert!(first > time::now::<Sim>() && first < Instant::NEVER);
            sim::sleep(first - time::now::<Sim>() + Duration::from_micros(1));
            assert_eq!(device.due(), first);
            assert!(device.can_send());
            assert_eq!(device.due(), Instant::NEVER);
        });
        report.unwrap();
    }
}
