//! Tests the driver with a device that may do anything.

use std::collections::BTreeMap;

use super::fake::{Races, Settings};
use super::memory::Memory;
use super::races;
use super::rig::{Device, SECTORS};
use crate::block::{Buffers, Completion, Queue, Request, SECTOR_SIZE};

/// When the device may write to the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writes {
    /// Only between two calls of the driver's functions.
    BetweenCalls,
    /// Also between any two reads of the driver in one call.
    BetweenReads,
}

/// Runs the driver with a device that may write anything anywhere in the shared memory, at the times that `writes` allows.
/// Checks that each request is answered at most once, and stays in flight until then. Checks that no other memory
/// changes. Also checks that no buffer is lost unless the device is broken.
fn device_does_anything(writes: Writes, steps: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut left = steps;
    while left > 0 {
        let settings = random_settings(&mut random);
        let has_races = settings.races.is_some();
        let mut device = match Device::open(settings, usize::MAX, usize::MAX) {
            Ok(device) => device,
            // The driver may refuse to open a device whose configuration keeps changing.
            Err(error) => {
                assert!(has_races, "{error:?}");
                left -= 1;
                Memory::free_all();
                continue;
            }
        };
        let is_racing = writes == Writes::BetweenReads && random.u32(..8) != 0;
        races::set(is_racing.then(|| random.fork()));
        let most = device.device.properties().max_segments;
        let buffers: usize = device.queues.iter().map(Queue::free_buffers).sum();
        // The buffers that the test has taken, in one list for each queue.
        let mut held: Vec<Vec<Buffers>> = device.queues.iter().map(|_| Vec::new()).collect();
        // The number of buffers of each request that was submitted and is not answered yet.
        let mut waiting: BTreeMap<(usize, u16), usize> = BTreeMap::new();
        let answer = |queue, completion: Completion, waiting: &mut BTreeMap<_, usize>, held: &mut Vec<Buffers>| {
            let count = waiting.remove(&(queue, completion.slot)).expect("an answer to a request");
            assert!(completion.buffers.iter().all(|buffers| buffers.count() == count), "other buffers");
            held.extend(completion.buffers);
        };
        // Most devices break after a few steps. The test then continues for at most this many steps.
        let mut further = 20;
        while left > 0 && further > 0 {
            left -= 1;
            let number = random.usize(..device.queues.len());
            let (queue, own) = (&mut device.queues[number], &mut held[number]);
            match random.u32(..100) {
                0..40 => {
                    let wanted = random.usize(1..=most);
                    if let Some(buffers) = own.pop().or_else(|| queue.take_buffers(wanted)) {
                        let (count, slot) = (buffers.count(), buffers.slot());
                        match queue.submit(random_request(&mut random), buffers, left) {
                            Ok(()) => assert_eq!(waiting.insert((number, slot), count), None, "a number twice"),
                            Err(refused) => own.push(refused.buffers),
                        }
                    }
                }
                40..65 => device.transport().work_at_random(number, &mut random),
                65..85 => {
                    while let Some(completion) = queue.complete() {
                        answer(number, completion, &mut waiting, own);
                    }
                }
                85..90 => own.drain(..).for_each(|buffers| queue.put_buffers(buffers)),
                90 => device.reset(left, |queue, completion| {
                    answer(queue.into(), completion, &mut waiting, &mut held[usize::from(queue)]);
                }),
                91 => device.transport().scribble(&mut random, 1),
                92 if random.u32(..50) == 0 => device.transport().scribble(&mut random, 5_000),
                _ => {
                    if let Some(buffers) = own.last_mut() {
                        let (offset, mut bytes) = (random.usize(..buffers.bytes() - 99), [0; 99]);
                        buffers.read(offset, &mut bytes);
                        buffers.write(offset, &bytes);
                    }
                }
            }
            let broken = device.queues.iter().find_map(Queue::broken);
            for (number, (queue, held)) in device.queues.iter_mut().zip(&mut held).enumerate() {
                broken.iter().for_each(|&reason| queue.fail(reason));
                while let Some(failed) = queue.take_failed() {
                    answer(number, failed, &mut waiting, held);
                }
            }
            let in_flight: usize = device.queues.iter().map(Queue::in_flight_count).sum();
            assert_eq!(waiting.len(), in_flight, "a request is lost");
            if broken.is_some() {
                further -= 1;
            } else {
                let free: usize = device.queues.iter().map(Queue::free_buffers).sum();
                let held: usize = held.iter().flatten().map(Buffers::count).sum();
                assert_eq!(free + held + waiting.values().sum::<usize>(), buffers, "a buffer is lost");
            }
        }
        races::set(None);
        Memory::check_surroundings();
        Memory::free_all();
    }
}

fn random_settings(random: &mut fastrand::Rng) -> Settings {
    // The driver reads the configuration, which has only a few words, when it opens a device and when it resets a
    // device. So `one_of` is small in some cases.
    let races = (random.u32(..4) == 0).then(|| Races {
        random: random.fork(),
        one_of: [4, 20, 200][random.usize(..3)],
        announces: random.bool(),
        other: None,
    });
    Settings {
        entries: [16, 64, 128, 256][random.usize(..4)],
        queues: random.u16(1..5),
        is_indirect: random.bool(),
        max_segments: [None, Some(1), Some(3), Some(254)][random.usize(..4)],
        max_segment_bytes: [None, Some(1_040), Some(1 << 16)][random.usize(..3)],
        races,
        ..Settings::default()
    }
}

fn random_request(random: &mut fastrand::Rng) -> Request {
    let sector = random.u64(..SECTORS + 5);
    let bytes = match random.u32(..20) {
        0 => random.usize(..),
        1..5 => random.usize(..2_100) * SECTOR_SIZE,
        _ => random.usize(..130) * SECTOR_SIZE,
    };
    match random.u32(..4) {
        0 => Request::Write { sector, bytes },
        1 => Request::Flush,
        2 => Request::Discard { sector, sectors: random.u32(..10) },
        _ => Request::Read { sector, bytes },
    }
}

#[test]
fn device_that_does_anything_breaks_nothing() {
    device_does_anything(Writes::BetweenCalls, 200_000, 1);
}

#[test]
fn device_that_writes_between_reads_breaks_nothing() {
    device_does_anything(Writes::BetweenReads, 200_000, 1);
}

#[test]
#[ignore = "takes minutes"]
fn device_that_does_anything_breaks_nothing_in_ten_million_steps() {
    super::ten_million_steps(|steps, seed| device_does_anything(Writes::BetweenCalls, steps, seed));
}

#[test]
#[ignore = "takes minutes"]
fn device_that_writes_between_reads_breaks_nothing_in_ten_million_steps() {
    super::ten_million_steps(|steps, seed| device_does_anything(Writes::BetweenReads, steps, seed));
}
