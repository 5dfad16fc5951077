//! The workloads on tokio, with a multi-threaded runtime. The number of its workers is the number of Ps that Go gets in
//! the comparison. As in Go, `yield` always has one worker, and `split_primes_64g` runs with 1, 2, 4 and 8. tokio has
//! no unbuffered channel, so channels have the smallest capacity, 1, if the workload names no capacity. Channels with
//! several receivers come from the crate `async-channel`.

mod late;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

use crate::report::{
    PARTS, count_primes, fib, memory_in_use, nap, place, report_each, report_memory, report_microseconds_each,
    report_milliseconds, report_places, version_of,
};
use crate::{Arguments, Workload};
use late::{hogs, ping_pong_beside_hogs, sleepers};

pub fn run(arguments: &Arguments) {
    println!("tokio {}; in place of unbuffered channels, those with capacity 1", version_of("tokio"));
    arguments.run(&arguments.procs, WORKLOADS);
}

const WORKLOADS: &[Workload<usize>] = &[
    ("yield", yields),
    ("chan_pingpong", ping_pong),
    ("spawn_join", spawn_join),
    ("spawn_batch", spawn_batch),
    ("chan_mpmc_4x4_cap128", many_to_many),
    ("select_4", select_of_four),
    ("ring_1000", ring),
    ("skynet_100k", skynet),
    ("mutex_8g", mutex),
    ("fib27_cut12", fib_parallel),
    ("sleep_overshoot", sleepers),
    ("hog_wakeup", hogs),
    ("pingpong_beside_hogs", ping_pong_beside_hogs),
    ("global_queue", global_queue),
    ("split_primes_64g", split_primes),
    ("pingpong_one", ping_pong_places),
    ("thread_spawn", thread_spawn),
    ("bytes_per_parked_g", parked),
];

fn runtime(procs: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(procs).enable_time().build().expect("threads")
}

/// Runs `body` as a task on the workers, and returns its result.
fn on_worker<T: Send + 'static>(procs: usize, body: impl Future<Output = T> + Send + 'static) -> T {
    runtime(procs).block_on(async { tokio::spawn(body).await.expect("no panic") })
}

async fn join_all<T>(handles: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::with_capacity(handles.len());
    for handle in handles {
        results.push(handle.await.expect("no panic"));
    }
    results
}

fn yields(_: &usize) {
    const EACH: u64 = 1_000_000;
    on_worker(1, async {
        let start = Instant::now();
        let task = || async {
            for _ in 0..EACH {
                yield_now().await;
            }
        };
        join_all((0..2).map(|_| tokio::spawn(task())).collect()).await;
        report_each("yield", 1, 2 * EACH, start);
    });
}

fn ping_pong(&procs: &usize) {
    const ROUNDS: u64 = 300_000;
    on_worker(procs, async move {
        let ((to, mut there), (from, mut here)) = (mpsc::channel(1), mpsc::channel(1));
        let start = Instant::now();
        let other = tokio::spawn(async move {
            while let Some(value) = there.recv().await {
                from.send(value).await.expect("open");
            }
        });
        for round in 0..ROUNDS {
            to.send(round).await.expect("open");
            here.recv().await.expect("open");
        }
        drop(to);
        other.await.expect("no panic");
        report_each("chan_pingpong", procs, ROUNDS, start);
    });
}

fn spawn_join(&procs: &usize) {
    const ROUNDS: u64 = 200_000;
    on_worker(procs, async move {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            tokio::spawn(async {}).await.expect("no panic");
        }
        report_each("spawn_join", procs, ROUNDS, start);
    });
}

fn spawn_batch(&procs: &usize) {
    const BATCH: u64 = 10_000;
    on_worker(procs, async move {
        for (name, rounds) in [("spawn_batch_cold", 1), ("spawn_batch", 20)] {
            let start = Instant::now();
            for _ in 0..rounds {
                join_all((0..BATCH).map(|_| tokio::spawn(async {})).collect()).await;
            }
            report_each(name, procs, rounds * BATCH, start);
        }
    });
}

fn many_to_many(&procs: &usize) {
    const EACH: u64 = 100_000;
    on_worker(procs, async move {
        let start = Instant::now();
        let (sender, receiver) = async_channel::bounded(128);
        for _ in 0..4 {
            let sender = sender.clone();
            tokio::spawn(async move {
                for value in 0..EACH {
                    sender.send(value).await.expect("receivers");
                }
            });
        }
        drop(sender);
        let receive = |receiver: async_channel::Receiver<u64>| async move {
            let mut sum = 0;
            while let Ok(value) = receiver.recv().await {
                sum += value;
            }
            sum
        };
        let sums = join_all((0..4).map(|_| tokio::spawn(receive(receiver.clone()))).collect()).await;
        assert_eq!(sums.iter().sum::<u64>(), 2 * EACH * (EACH - 1));
        report_each("chan_mpmc_4x4_cap128", procs, 4 * EACH, start);
    });
}

fn select_of_four(&procs: &usize) {
    const EACH: u64 = 50_000;
    on_worker(procs, async move {
        let start = Instant::now();
        let [mut one, mut two, mut three, mut four] = [(); 4].map(|()| {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(async move {
                for value in 0..EACH {
                    sender.send(value).await.expect("a receiver");
                }
                // Keeps the sender, and so the channel, until the receiver is dropped. So no channel closes before the
                // values of all channels have been received.
                sender.closed().await;
            });
            receiver
        });
        for _ in 0..4 * EACH {
            tokio::select! {
                value = one.recv() => value,
                value = two.recv() => value,
                value = three.recv() => value,
                value = four.recv() => value,
            }
            .expect("open");
        }
        report_each("select_4", procs, 4 * EACH, start);
    });
}

