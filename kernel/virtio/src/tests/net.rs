//! Tests the driver of network devices with a device that keeps to the protocol, and with one that may do anything.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::fake::{Fake, Settings, content};
use super::memory::Memory;
use super::races;
use crate::net::{CUT_FRAME_BYTES, Device, FRAME_BYTES, Frames, MERGED_FRAME_BYTES, Received, SILENCE_NS};
use crate::{Doorbell, OpenError};

mod failures;
mod fuzz;
mod offload;

const HEADER: usize = 12;
/// The numbers of the queues.
const RECEIVE: usize = 0;
const SEND: usize = 1;
/// The features of the device: that it has an address, and a status.
const FEATURES: u64 = 1 << 5 | 1 << 16;
/// The features that let the device put segments together, in several buffers.
const MERGED: u64 = 1 << 1 | 1 << 7 | 1 << 8 | 1 << 15;
/// The features that let the device cut segments, and compute their checksums.
const CUT: u64 = 1 | 1 << 11 | 1 << 12;
/// Flags of a header: the data has no checksum yet, or the device has checked it.
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
/// The configuration of the device: its address, and a status that says that the link is up, or down.
const UP: u64 = u64::from_le_bytes([2, 3, 4, 5, 6, 7, 1, 0]);
const DOWN: u64 = u64::from_le_bytes([2, 3, 4, 5, 6, 7, 0, 0]);

/// Counts the notifications.
#[derive(Clone, Default)]
pub(super) struct Bell(Rc<Cell<usize>>);

impl Doorbell for Bell {
    fn ring(&self) {
        self.0.set(self.0.get() + 1);
    }
}

fn settings(entries: u16) -> Settings {
    Settings { entries, queues: 2, features: FEATURES, sectors: UP, ..Settings::default() }
}

struct Rig {
    driver: Device<Fake, Bell>,
}

impl Rig {
    fn new(entries: u16) -> Self {
        Self::open(settings(entries)).expect("the device can be used")
    }

    fn open(settings: Settings) -> Result<Self, OpenError> {
        let driver = Device::open::<Memory, OpenError>(Fake::new(settings), |_, _| Ok(Bell::default()))?;
        Ok(Self { driver })
    }

    fn device(&self) -> &Fake {
        self.driver.transport()
    }

    /// The device takes the next frame that was sent, with its header.
    fn take_with_header(&self) -> Option<([u8; HEADER], Vec<u8>)> {
        let (token, [input, output]) = self.device().take(SEND)?;
        let bytes = content(&input);
        self.device().complete(SEND, token.into(), 0);
        assert_eq!(output.bytes(), 0);
        let (header, frame) = bytes.split_first_chunk()?;
        Some((*header, frame.to_vec()))
    }

    /// The device takes the next frame that was sent. The header of the frame asks it to do nothing.
    fn take_sent(&self) -> Option<Vec<u8>> {
        let (header, frame) = self.take_with_header()?;
        assert_eq!(header, [0; HEADER]);
        Some(frame)
    }

    /// A frame arrives at the device. Returns whether there was a buffer for it.
    fn arrives(&self, frame: &[u8]) -> bool {
        let Some((token, [input, output])) = self.device().take(RECEIVE) else { return false };
        assert!(input.bytes() == 0 && output.bytes() == HEADER + FRAME_BYTES);
        output.write(0, &[&[7; HEADER], frame].concat());
        self.device().complete(RECEIVE, token.into(), (HEADER + frame.len()) as u32);
        true
    }

    /// A frame arrives at a device that puts frames together. The frame's header has these flags, and says that the frame
    /// is in `buffers` buffers. (`None` stands for the right number.) Returns whether there were enough buffers.
    fn arrives_merged(&self, frame: &[u8], flags: u8, buffers: Option<u16>) -> bool {
        let content = [&[flags, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0], frame].concat();
        let parts: Vec<&[u8]> = content.chunks(2048).collect();
        let taken: Vec<_> = parts.iter().map_while(|_| self.device().take(RECEIVE)).collect();
        if taken.len() < parts.len() {
            return false;
        }
        for ((part, (_, [_, output])), number) in parts.iter().zip(&taken).zip(0..) {
            assert_eq!(output.bytes(), 2048);
            output.write(0, part);
            if number == 0 {
                output.write(10, &buffers.unwrap_or(parts.len() as u16).to_le_bytes());
            }
        }
        for (part, (token, _)) in parts.iter().zip(&taken) {
            self.device().complete(RECEIVE, (*token).into(), part.len() as u32);
        }
        true
    }

