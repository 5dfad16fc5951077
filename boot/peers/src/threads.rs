//! The workloads on threads of the standard library, which the operating system schedules. The number of CPUs on which
//! they run is the number of Ps that Go gets in the comparison. Workloads that need more threads than a process may
//! have are left out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use std::{array, iter, thread};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::channels::of_std;
use crate::report::{
    PARTS, SHORT_NAP, compute_until, count_primes, memory_in_use, nap, place, report_each, report_late, report_memory,
    report_milliseconds, report_places,
};
use crate::{Arguments, Workload};

pub fn run(arguments: &Arguments) {
    println!("threads of Rust's standard library");
    use_cpus(arguments.procs);
    arguments.run(&arguments.procs, WORKLOADS);
}

/// Lets this process use only the first `count` of its CPUs.
pub fn use_cpus(count: usize) {
    let mut cpus = CpuSet::new();
    let allowed = rustix::thread::sched_getaffinity(None).expect("the CPUs of this process");
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(count).for_each(|cpu| cpus.set(cpu));
    sched_setaffinity(None, &cpus).expect("some of the CPUs of this process");
}

const WORKLOADS: &[Workload<usize>] = &[
    ("chan_pingpong", of_std::ping_pong),
    ("spawn_join", spawn_join),
    ("ring_1000", of_std::ring),
    ("mutex_8g", mutex),
    ("sleep_overshoot", sleepers),
    ("hog_wakeup", hogs),
    ("pingpong_beside_hogs", ping_pong_beside_hogs),
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

fn spawn_join(&procs: &usize) {
    const ROUNDS: u64 = 20_000;
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| thread::spawn(|| ()).join().expect("no panic"));
    report_each("spawn_join", procs, ROUNDS, start);
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

/// Sleeps, and returns how late the sleep ended.
fn lateness(duration: Duration) -> Duration {
    let start = Instant::now();
    thread::sleep(duration);
    start.elapsed().saturating_sub(duration)
}

fn sleepers(&procs: &usize) {
    let sleeper = |g| (0..20).map(|n| lateness(nap(g, n))).collect::<Vec<_>>();
    let threads: Vec<_> = (0..1000).map(|g| thread::spawn(move || sleeper(g))).collect();
    let late = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    report_late("sleep_overshoot", procs, late);
}

/// Calls `body` 100 times while as many hogs run as there are CPUs. (A hog is a thread that computes and never waits.)
/// Returns the results.
fn beside_hogs(procs: usize, body: impl FnMut() -> Duration) -> Vec<Duration> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..procs {
            scope.spawn(|| compute_until(|| stop.load(Ordering::Relaxed)));
        }
        let results = iter::repeat_with(body).take(100).collect();
        stop.store(true, Ordering::Relaxed);
        results
    })
}

fn hogs(&procs: &usize) {
    report_late("hog_wakeup", procs, beside_hogs(procs, || lateness(SHORT_NAP)));
}

fn ping_pong_beside_hogs(&procs: &usize) {
    let ((to, there), (from, here)) = (sync_channel(0), sync_channel(0));
    thread::spawn(move || there.into_iter().for_each(|question: ()| _ = from.send(question)));
    let late = beside_hogs(procs, || {
        let (late, woken) = (lateness(SHORT_NAP), Instant::now());
        to.send(()).expect("open");
        here.recv().expect("open");
        late + woken.elapsed()
    });
    report_late("pingpong_beside_hogs", procs, late);
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
