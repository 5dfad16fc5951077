//! Runs four programs in the simulator, each with a common mistake, and writes their timelines:
//! `cargo run -p timeline --example mistakes -- examples/traces`. A run in the simulator depends only on its seed, so the
//! same source always writes the same pages.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Builder, Config, Mutex, Sim};
use timeline::Trace;

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "examples/traces".into());
    let programs: [(&str, fn()); 4] =
        [("deadlock", deadlock), ("hog", hog), ("unfair-lock", unfair_lock), ("lock-convoy", lock_convoy)];
    for (name, program) in programs {
        let config = Config { cpus: 4, processors: 4, seed: 7, ..Config::default() };
        // The run of `deadlock` fails. Its page opens at the violated rule.
        let (_, traces) = sim::run_traced(config, 100_000, program);
        let [json, page] = timeline::write(&Trace::new(traces), &Path::new(&folder).join(name))?;
        fs::remove_file(json)?;
        println!("{}", page.display());
    }
    Ok(())
}

/// Starts a G with a name.
fn go(name: &'static str, body: impl FnOnce() + Send + 'static) -> sim::JoinHandle<()> {
    Builder::new().name(name).go(body)
}

fn join(handles: Vec<sim::JoinHandle<()>>) {
    handles.into_iter().for_each(|handle| handle.join().expect("no G panics"));
}

/// Two Gs take the same two locks in opposite order.
fn deadlock() {
    static LEFT: Mutex<u64> = Mutex::new(0);
    static RIGHT: Mutex<u64> = Mutex::new(0);
    let philosopher = |first: &'static Mutex<u64>, second: &'static Mutex<u64>| {
        move || {
            for _ in 0..100 {
                let mut first = first.lock();
                sim::work(Duration::from_micros(30));
                let mut second = second.lock();
                *first += 1;
                *second += 1;
            }
        }
    };
    join(vec![go("left first", philosopher(&LEFT, &RIGHT)), go("right first", philosopher(&RIGHT, &LEFT))]);
}

/// A G computes with preemption off, so the other Gs wait for the only P until preemption is on again.
fn hog() {
    sim::set_procs(1).expect("one P is allowed");
    let hog = go("hog", || {
        sim::mark("preemption off");
        let pinned = Pinned::<Sim>::new();
        sim::work(Duration::from_millis(40));
        drop(pinned);
        sim::mark("preemption on");
        sim::work(Duration::from_millis(40));
    });
    let others = (0..3).map(|_| go("polite", || (0..20).for_each(|_| sim::sleep(Duration::from_millis(2)))));
    join(others.chain([hog]).collect());
}

/// A G takes a lock again as soon as it has released the lock, so the other Gs hardly get the lock.
fn unfair_lock() {
    static LOCK: Mutex<u64> = Mutex::new(0);
    let greedy = go("greedy", || {
        for _ in 0..200 {
            let mut count = LOCK.lock();
            sim::work(Duration::from_micros(100));
            *count += 1;
        }
    });
    let modest = (0..3).map(|_| {
        go("modest", || {
            for _ in 0..5 {
                *LOCK.lock() += 1;
                sim::work(Duration::from_micros(10));
            }
        })
    });
    join(modest.chain([greedy]).collect());
}

/// Eight Gs hold the same lock during most of their work, so only one of four Ps works at a time.
fn lock_convoy() {
    static LOCK: Mutex<u64> = Mutex::new(0);
    let workers = (0..8).map(|_| {
        go("worker", || {
            for _ in 0..10 {
                sim::work(Duration::from_micros(20));
                let mut count = LOCK.lock();
                sim::work(Duration::from_micros(100));
                *count += 1;
            }
        })
    });
    join(workers.collect());
}
