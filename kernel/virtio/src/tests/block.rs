//! Tests the driver of disks with a device that keeps to the protocol.

use super::fake::Settings;
use super::memory::Memory;
use super::rig::{Device, open};
use crate::OpenError;
use crate::block::{
    BUFFER_BYTES, BUFFER_PAGES, Buffers, Completion, MAX_QUEUES, Queue, Request, RequestError, SECTOR_SIZE,
};

/// Returns random bytes, so that no two sectors and no two buffers have the same content.
pub(super) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

/// Returns all completions. If the device is broken, also returns the requests that failed because of that.
pub(super) fn completions(queue: &mut Queue) -> Vec<Completion> {
    let mut all = Vec::new();
    while let Some(completion) = queue.complete() {
        all.push(completion);
    }
    while let Some(failed) = queue.take_failed() {
        all.push(failed);
    }
    all
}

/// Submits a request without data. Returns the number by which the answer names it.
pub(super) fn submit(queue: &mut Queue, now: u64) -> u16 {
    let buffer = queue.take_buffers(1).expect("a free buffer");
    let slot = buffer.slot();
    queue.submit(Request::Flush, buffer, now).expect("the request is allowed");
    slot
}

/// Takes as many buffers as the data of a request needs.
pub(super) fn take_for(device: &mut Device, request: Request) -> Option<Buffers> {
    let bytes = match request {
        Request::Read { bytes, .. } | Request::Write { bytes, .. } => bytes,
        Request::Flush | Request::Discard { .. } => 0,
    };
    let count = device.device.properties().buffers_for(bytes);
    device.take_buffers(count)
}

/// Calls `prepare` with the buffers of a request, submits the request, and lets the device complete it. Returns the
/// buffers and the result.
pub(super) fn run(
    device: &mut Device,
    request: Request,
    prepare: impl FnOnce(&mut Buffers),
) -> (Buffers, Result<(), RequestError>) {
    let mut buffers = take_for(device, request).expect("free buffers");
    prepare(&mut buffers);
    let slot = buffers.slot();
    device.submit(request, buffers, 0).expect("the request is allowed");
    device.transport().work();
    let [completion] = &mut completions(device)[..] else { panic!("one completion") };
    assert_eq!(completion.slot, slot);
    (completion.buffers.take().expect("the buffers come back"), completion.result)
}

#[test]
fn data_is_read_as_it_was_written() {
    let mut device = open(Settings::default());
    let data: Vec<u8> = (0..BUFFER_BYTES).map(|index| (index / 7) as u8).collect();
    let write = Request::Write { sector: 3, bytes: BUFFER_BYTES };
    let (buffer, result) = run(&mut device, write, |buffer| buffer.write(0, &data));
    assert_eq!(result, Ok(()));
    device.put_buffers(buffer);
    let read = Request::Read { sector: 3, bytes: BUFFER_BYTES };
    let (buffer, result) = run(&mut device, read, |_| ());
    let mut found = vec![0; BUFFER_BYTES - 5];
    buffer.read(5, &mut found);
    assert_eq!((result, found == data[5..]), (Ok(()), true));
    device.put_buffers(buffer);
    assert_eq!(run(&mut device, Request::Discard { sector: 4, sectors: 2 }, |_| ()).1, Ok(()));
    assert_eq!(run(&mut device, Request::Flush, |_| ()).1, Ok(()));
    let (buffer, _) = run(&mut device, read, |_| ());
    buffer.read(0, &mut found);
    let discarded = SECTOR_SIZE..3 * SECTOR_SIZE;
    assert!(found[discarded.clone()].iter().all(|&byte| byte == 0));
    assert_eq!(found[..discarded.start], data[..discarded.start]);
    assert_eq!(found[discarded.end..], data[discarded.end..found.len()]);
}

#[test]
fn queue_takes_as_many_requests_as_entries_if_descriptors_are_indirect_and_half_as_many_otherwise() {
    let indirect = [(1_024, 256), (256, 256), (255, 128), (64, 64), (63, 32), (32, 32), (16, 8)];
    let direct = [(1_024, 128), (256, 128), (255, 64), (64, 32), (63, 16), (16, 8)];
    let cases = indirect.map(|case| (true, case)).into_iter().chain(direct.map(|case| (false, case)));
    for (is_indirect, (entries, requests)) in cases {
        let mut device = open(Settings { entries, is_indirect, ..Settings::default() });
        let mut submitted = 0;
        while let Some(buffer) = device.take_buffers(1) {
            let request = Request::Read { sector: submitted.into(), bytes: 512 };
            device.submit(request, buffer, 0).expect("there is room");
            submitted += 1;
        }
        assert_eq!((submitted, device.in_flight_count()), (requests, requests.into()), "{entries} entries");
        device.transport().work();
        let mut slots: Vec<u16> = completions(&mut device).iter().map(|completion| completion.slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..requests).collect::<Vec<_>>(), "each request is completed once");
        assert!(device.broken().is_none());
    }
}

