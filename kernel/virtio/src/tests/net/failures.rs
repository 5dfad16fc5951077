//! Tests with devices that break, keep what they get, or lack something, and with links that go down.

use super::*;

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
