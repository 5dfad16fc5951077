//! Tests the driver with devices that fail, are silent, or violate the protocol.

use super::block::{completions, run, submit};
use super::fake::{Configuration, Races, Settings};
use super::memory::Memory;
use super::rig::{Device, open};
use crate::OpenError;
use crate::block::{Request, RequestError};

#[test]
fn device_that_makes_no_sense_is_refused() {
    let cases = [
        (Settings { entries: 8, ..Settings::default() }, OpenError::Refused),
        (Settings { is_legacy: true, ..Settings::default() }, OpenError::NotSupported),
        (Settings { queues: 0, ..Settings::default() }, OpenError::NotSupported),
        (Settings { block_bytes: 768, ..Settings::default() }, OpenError::NotSupported),
        (Settings { block_bytes: 0, ..Settings::default() }, OpenError::NotSupported),
        (Settings { block_bytes: 256, ..Settings::default() }, OpenError::NotSupported),
        (Settings { block_bytes: 1 << 31, ..Settings::default() }, OpenError::NotSupported),
        (Settings { sectors: u64::MAX, ..Settings::default() }, OpenError::NotSupported),
        (Settings { refuses_features: true, ..Settings::default() }, OpenError::Refused),
        (Settings { ignores_reset: true, ..Settings::default() }, OpenError::Refused),
        (Settings { changes_configuration: true, ..Settings::default() }, OpenError::NotSupported),
    ];
    for (settings, expected) in cases {
        let what = format!("{settings:?}");
        assert_eq!(Device::open(settings, 1, usize::MAX).expect_err(&what), expected, "{what}");
    }
}

/// The device has two configurations, which differ in every word. At random, it changes from one to the other before
/// the driver reads a word, and announces this. The driver uses one configuration as a whole, or gives up.
#[test]
fn configuration_that_changes_while_it_is_read_is_never_mixed() {
    let other =
        Configuration { sectors: 5 << 32, block_bytes: 4_096, max_segments: 3, max_segment_bytes: 8_208, queues: 2 };
    let mut seen = [0; 3];
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let one_of = random.u32(2..30);
        let races = Races { random, one_of, announces: true, other: Some(other) };
        let settings =
            Settings { queues: 1, max_segment_bytes: Some(1 << 16), races: Some(races), ..Settings::default() };
        let own = settings.configuration();
        let outcome = Device::open(settings, usize::MAX, usize::MAX);
        let properties = outcome.as_ref().map(|device| device.device.properties());
        let found = match properties {
            Ok(found) if found.sectors == own.sectors => {
                assert_eq!((found.block_bytes, found.max_segments, found.queues), (512, 16, 1), "seed {seed}");
                assert_eq!(found.segment_bytes, (1 << 16) - 512, "seed {seed}");
                0
            }
            Ok(found) => {
                assert_eq!((found.block_bytes, found.max_segments, found.queues), (4_096, 3, 2), "seed {seed}");
                assert_eq!((found.sectors, found.segment_bytes), (5 << 32, 8_192), "seed {seed}");
                1
            }
            Err(error) => {
                assert_eq!(*error, OpenError::NotSupported, "seed {seed}");
                2
            }
        };
        seen[found] += 1;
        Memory::free_all();
    }
    assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
}

#[test]
fn error_of_the_device_is_the_result_of_its_request_only() {
    let mut device = open(Settings { bad_sector: Some(5), ..Settings::default() });
    let (buffer, result) = run(&mut device, Request::Read { sector: 4, bytes: 1_024 }, |_| ());
    assert_eq!(result, Err(RequestError::Failed));
    device.put_buffers(buffer);
    assert_eq!(run(&mut device, Request::Read { sector: 6, bytes: 512 }, |_| ()).1, Ok(()));
    assert!(device.broken().is_none());
}

#[test]
fn short_answer_is_an_error() {
    let mut device = open(Settings { written_less: 1, ..Settings::default() });
    assert_eq!(run(&mut device, Request::Read { sector: 4, bytes: 512 }, |_| ()).1, Err(RequestError::Short));
    let mut device = open(Settings { writes_no_status: true, ..Settings::default() });
    assert_eq!(run(&mut device, Request::Read { sector: 4, bytes: 512 }, |_| ()).1, Err(RequestError::Short));
}

#[test]
fn completion_of_an_unknown_request_breaks_the_device() {
    for wrong in [2, 4, 255, 256, 65_535, 65_536, u32::MAX] {
        let mut device = open(Settings { ..Settings::default() });
        for _ in 0..2 {
            let buffer = device.take_buffers(1).expect("a free buffer");
            device.submit(Request::Read { sector: 0, bytes: 512 }, buffer, 0).expect("allowed");
        }
        // The tokens of the two requests are 0 and 1.
        device.transport().complete_wrongly(0, wrong);
        let failed = completions(&mut device);
        assert_eq!(failed.len(), 2, "all requests get an answer");
        for completion in failed {
            assert_eq!(completion.result, Err(RequestError::Broken));
            assert!(completion.buffers.is_none(), "the device may still access the buffer");
        }
        assert_eq!(device.broken(), Some(RequestError::Broken));
        let buffer = device.take_buffers(1).expect("a free buffer");
        let refused = device.submit(Request::Flush, buffer, 0).expect_err("the device is broken");
        assert_eq!(refused.reason, RequestError::Broken);
    }
}

#[test]
fn request_completed_twice_breaks_the_device() {
    let mut device = open(Settings::default());
    let buffer = device.take_buffers(1).expect("a free buffer");
    device.submit(Request::Read { sector: 0, bytes: 512 }, buffer, 0).expect("allowed");
    device.transport().work();
    device.transport().complete_wrongly(0, 0);
    assert_eq!(completions(&mut device).len(), 1);
    assert_eq!(device.broken(), Some(RequestError::Broken));
}

