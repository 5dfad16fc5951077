//! A device that does anything.

use std::collections::BTreeSet;

use kernel_virtio_block::{Buffer, Completion, REQUEST_BYTES, Request, SECTOR_SIZE};

use crate::fake::Settings;
use crate::memory::Memory;
use crate::{Queue, SECTORS, open};

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
