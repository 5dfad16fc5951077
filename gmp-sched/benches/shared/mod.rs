//! The workloads that run both on the machine (`programs/src/bin/bench.rs`) and on threads of the host
//! (`benches/workloads.rs`). Each of these two programs includes this file as a module. Names and parameters are those
//! of the Go program with which the results are compared.
//!
//! The including program provides two things. Its module `platform` contains the library's types for one platform, and
//! [`REPETITIONS`](super::platform::REPETITIONS), by which the numbers of repetitions are multiplied. Its function
//! [`measure`](super::measure) runs a closure and prints the time of one operation. Each workload is called by a G.

use core::array;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::measure;
use super::platform::{
    Chan, Mutex, Once, REPETITIONS, ReadMostlyRwLock, RwLock, Semaphore, Sender, WaitGroup, channel, go, select,
    yield_now,
};

/// The workloads, with their names.
pub(crate) const SHARED: &[(&str, fn())] = &[
    ("yield", yields),
    ("chan_pingpong", ping_pong),
    ("spawn_join", spawn_wait),
    ("spawn_join_handle", spawn_join),
    ("spawn_batch", spawn_batch),
    ("chan_mpmc_4x4_cap128", many_to_many),
    ("select_4", select_of_four),
    ("ring_1000", ring),
    ("skynet_100k", skynet),
    ("mutex_8g", mutex_8g),
    ("uncontended", uncontended),
    ("semaphore_8g", semaphore_8g),
];

/// Measures two Gs that yield to each other.
fn yields() {
    const EACH: u64 = 200_000 * REPETITIONS;
    measure("yield", 2 * EACH, || {
        let other = go(|| (0..EACH).for_each(|_| yield_now()));
        (0..EACH).for_each(|_| yield_now());
        other.join().expect("no panic");
    });
}

/// Round trips between two Gs over two unbuffered channels.
fn ping_pong() {
    const ROUNDS: u64 = 60_000 * REPETITIONS;
    let (there, here) = (Chan::new(0), Chan::new(0));
    let (to, from) = (there.clone(), here.clone());
    let other = go(move || {
        for _ in 0..ROUNDS {
            let value: u64 = to.recv().expect("open");
            from.send(value).expect("open");
        }
    });
    measure("chan_pingpong", ROUNDS, || {
        for round in 0..ROUNDS {
            there.send(round).expect("open");
            here.recv().expect("open");
        }
        other.join().expect("no panic");
    });
}

/// Messages from four senders to four receivers over a channel with capacity 128.
fn many_to_many() {
    const EACH: u64 = 20_000 * REPETITIONS;
    measure("chan_mpmc_4x4_cap128", 4 * EACH, || {
        let (sender, receiver) = channel(128);
        for _ in 0..4 {
            let sender = sender.clone();
            go(move || (0..EACH).for_each(|n| sender.send(n).expect("receivers"))).detach();
        }
        drop(sender);
        let receivers: [_; 4] = array::from_fn(|_| {
            let receiver = receiver.clone();
            go(move || receiver.into_iter().sum::<u64>())
        });
        let sum: u64 = receivers.into_iter().map(|handle| handle.join().expect("no panic")).sum();
        assert_eq!(sum, 2 * EACH * (EACH - 1));
    });
}

/// One G receives by selects over four unbuffered channels. Each channel has one sender.
fn select_of_four() {
    const EACH: u64 = 10_000 * REPETITIONS;
    let chans: [Chan<u64>; 4] = array::from_fn(|_| Chan::new(0));
    measure("select_4", 4 * EACH, || {
        for chan in &chans {
            let sender = chan.sender().clone();
            go(move || (0..EACH).for_each(|n| sender.send(n).expect("a receiver"))).detach();
        }
        let [one, two, three, four] = chans.each_ref().map(Chan::receiver);
        for _ in 0..4 * EACH {
            select! {
                recv(one) -> value => black_box(value),
                recv(two) -> value => black_box(value),
                recv(three) -> value => black_box(value),
                recv(four) -> value => black_box(value),
            }
            .expect("open");
        }
    });
}

/// A token goes around a ring of 1000 Gs, which are linked by unbuffered channels. A hop from one G to the next is one
/// operation.
fn ring() {
    const HOPS: u64 = 200_000 * REPETITIONS;
    let (first, mut receiver) = channel::<u64>(0);
    for _ in 0..999 {
        let (sender, next) = channel(0);
        go(move || receiver.into_iter().for_each(|token| sender.send(token).expect("the ring is closed"))).detach();
        receiver = next;
    }
    measure("ring_1000", HOPS, || {
        let starter = first.clone();
        go(move || starter.send(HOPS).expect("the ring is closed")).detach();
        for token in receiver.iter() {
            let left = token.saturating_sub(1000);
            if left == 0 {
                break;
            }
            first.send(left).expect("the ring is closed");
        }
    });
}