    fn received(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; self.driver.largest_frame()];
        let bytes = self.driver.receive(&mut frame)?.bytes;
        frame.truncate(bytes);
        Some(frame)
    }

    /// Frames pass in both directions, and no buffer is lost.
    fn passes_frames(&mut self, entries: usize) {
        for number in 0..entries {
            assert!(self.arrives(&[number as u8]), "buffer {number} is lost");
            assert!(self.driver.can_send(), "buffer {number} is lost");
            self.driver.send(&[!number as u8]);
        }
        for number in 0..entries {
            assert_eq!(self.take_sent(), Some(vec![!number as u8]));
            assert_eq!(self.received(), Some(vec![number as u8]));
        }
        assert_eq!((self.take_sent(), self.received()), (None, None));
    }

    fn passes_nothing(&mut self) {
        assert_eq!((self.received(), self.driver.can_send(), self.driver.is_up()), (None, false, false));
        self.driver.send(b"dropped");
        assert_eq!(self.take_sent(), None);
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
                0 if rig.driver.can_send() => {
                    let frame = random_frame(&mut random);
                    rig.driver.send(&frame);
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
                // A frame is received if there is room for an answer.
                _ if rig.driver.can_send() => assert_eq!(rig.received(), arrived.pop_front()),
                _ => assert_eq!(rig.received(), None),
            }
        }
        assert_eq!(rig.driver.resets(), 0);
    }
    Memory::check_surroundings();
}

#[test]
fn device_is_notified_of_thirty_two_frames_at_once_and_of_the_rest_by_a_flush() {
    let mut device = Fake::new(Settings { queues: 2, ..Settings::default() });
    let bell = Bell::default();
    let mut send = Frames::sending::<Memory>(&mut device, SEND as u16, false, bell.clone()).expect("a queue");
    for (sent, rings) in [(31, 0), (1, 1), (31, 1), (2, 2)] {
        (0..sent).for_each(|_| send.send(b"frame", u16::MAX));
        assert_eq!(bell.0.get(), rings);
    }
    for rings in [3, 3] {
        send.flush();
        assert_eq!(bell.0.get(), rings);
    }
}

#[test]
fn merged_frames_arrive_unchanged_and_in_order() {
    let mut random = fastrand::Rng::with_seed(2);
    for entries in [128, 256] {
        let settings = Settings { features: FEATURES | MERGED, ..settings(entries) };
        let mut rig = Rig::open(settings).expect("the device can be used");
        assert_eq!(rig.driver.largest_frame(), MERGED_FRAME_BYTES);
        let mut arrived = VecDeque::new();
        for _ in 0..1_000 {
            if random.bool() {
                let any = random.usize(..=MERGED_FRAME_BYTES);
                let bytes = [0, 2036, 2037, 1514, any, MERGED_FRAME_BYTES][random.usize(..6)];
                let mut frame = vec![0; bytes];
                random.fill(&mut frame);
                let flags = random.u8(..4);
                match rig.arrives_merged(&frame, flags, None) {
                    true => arrived.push_back((frame, flags & (NEEDS_CSUM | DATA_VALID) != 0)),
                    // The device keeps the buffers that it has taken, so this test begins anew.
                    false => {
                        rig.device().need_reset();
                        rig.driver.check();
                        arrived.clear();
                    }
                }
            } else {
                let mut frame = vec![0; MERGED_FRAME_BYTES];
                let received = rig.driver.receive(&mut frame);
                let received = received.map(|it| (frame[..it.bytes].to_vec(), it.is_checked));
                assert!(received == arrived.pop_front(), "another frame");
            }
        }
        assert!(!rig.driver.is_gone());
    }
    Memory::check_surroundings();
}

#[test]
fn device_merges_only_with_all_features_and_a_long_queue() {
    let without = (0..16).filter(|bit| MERGED >> bit & 1 != 0).map(|bit| (MERGED & !(1 << bit), 256));
    for (features, entries) in without.chain([(MERGED, 64), (0, 256)]) {
        let settings = Settings { features: FEATURES | features, ..settings(entries) };
        let mut rig = Rig::open(settings).expect("the device can be used");
        assert_eq!(rig.driver.largest_frame(), FRAME_BYTES);
        rig.passes_frames(64);
    }
}

#[test]
fn number_of_buffers_that_cannot_be_right_is_an_empty_frame() {
    let settings = Settings { features: FEATURES | MERGED, ..settings(256) };
    let mut rig = Rig::open(settings).expect("the device can be used");
    let mut frame = vec![0; MERGED_FRAME_BYTES];
    for buffers in [0, 2, 33, 34, u16::MAX] {
        assert!(rig.arrives_merged(b"one buffer", NEEDS_CSUM, Some(buffers)));
        assert_eq!(rig.driver.receive(&mut frame), Some(Received::default()), "{buffers} buffers");
    }
    // More than the largest frame.
    assert!(rig.arrives_merged(&vec![1; MERGED_FRAME_BYTES + 1], NEEDS_CSUM, None));
    assert_eq!(rig.driver.receive(&mut frame), Some(Received::default()));
    for number in 0..1_000 {
        assert!(rig.arrives_merged(&[number as u8], DATA_VALID, None), "buffer {number} is lost");
        assert_eq!(rig.driver.receive(&mut frame), Some(Received { bytes: 1, is_checked: true }));
    }
}

#[test]
fn length_that_cannot_be_right_is_an_empty_frame() {
    let mut rig = Rig::new(16);
    for written in [0, 11, 12, (HEADER + FRAME_BYTES) as u32 + 1, u32::MAX] {
        let (token, _) = rig.device().take(RECEIVE).expect("a buffer");
        rig.device().complete(RECEIVE, token.into(), written);
        assert_eq!(rig.received(), Some(Vec::new()), "{written}");
    }
}
