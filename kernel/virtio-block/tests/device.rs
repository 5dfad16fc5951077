//! Tests the driver with a device that keeps to the protocol, and with devices that violate it.

mod fake;

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use kernel_virtio_block::{
    BUFFER_PAGES, Buffer, Completion, Failure, MAX_QUEUES, OpenError, REQUEST_BYTES, Request, SECTOR_SIZE,
};

use self::fake::{Fake, Memory, Settings};

type Queue = kernel_virtio_block::Queue<Memory, u64>;

/// A device with its queues. Most tests use only the first queue, so this type dereferences to it.
#[derive(Debug)]
struct Device {
    device: kernel_virtio_block::Device<Memory, Fake>,
    queues: Vec<Queue>,
}

impl Device {
    fn open(settings: Settings, max_queues: usize, max_pages: usize) -> Result<Self, OpenError> {
        let (device, queues) = kernel_virtio_block::Device::open(Fake::new(settings), max_queues, max_pages)?;
        Ok(Self { device, queues })
    }

    fn transport(&self) -> &Fake {
        self.device.transport()
    }

    fn reset(&mut self, now: u64, ended: impl FnMut(u16, Completion<u64>)) {
        let mut queues: Vec<&mut Queue> = self.queues.iter_mut().collect();
        self.device.reset(now, &mut queues, ended);
    }
}

impl Deref for Device {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queues[0]
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut Queue {
        &mut self.queues[0]
    }
}

const SECTORS: u64 = 4_096;

fn open(settings: Settings) -> Device {
    Device::open(settings, usize::MAX, usize::MAX).expect("the device can be used")
}

/// Returns all completions. If the device is broken, also returns the requests that failed because of that.
fn completions(queue: &mut Queue) -> Vec<Completion<u64>> {
    let mut all = Vec::new();
    while let Some(completion) = queue.complete() {
        all.push(completion);
    }
    while let Some(failed) = queue.take_failed() {
        all.push(failed);
    }
    all
}

/// Submits a request without data.
fn submit(queue: &mut Queue, owner: u64, now: u64) {
    let buffer = queue.take_buffer().expect("a free buffer");
    queue.submit(Request::Flush, buffer, owner, now).expect("the request is allowed");
}

/// Submits a request and lets the device complete it.
fn run(device: &mut Device, request: Request, prepare: impl FnOnce(&mut Buffer)) -> (Buffer, Result<(), Failure>) {
    let mut buffer = device.take_buffer().expect("a free buffer");
    prepare(&mut buffer);
    device.submit(request, buffer, 7, 0).expect("the request is allowed");
    device.transport().work();
    let [completion] = &mut completions(device)[..] else { panic!("one completion") };
    assert_eq!(completion.owner, 7);
    (completion.buffer.take().expect("the buffer comes back"), completion.result)
}

