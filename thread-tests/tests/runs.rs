//! Many runs of the scheduler in one process: no run leaks memory or threads, or observes what an earlier run has done.
//!
//! These tests need a binary of their own and run one after the other, because they count what the whole process
//! allocates and maps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::native::{self, Context};
use thread_tests::THREADS;

/// The system's allocator, with a count of the bytes that are allocated and not freed.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded to the system's allocator, which fulfils the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: `System.alloc` has the same contract, which our caller fulfils.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `System.dealloc` has the same contract, which our caller fulfils: `address` came from `System.alloc`.
        unsafe { System.dealloc(address, layout) }
    }
}

/// Returns the number of bytes that are mapped writable.
fn mapped() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let size = |line: &str| {
        let (range, rights) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |digits| usize::from_str_radix(digits, 16).unwrap();
        rights.starts_with("rw").then(|| address(end) - address(start))
    };
    maps.lines().filter_map(size).sum()
}

/// Uses Gs, a channel, timers and blocking calls, and changes the number of Ps. When this function returns, all of its
/// Gs have ended.
fn program() {
    let (sender, receiver) = native::channel(1);
    let feeder = native::go(move || (0..10).for_each(|number| sender.send(number).unwrap()));
    assert_eq!(receiver.iter().sum::<u32>(), 45);
    feeder.join().unwrap();
    native::set_procs(3).unwrap();
    let all: Vec<_> = (0..20)
        .map(|number| {
            native::go(move || {
                if number % 2 == 0 {
                    native::blocking(thread::yield_now);
                }
                let (context, cancel) = Context::background().with_timeout(Duration::from_secs(60));
                native::sleep(Duration::from_micros(10));
                cancel.cancel();
                drop(context);
                number
            })
        })
        .collect();
    assert_eq!(all.into_iter().map(|handle| handle.join().unwrap()).sum::<u32>(), 190);
}

/// Held by each test while it runs, so that the tests run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[cfg(feature = "extras")]
#[test]
fn scheduler_is_reused_only_after_its_timers_are_stopped_and_never_with_an_unstarted_g() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let here =
        |scheduler: &'static gmp_sched::scheduler::Scheduler<native::Native>| std::ptr::from_ref(scheduler).addr();
    let (with_timer, timer) = THREADS.run_with(1, move |scheduler| {
        let timer = native::Timer::new(Duration::from_secs(3600));
        // A timer is armed only when a G receives from it. It stays armed after a select that does not wait.
        native::select! { recv(timer) => unreachable!("an hour is not over"), default => {} }
        (here(scheduler), timer)
    });
    let (with_idle, pull) =
        THREADS.run_with(1, move |scheduler| (here(scheduler), native::pull(|yielder| _ = yielder.yield_value(1))));
    for _ in 0..10 {
        let next = THREADS.run_with(1, here);
        assert!(next != with_timer && next != with_idle, "the timer or the G would continue in another run");
    }
    assert!(timer.stop());
    let mut later = (0..1000).map(|_| THREADS.run_with(1, here));
    assert!(later.any(|next| next == with_timer), "nothing is left in that scheduler");
    assert!(later.all(|next| next != with_idle));
    drop(pull);
}

#[test]
fn thousand_runs_leak_neither_memory_nor_threads_nor_counts() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let run = |processors| {
        let fresh = THREADS.run_with(processors, |scheduler| {
            let fresh = (scheduler.procs(), scheduler.counts().spawned, native::num_goroutine());
            program();
            fresh
        });
        assert_eq!(fresh, (processors, 0, 1), "as on a new scheduler");
    };
    // The first runs allocate what later runs reuse: a scheduler, slots of Gs and Ms, a few caches of the standard
    // library.
    (0..200).for_each(|round| run(1 + round % 2));
    let (allocated, is_mapped) = (ALLOCATED.load(Ordering::Relaxed), mapped());
    (0..1000).for_each(|round| run(1 + round % 2));
    let grown = ALLOCATED.load(Ordering::Relaxed).saturating_sub(allocated);
    // A scheduler takes 1 MiB. If a G of the previous run has not finished its last steps, the next run cannot reuse
    // that scheduler and makes another one. The bound allows for about 20 such schedulers.
    assert!(grown < 20 << 20, "{grown} bytes more after 1,000 runs");
    // The bound allows for stacks of threads that are about to end, and for memory that the allocator reserves for new
    // threads.
    let grown = mapped().saturating_sub(is_mapped);
    assert!(grown < 200 << 20, "{grown} bytes more are mapped after 1,000 runs");
}
