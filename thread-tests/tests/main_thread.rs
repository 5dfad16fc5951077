//! Runs that begin on the main thread of the process. Their Ms have threads that are made without the standard library.
//! (The test harness runs each test on a thread of its own, so this program does without it.)

use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::native::{self, WaitGroup, channel, go, lock_thread};
use thread_tests::THREADS;

/// The number of locked Gs, so that each run makes at least as many threads.
const LOCKED: u32 = 100;

/// A thread-local value, which is dropped when its thread ends.
struct OfThread;

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Drop for OfThread {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local!(static OF_THREAD: OfThread = {
    BEGUN.fetch_add(1, Ordering::Relaxed);
    OfThread
});

/// Runs [`LOCKED`] Gs that are locked to their threads at the same time. Returns the names of these threads.
fn names_of_locked_threads(procs: usize) -> BTreeSet<String> {
    THREADS.run(procs, || {
        static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let (sender, receiver) = channel::<()>(0);
        let locked = std::sync::Arc::new(WaitGroup::new());
        locked.add(LOCKED);
        let spawn = |_| {
            let (receiver, locked) = (receiver.clone(), locked.clone());
            go(move || {
                let lock = lock_thread();
                OF_THREAD.with(|of_thread| _ = black_box(of_thread));
                assert_eq!(thread::current().name(), None, "the standard library has not made this thread");
                NAMES.lock().unwrap().insert(fs::read_to_string("/proc/thread-self/comm").unwrap());
                locked.done();
                assert!(receiver.recv().is_err(), "nothing is sent");
                drop(lock);
            })
        };
        let all: Vec<_> = (0..LOCKED).map(spawn).collect();
        locked.wait();
        drop(sender);
        all.into_iter().for_each(|handle| handle.join().unwrap());
        std::mem::take(&mut *NAMES.lock().unwrap())
    })
}

/// Returns the number of pages that are mapped.
fn mapped_pages() -> usize {
    let sizes = fs::read_to_string("/proc/self/statm").unwrap();
    sizes.split(' ').next().unwrap().parse().unwrap()
}

fn each_thread_has_a_name_and_ends() {
    for procs in [1, 2, 4] {
        let names = names_of_locked_threads(procs);
        assert_eq!(names.len(), LOCKED as usize);
        assert!(names.iter().all(|name| name.starts_with('M') && name.ends_with('\n')), "{names:?}");
    }
    // The last thread may still be about to end.
    while ENDED.load(Ordering::Relaxed) != BEGUN.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

fn stacks_of_ended_threads_are_used_again() {
    (0..5).for_each(|_| drop(names_of_locked_threads(2)));
    let before = mapped_pages();
    (0..20).for_each(|_| drop(names_of_locked_threads(2)));
    let grown = mapped_pages().saturating_sub(before) * 4096;
    // 2,000 threads have ended, each of which had two stacks of 512 KiB.
    assert!(grown < 500 << 20, "{grown} bytes");
}

fn panic_on_such_a_thread_is_returned() {
    let refused = THREADS.run(1, || {
        go(|| {
            let _lock = lock_thread();
            std::panic::resume_unwind(Box::new("expected"));
        })
        .join()
    });
    assert!(refused.is_err());
}

/// Gs that are preempted in the allocator do not hold up the beginning of a thread.
fn threads_begin_beside_preempted_gs() {
    native::set_slice(Duration::from_millis(1));
    native::set_preemption(true);
    for procs in [1, 2] {
        let preemptions = THREADS.run_with(procs, move |scheduler| {
            static IS_OVER: AtomicBool = AtomicBool::new(false);
            IS_OVER.store(false, Ordering::Relaxed);
            let allocate = || {
                while !IS_OVER.load(Ordering::Relaxed) {
                    (1..50).for_each(|size| drop(black_box(vec![0u8; 100 * size])));
                }
            };
            let hogs: Vec<_> = (0..3).map(|_| go(allocate)).collect();
            for _ in 0..50 {
                go(|| drop(lock_thread())).join().unwrap();
                native::blocking(|| thread::sleep(Duration::from_micros(100)));
            }
            IS_OVER.store(true, Ordering::Relaxed);
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
            scheduler.counts().preemptions
        });
        assert!(preemptions > 0, "nothing was preempted");
    }
    names_of_locked_threads(2);
}

fn main() {
    each_thread_has_a_name_and_ends();
    stacks_of_ended_threads_are_used_again();
    panic_on_such_a_thread_is_returned();
    threads_begin_beside_preempted_gs();
}