fn skynet_node(parent: Sender<u64>, number: u64, size: u64) {
    if size == 1 {
        parent.send(number).expect("it waits");
        return;
    }
    let (sender, receiver) = channel(0);
    for child in 0..10 {
        let sender = sender.clone();
        go(move || skynet_node(sender, number + child * (size / 10), size / 10)).detach();
    }
    parent.send((0..10).map(|_| receiver.recv().expect("ten of them")).sum()).expect("it waits");
}

/// Runs a tree of Gs with ten children each and 100,000 leaves. The first run also allocates the stacks, and the second
/// run reuses them.
fn skynet() {
    for name in ["skynet_100k_cold", "skynet_100k"] {
        measure(name, 111_111, || {
            let (sender, receiver) = channel(0);
            go(move || skynet_node(sender, 0, 100_000)).detach();
            assert_eq!(receiver.recv(), Ok(4_999_950_000));
        });
    }
}

/// Spawns a G and waits for it with a wait group, as the Go program does.
fn spawn_wait() {
    const ROUNDS: u64 = 40_000 * REPETITIONS;
    static GROUP: WaitGroup = WaitGroup::new();
    measure("spawn_join", ROUNDS, || {
        for _ in 0..ROUNDS {
            GROUP.add(1);
            go(|| GROUP.done()).detach();
            GROUP.wait();
        }
    });
}

/// Spawns a G and joins it.
fn spawn_join() {
    const ROUNDS: u64 = 40_000 * REPETITIONS;
    measure("spawn_join_handle", ROUNDS, || {
        for round in 0..ROUNDS {
            black_box(go(move || round).join().expect("no panic"));
        }
    });
}

/// Spawns 10,000 Gs and waits until all have run. The first measurement also allocates stacks, and the second one only
/// reuses them.
fn spawn_batch() {
    const BATCH: usize = 10_000;
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    let round = || {
        LEFT.store(BATCH, Ordering::Relaxed);
        for _ in 0..BATCH {
            go(|| LEFT.fetch_sub(1, Ordering::Release)).detach();
        }
        while LEFT.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    };
    measure("spawn_batch_cold", BATCH as u64, round);
    // In the first rounds main is preempted before it has spawned all Gs. So fewer Gs are alive at once than in later
    // rounds, and some stacks are still missing. The next three rounds allocate them, and are not measured.
    (0..3).for_each(|_| round());
    measure("spawn_batch", 4 * REPETITIONS * BATCH as u64, || (0..4 * REPETITIONS).for_each(|_| round()));
}

/// Runs `body` `each` times in each of eight Gs, and waits for all of them.
pub(crate) fn in_eight(each: u64, body: impl Fn() + Copy + Send + 'static) {
    static FINISHED: WaitGroup = WaitGroup::new();
    FINISHED.add(8);
    for _ in 0..8 {
        go(move || {
            (0..each).for_each(|_| body());
            FINISHED.done();
        })
        .detach();
    }
    FINISHED.wait();
}

/// Eight Gs increment a counter under one mutex.
fn mutex_8g() {
    const EACH: u64 = 200_000 * REPETITIONS;
    static COUNT: Mutex<u64> = Mutex::new(0);
    measure("mutex_8g", 8 * EACH, || in_eight(EACH, || *COUNT.lock() += 1));
    assert_eq!(*COUNT.lock() % (8 * EACH), 0);
}

/// The cost of lock operations without contention.
fn uncontended() {
    fn each(name: &str, body: impl Fn()) {
        const ROUNDS: u64 = 100_000 * REPETITIONS;
        measure(name, ROUNDS, || (0..ROUNDS).for_each(|_| body()));
    }
    let (rwlock, read_mostly, once) = (RwLock::new(0u64), ReadMostlyRwLock::new(0u64), Once::new());
    each("rwlock_read", || _ = black_box(*rwlock.read()));
    each("rwlock_write", || *rwlock.write() += 1);
    each("read_mostly_read", || _ = black_box(*read_mostly.read()));
    each("read_mostly_write", || *read_mostly.write() += 1);
    each("once_done", || once.call_once(|| ()));
}

/// Eight Gs share four permits. Each G acquires and releases one permit at a time.
fn semaphore_8g() {
    const EACH: u64 = 50_000 * REPETITIONS;
    static SEMAPHORE: Semaphore = Semaphore::new(4);
    measure("semaphore_8g", 8 * EACH, || in_eight(EACH, || drop(SEMAPHORE.acquire(1))));
}
