//! Tests requests with several buffers.

use super::block::{completions, pattern, run, take_for};
use super::fake::Settings;
use super::memory::Memory;
use super::rig::{Device, open};
use crate::block::{BUFFER_BYTES, MAX_REQUEST_BUFFERS, MAX_REQUEST_BYTES, Request, RequestError, SECTOR_SIZE};

/// Writes `bytes` bytes, reads them, and compares them with the content of the device.
fn write_and_read(device: &mut Device, sector: u64, bytes: usize, seed: u64) {
    let data = pattern(bytes, seed);
    let (buffers, result) = run(device, Request::Write { sector, bytes }, |buffers| {
        // The data is written in two parts, the second one first. The boundary between them is usually inside of a
        // buffer.
        let (first, second) = data.split_at(bytes / 3);
        buffers.write(first.len(), second);
        buffers.write(0, first);
    });
    assert_eq!(result, Ok(()), "write of {bytes} bytes");
    device.put_buffers(buffers);
    for (index, expected) in data.chunks(SECTOR_SIZE).enumerate() {
        assert!(device.transport().content(sector as usize + index) == expected, "sector {index} of {bytes} bytes");
    }
    let (buffers, result) = run(device, Request::Read { sector, bytes }, |_| ());
    assert_eq!(result, Ok(()), "read of {bytes} bytes");
    for (offset, length) in [(0, bytes), (1, bytes - 1), (bytes / 2, bytes / 2), (bytes - 1, 1), (bytes, 0)] {
        let mut found = vec![0; length];
        buffers.read(offset, &mut found);
        assert!(found == data[offset..offset + length], "{length} of {bytes} bytes from {offset} on");
    }
    device.put_buffers(buffers);
    Memory::check_surroundings();
}

#[test]
fn data_of_several_buffers_is_read_as_it_was_written() {
    for is_indirect in [true, false] {
        let mut device = open(Settings { is_indirect, ..Settings::default() });
        let lengths = [512, BUFFER_BYTES, BUFFER_BYTES + 512, 5 * BUFFER_BYTES - 512, MAX_REQUEST_BYTES];
        for (seed, bytes) in (0..).zip(lengths) {
            write_and_read(&mut device, seed + 3, bytes, seed);
        }
    }
}

#[test]
fn limits_of_the_device_are_kept() {
    // Each case begins with three properties of the device: the largest number of segments of a request, the largest
    // number of bytes of a segment, and the block size. The last two numbers are expected: the largest number of
    // buffers of a request, and the number of bytes in each buffer.
    let cases = [
        (None, None, 512, 1, BUFFER_BYTES),
        (Some(0), None, 512, 1, BUFFER_BYTES),
        (Some(1), None, 512, 1, BUFFER_BYTES),
        (Some(2), None, 512, 2, BUFFER_BYTES),
        (Some(5), Some(u32::MAX), 4_096, 5, BUFFER_BYTES),
        (Some(u32::MAX), Some(65_536), 512, MAX_REQUEST_BUFFERS, 65_024),
        (Some(254), Some(65_536), 4_096, MAX_REQUEST_BUFFERS, 61_440),
        (Some(3), Some(1_040), 512, 3, 1_024),
        (Some(3), Some(4_112), 4_096, 3, 4_096),
    ];
    for case @ (max_segments, max_segment_bytes, block_bytes, buffers, bytes) in cases {
        let mut device = open(Settings { max_segments, max_segment_bytes, block_bytes, ..Settings::default() });
        let properties = device.device.properties();
        assert_eq!((properties.max_segments, properties.segment_bytes), (buffers, bytes), "{case:?}");
        let (most, block) = (buffers * bytes, block_bytes as usize);
        // The fake device fails a request that exceeds its limits. It also counts the header, so with a limit of 0
        // pieces it fails every request.
        if max_segments != Some(0) {
            for bytes in [block, bytes, most - block, most].into_iter().filter(|&bytes| bytes != 0) {
                write_and_read(&mut device, 8, bytes, most as u64);
            }
        }
        let buffers = device.take_buffers(buffers).expect("free buffers");
        let request = Request::Read { sector: 0, bytes: most + block };
        assert_eq!(device.submit(request, buffers, 0).expect_err("too long").reason, RequestError::Unsupported);
    }
}

#[test]
fn request_with_too_few_buffers_is_refused() {
    let mut device = open(Settings::default());
    let buffers = device.take_buffers(2).expect("free buffers");
    let refused = device.submit(Request::Read { sector: 0, bytes: 2 * BUFFER_BYTES + 512 }, buffers, 0);
    assert_eq!(refused.expect_err("three buffers are needed").reason, RequestError::Unsupported);
    assert_eq!(device.in_flight_count(), 0);
}