#[test]
fn data_is_read_as_it_was_written() {
    let mut device = open(Settings::default());
    let data: Vec<u8> = (0..REQUEST_BYTES).map(|index| (index / 7) as u8).collect();
    let write = Request::Write { sector: 3, bytes: REQUEST_BYTES };
    let (buffer, result) = run(&mut device, write, |buffer| buffer.write(0, &data));
    assert_eq!(result, Ok(()));
    device.put_buffer(buffer);
    let read = Request::Read { sector: 3, bytes: REQUEST_BYTES };
    let (buffer, result) = run(&mut device, read, |_| ());
    let mut found = vec![0; REQUEST_BYTES - 5];
    buffer.read(5, &mut found);
    assert_eq!((result, found == data[5..]), (Ok(()), true));
    device.put_buffer(buffer);
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
fn queue_takes_as_many_requests_as_half_its_entries() {
    for (entries, requests) in [(1_024, 128), (256, 128), (255, 64), (64, 32), (63, 8), (16, 8)] {
        let mut device = open(Settings { entries, ..Settings::default() });
        let mut submitted = 0;
        while let Some(buffer) = device.take_buffer() {
            device
                .submit(Request::Read { sector: submitted, bytes: 512 }, buffer, submitted, 0)
                .expect("there is room");
            submitted += 1;
        }
        assert_eq!((submitted, device.in_flight_count()), (requests, requests as usize), "{entries} entries");
        device.transport().work();
        let mut owners: Vec<u64> = completions(&mut device).iter().map(|completion| completion.owner).collect();
        owners.sort_unstable();
        assert_eq!(owners, (0..requests).collect::<Vec<_>>(), "each request is completed once");
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
    // Given: queues of the device, queues that the caller can use, buffers for which there is memory. Expected: queues,
    // buffers of each queue.
    let cases = [
        (1, 8, all, 1, 128),
        (2, 8, all, 2, 64),
        (8, 2, all, 2, 64),
        (3, 3, all, 3, 42),
        (255, 255, all, MAX_QUEUES, 8),
        (8, 8, 40, 5, 8),
        (8, 8, 7, 1, 7),
        (8, 8, 0, 1, 1),
        (8, 0, all, 1, 128),
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
    for (owner, queue) in (0..).zip(&mut device.queues) {
        submit(queue, owner, 0);
        submit(queue, owner, 0);
    }
    device.transport().work();
    for (expected, queue) in (0..).zip(&mut device.queues) {
        let owners: Vec<u64> = completions(queue).iter().map(|completion| completion.owner).collect();
        assert_eq!(owners, [expected, expected]);
    }
}

#[test]
fn reset_concerns_all_queues() {
    let mut device = open(Settings { queues: 3, ..Settings::default() });
    let pages = Memory::pages();
    for (owner, queue) in (0..).zip(&mut device.queues) {
        submit(queue, owner, 10);
    }
    (0..3).for_each(|queue| device.transport().lose_request(queue));
    device.reset(20, |_, _| panic!("the requests are submitted again"));
    assert!(device.queues.iter().all(|queue| queue.oldest() == Some(20)));
    device.transport().lose_request(1);
    device.transport().work();
    let done: Vec<usize> = device.queues.iter_mut().map(|queue| completions(queue).len()).collect();
    assert_eq!(done, [1, 0, 1]);
    let mut silent = Vec::new();
    device.reset(30, |queue, completion| silent.push((queue, completion.owner, completion.result)));
    assert_eq!(silent, [(1, 1, Err(Failure::Silent))]);
    assert_eq!(Memory::pages(), pages, "a reset frees the memory of the old queues");

    device.queues.iter_mut().for_each(|queue| submit(queue, 7, 40));
    device.transport().change(|settings| settings.ignores_reset = true);
    device.reset(50, |_, _| panic!("the device may still access the buffers"));
    for queue in &mut device.queues {
        assert_eq!(queue.broken(), Some(Failure::Gone));
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

#[test]
fn device_that_makes_no_sense_is_refused() {
    let cases = [
        (Settings { entries: 8, ..Settings::default() }, OpenError::Refused),
        (Settings { is_legacy: true, ..Settings::default() }, OpenError::NotSupported),
        (Settings { queues: 0, ..Settings::default() }, OpenError::NotSupported),
        (Settings { block_bytes: 768, ..Settings::default() }, OpenError::NotSupported),
        (Settings { block_bytes: 0, ..Settings::default() }, OpenError::NotSupported),
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

#[test]
fn error_of_the_device_is_the_result_of_its_request_only() {
    let mut device = open(Settings { bad_sector: Some(5), ..Settings::default() });
    let (buffer, result) = run(&mut device, Request::Read { sector: 4, bytes: 1_024 }, |_| ());
    assert_eq!(result, Err(Failure::Failed));
    device.put_buffer(buffer);
    assert_eq!(run(&mut device, Request::Read { sector: 6, bytes: 512 }, |_| ()).1, Ok(()));
    assert!(device.broken().is_none());
}

#[test]
fn short_answer_is_an_error() {
    let mut device = open(Settings { written_less: 1, ..Settings::default() });
    assert_eq!(run(&mut device, Request::Read { sector: 4, bytes: 512 }, |_| ()).1, Err(Failure::Short));
    let mut device = open(Settings { writes_no_status: true, ..Settings::default() });
    assert_eq!(run(&mut device, Request::Read { sector: 4, bytes: 512 }, |_| ()).1, Err(Failure::Short));
}

#[test]
fn completion_of_an_unknown_request_breaks_the_device() {
    for wrong in [1, 4, 255, 256, 65_535] {
        let mut device = open(Settings { ..Settings::default() });
        for owner in 0..2 {
            let buffer = device.take_buffer().expect("a free buffer");
            device.submit(Request::Read { sector: 0, bytes: 512 }, buffer, owner, 0).expect("allowed");
        }
        // The tokens of the two requests are 0 and 2.
        device.transport().complete_wrongly(0, wrong);
        let failed = completions(&mut device);
        assert_eq!(failed.len(), 2, "all owners get an answer");
        for completion in failed {
            assert_eq!(completion.result, Err(Failure::Broken));
            assert!(completion.buffer.is_none(), "the device may still access the buffer");
        }
        assert_eq!(device.broken(), Some(Failure::Broken));
        let buffer = device.take_buffer().expect("a free buffer");
        let refused = device.submit(Request::Flush, buffer, 0, 0).expect_err("the device is broken");
        assert_eq!(refused.reason, Failure::Broken);
    }
}

#[test]
fn request_completed_twice_breaks_the_device() {
    let mut device = open(Settings::default());
    let buffer = device.take_buffer().expect("a free buffer");
    device.submit(Request::Read { sector: 0, bytes: 512 }, buffer, 0, 0).expect("allowed");
    device.transport().work();
    device.transport().complete_wrongly(0, 0);
    assert_eq!(completions(&mut device).len(), 1);
    assert_eq!(device.broken(), Some(Failure::Broken));
}

#[test]
fn silent_device_is_reset_and_gets_its_requests_again_once() {
    let mut device = open(Settings::default());
    let data = [9; 512];
    let mut buffer = device.take_buffer().expect("a free buffer");
    buffer.write(0, &data);
    device.submit(Request::Write { sector: 8, bytes: 512 }, buffer, 1, 10).expect("allowed");
    let buffer = device.take_buffer().expect("a free buffer");
    device.submit(Request::Read { sector: 9, bytes: 512 }, buffer, 2, 20).expect("allowed");
    assert_eq!(device.oldest(), Some(10));
    device.reset(30, |_, _| panic!("the requests are submitted again"));
    assert_eq!((device.in_flight_count(), device.oldest()), (2, Some(30)));
    device.transport().work();
    let mut answered = completions(&mut device);
    assert!(answered.iter().all(|completion| completion.result == Ok(())));
    assert_eq!(device.transport().content(8), data, "the write was submitted again");

    // The device remains silent after the reset, too.
    let buffer = answered[0].buffer.take().expect("the buffer comes back");
    device.submit(Request::Flush, buffer, 3, 40).expect("allowed");
    device.reset(50, |_, _| panic!("the request is submitted again"));
    let mut silent = Vec::new();
    device.reset(60, |_, completion| silent.push((completion.owner, completion.buffer.is_some(), completion.result)));
    assert_eq!(silent, [(3, true, Err(Failure::Silent))]);
    assert_eq!(device.in_flight_count(), 0);
    assert!(device.broken().is_none());
}

#[test]
fn device_that_does_not_confirm_a_reset_or_has_changed_is_broken() {
    for change in
        [|settings: &mut Settings| settings.ignores_reset = true, |settings: &mut Settings| settings.sectors -= 1]
    {
        let mut device = open(Settings::default());
        let buffer = device.take_buffer().expect("a free buffer");
        device.submit(Request::Flush, buffer, 3, 0).expect("allowed");
        device.transport().change(change);
        device.reset(1, |_, _| panic!("the device may still access the buffer"));
        let failed = completions(&mut device);
        assert_eq!((failed.len(), failed[0].result, failed[0].buffer.is_none()), (1, Err(Failure::Gone), true));
    }
}

#[test]
fn reset_without_memory_has_its_own_error() {
    let mut device = open(Settings::default());
    submit(&mut device, 3, 0);
    Memory::fail_from(1);
    device.reset(1, |_, _| panic!("the request has not been submitted twice"));
    let failed = completions(&mut device);
    assert_eq!((failed.len(), failed[0].result), (1, Err(Failure::OutOfMemory)));
    let buffer = device.take_buffer().expect("a free buffer");
    let refused = device.submit(Request::Flush, buffer, 0, 0).expect_err("the device is broken");
    assert_eq!(refused.reason, Failure::OutOfMemory);
}

#[test]
fn request_that_the_device_has_lost_ages_while_others_are_completed() {
    let mut device = open(Settings::default());
    submit(&mut device, 1, 10);
    device.transport().lose_request(0);
    for now in [20, 30] {
        submit(&mut device, 2, now);
        assert_eq!(device.oldest(), Some(10));
        device.transport().work();
        assert_eq!(completions(&mut device).len(), 1);
        assert_eq!(device.oldest(), Some(10), "the age of the lost request counts");
    }
    device.reset(40, |_, _| panic!("the request is submitted again"));
    device.transport().work();
    let [completion] = &completions(&mut device)[..] else { panic!("one completion") };
    assert_eq!((completion.owner, completion.result, device.oldest()), (1, Ok(()), None));
}

#[test]
fn request_keeps_its_buffer_until_it_is_done_or_was_reset_twice() {
    let mut device = open(Settings::default());
    let (buffers, pages) = (device.free_buffers(), Memory::pages());
    // The device is done late, after a reset.
    (0..3).for_each(|owner| submit(&mut device, owner, 0));
    assert_eq!(device.free_buffers(), buffers - 3);
    device.reset(1, |_, _| panic!("the requests are submitted again"));
    assert!(completions(&mut device).is_empty());
    assert_eq!((device.free_buffers(), device.in_flight_count()), (buffers - 3, 3));
    device.transport().work();
    for completion in completions(&mut device) {
        device.put_buffer(completion.buffer.expect("the buffer comes back"));
    }
    assert_eq!((device.free_buffers(), device.in_flight_count()), (buffers, 0));

    // The device is never done.
    (0..3).for_each(|owner| submit(&mut device, owner, 0));
    device.reset(2, |_, _| panic!("the requests are submitted again"));
    assert_eq!(device.free_buffers(), buffers - 3);
    let mut ended = Vec::new();
    device.reset(3, |_, completion| ended.extend(completion.buffer));
    ended.into_iter().for_each(|buffer| device.put_buffer(buffer));
    assert_eq!((device.free_buffers(), device.in_flight_count()), (buffers, 0));
    assert_eq!(Memory::pages(), pages, "a reset frees the memory of the old queue");
}

/// Runs the driver with a device that may write anything anywhere in the shared memory between two steps of the driver.
/// Checks that each request is answered exactly once, and that no other memory changes. Also checks that no buffer is
/// lost unless the device is broken.
fn device_does_anything(steps: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut left = steps;
    while left > 0 {
        let entries = [16, 64, 128, 256][random.usize(..4)];
        let mut device = open(Settings { entries, queues: random.u16(1..5), ..Settings::default() });
        let buffers: usize = device.queues.iter().map(Queue::free_buffers).sum();
        // The buffers that the test has taken, by queue, and the requests that were submitted.
        let mut held: Vec<Vec<Buffer>> = device.queues.iter().map(|_| Vec::new()).collect();
        let (mut waiting, mut next) = (BTreeSet::new(), 0);
        let answer = |completion: Completion<u64>, waiting: &mut BTreeSet<u64>, held: &mut Vec<Buffer>| {
            assert!(waiting.remove(&completion.owner), "an answer to no request");
            held.extend(completion.buffer);
        };
        // Most devices are broken soon. Each then gets a few further steps.
        let mut further = 20;
        while left > 0 && further > 0 {
            left -= 1;
            let number = random.usize(..device.queues.len());
            let (queue, own) = (&mut device.queues[number], &mut held[number]);
            match random.u32(..100) {
                0..40 => {
                    if let Some(buffer) = own.pop().or_else(|| queue.take_buffer()) {
                        let request = random_request(&mut random);
                        match queue.submit(request, buffer, next, left) {
                            Ok(()) => drop(waiting.insert(next)),
                            Err(refused) => own.push(refused.buffer),
                        }
                        next += 1;
                    }
                }
                40..65 => device.transport().work_at_random(number, &mut random),
                65..85 => {
                    while let Some(completion) = queue.complete() {
                        answer(completion, &mut waiting, own);
                    }
                }
                85..90 => own.drain(..).for_each(|buffer| queue.put_buffer(buffer)),
                90 => device.reset(left, |queue, completion| {
                    answer(completion, &mut waiting, &mut held[usize::from(queue)]);
                }),
                91 => device.transport().scribble(&mut random, 1),
                92 if random.u32(..50) == 0 => device.transport().scribble(&mut random, 5_000),
                _ => {
                    if let Some(buffer) = own.last_mut() {
                        let (offset, mut bytes) = (random.usize(..REQUEST_BYTES - 99), [0; 99]);
                        buffer.read(offset, &mut bytes);
                        buffer.write(offset, &bytes);
                    }
                }
            }
            let broken = device.queues.iter().find_map(Queue::broken);
            for (queue, held) in device.queues.iter_mut().zip(&mut held) {
                broken.iter().for_each(|&reason| queue.fail(reason));
                while let Some(failed) = queue.take_failed() {
                    answer(failed, &mut waiting, held);
                }
            }
            let in_flight: usize = device.queues.iter().map(Queue::in_flight_count).sum();
            assert_eq!(waiting.len(), in_flight, "a request is lost");
            if broken.is_some() {
                further -= 1;
            } else {
                let free: usize = device.queues.iter().map(Queue::free_buffers).sum();
                let held: usize = held.iter().map(Vec::len).sum();
                assert_eq!(free + held + waiting.len(), buffers, "a buffer is lost");
            }
        }
        Memory::check_surroundings();
        Memory::free_all();
    }
}

fn random_request(random: &mut fastrand::Rng) -> Request {
    let sector = random.u64(..SECTORS + 5);
    let bytes = if random.u32(..20) == 0 { random.usize(..) } else { random.usize(..130) * SECTOR_SIZE };
    match random.u32(..4) {
        0 => Request::Write { sector, bytes },
        1 => Request::Flush,
        2 => Request::Discard { sector, sectors: random.u32(..10) },
        _ => Request::Read { sector, bytes },
    }
}

#[test]
fn device_that_does_anything_breaks_nothing() {
    device_does_anything(200_000, 1);
}

/// Ten million steps take some minutes. `GMP_FUZZ_SEED` chooses other random numbers.
#[test]
#[ignore = "takes minutes"]
fn device_that_does_anything_breaks_nothing_in_ten_million_steps() {
    let seed = std::env::var("GMP_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    device_does_anything(10_000_000, seed);
}
