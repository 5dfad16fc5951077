//! Benchmarks of the scheduler on operating-system threads. Each workload prints one line, `bench NAME procs=N VALUE
//! UNIT`. Names and parameters are the same as in the Go program with which the results are compared.
//!
//! `cargo bench -p gmp-sched [-- FILTER]`

use std::hint::black_box;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gmp_sched::context;
use gmp_sched::goroutine::{Goroutine, WaitReason};
use gmp_sched::native::{self, Chan, Mutex, Native, ReadMostlyRwLock, RwLock, Semaphore, Sender, WaitGroup, channel};
use gmp_sched::park::{park, ready};
use gmp_sched::select;

// SAFETY: no G uses a thread-local variable.
const THREADS: native::Threads = unsafe { native::enter() };

fn report(name: &str, processors: usize, value: f64, unit: &str) {
    println!("bench {name} procs={processors} {value:.1} {unit}");
}

/// Runs `body`, which does `operations` operations, as the main G, and reports nanoseconds per operation.
fn measure(name: &str, processors: usize, operations: usize, body: impl FnOnce() + Send + 'static) {
    let elapsed = THREADS.run(processors, move || {
        let start = Instant::now();
        body();
        start.elapsed()
    });
    report(name, processors, elapsed.as_nanos() as f64 / operations as f64, "ns/op");
}

/// Switches between two contexts, without a scheduler.
fn raw_switch() {
    const SWITCHES: usize = 10_000_000;
    static CONTEXTS: [context::SavedContext; 2] = [const { context::SavedContext::new() }; 2];
    extern "sysv64" fn other(_: usize, _: context::Word, _: usize, _: usize) -> ! {
        loop {
            // SAFETY: context 0 was saved by the switch in the loop below. There is one thread, so nothing else resumes
            // either context.
            unsafe { context::switch(&raw const CONTEXTS[1], &raw const CONTEXTS[0], NOTHING) };
        }
    }
    const NOTHING: context::Transfer = context::Transfer { function: 0, subject: 0, argument: context::Word::uninit() };
    let mut stack = vec![0u128; 4096];
    let top = stack.as_mut_ptr_range().end.expose_provenance();
    // SAFETY: the stack is ours and outlives the last switch to it.
    unsafe { context::prepare(&CONTEXTS[1], top, other) };
    let start = Instant::now();
    for _ in 0..SWITCHES / 2 {
        // SAFETY: context 1 was saved by `prepare` or by the switch in `other`. There is one thread, so nothing else
        // resumes either context.
        unsafe { context::switch(&raw const CONTEXTS[0], &raw const CONTEXTS[1], NOTHING) };
    }
    report("raw_switch", 1, start.elapsed().as_nanos() as f64 / SWITCHES as f64, "ns/op");
    black_box(&stack);
}

/// Measures the two atomic instructions that acquire and release an uncontended lock.
fn raw_lock() {
    const TIMES: usize = 20_000_000;
    static WORD: AtomicU32 = AtomicU32::new(0);
    let start = Instant::now();
    for _ in 0..TIMES {
        assert_eq!(WORD.fetch_or(1, Ordering::Acquire) & 1, 0);
        WORD.store(0, Ordering::Release);
    }
    report("raw_lock", 1, start.elapsed().as_nanos() as f64 / TIMES as f64, "ns/op");
}

/// Measures two Gs that yield to each other.
fn yields() {
    const EACH: usize = 1_000_000;
    measure("yield", 1, 2 * EACH, || {
        let other = native::go(|| (0..EACH).for_each(|_| native::yield_now()));
        (0..EACH).for_each(|_| native::yield_now());
        other.join().unwrap();
    });
}

/// Spawns a G and waits for it with a wait group, as the Go program does.
fn spawn_wait(processors: usize) {
    const ROUNDS: usize = 200_000;
    static GROUP: WaitGroup = WaitGroup::new();
    measure("spawn_join", processors, ROUNDS, || {
        for _ in 0..ROUNDS {
            GROUP.add(1);
            native::go(|| GROUP.done()).detach();
            GROUP.wait();
        }
    });
}

/// Spawns a G and joins it.
fn spawn_join(processors: usize) {
    const ROUNDS: usize = 200_000;
    measure("spawn_join_handle", processors, ROUNDS, || {
        for round in 0..ROUNDS {
            black_box(native::go(move || round).join().unwrap());
        }
    });
}