#[test]
fn request_with_more_buffers_than_it_needs_uses_the_first_ones() {
    let mut device = open(Settings::default());
    let mut buffers = device.take_buffers(4).expect("free buffers");
    let data = pattern(BUFFER_BYTES + 512, 0);
    buffers.write(0, &data);
    device.submit(Request::Write { sector: 1, bytes: data.len() }, buffers, 0).expect("allowed");
    device.transport().work();
    let [completion] = &completions(&mut device)[..] else { panic!("one completion") };
    assert_eq!((completion.result, completion.buffers.as_ref().map(|buffers| buffers.count())), (Ok(()), Some(4)));
    assert_eq!(device.transport().content(128), data[BUFFER_BYTES - 512..BUFFER_BYTES]);
    assert_eq!(device.transport().content(129), data[BUFFER_BYTES..]);
}

/// As long as there are buffers for a request, the queue has room for it, independently of the requests in flight.
#[test]
fn queue_has_room_for_every_request_that_has_its_buffers() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let entries = [16, 64, 128, 256][random.usize(..4)];
        let mut device = open(Settings { entries, is_indirect: random.bool(), ..Settings::default() });
        let all = device.free_buffers();
        for _ in 0..5 {
            let mut submitted = 0;
            loop {
                let most = 1 << random.u32(0..12);
                let bytes = random.usize(1..=most) * SECTOR_SIZE;
                let request = Request::Read { sector: 0, bytes };
                let Some(buffers) = take_for(&mut device, request) else { break };
                device.submit(request, buffers, 0).expect("there is room");
                submitted += 1;
            }
            device.transport().work();
            let done = completions(&mut device);
            assert_eq!(done.len() as u64, submitted);
            for completion in done {
                assert_eq!(completion.result, Ok(()));
                device.put_buffers(completion.buffers.expect("the buffers come back"));
            }
            assert_eq!(device.free_buffers(), all, "a buffer is lost");
        }
    }
}

#[test]
fn buffers_are_taken_all_or_none() {
    let mut device = open(Settings { entries: 16, ..Settings::default() });
    let first = device.take_buffers(5).expect("free buffers");
    assert!(device.take_buffers(4).is_none(), "three are left");
    assert_eq!(device.free_buffers(), 3);
    let second = device.take_buffers(3).expect("free buffers");
    assert!(device.take_buffers(1).is_none());
    device.put_buffers(first);
    device.put_buffers(second);
    assert_eq!(device.free_buffers(), 8);
}

#[test]
fn request_with_several_buffers_is_submitted_again_after_a_reset() {
    let mut device = open(Settings::default());
    let data = pattern(3 * BUFFER_BYTES, 1);
    let mut buffers = device.take_buffers(3).expect("free buffers");
    buffers.write(0, &data);
    device.submit(Request::Write { sector: 7, bytes: data.len() }, buffers, 0).expect("allowed");
    device.transport().lose_request(0);
    let free = device.free_buffers();
    device.reset(1, |_, _| panic!("the request is submitted again"));
    assert_eq!(device.free_buffers(), free, "the device may still read the buffers");
    device.transport().work();
    let [completion] = &completions(&mut device)[..] else { panic!("one completion") };
    assert_eq!(completion.result, Ok(()));
    for (index, expected) in data.chunks(SECTOR_SIZE).enumerate() {
        assert_eq!(device.transport().content(7 + index), expected);
    }
}

#[test]
fn error_in_one_buffer_is_the_result_of_the_whole_request() {
    // Sector 300 is in the third buffer.
    let mut device = open(Settings { bad_sector: Some(300), ..Settings::default() });
    let bytes = 4 * BUFFER_BYTES;
    assert_eq!(run(&mut device, Request::Read { sector: 0, bytes }, |_| ()).1, Err(RequestError::Failed));
    let mut device = open(Settings { written_less: 1, ..Settings::default() });
    assert_eq!(run(&mut device, Request::Read { sector: 0, bytes }, |_| ()).1, Err(RequestError::Short));
}

#[test]
#[should_panic(expected = "within the buffers")]
fn read_beyond_the_buffers_panics() {
    let buffers = open(Settings::default()).take_buffers(2).expect("free buffers");
    buffers.read(2 * BUFFER_BYTES - 1, &mut [0; 2]);
}
