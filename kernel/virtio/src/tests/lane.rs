//! Tests [`Lane`] and [`Mailbox`] with a device that keeps to the protocol, and with one that may do anything.

use std::sync::atomic::Ordering;

use super::fake::{Fake, Settings, content};
use super::memory::Memory;
use super::net::Bell;
use super::races;
use crate::{Lane, Mailbox};

/// The numbers of the queues.
const SEND: usize = 0;
const RECEIVE: usize = 1;
const EVENTS: usize = 2;

struct Rig {
    device: Fake,
    send: Lane<Bell>,
    receive: Lane<Bell>,
    events: Mailbox<Bell>,
}

impl Rig {
    fn new() -> Self {
        let mut device = Fake::new(Settings { queues: 3, ..Settings::default() });
        let send = Lane::sending::<Memory>(&mut device, SEND as u16, 2, Bell::default()).expect("a queue");
        let receive = Lane::receiving::<Memory>(&mut device, RECEIVE as u16, Bell::default()).expect("a queue");
        let events = Mailbox::new::<Memory>(&mut device, EVENTS as u16, Bell::default()).expect("a queue");
        Self { device, send, receive, events }
    }

    fn fill(&self, bytes: &[u8]) {
        self.send.buffer().iter().zip(bytes).for_each(|(to, &byte)| to.store(byte, Ordering::Relaxed));
    }

    /// The device writes a message. Returns whether there was a buffer for it.
    fn post(&self, message: &[u8; 8]) -> bool {
        let Some((token, [input, output])) = self.device.take(EVENTS) else { return false };
        assert!(input.bytes() == 0 && output.bytes() == 64);
        output.write(0, message);
        self.device.complete(EVENTS, token.into(), 8);
        true
    }
}

/// The indices wrap around after 65,536 buffers.
#[test]
fn lane_passes_one_buffer_at_a_time() {
    let rig = Rig::new();
    for round in 0..70_000u32 {
        assert!(rig.send.is_idle() && rig.device.take(SEND).is_none());
        let bytes = [round.to_le_bytes(), [7; 4]].concat();
        rig.fill(&bytes);
        rig.send.send(bytes.len());
        rig.send.resume();
        let (token, [input, output]) = rig.device.take(SEND).expect("a buffer");
        assert!(content(&input) == bytes && output.bytes() == 0 && !rig.send.is_idle());
        assert!(rig.device.take(SEND).is_none(), "the second notification changes nothing");
        rig.device.complete(SEND, token.into(), 0);
    }
    Memory::check_surroundings();
}

#[test]
fn receiving_lane_reports_how_much_the_device_has_written() {
    let rig = Rig::new();
    for bytes in [1, 100, rig.receive.buffer().len()] {
        rig.receive.send(bytes);
        let (token, [input, output]) = rig.device.take(RECEIVE).expect("a buffer");
        assert!(input.bytes() == 0 && output.bytes() == bytes && !rig.receive.is_idle());
        output.write(0, &vec![9; bytes]);
        rig.device.complete(RECEIVE, token.into(), bytes as u32);
        assert!(rig.receive.is_idle() && rig.receive.received() == bytes);
        assert!(rig.receive.buffer()[..bytes].iter().all(|byte| byte.load(Ordering::Relaxed) == 9));
    }
}

#[test]
fn mailbox_keeps_eight_messages_in_order() {
    let rig = Rig::new();
    let (mut posted, mut read) = (0u64, 0);
    for round in 0..30_000 {
        for _ in 0..round % 11 {
            let has_room = posted - read < 8;
            assert_eq!(rig.post(&posted.to_le_bytes()), has_room);
            posted += u64::from(has_room);
        }
        for _ in 0..round % 7 {
            let message = rig.events.read().map(u64::from_le_bytes);
            assert_eq!(message, (read < posted).then_some(read));
            read += u64::from(read < posted);
        }
    }
}

#[test]
fn muted_lane_notifies_nobody() {
    let rig = Rig::new();
    rig.send.send(1);
    rig.send.mute();
    rig.send.resume();
    assert_eq!(rig.send.sent(), 1);
}

/// Runs the driver with a device that may write anything anywhere in the shared memory, also between two reads of the
/// driver in one call. Checks that no other memory changes, and that the driver does not panic.
fn device_does_anything(steps: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..steps / 1_000 {
        let rig = Rig::new();
        races::set((random.u32(..4) != 0).then(|| random.fork()));
        for _ in 0..1_000 {
            match random.u32(..100) {
                0..30 if rig.send.is_idle() => rig.send.send(random.usize(..=rig.send.buffer().len())),
                30..50 if rig.receive.is_idle() => rig.receive.send(random.usize(..=rig.receive.buffer().len())),
                50..70 => drop(rig.events.read::<8>()),
                70..90 => {
                    let queue = random.usize(..3);
                    if let Some((token, [_, output])) = rig.device.take(queue) {
                        output.write(0, &[random.u8(..); 8]);
                        rig.device.complete(queue, token.into(), random.u32(..100));
                    }
                }
                90 => rig.device.complete(random.usize(..3), random.u32(..20), random.u32(..)),
                91 => rig.device.scribble(&mut random, 1),
                92 if random.u32(..50) == 0 => rig.device.scribble(&mut random, 5_000),
                _ => {
                    let _ = rig.receive.received();
                    rig.send.resume();
                }
            }
        }
        races::set(None);
        Memory::check_surroundings();
        Memory::free_all();
    }
}

#[test]
fn device_that_does_anything_breaks_nothing() {
    device_does_anything(200_000, 1);
}

#[test]
#[ignore = "takes minutes"]
fn device_that_does_anything_breaks_nothing_in_ten_million_steps() {
    super::ten_million_steps(device_does_anything);
}
