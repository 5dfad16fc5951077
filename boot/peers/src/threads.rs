//! The workloads on threads of the standard library, which the operating system schedules. The number of CPUs on which
//! they run is the number of Ps that Go gets in the comparison. Workloads that need more threads than a process may
//! have are left out.

use std::array;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::report::{
    PARTS, count_primes, memory_in_use, nap, place, report_each, report_late, report_memory, report_milliseconds,
    report_places,
};
use crate::{Arguments, Workload};

pub fn run(arguments: &Arguments) {
    println!("threads of Rust's standard library");
    use_cpus(arguments.procs);
    arguments.run(&arguments.procs, WORKLOADS);
}

/// Lets this process use only the first `count` of its CPUs.
fn use_cpus(count: usize) {
    let mut cpus = CpuSet::new();
    let allowed = rustix::thread::sched_getaffinity(None).expect("the CPUs of this process");
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(count).for_each(|cpu| cpus.set(cpu));
    sched_setaffinity(None, &cpus).expect("some of the CPUs of this process");
}

const WORKLOADS: &[Workload<usize>] = &[
    ("chan_pingpong", ping_pong),
    ("spawn_join", spawn_join),
    ("ring_1000", ring),
    ("mutex_8g", mutex),
    ("sleep_overshoot", sleepers),
    ("split_primes_64g", split_primes),
    ("pingpong_one", ping_pong_places),
    ("thread_spawn", thread_spawn),
    ("bytes_per_parked_g", parked),
    // This workload is the last one, because it lets the process use only one CPU.
    ("yield", yields),
];

fn yields(_: &usize) {
    const EACH: u64 = 1_000_000;
    use_cpus(1);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..EACH).for_each(|_| thread::yield_now()));
        }
    });
    report_each("yield", 1, 2 * EACH, start);
}

fn ping_pong(&procs: &usize) {
    const ROUNDS: u64 = 60_000;
    let ((to, there), (from, here)) = (sync_channel(0), sync_channel(0));
    let start = Instant::now();
    let other = thread::spawn(move || there.into_iter().for_each(|value: u64| from.send(value).expect("open")));
    for round in 0..ROUNDS {
        to.send(round).expect("open");
        here.recv().expect("open");
    }
    drop(to);
    other.join().expect("no panic");
    report_each("chan_pingpong", procs, ROUNDS, start);
}

fn spawn_join(&procs: &usize) {
    const ROUNDS: u64 = 20_000;
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| thread::spawn(|| ()).join().expect("no panic"));
    report_each("spawn_join", procs, ROUNDS, start);
}

fn ring(&procs: &usize) {
    const HOPS: u64 = 100_000;
    let (first, mut last) = sync_channel::<u64>(0);
    for _ in 1..1000 {
        let (sender, receiver) = sync_channel(0);
        let from = std::mem::replace(&mut last, receiver);
        // An error of `send` is ignored. The ring has then ended, and the next thread no longer receives tokens.
        thread::spawn(move || from.into_iter().for_each(|token| _ = sender.send(token)));
    }
    let start = Instant::now();
    first.send(HOPS).expect("the ring is closed");
    for token in last {
        if token <= 1000 {
            break;
        }
        first.send(token - 1000).expect("the ring is closed");
    }
    report_each("ring_1000", procs, HOPS, start);
}

fn mutex(&procs: &usize) {
    const EACH: u64 = 200_000;
    let count = Mutex::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..EACH).for_each(|_| *count.lock().expect("no panic") += 1));
        }
    });
    assert_eq!(count.into_inner().expect("no panic"), 8 * EACH);
    report_each("mutex_8g", procs, 8 * EACH, start);
}

fn sleepers(&procs: &usize) {
    let sleeper = |g| {
        let mut late = Vec::new();
        for n in 0..20 {
            let start = Instant::now();
            thread::sleep(nap(g, n));
            late.push(start.elapsed().saturating_sub(nap(g, n)));
        }
        late
    };
    let threads: Vec<_> = (0..1000).map(|g| thread::spawn(move || sleeper(g))).collect();
    let late = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    report_late("sleep_overshoot", procs, late);
}

fn split_primes(&procs: &usize) {
    let start = Instant::now();
    let parts: Vec<_> = (0..PARTS).map(|part| thread::spawn(move || count_primes(part))).collect();
    let primes: usize = parts.into_iter().map(|part| part.join().expect("no panic")).sum();
    assert_eq!(primes, 78_497);
    report_milliseconds("split_primes_64g", procs, start);
}

fn ping_pong_places(&procs: &usize) {
    let ((to, there), (from, here)) = (sync_channel(0), sync_channel(0));
    thread::spawn(move || there.into_iter().for_each(|()| from.send(place()).expect("open")));
    let places: Vec<_> = (0..20_000)
        .map(|_| {
            to.send(()).expect("open");
            let theirs = here.recv().expect("open");
            [place(), theirs]
        })
        .collect();
    report_places(procs, &places);
}

/// Starts `COUNT` threads. When all of them run, calls `report` with the time and the memory in use, as they were
/// before the threads were started.
fn with_waiting_threads<const COUNT: usize>(report: impl FnOnce(Instant, usize)) {
    let [all, end]: [_; 2] = array::from_fn(|_| Arc::new(Barrier::new(COUNT + 1)));
    let before = memory_in_use();
    let start = Instant::now();
    let threads: Vec<_> = (0..COUNT)
        .map(|_| {
            let (all, end) = (all.clone(), end.clone());
            thread::spawn(move || {
                all.wait();
                end.wait();
            })
        })
        .collect();
    all.wait();
    report(start, before);
    end.wait();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn thread_spawn(&procs: &usize) {
    with_waiting_threads::<500>(|start, _| report_each("thread_spawn", procs, 500, start));
}

/// Measures how much memory of this process a thread takes. The memory that the kernel needs for a thread is not
/// included.
fn parked(&procs: &usize) {
    with_waiting_threads::<1000>(|_, before| report_memory(procs, before, 1000));
}