/// Spawns 10,000 Gs, each of which decrements a counter, and waits for all of them. The first run is cold, that is, it
/// includes the allocation of stacks. The second run is warm.
fn spawn_batch(processors: usize) {
    const ROUNDS: usize = 20;
    const BATCH: usize = 10_000;
    fn rounds() -> Duration {
        let start = Instant::now();
        let left = Arc::new(AtomicUsize::new(0));
        for _ in 0..ROUNDS {
            left.store(BATCH, Ordering::Relaxed);
            for _ in 0..BATCH {
                let left = left.clone();
                native::go(move || left.fetch_sub(1, Ordering::Release)).detach();
            }
            while left.load(Ordering::Acquire) != 0 {
                native::yield_now();
            }
        }
        start.elapsed()
    }
    let (cold, warm) = THREADS.run(processors, || (rounds(), rounds()));
    for (name, elapsed) in [("spawn_batch_cold", cold), ("spawn_batch", warm)] {
        report(name, processors, elapsed.as_nanos() as f64 / (ROUNDS * BATCH) as f64, "ns/op");
    }
}

/// Readies 1000 Gs one after the other in a ring. Each G readies its successor, without channels.
fn ring_of_parks(processors: usize) {
    const SIZE: usize = 1000;
    const HOPS: usize = 1_000_000;
    static PARKED: [AtomicPtr<Goroutine<Native>>; SIZE] = [const { AtomicPtr::new(ptr::null_mut()) }; SIZE];
    fn wait_at(place: usize) {
        park::<Native>(WaitReason::Parked, |_, me| {
            PARKED[place].store(ptr::from_ref(me).cast_mut(), Ordering::Release);
            true
        });
    }
    fn wake_at(place: usize) {
        loop {
            let parked = PARKED[place].swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: the address is null or was stored by the commit of a G, and Gs are never freed.
            if let Some(parked) = unsafe { parked.as_ref() } {
                // SAFETY: the G is parked, because its commit stored the address, and the swap returns the address to
                // one caller only.
                return unsafe { ready(parked) };
            }
            // The successor has not stored its address yet, so let it run.
            native::yield_now();
        }
    }
    measure("ring_parks", processors, HOPS, || {
        let all: Vec<_> = (0..SIZE)
            .map(|place| {
                native::go(move || {
                    for hop in (place..HOPS).step_by(SIZE) {
                        wait_at(place);
                        if hop + 1 < HOPS {
                            wake_at((place + 1) % SIZE);
                        }
                    }
                })
            })
            .collect();
        wake_at(0);
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// Measures round trips between two Gs over two unbuffered channels.
fn ping_pong(processors: usize) {
    const ROUNDS: usize = 300_000;
    measure("chan_pingpong", processors, ROUNDS, || {
        let (there, here) = (Chan::new(0), Chan::new(0));
        let (to, from) = (there.clone(), here.clone());
        let other = native::go(move || {
            for _ in 0..ROUNDS {
                let value: usize = to.recv().unwrap();
                from.send(value).unwrap();
            }
        });
        for round in 0..ROUNDS {
            there.send(round).unwrap();
            here.recv().unwrap();
        }
        other.join().unwrap();
    });
}

/// Measures messages from four senders to four receivers over a channel with capacity 128.
fn many_to_many(processors: usize) {
    const EACH: usize = 100_000;
    measure("chan_mpmc_4x4_cap128", processors, 4 * EACH, || {
        let (sender, receiver) = channel(128);
        for _ in 0..4 {
            let sender = sender.clone();
            native::go(move || (0..EACH).for_each(|n| sender.send(n).unwrap())).detach();
        }
        drop(sender);
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let receiver = receiver.clone();
                native::go(move || receiver.into_iter().sum::<usize>())
            })
            .collect();
        let sum: usize = receivers.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, 2 * EACH * (EACH - 1));
    });
}

/// Measures a G that receives by `select` from four unbuffered channels with one sender each.
fn select_of_four(processors: usize) {
    const EACH: usize = 50_000;
    measure("select_4", processors, 4 * EACH, || {
        let chans: [Chan<usize>; 4] = std::array::from_fn(|_| Chan::new(0));
        for chan in &chans {
            let sender = chan.sender().clone();
            native::go(move || (0..EACH).for_each(|n| sender.send(n).unwrap())).detach();
        }
        let [one, two, three, four] = chans.each_ref().map(Chan::receiver);
        for _ in 0..4 * EACH {
            select! {
                recv(one) -> value => black_box(value),
                recv(two) -> value => black_box(value),
                recv(three) -> value => black_box(value),
                recv(four) -> value => black_box(value),
            }
            .unwrap();
        }
    });
}

