//! Tests the driver of network devices with a device that keeps to the protocol, and with one that may do anything.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::fake::{Fake, Settings, content};
use super::memory::Memory;
use super::races;
use crate::net::{CUT_FRAME_BYTES, Device, FRAME_BYTES, Frames, MERGED_FRAME_BYTES, Received, SILENCE_NS};
use crate::{Doorbell, OpenError};

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

    /// The device takes the next frame that was sent, with which it has nothing to do.
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

    /// A frame arrives at a device that puts frames together. Its header has these flags, and says that the frame is in
    /// `buffers` buffers, or in as many as it is. Returns whether there were enough buffers.
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

/// Returns a frame with a segment that has so many bytes of data, and where the segment and its data begin.
fn segment(is_ipv6: bool, bytes: usize, random: &mut fastrand::Rng) -> (Vec<u8>, usize, usize) {
    const TCP: u8 = 6;
    let (start, options) = if is_ipv6 { (54, random.usize(..11)) } else { (34 + 4 * random.usize(..11), 0) };
    let end = start + 20 + 4 * options;
    let mut frame = vec![0; end + bytes];
    random.fill(&mut frame);
    if is_ipv6 {
        frame[12..15].copy_from_slice(&[0x86, 0xDD, 0x60]);
        frame[20] = TCP;
    } else {
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x40 | ((start - 14) / 4) as u8]);
        frame[23] = TCP;
    }
    frame[start + 12] = ((5 + options) as u8) << 4;
    (frame, start, end)
}

/// Returns the sum of the checksums of TCP.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into()));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

#[test]
fn device_that_cuts_gets_long_segments_and_computes_all_checksums() {
    let mut random = fastrand::Rng::with_seed(3);
    for entries in [16, 64, 256] {
        let mut rig = Rig::open(Settings { features: FEATURES | CUT, ..settings(entries) }).expect("it can be used");
        assert_eq!(rig.driver.largest_to_cut(), Some(CUT_FRAME_BYTES));
        for _ in 0..1_000 {
            let (is_ipv6, most) = (random.bool(), random.u16(1..=1460));
            let (mut frame, start, end) = segment(is_ipv6, random.usize(..32_000), &mut random);
            rig.driver.send_to_cut(&frame, most);
            let (header, sent) = rig.take_with_header().expect("a frame");
            let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
            let is_cut = frame.len() - end > most.into();
            let kind = if is_ipv6 { 4 } else { 1 };
            assert_eq!(header[..2], [NEEDS_CSUM, if is_cut { kind } else { 0 }]);
            assert_eq!([word(2), word(4)], if is_cut { [end as u16, most] } else { [0, 0] });
            assert_eq!([word(6), word(8), word(10)], [start as u16, 16, 0]);
            // What the device gets as the checksum is the sum of the fields of the packet that belong to it.
            let addresses = if is_ipv6 { 22..54 } else { 26..34 };
            let length = (frame.len() - start) as u32;
            let pseudo = [&frame[addresses], &[0, 6], &length.to_be_bytes()].concat();
            let at = start + 16;
            assert_eq!(sent[at..at + 2], sum(&pseudo).to_be_bytes());
            frame[at..at + 2].copy_from_slice(&sent[at..at + 2]);
            assert!(sent == frame);
        }
        // There is room for a frame to send only if there is room for a long one.
        let long = segment(false, CUT_FRAME_BYTES - 114, &mut random).0;
        let mut sent = 0;
        while rig.driver.can_send() {
            rig.driver.send_to_cut(&long, 1460);
            sent += 1;
        }
        assert_eq!(sent, 8);
        rig.driver.send(b"dropped");
        for left in (0..sent).rev() {
            assert_eq!(rig.take_with_header().is_some(), rig.driver.can_send(), "{left} left");
        }
        rig.passes_frames(8);
        assert_eq!(rig.driver.resets(), 0);
    }
    Memory::check_surroundings();
}