#[test]
fn little_memory_means_fewer_requests_at_once() {
    let device = Device::open(Settings::default(), 1, 5 * BUFFER_PAGES).expect("enough memory");
    assert_eq!(device.free_buffers(), 5);
    Memory::fail_from(6 * BUFFER_PAGES);
    assert_eq!(open(Settings::default()).free_buffers(), 3, "60, halved until there is memory");
    let device = open(Settings { queues: 4, ..Settings::default() });
    let buffers: Vec<usize> = device.queues.iter().map(Queue::free_buffers).collect();
    assert_eq!(buffers, [1, 1, 1], "there is no buffer for the fourth queue");
    Memory::fail_from(1);
    let error = Device::open(Settings::default(), 1, usize::MAX).expect_err("no memory");
    assert_eq!(error, OpenError::OutOfMemory);
}

#[test]
fn number_of_queues_depends_on_device_and_caller_and_memory() {
    let all = usize::MAX;
    // Each case begins with three numbers that are given: the queues of the device, the queues that the caller can use,
    // and the buffers for which the caller permits memory. The last two numbers are expected: the queues, and the
    // buffers of each.
    let cases = [
        (1, 8, all, 1, 256),
        (2, 8, all, 2, 128),
        (8, 2, all, 2, 128),
        (3, 3, all, 3, 85),
        (255, 255, all, MAX_QUEUES, 16),
        (8, 8, 40, 5, 8),
        (8, 8, 7, 1, 7),
        (8, 8, 0, 1, 1),
        (8, 0, all, 1, 256),
    ];
    for case @ (queues, max_queues, max_buffers, expected, buffers) in cases {
        let pages = usize::saturating_mul(max_buffers, BUFFER_PAGES);
        let device = Device::open(Settings { queues, ..Settings::default() }, max_queues, pages).expect("memory");
        let numbers: Vec<usize> = device.queues.iter().map(|queue| queue.number().into()).collect();
        assert_eq!(numbers, (0..expected).collect::<Vec<_>>(), "{case:?}");
        assert!(device.queues.iter().all(|queue| queue.free_buffers() == buffers), "{case:?}");
    }
}

#[test]
fn each_queue_completes_its_own_requests() {
    let mut device = open(Settings { queues: 4, ..Settings::default() });
    let submitted: Vec<_> = device.queues.iter_mut().map(|queue| [submit(queue, 0), submit(queue, 0)]).collect();
    assert!(submit(&mut device.queues[2], 0) == 2 && completions(&mut device.queues[2]).is_empty());
    device.transport().work();
    let done =
        device.queues.iter_mut().map(|queue| completions(queue).iter().map(|done| done.slot).collect::<Vec<_>>());
    assert_eq!(done.collect::<Vec<_>>(), [vec![0, 1], vec![0, 1], vec![0, 1, 2], vec![0, 1]]);
    assert_eq!(submitted, [[0, 1]; 4]);
}

#[test]
fn reset_concerns_all_queues() {
    let mut device = open(Settings { queues: 3, ..Settings::default() });
    let pages = Memory::pages();
    for queue in &mut device.queues {
        submit(queue, 10);
    }
    (0..3).for_each(|queue| device.transport().lose_request(queue));
    device.reset(20, |_, _| panic!("the requests are submitted again"));
    assert!(device.queues.iter().all(|queue| queue.oldest() == Some(20)));
    device.transport().lose_request(1);
    device.transport().work();
    let done: Vec<usize> = device.queues.iter_mut().map(|queue| completions(queue).len()).collect();
    assert_eq!(done, [1, 0, 1]);
    let mut silent = Vec::new();
    device.reset(30, |queue, completion| silent.push((queue, completion.slot, completion.result)));
    assert_eq!(silent, [(1, 0, Err(RequestError::Silent))]);
    assert_eq!(Memory::pages(), pages, "a reset allocates nothing");

    for queue in &mut device.queues {
        submit(queue, 40);
    }
    device.transport().change(|settings| settings.ignores_reset = true);
    device.reset(50, |_, _| panic!("the device may still access the buffers"));
    for queue in &mut device.queues {
        assert_eq!(queue.broken(), Some(RequestError::Gone));
        assert_eq!(completions(queue).len(), 1);
    }
}

#[test]
#[should_panic(expected = "all queues of this device")]
fn queues_of_another_device_are_refused() {
    let mut device = open(Settings::default());
    device.queues = open(Settings::default()).queues;
    device.reset(0, |_, _| ());
}

#[test]
#[should_panic(expected = "all queues of this device")]
fn reset_without_one_of_the_queues_is_refused() {
    let mut device = open(Settings { queues: 2, ..Settings::default() });
    device.queues.truncate(1);
    device.reset(0, |_, _| ());
}
