//! Tests Gs in the simulator. They wait for the buffers of their requests in the same way as the kernel's driver: with
//! one permit for each buffer. The device answers late, loses requests, and is reset. Time limits end waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::fake::Settings;
use super::memory::Memory;
use super::rig::{Device, open};
use crate::block::{BUFFER_BYTES, Buffers, Completion, Request, RequestError};
use gmp_sched::sim::{self, Chan, Config, Permit, Semaphore};

/// The device has 8 buffers, and a request has up to 4. So not all Gs can have their requests in flight at the same
/// time.
const BUFFERS: usize = 8;
const MOST: usize = 4;
const GS: u64 = 6;
const ROUNDS: u64 = 4;
/// Each G has a range of this many bytes of the disk to itself.
const OWN: usize = MOST * BUFFER_BYTES;

type Answer = Arc<Chan<(Buffers, Result<(), RequestError>)>>;

struct Shared {
    permits: Semaphore,
    /// While this is locked, no G does a step of the simulator. So nothing else runs meanwhile.
    state: Mutex<State>,
}

struct State {
    device: Device,
    /// For the slot of each request in flight: where the answer to this request is sent.
    answers: HashMap<u16, Answer>,
    stop: bool,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Plays the role of the device and its interrupts. At random times it executes all requests, loses one, or is reset.
fn serve(shared: &Shared, random: &mut fastrand::Rng) {
    let mut now = 0;
    while !shared.with(|state| state.stop && state.answers.is_empty()) {
        sim::sleep(Duration::from_nanos(random.u64(..20_000)));
        now += 1;
        let mut over = Vec::new();
        shared.with(|State { device, .. }| match random.u32(..10) {
            0 => device.transport().lose_request(0),
            1 => device.reset(now, |_, completion| over.push(completion)),
            _ => {
                device.transport().work();
                over.extend(std::iter::from_fn(|| device.complete()));
            }
        });
        over.into_iter().for_each(|completion| deliver(shared, completion));
    }
}

fn deliver(shared: &Shared, completion: Completion) {
    let answer = shared.with(|state| state.answers.remove(&completion.slot)).expect("one answer to each request");
    let buffers = completion.buffers.expect("the device is never broken");
    answer.try_send((buffers, completion.result)).expect("the channel has room for one answer");
}

/// Takes `count` buffers, and submits a write of data that is different for each `number`.
fn submit(shared: &Shared, g: u64, number: u64, count: usize) -> Answer {
    let answer = Arc::new(Chan::new(1));
    shared.with(|state| {
        let mut buffers = state.device.take_buffers(count).expect("a buffer for each permit");
        buffers.write(0, &vec![number as u8; buffers.bytes()]);
        state.answers.insert(buffers.slot(), answer.clone());
        let request = Request::Write { sector: g * (OWN / 512) as u64, bytes: buffers.bytes() };
        state.device.submit(request, buffers, 0).expect("the queue has room");
    });
    answer
}

/// Waits for the answer without a limit, and puts the buffers and the permits back.
fn finish(shared: &Shared, answer: &Answer, permit: Permit<'_>) -> Result<(), RequestError> {
    let (buffers, result) = answer.receiver().recv().expect("the channel is not closed");
    shared.with(|state| state.device.put_buffers(buffers));
    drop(permit);
    result
}

/// Makes requests of random lengths, one after the other. Some requests have a limit. If the limit ends the wait for
/// the permits, the request is not submitted. At random, a limit also counts as over while the request is in flight.
/// Then another G waits for the answer, and this G makes the next request at once.
fn make_requests(shared: &'static Shared, g: u64, random: &mut fastrand::Rng) {
    for round in 0..ROUNDS {
        let (number, count) = (g * ROUNDS + round, random.usize(1..=MOST));
        let patience = Duration::from_nanos(random.u64(..100_000));
        let has_limit = random.bool();
        let permit = if has_limit {
            let Some(permit) = shared.permits.acquire_timeout(count as u32, patience) else { continue };
            permit
        } else {
            shared.permits.acquire(count as u32)
        };
        let answer = submit(shared, g, number, count);
        if has_limit && random.bool() {
            sim::go(move || {
                let _ = finish(shared, &answer, permit);
            })
            .detach();
            continue;
        }
        let result = finish(shared, &answer, permit);
        assert!(matches!(result, Ok(()) | Err(RequestError::Silent)), "{result:?}");
    }
}

fn requests_of_all_lengths(seed: u64) {
    let device = open(Settings { entries: 2 * BUFFERS as u16, max_segments: Some(MOST as u32), ..Settings::default() });
    let state = Mutex::new(State { device, answers: HashMap::new(), stop: false });
    // A scheduler is never freed, and neither is what its Gs share.
    let shared: &'static Shared = Box::leak(Box::new(Shared { permits: Semaphore::new(BUFFERS as u32), state }));
    let config = Config { cpus: 3, processors: 3, seed, ..Config::default() };
    let run = sim::run(config, move || {
        let random = move |number| fastrand::Rng::with_seed(seed << 8 | number);
        let device = sim::go(move || serve(shared, &mut random(0)));
        let all: Vec<_> = (1..=GS).map(|g| sim::go(move || make_requests(shared, g - 1, &mut random(g)))).collect();
        all.into_iter().for_each(|handle| handle.join().expect("no panic"));
        shared.with(|state| state.stop = true);
        device.join().expect("no panic");
        // All requests have been answered, but some Gs may still have to put their buffers and permits back. The next
        // line waits for these Gs.
        let everything = shared.permits.acquire(BUFFERS as u32);
        assert_eq!(shared.with(|state| state.device.free_buffers()), BUFFERS, "a buffer is lost");
        drop(everything);
    });
    run.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    shared.with(|state| assert!(state.device.broken().is_none()));
    Memory::check_surroundings();
    Memory::free_all();
}

/// Requests that need several buffers do not wait for each other for ever, nor are they overtaken for ever.
#[test]
fn requests_of_all_lengths_get_their_buffers() {
    (0..200).for_each(requests_of_all_lengths);
}

/// Queues from which Gs take buffers in the same way as in the kernel's driver: from their own queue, or else from
/// another one that has enough. If no queue has enough, they wait for their own queue.
struct Queues([Semaphore; 2]);

impl Queues {
    fn admit(&self, own: usize, count: u32) -> (usize, Permit<'_>) {
        let mut queues = [own, 1 - own].into_iter();
        let free = queues.find_map(|queue| Some((queue, self.0[queue].try_acquire(count)?)));
        free.unwrap_or_else(|| (own, self.0[own].acquire(count)))
    }
}

/// A G waits for as many buffers as a queue has, while other Gs take one buffer at a time, again and again, from both
/// queues. Returns how many buffers of its queue the other Gs got after it had begun to wait.
fn overtakers_of_a_large_request(seed: u64) -> usize {
    const ALL: u32 = 4;
    let queues: &'static Queues = Box::leak(Box::new(Queues([Semaphore::new(ALL), Semaphore::new(ALL)])));
    let overtakers = Arc::new(AtomicUsize::new(0));
    let taken = Arc::clone(&overtakers);
    let config = Config { cpus: 3, processors: 3, seed, ..Config::default() };
    let run = sim::run(config, move || {
        let state: &'static [AtomicBool; 2] = Box::leak(Box::default());
        let [waits, is_over] = state;
        let small: Vec<_> = (0..3 * u64::from(ALL))
            .map(|g| {
                let taken = Arc::clone(&taken);
                sim::go(move || {
                    let mut random = fastrand::Rng::with_seed(seed << 8 | g);
                    // The number of rounds is limited. Otherwise the test would hang if the large request were
                    // overtaken for ever.
                    for _ in 0..1_000 {
                        let (queue, _permit) = queues.admit(g as usize % 2, 1);
                        if queue == 0 && waits.load(Ordering::SeqCst) {
                            taken.fetch_add(1, Ordering::SeqCst);
                        }
                        sim::sleep(Duration::from_nanos(random.u64(..20_000)));
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                })
            })
            .collect();
        // The small requests take all buffers of both queues first.
        while queues.0.iter().any(|queue| queue.available() != 0) {
            sim::sleep(Duration::from_micros(1));
        }
        waits.store(true, Ordering::SeqCst);
        let (queue, permit) = queues.admit(0, ALL);
        waits.store(false, Ordering::SeqCst);
        assert_eq!(queue, 0, "the other queue never has all its buffers");
        is_over.store(true, Ordering::SeqCst);
        drop(permit);
        small.into_iter().for_each(|handle| handle.join().expect("no panic"));
    });
    run.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    overtakers.load(Ordering::SeqCst)
}

/// The Gs that already wait for the queue are served first, each once. After that, no small request overtakes the large
/// one. There are twelve other Gs.
#[test]
fn large_request_waits_only_for_those_before_it_in_its_queue() {
    for seed in 0..200 {
        let overtakers = overtakers_of_a_large_request(seed);
        assert!(overtakers <= 12, "seed {seed}: {overtakers} buffers");
    }
}