#[test]
fn device_cuts_only_with_all_features() {
    for features in [1, 1 << 11].map(|one| CUT & !one).into_iter().chain([0]) {
        let mut rig = Rig::open(Settings { features: FEATURES | features, ..settings(64) }).expect("it can be used");
        assert_eq!(rig.driver.largest_to_cut(), None);
        rig.driver.send(&segment(false, 100, &mut fastrand::Rng::with_seed(4)).0);
        assert!(rig.take_sent().is_some());
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

/// What breaks the device, which is then reset.
const BREAKS: [fn(&mut Rig); 3] = [
    |rig| rig.device().complete(RECEIVE, 300, 1),
    |rig| rig.device().complete(SEND, 300, 1),
    |rig| {
        rig.device().need_reset();
        rig.driver.check();
    },
];

#[test]
fn device_that_breaks_is_reset_and_passes_frames_again() {
    for (entries, broken) in [16, 128, 256].into_iter().flat_map(|entries| BREAKS.map(|broken| (entries, broken))) {
        let mut rig = Rig::new(entries);
        let pages = Memory::pages();
        for round in 1..20 {
            // These frames are lost.
            assert!(rig.arrives(b"lost") && rig.arrives(b"lost") && rig.driver.can_send());
            rig.driver.send(b"lost");
            broken(&mut rig);
            while rig.received().is_some() {}
            assert_eq!((rig.driver.resets(), rig.driver.is_gone(), rig.driver.is_up()), (round, false, true));
            rig.passes_frames(usize::from(entries).min(128));
        }
        assert_eq!(Memory::pages(), pages, "a reset allocates nothing");
    }
    Memory::check_surroundings();
}

#[test]
fn device_that_breaks_before_it_passes_a_frame_is_given_up_after_eight_resets() {
    for broken in BREAKS {
        let mut rig = Rig::new(16);
        for _ in 0..8 {
            broken(&mut rig);
            assert_eq!((rig.received(), rig.driver.can_send(), rig.driver.is_gone()), (None, true, false));
        }
        broken(&mut rig);
        rig.passes_nothing();
        assert!(rig.driver.is_gone());
        BREAKS.iter().for_each(|again| again(&mut rig));
        rig.passes_nothing();
    }
}

/// The device sends nothing from some time on.
#[test]
fn device_that_keeps_all_buffers_is_reset_after_five_seconds_and_given_up_in_the_end() {
    let mut rig = Rig::new(16);
    rig.passes_frames(16);
    let mut now = 7;
    for resets in 1..=9 {
        assert_eq!(rig.driver.check_silence(now), None, "there is room");
        while rig.driver.can_send() {
            rig.driver.send(b"kept");
        }
        assert_eq!(rig.driver.check_silence(now), Some(now + SILENCE_NS));
        // The device sends one frame in time, so it gets more.
        assert!(rig.take_sent().is_some() && rig.driver.can_send());
        rig.driver.send(b"kept");
        now += SILENCE_NS - 1;
        assert_eq!(rig.driver.check_silence(now), Some(now + SILENCE_NS));
        now += SILENCE_NS;
        assert_eq!(rig.driver.check_silence(now - 1), Some(now));
        assert_eq!((rig.driver.check_silence(now), rig.driver.resets()), (None, resets));
        assert_eq!((rig.driver.can_send(), rig.driver.is_gone()), (resets < 9, resets == 9));
    }
    assert_eq!((rig.received(), rig.driver.can_send(), rig.driver.check_silence(now)), (None, false, None));
}

#[test]
fn device_that_always_breaks_in_the_middle_of_a_frame_is_given_up() {
    let settings = Settings { features: FEATURES | MERGED, ..settings(256) };
    let mut rig = Rig::open(settings).expect("the device can be used");
    for resets in 1..=9 {
        assert!(rig.arrives_merged(b"one of two buffers", NEEDS_CSUM, Some(2)));
        rig.device().complete(RECEIVE, 300, 1);
        assert_eq!((rig.received(), rig.received()), (Some(Vec::new()), None));
        assert_eq!((rig.driver.resets(), rig.driver.is_gone()), (resets, resets == 9));
    }
    rig.passes_nothing();
}

#[test]
fn device_that_is_another_one_after_the_reset_is_given_up() {
    let changes: [fn(&mut Settings); 5] = [
        |settings| settings.ignores_reset = true,
        |settings| settings.refuses_features = true,
        |settings| settings.features = 1 << 5,
        |settings| settings.sectors += 1,
        |settings| settings.entries = 16,
    ];
    for change in changes {
        let mut rig = Rig::new(32);
        rig.device().change(change);
        rig.passes_frames(32);
        rig.device().need_reset();
        rig.driver.check();
        rig.passes_nothing();
        assert!(rig.driver.is_gone());
    }
}

#[test]
fn device_that_lacks_something_is_refused() {
    let cases = [
        (Settings { features: 1 << 16, ..settings(16) }, OpenError::Refused),
        (Settings { is_legacy: true, ..settings(16) }, OpenError::NotSupported),
        (Settings { queues: 1, ..settings(16) }, OpenError::Refused),
        (Settings { entries: 8, ..settings(16) }, OpenError::Refused),
    ];
    for (settings, expected) in cases {
        assert_eq!(Rig::open(settings).map(drop), Err(expected));
    }
}

#[test]
fn link_is_up_if_the_device_says_so_or_has_no_status() {
    for (features, sectors, is_up) in [(FEATURES, UP, true), (FEATURES, DOWN, false), (1 << 5, DOWN, true)] {
        let mut rig = Rig::open(Settings { features, sectors, ..settings(16) }).expect("the device can be used");
        assert_eq!((rig.driver.is_up(), rig.driver.mac()), (is_up, [2, 3, 4, 5, 6, 7]));
        rig.passes_frames(16);
    }
}

#[test]
fn link_may_go_down_and_come_up() {
    let mut rig = Rig::new(16);
    for state in [DOWN, UP, DOWN, UP] {
        rig.device().change(|settings| settings.sectors = state);
        rig.driver.check();
        assert_eq!((rig.driver.is_up(), rig.driver.resets()), (state == UP, 0));
        rig.passes_frames(16);
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

/// Runs the driver with a device that may write anything anywhere in the shared memory, also between two reads of the
/// driver in one call, and that breaks, and may then not come back. Checks that no other memory changes, that the driver
/// does not panic, and that it has all buffers after a reset. Returns how often a device was reset and went on.
fn device_does_anything(steps: u64, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut left, mut resets, mut now) = (steps, 0, 0);
    while left > 0 {
        let entries = [16, 64, 256][random.usize(..3)];
        let features = FEATURES | [0, MERGED, CUT, MERGED | CUT][random.usize(..4)];
        let mut rig = Rig::open(Settings { features, ..settings(entries) }).expect("the device can be used");
        races::set((random.u32(..4) != 0).then(|| random.fork()));
        // Most devices are given up in the end. The test then continues for this many steps.
        let mut further = 20;
        while left > 0 && further > 0 {
            left -= 1;
            match random.u32(..100) {
                0..15 => rig.driver.send(&random_frame(&mut random)),
                15..25 => {
                    let is_cut = rig.driver.largest_to_cut().is_some();
                    let bytes = random.usize(..if is_cut { CUT_FRAME_BYTES - 114 } else { FRAME_BYTES - 114 });
                    let mut frame = segment(random.bool(), bytes, &mut random).0;
                    let at = random.usize(..frame.len());
                    frame[at] = random.u8(..);
                    frame.truncate(random.usize(..=2 * bytes));
                    rig.driver.send_to_cut(&frame, random.u16(..));
                }
                25..50 => drop(rig.received()),
                50..70 => {
                    let memory = rig.device().take(SEND);
                    if let Some((token, [input, _])) = memory {
                        // Garbage in the descriptors could otherwise exhaust the memory of the test.
                        drop((input.bytes() < 1 << 20).then(|| content(&input)));
                        rig.device().complete(SEND, token.into(), random.u32(..20));
                    }
                }
                70..90 => {
                    let memory = rig.device().take(RECEIVE);
                    if let Some((token, [_, output])) = memory {
                        output.write(0, &[0; HEADER + 60]);
                        let buffers = [0, 1, 2, 3, 33, random.u8(..)][random.usize(..6)];
                        output.write(10, &[buffers]);
                        rig.device().complete(RECEIVE, token.into(), random.u32(..2_100));
                    }
                }
                90 => rig.driver.flush(),
                91 if random.u32(..4) == 0 => rig.device().need_reset(),
                92 => rig.driver.check(),
                93 if random.u32(..100) == 0 => rig.device().change(|settings| change(settings, &mut random)),
                94 if random.u32(..20) == 0 => rig.device().complete(random.usize(..2), random.u32(..300), 1),
                95 if random.u32(..20) == 0 => rig.device().scribble(&mut random, 5_000),
                96 => rig.device().scribble(&mut random, 1),
                97 => {
                    now += random.u64(..SILENCE_NS);
                    let due = rig.driver.check_silence(now);
                    assert!(due.is_none_or(|due| due > now && due <= now + SILENCE_NS));
                }
                _ => drop(rig.driver.can_send()),
            }
            further -= u32::from(rig.driver.is_gone());
        }
        races::set(None);
        resets += u64::from(rig.driver.resets());
        Memory::check_surroundings();
        Memory::free_all();
    }
    resets
}

/// Makes the device another one at its next reset.
fn change(settings: &mut Settings, random: &mut fastrand::Rng) {
    match random.u32(..4) {
        0 => settings.ignores_reset ^= true,
        1 => settings.refuses_features ^= true,
        2 => settings.sectors ^= 1 << random.u32(..64),
        _ => settings.entries = [16, 64, 256][random.usize(..3)],
    }
}

#[test]
fn device_that_does_anything_breaks_nothing() {
    assert!(device_does_anything(200_000, 1) > 1_000, "devices are reset");
}

#[test]
#[ignore = "takes minutes"]
fn device_that_does_anything_breaks_nothing_in_ten_million_steps() {
    super::ten_million_steps(|steps, seed| _ = device_does_anything(steps, seed));
}
