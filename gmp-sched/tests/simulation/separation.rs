//! Runs are separate: no run depends on what other runs, or other parts of the process, have done.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gmp_sched::select::{Select, recv};
use gmp_sched::sim::{self, Chan, Config};

use crate::explore::Random;
use crate::several::{go_each, join_all, spawn_each};

fn one_cpu() -> Config {
    Config { cpus: 1, processors: 1, ..Config::default() }
}

/// Several Gs receive from several channels by selects, so they wait for locks in the locking order.
fn selects(seed: u64) {
    let mut random = Random::new(seed);
    let chans: Arc<[Chan<u64>]> = (0..6).map(|_| Chan::new(0)).collect();
    let receiving = spawn_each(0..3, |_| {
        let chans = chans.clone();
        move || {
            for _ in 0..4 {
                let mut waiting: Vec<_> = chans.iter().map(|chan| recv(chan.receiver())).collect();
                let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
                Select::new(&mut cases).wait();
            }
        }
    });
    for value in 0..12 {
        let sender = chans[random.below(6) as usize].sender().clone();
        sim::go(move || sender.send(value).unwrap()).detach();
    }
    join_all(receiving);
}

#[test]
fn steps_do_not_depend_on_the_addresses_of_channels() {
    for seed in 0..100 {
        let config = Config { cpus: 3, processors: 3, seed, ..Config::default() };
        let first = sim::run(config, move || selects(seed)).unwrap();
        // Memory that is allocated here and kept moves the channels of the second run to other addresses.
        let kept: Vec<_> = (0..50).map(|size| vec![0_u64; size + seed as usize % 7]).collect();
        let second = sim::run(config, move || selects(seed)).unwrap();
        drop(kept);
        assert_eq!((first.steps, first.elapsed), (second.steps, second.elapsed), "seed {seed}");
    }
}

/// Gs of a run that has ended wait for channels for ever. A G of a later run sends to these channels. The values must
/// not be written to stacks that the later run uses, too. If an M of the first run was idle when the run ended, the
/// send is to wake it, and the later run fails.
#[test]
fn send_to_a_g_of_an_earlier_run_changes_no_stack_of_this_run() {
    let mut failures = 0;
    for seed in 0..20 {
        let config = Config { seed, ..Config::default() };
        let senders = Arc::new(Mutex::new(Vec::new()));
        let kept = senders.clone();
        let first = sim::run(config, move || {
            for _ in 0..8 {
                let (sender, receiver) = sim::channel(0);
                kept.lock().unwrap().push(sender);
                sim::go(move || receiver.recv().map_or(0, |values: [u64; 64]| values[0])).detach();
            }
            sim::sleep(Duration::from_millis(1));
            sim::work(Duration::from_millis(1));
        });
        first.unwrap();
        let changed = Arc::new(AtomicBool::new(false));
        let seen = changed.clone();
        let second = sim::run(config, move || {
            let gs = spawn_each(0..8, |_| {
                let seen = seen.clone();
                move || {
                    let local = std::hint::black_box([0_u64; 2000]);
                    (0..4).for_each(|_| sim::yield_now());
                    seen.fetch_or(local.iter().any(|&word| word != 0), Ordering::Relaxed);
                }
            });
            sim::yield_now();
            for sender in senders.lock().unwrap().iter() {
                assert!(sender.try_send([u64::MAX; 64]).is_ok());
            }
            join_all(gs);
        });
        assert!(!changed.load(Ordering::Relaxed), "a value was written to the stack of another G");
        if let Err(failure) = second {
            assert!(failure.message.contains("wakes a G of another run"), "{failure}");
            failures += 1;
        }
    }
    assert!(failures > 0, "no M of a first run was idle");
}

#[test]
fn run_reuses_the_stacks_of_earlier_runs_that_are_over() {
    /// Returns the pages of the stacks of a few Gs.
    fn pages(leaves_waiting: bool) -> Vec<usize> {
        let pages = Arc::new(Mutex::new(Vec::new()));
        let found = pages.clone();
        let run = sim::run(one_cpu(), move || {
            let (sender, receiver) = sim::channel::<()>(0);
            for _ in 0..4 {
                let (found, receiver) = (found.clone(), receiver.clone());
                sim::go(move || {
                    let local = 0_u8;
                    found.lock().unwrap().push((&raw const local).addr() / 4096);
                    let _ = receiver.recv();
                })
                .detach();
            }
            sim::sleep(Duration::from_millis(1));
            if leaves_waiting {
                std::mem::forget(sender);
            } else {
                drop(sender);
            }
            sim::sleep(Duration::from_millis(1));
        });
        run.unwrap();
        Arc::try_unwrap(pages).map_or_else(|pages| pages.lock().unwrap().clone(), |pages| pages.into_inner().unwrap())
    }
    let distinct = |leaves_waiting| (0..10).flat_map(|_| pages(leaves_waiting)).collect::<HashSet<_>>().len();
    assert!(distinct(false) < 20, "stacks of runs that are over are reused");
    assert_eq!(distinct(true), 40, "a stack on which a G waits for ever is not reused");
}

#[test]
fn objects_of_another_machine_are_refused() {
    static COUNT: sim::Mutex<u64> = sim::Mutex::new(0);
    let program = || {
        join_all(go_each(0..4, move |_| {
            for _ in 0..50 {
                let mut count = COUNT.lock();
                sim::yield_now();
                *count += 1;
            }
        }));
    };
    // Each thread runs machines of its own, and the Gs of all machines wait for one lock. So most runs fail: a G is
    // woken by another machine, or nothing wakes it.
    let run_all = move || -> Vec<_> {
        (0..20).filter_map(|seed| sim::run(Config { seed, ..Config::default() }, program).err()).collect()
    };
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(run_all)).collect();
    let causes = ["of another run", "deadlock", "every CPU halts", "a livelock", "stays runnable"];
    for failure in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        // If another machine has changed a queue, a later event violates a sentence of the policy.
        let is_of_policy = failure.message.starts_with('P');
        assert!(is_of_policy || causes.iter().any(|cause| failure.message.contains(cause)), "{failure}");
    }
}

#[test]
fn g_can_have_a_large_stack() {
    #[inline(never)]
    fn deep(levels: u64) -> u64 {
        let room = std::hint::black_box([levels; 100]);
        if levels == 0 { room[0] } else { room[99] + deep(levels - 1) }
    }
    let run = sim::run(one_cpu(), || {
        let sum = sim::Builder::new().stack_size(4 << 20).go(|| deep(2000)).join();
        assert_eq!(sum, Ok(2000 * 2001 / 2));
    });
    run.unwrap();
}

/// `goexit` unwinds, so a thread that borrows from the stack of the G ends before the G does.
#[test]
fn exiting_g_waits_for_the_threads_of_its_scope() {
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    let run = sim::run(one_cpu(), || {
        let exits = sim::go(|| {
            let borrowed = [1_u64; 100];
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(20));
                    assert_eq!(std::hint::black_box(&borrowed).iter().sum::<u64>(), 100);
                    HAS_ENDED.store(true, Ordering::Relaxed);
                });
                sim::goexit();
            });
        });
        assert!(exits.join().is_err());
        assert!(HAS_ENDED.load(Ordering::Relaxed));
    });
    run.unwrap();
}
