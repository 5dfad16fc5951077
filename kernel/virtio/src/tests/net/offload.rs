//! Tests of the frames that the device cuts.

use super::*;

/// Returns a frame with a segment that has this many bytes of data, and where the segment and its data begin.
pub(super) fn segment(is_ipv6: bool, bytes: usize, random: &mut fastrand::Rng) -> (Vec<u8>, usize, usize) {
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

/// Returns the sum of 16-bit words, with the carries added, from which the checksum of TCP is made.
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
            // The device gets the sum of the pseudo-header in place of the checksum.
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
