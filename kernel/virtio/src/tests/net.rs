//! Tests the queues of frames with a device that keeps to the protocol, and with one that may do anything.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::fake::{Fake, Settings, content};
use super::memory::Memory;
use super::races;
use crate::net::{FRAME_BYTES, Frames};
use crate::{Doorbell, Transport as _, needs_reset};

const HEADER: usize = 12;
/// The numbers of the queues.
const RECEIVE: usize = 0;
const SEND: usize = 1;

/// Counts the notifications.
#[derive(Clone, Default)]
pub(super) struct Bell(Rc<Cell<usize>>);

impl Doorbell for Bell {
    fn ring(&self) {
        self.0.set(self.0.get() + 1);
    }
}

struct Rig {
    device: Fake,
    receive: Frames<Bell>,
    send: Frames<Bell>,
}

impl Rig {
    fn new(entries: u16) -> Self {
        let mut device = Fake::new(Settings { entries, queues: 2, ..Settings::default() });
        let receive = Frames::receiving::<Memory>(&mut device, RECEIVE as u16, Bell::default()).expect("a queue");
        let send = Frames::sending::<Memory>(&mut device, SEND as u16, Bell::default()).expect("a queue");
        Self { device, receive, send }
    }

    /// The device takes the next frame that was sent.
    fn take_sent(&self) -> Option<Vec<u8>> {
        let (token, [input, output]) = self.device.take(SEND)?;
        let bytes = content(&input);
        self.device.complete(SEND, token.into(), 0);
        let (header, frame) = bytes.split_at_checked(HEADER)?;
        assert!(header.iter().all(|&byte| byte == 0) && output.bytes() == 0);
        Some(frame.to_vec())
    }

    /// A frame arrives at the device. Returns whether there was a buffer for it.
    fn arrives(&self, frame: &[u8]) -> bool {
        let Some((token, [input, output])) = self.device.take(RECEIVE) else { return false };
        assert!(input.bytes() == 0 && output.bytes() == HEADER + FRAME_BYTES);
        output.write(0, &[&[7; HEADER], frame].concat());
        self.device.complete(RECEIVE, token.into(), (HEADER + frame.len()) as u32);
        true
    }

    fn received(&mut self) -> Option<Vec<u8>> {
        let mut frame = [0; FRAME_BYTES];
        let bytes = self.receive.receive(&mut frame)?;
        Some(frame[..bytes].to_vec())
    }
}

fn random_frame(random: &mut fastrand::Rng) -> Vec<u8> {
    let bytes = [0, 1, 60, FRAME_BYTES, random.usize(..=FRAME_BYTES)][random.usize(..5)];
    core::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

#[test]
fn frames_pass_unchanged_and_in_order() {
    let mut random = fastrand::Rng::with_seed(1);
    for entries in [16, 128, 256] {
        let mut rig = Rig::new(entries);
        let (mut sent, mut arrived) = (VecDeque::new(), VecDeque::new());
        for _ in 0..20_000 {
            match random.u32(..4) {
                0 if rig.send.can_send() => {
                    let frame = random_frame(&mut random);
                    rig.send.send(&frame);
                    sent.push_back(frame);
                }
                0 => assert!(sent.len() >= usize::from(entries.min(128)), "there is room for more frames"),
                1 => assert_eq!(rig.take_sent(), sent.pop_front()),
                2 => {
                    let frame = random_frame(&mut random);
                    match rig.arrives(&frame) {
                        true => arrived.push_back(frame),
                        false => assert!(arrived.len() >= usize::from(entries.min(128)), "a buffer is lost"),
                    }
                }
                _ => assert_eq!(rig.received(), arrived.pop_front()),
            }
        }
        assert!(!rig.receive.is_broken() && !rig.send.is_broken());
    }
    Memory::check_surroundings();
}

#[test]
fn device_is_notified_of_thirty_two_frames_at_once_and_of_the_rest_by_a_flush() {
    let mut device = Fake::new(Settings { queues: 2, ..Settings::default() });
    let bell = Bell::default();
    let mut send = Frames::sending::<Memory>(&mut device, SEND as u16, bell.clone()).expect("a queue");
    for (sent, rings) in [(31, 0), (1, 1), (31, 1), (2, 2)] {
        (0..sent).for_each(|_| send.send(b"frame"));
        assert_eq!(bell.0.get(), rings);
    }
    for rings in [3, 3] {
        send.flush();
        assert_eq!(bell.0.get(), rings);
    }
}

#[test]
fn completion_of_nothing_breaks_the_queue() {
    for queue in [RECEIVE, SEND] {
        let mut rig = Rig::new(16);
        rig.device.complete(queue, 77, 1);
        assert_eq!((rig.received(), rig.send.can_send()), (None, queue == RECEIVE));
        assert_eq!((rig.receive.is_broken(), rig.send.is_broken()), (queue == RECEIVE, queue == SEND));
        rig.send.send(b"dropped if the queue is broken");
        assert_eq!(rig.take_sent().is_some(), queue == RECEIVE);
    }
}

#[test]
fn length_that_cannot_be_right_is_an_empty_frame() {
    let mut rig = Rig::new(16);
    for written in [0, 11, 12, (HEADER + FRAME_BYTES) as u32 + 1, u32::MAX] {
        let (token, _) = rig.device.take(RECEIVE).expect("a buffer");
        rig.device.complete(RECEIVE, token.into(), written);
        assert_eq!(rig.received(), Some(Vec::new()), "{written}");
    }
}

/// Runs the driver with a device that may write anything anywhere in the shared memory, also between two reads of the
/// driver in one call. Checks that no other memory changes, and that the driver does not panic.
fn device_does_anything(steps: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut left = steps;
    while left > 0 {
        let mut rig = Rig::new([16, 64, 256][random.usize(..3)]);
        races::set((random.u32(..4) != 0).then(|| random.fork()));
        // Most devices break after a few steps. The test then continues for this many steps.
        let mut further = 20;
        while left > 0 && further > 0 {
            left -= 1;
            match random.u32(..100) {
                0..25 => rig.send.send(&random_frame(&mut random)),
                25..50 => drop(rig.received()),
                50..70 => {
                    let memory = rig.device.take(SEND);
                    if let Some((token, [input, _])) = memory {
                        // Garbage in the descriptors could otherwise exhaust the memory of the test.
                        drop((input.bytes() < 1 << 20).then(|| content(&input)));
                        rig.device.complete(SEND, token.into(), random.u32(..20));
                    }
                }
                70..95 => {
                    let memory = rig.device.take(RECEIVE);
                    if let Some((token, [_, output])) = memory {
                        output.write(0, &[0; HEADER + 60]);
                        rig.device.complete(RECEIVE, token.into(), random.u32(..2_000));
                    }
                }
                95 if random.u32(..20) == 0 => rig.device.complete(random.usize(..2), random.u32(..300), 1),
                96 if random.u32(..20) == 0 => rig.device.scribble(&mut random, 5_000),
                97 => rig.device.scribble(&mut random, 1),
                _ => drop(rig.send.can_send()),
            }
            further -= u32::from(rig.receive.is_broken() && rig.send.is_broken());
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

#[test]
fn device_that_needs_a_reset_says_so_in_its_status() {
    let mut device = Fake::new(Settings { queues: 2, ..Settings::default() });
    for (status, needs) in [(0x0f, false), (0x4f, true), (0, false)] {
        device.set_status(status);
        assert_eq!(needs_reset(&device), needs, "{status:#x}");
    }
}