#[test]
fn silent_device_is_reset_and_gets_its_requests_again_once() {
    let mut device = open(Settings::default());
    let data = [9; 512];
    let mut buffer = device.take_buffers(1).expect("a free buffer");
    buffer.write(0, &data);
    device.submit(Request::Write { sector: 8, bytes: 512 }, buffer, 10).expect("allowed");
    let buffer = device.take_buffers(1).expect("a free buffer");
    device.submit(Request::Read { sector: 9, bytes: 512 }, buffer, 20).expect("allowed");
    assert_eq!(device.oldest(), Some(10));
    device.reset(30, |_, _| panic!("the requests are submitted again"));
    assert_eq!((device.in_flight_count(), device.oldest()), (2, Some(30)));
    device.transport().work();
    let mut answered = completions(&mut device);
    assert!(answered.iter().all(|completion| completion.result == Ok(())));
    assert_eq!(device.transport().content(8), data, "the write was submitted again");

    // The device remains silent after the reset, too.
    let buffer = answered[0].buffers.take().expect("the buffer comes back");
    let slot = buffer.slot();
    device.submit(Request::Flush, buffer, 40).expect("allowed");
    device.reset(50, |_, _| panic!("the request is submitted again"));
    let mut silent = Vec::new();
    device.reset(60, |_, completion| silent.push((completion.slot, completion.buffers.is_some(), completion.result)));
    assert_eq!(silent, [(slot, true, Err(RequestError::Silent))]);
    assert_eq!(device.in_flight_count(), 0);
    assert!(device.broken().is_none());
}

#[test]
fn device_that_does_not_confirm_a_reset_or_has_changed_is_broken() {
    for change in
        [|settings: &mut Settings| settings.ignores_reset = true, |settings: &mut Settings| settings.sectors -= 1]
    {
        let mut device = open(Settings::default());
        let buffer = device.take_buffers(1).expect("a free buffer");
        device.submit(Request::Flush, buffer, 0).expect("allowed");
        device.transport().change(change);
        device.reset(1, |_, _| panic!("the device may still access the buffer"));
        let failed = completions(&mut device);
        assert_eq!((failed.len(), failed[0].result, failed[0].buffers.is_none()), (1, Err(RequestError::Gone), true));
    }
}

#[test]
fn reset_needs_no_memory_and_clears_that_of_the_queue() {
    let mut device = open(Settings { entries: 16, ..Settings::default() });
    // The indices of both rings are not 0 afterwards.
    for _ in 0..5 {
        submit(&mut device, 0);
        device.transport().work();
        completions(&mut device).into_iter().filter_map(|done| done.buffers).for_each(|done| device.put_buffers(done));
    }
    let slots = [submit(&mut device, 0), submit(&mut device, 0), submit(&mut device, 0)];
    Memory::fail_from(1);
    device.reset(1, |_, _| panic!("the requests have not been submitted twice"));
    assert!(completions(&mut device).is_empty(), "the device has not completed anything since the reset");
    device.transport().work();
    let answered: Vec<_> = completions(&mut device).iter().map(|done| (done.slot, done.result)).collect();
    assert_eq!(answered, slots.map(|slot| (slot, Ok(()))));
    assert!(device.broken().is_none());
}

#[test]
fn request_that_the_device_has_lost_ages_while_others_are_completed() {
    let mut device = open(Settings::default());
    let lost = submit(&mut device, 10);
    device.transport().lose_request(0);
    for now in [20, 30] {
        submit(&mut device, now);
        assert_eq!(device.oldest(), Some(10));
        device.transport().work();
        assert_eq!(completions(&mut device).len(), 1);
        assert_eq!(device.oldest(), Some(10), "the age of the lost request counts");
    }
    device.reset(40, |_, _| panic!("the request is submitted again"));
    device.transport().work();
    let [completion] = &completions(&mut device)[..] else { panic!("one completion") };
    assert_eq!((completion.slot, completion.result, device.oldest()), (lost, Ok(()), None));
}

#[test]
fn request_keeps_its_buffer_until_it_is_done_or_was_reset_twice() {
    let mut device = open(Settings::default());
    let (buffers, pages) = (device.free_buffers(), Memory::pages());
    // The device completes the requests late, after a reset.
    for _ in 0..3 {
        submit(&mut device, 0);
    }
    assert_eq!(device.free_buffers(), buffers - 3);
    device.reset(1, |_, _| panic!("the requests are submitted again"));
    assert!(completions(&mut device).is_empty());
    assert_eq!((device.free_buffers(), device.in_flight_count()), (buffers - 3, 3));
    device.transport().work();
    for completion in completions(&mut device) {
        device.put_buffers(completion.buffers.expect("the buffer comes back"));
    }
    assert_eq!((device.free_buffers(), device.in_flight_count()), (buffers, 0));

    // The device never completes the requests.
    for _ in 0..3 {
        submit(&mut device, 0);
    }
    device.reset(2, |_, _| panic!("the requests are submitted again"));
    assert_eq!(device.free_buffers(), buffers - 3);
    let mut ended = Vec::new();
    device.reset(3, |_, completion| ended.extend(completion.buffers));
    ended.into_iter().for_each(|buffer| device.put_buffers(buffer));
    assert_eq!((device.free_buffers(), device.in_flight_count()), (buffers, 0));
    assert_eq!(Memory::pages(), pages, "a reset allocates nothing");
}