/// Passes a token around a ring of 1000 Gs, linked by unbuffered channels.
fn ring(processors: usize) {
    const HOPS: usize = 1_000_000;
    measure("ring_1000", processors, HOPS, || {
        let (first, mut receiver) = channel::<usize>(0);
        for _ in 0..999 {
            let (sender, next) = channel(0);
            native::go(move || receiver.into_iter().for_each(|token| sender.send(token).unwrap())).detach();
            receiver = next;
        }
        let starter = first.clone();
        native::go(move || starter.send(HOPS).unwrap()).detach();
        for token in receiver.iter() {
            let left = token.saturating_sub(1000);
            if left == 0 {
                break;
            }
            first.send(left).unwrap();
        }
    });
}

fn skynet_node(parent: Sender<usize>, number: usize, size: usize) {
    if size == 1 {
        parent.send(number).unwrap();
        return;
    }
    let (sender, receiver) = channel(0);
    for child in 0..10 {
        let sender = sender.clone();
        native::go(move || skynet_node(sender, number + child * (size / 10), size / 10)).detach();
    }
    parent.send((0..10).map(|_| receiver.recv().unwrap()).sum()).unwrap();
}

/// Runs a tree of Gs with ten children each and 100,000 leaves. The first run is cold, that is, it includes the
/// allocation of stacks. The second run is warm.
fn skynet(processors: usize) {
    fn once() -> Duration {
        let start = Instant::now();
        let (sender, receiver) = channel(0);
        native::go(move || skynet_node(sender, 0, 100_000)).detach();
        assert_eq!(receiver.recv(), Ok(4_999_950_000));
        start.elapsed()
    }
    let (cold, warm) = THREADS.run(processors, || (once(), once()));
    for (name, elapsed) in [("skynet_100k_cold", cold), ("skynet_100k", warm)] {
        report(name, processors, elapsed.as_nanos() as f64 / 111_111.0, "ns/op");
    }
}

/// Runs `body` in eight Gs, `each` times in each G, and reports nanoseconds per run.
fn in_eight(name: &str, processors: usize, each: usize, body: impl Fn() + Copy + Send + 'static) {
    measure(name, processors, 8 * each, move || {
        let group = Arc::new(WaitGroup::new());
        for _ in 0..8 {
            group.go(move || (0..each).for_each(|_| body()));
        }
        group.wait();
    });
}

/// Measures eight Gs that count under one mutex.
fn mutex_8g(processors: usize) {
    static COUNT: Mutex<usize> = Mutex::new(0);
    in_eight("mutex_8g", processors, 200_000, || *COUNT.lock() += 1);
}

/// Measures eight Gs that only lock for reading, with both kinds of reader-writer lock.
fn readers_8g(processors: usize) {
    static ONE: RwLock<usize> = RwLock::new(0);
    static SPREAD: ReadMostlyRwLock<usize> = ReadMostlyRwLock::new(0);
    in_eight("rwlock_read_8g", processors, 1_000_000, || _ = black_box(*ONE.read()));
    in_eight("read_mostly_read_8g", processors, 1_000_000, || _ = black_box(*SPREAD.read()));
}

/// Measures eight Gs that share four permits.
fn semaphore_8g(processors: usize) {
    static SEMAPHORE: Semaphore = Semaphore::new(4);
    in_eight("semaphore_8g", processors, 200_000, || drop(SEMAPHORE.acquire(1)));
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let run = |name: &str, body: &dyn Fn()| {
        if name.contains(&filter) {
            body();
        }
    };
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    run("raw_switch", &raw_switch);
    run("raw_lock", &raw_lock);
    run("yield", &yields);
    for processors in [1, all] {
        run("spawn_join", &|| spawn_wait(processors));
        run("spawn_join_handle", &|| spawn_join(processors));
        run("spawn_batch", &|| spawn_batch(processors));
        run("mutex_8g", &|| mutex_8g(processors));
        run("readers_8g", &|| readers_8g(processors));
        run("semaphore_8g", &|| semaphore_8g(processors));
        run("ring_parks", &|| ring_of_parks(processors));
        run("chan_pingpong", &|| ping_pong(processors));
        run("chan_mpmc_4x4_cap128", &|| many_to_many(processors));
        run("select_4", &|| select_of_four(processors));
        run("ring_1000", &|| ring(processors));
        run("skynet_100k", &|| skynet(processors));
    }
    println!("bench done");
}