fn ring(&procs: &usize) {
    const HOPS: u64 = 1_000_000;
    on_worker(procs, async move {
        let (first, mut last) = mpsc::channel::<u64>(1);
        for _ in 1..1000 {
            let (sender, receiver) = mpsc::channel(1);
            let mut from = std::mem::replace(&mut last, receiver);
            tokio::spawn(async move {
                while let Some(token) = from.recv().await {
                    sender.send(token).await.expect("the ring is closed");
                }
            });
        }
        let start = Instant::now();
        first.send(HOPS).await.expect("the ring is closed");
        while let Some(token) = last.recv().await {
            if token <= 1000 {
                break;
            }
            first.send(token - 1000).await.expect("the ring is closed");
        }
        report_each("ring_1000", procs, HOPS, start);
    });
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn node(parent: mpsc::Sender<u64>, number: u64, size: u64) -> Boxed<()> {
    Box::pin(async move {
        let result = if size == 1 {
            number
        } else {
            let (sender, mut receiver) = mpsc::channel(1);
            for child in 0..10 {
                tokio::spawn(node(sender.clone(), number + child * (size / 10), size / 10));
            }
            let mut sum = 0;
            for _ in 0..10 {
                sum += receiver.recv().await.expect("ten of them");
            }
            sum
        };
        parent.send(result).await.expect("it waits");
    })
}

fn skynet(&procs: &usize) {
    on_worker(procs, async move {
        for (name, runs) in [("skynet_100k_cold", 1), ("skynet_100k", 5)] {
            let start = Instant::now();
            for _ in 0..runs {
                let (sender, mut receiver) = mpsc::channel(1);
                tokio::spawn(node(sender, 0, 100_000));
                assert_eq!(receiver.recv().await, Some(4_999_950_000));
            }
            report_each(name, procs, runs * 111_111, start);
        }
    });
}

fn mutex(&procs: &usize) {
    const EACH: u64 = 200_000;
    on_worker(procs, async move {
        let count = Arc::new(Mutex::new(0));
        let start = Instant::now();
        let task = |count: Arc<Mutex<u64>>| async move {
            for _ in 0..EACH {
                *count.lock().await += 1;
            }
        };
        join_all((0..8).map(|_| tokio::spawn(task(count.clone()))).collect()).await;
        assert_eq!(*count.lock().await, 8 * EACH);
        report_each("mutex_8g", procs, 8 * EACH, start);
    });
}

fn fib_forked(n: u64) -> Boxed<u64> {
    Box::pin(async move {
        if n < 12 {
            return fib(n);
        }
        let left = tokio::spawn(fib_forked(n - 1));
        let right = fib_forked(n - 2).await;
        left.await.expect("no panic") + right
    })
}

fn fib_parallel(&procs: &usize) {
    on_worker(procs, async move {
        for (name, runs) in [("fib27_cut12_cold", 1), ("fib27_cut12", 10)] {
            let start = Instant::now();
            for _ in 0..runs {
                assert_eq!(fib_forked(27).await, 196_418);
            }
            report_microseconds_each(name, procs, runs, start);
        }
    });
}

fn global_queue(&procs: &usize) {
    const BURST: u64 = 1000;
    const ROUNDS: u64 = 50;
    on_worker(procs, async move {
        let start = Instant::now();
        let spawner = || async {
            for _ in 0..ROUNDS {
                join_all((0..BURST).map(|_| tokio::spawn(async {})).collect()).await;
            }
        };
        join_all((0..procs).map(|_| tokio::spawn(spawner())).collect()).await;
        report_each("global_queue", procs, procs as u64 * ROUNDS * BURST, start);
    });
}

fn split_primes(_: &usize) {
    for procs in [1, 2, 4, 8] {
        on_worker(procs, async move {
            let start = Instant::now();
            let primes =
                join_all((0..PARTS).map(|part| tokio::spawn(async move { count_primes(part) })).collect()).await;
            assert_eq!(primes.iter().sum::<usize>(), 78_497);
            report_milliseconds("split_primes_64g", procs, start);
        });
    }
}

fn ping_pong_places(&procs: &usize) {
    on_worker(procs, async move {
        let ((to, mut there), (from, mut here)) = (mpsc::channel(1), mpsc::channel(1));
        tokio::spawn(async move {
            while let Some(()) = there.recv().await {
                from.send(place()).await.expect("open");
            }
        });
        let mut places = Vec::new();
        for _ in 0..20_000 {
            to.send(()).await.expect("open");
            let theirs = here.recv().await.expect("open");
            places.push([place(), theirs]);
        }
        report_places(procs, &places);
    });
}

/// Measures the time in which tokio starts one thread of its pool for blocking calls.
fn thread_spawn(&procs: &usize) {
    const COUNT: usize = 500;
    let all = Arc::new(Barrier::new(COUNT + 1));
    let runtime = runtime(procs);
    let start = Instant::now();
    for _ in 0..COUNT {
        let all = all.clone();
        runtime.spawn_blocking(move || _ = all.wait());
    }
    all.wait();
    report_each("thread_spawn", procs, COUNT as u64, start);
}

fn parked(&procs: &usize) {
    const COUNT: usize = 100_000;
    on_worker(procs, async move {
        let before = memory_in_use();
        let (end, waiting) = watch::channel(false);
        let wait = |mut waiting: watch::Receiver<bool>| async move { waiting.changed().await.is_err() };
        let handles: Vec<_> = (0..COUNT).map(|_| tokio::spawn(wait(waiting.clone()))).collect();
        for _ in 0..10 {
            sleep(nap(0, 0) * 10).await;
        }
        report_memory(procs, before, COUNT);
        drop(end);
        join_all(handles).await;
    });
}
