//! Tests with a device that may do anything.

use super::offload::segment;
use super::*;

/// Runs the driver with a device that may write anything anywhere in the shared memory, also between two reads of the
/// driver in one call, and that breaks, and may then not come back. Checks that no other memory changes, and that the
/// driver does not panic. Returns how often devices were reset.
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
    crate::tests::ten_million_steps(|steps, seed| _ = device_does_anything(steps, seed));
}
