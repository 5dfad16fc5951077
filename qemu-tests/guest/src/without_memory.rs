//! Tests of what operations do when one of their allocations fails. Some of the operations are those of
//! `gmp-sched/tests/shared/without_memory`, which also run on threads. The others are of the kernel. Allocations of
//! heap objects and of stacks are counted, but only those of the G that runs the operation. Each operation is called
//! with the first of its allocations failing, then with its second, and so on, until it succeeds.
//!
//! Each operation runs in a G of its own. With `panic=isolate`, a panic ends only this G, unless it happens in code of
//! the scheduler or with a lock held.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::platform::{OutOfResources, Pinned};
use kernel::disk::{self, DiskError, disks};
use kernel::internals::refuse_memory_if;
use kernel::mm;
use kernel::platform::Kernel;
use kernel::prelude::*;

use operations::Shortage::{IsAnError, IsImpossible, OfThreads, Panics};
use operations::{OPERATIONS, Operation, Shortage, check_that_the_scheduler_works};

/// What the shared operations need of the platform under test.
mod platform {
    pub(crate) use kernel::platform::*;

    /// Whether a G can panic without ending the program.
    pub(crate) const PANICS_UNWIND: bool = false;

    /// Calls `operation` while no M is idle: as many Gs as there are Ms block in a driver for a while. So a call that
    /// blocks needs a new M.
    pub(crate) fn without_idle_machines<R>(operation: impl FnOnce() -> R) -> R {
        use crate::several::{join_all, spawn_each};
        use kernel::prelude::*;
        let count = scheduler().expect("it runs").machines().count();
        let block = || kernel::disk::delay(Duration::from_millis(50)).expect("memory for an M");
        let blocked = spawn_each(0..count, |_| block);
        sleep(Duration::from_millis(10));
        let result = operation();
        join_all(blocked);
        result
    }
}

#[path = "../../../gmp-sched/tests/shared/without_memory/mod.rs"]
mod operations;

/// The id of the G whose allocations are counted; 0 while none are.
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// How many of the counted allocations succeed before one fails.
static SUCCESSES: AtomicUsize = AtomicUsize::new(0);
/// Whether the counted allocations after the one that fails also fail.
static LATER_FAIL: AtomicBool = AtomicBool::new(false);
/// Whether an allocation has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Returns the id of the calling G, or 0 if there is none.
fn caller() -> u64 {
    let pinned = Pinned::<Kernel>::new();
    let machine = pinned.try_machine();
    machine.and_then(|machine| machine.current_goroutine()).map_or(0, |goroutine| goroutine.id().get())
}

/// Counts an allocation, and returns whether it fails.
fn refuses() -> bool {
    let counted = COUNTED.load(Ordering::Relaxed);
    if counted == 0 || counted != caller() {
        return false;
    }
    let fails = match SUCCESSES.load(Ordering::Relaxed) {
        0 => !HAS_FAILED.load(Ordering::Relaxed) || LATER_FAIL.load(Ordering::Relaxed),
        left => {
            SUCCESSES.store(left - 1, Ordering::Relaxed);
            false
        }
    };
    HAS_FAILED.fetch_or(fails, Ordering::Relaxed);
    fails
}

/// Calls `operation`, and counts its allocations. Only these may fail.
fn counted<R>(operation: impl FnOnce() -> R) -> R {
    COUNTED.store(caller(), Ordering::Relaxed);
    let result = operation();
    COUNTED.store(0, Ordering::Relaxed);
    result
}

mod network;

/// The operations that only the kernel has, except those of the [`network`].
const OF_KERNEL: &[(&str, Shortage, Operation)] = &[
    ("blocking call", IsAnError, || {
        platform::without_idle_machines(|| counted(|| disk::delay(Duration::from_micros(10))))
    }),
    ("blocking access to a disk", IsAnError, || {
        let (disk, mut buffer) = (&disks()[0], [0; 5_000]);
        platform::without_idle_machines(|| access(|| disk.blocking().write_at(1_000, &[7; 5_000])))?;
        platform::without_idle_machines(|| access(|| disk.blocking().read_at(1_000, &mut buffer).map(drop)))?;
        assert_eq!(buffer, [7; 5_000]);
        Ok(())
    }),
    ("asynchronous access to a disk", IsImpossible, || {
        let mut buffer = [0; 5_000];
        access(|| disks()[0].write_at(100_000, &[8; 5_000]))?;
        access(|| disks()[0].read_at(100_000, &mut buffer).map(drop))?;
        assert_eq!(buffer, [8; 5_000]);
        access(|| disks()[0].asynchronous().flush())
    }),
    ("access to a disk with a context", IsAnError, || {
        let (context, _cancel) = Context::background().with_timeout(Duration::from_secs(3600));
        access(|| disks()[0].blocking().read_at_until(0, &mut [0; 600], &context).map(drop))
    }),
    ("line of input", IsAnError, || {
        let mut line = String::new();
        let result = counted(|| stdin().read_line(&mut line));
        match result {
            Ok(_) => assert_eq!(line, "a line of input\n"),
            Err(_) => assert_eq!(line, "", "nothing of the line is lost"),
        }
        result.map(drop).map_err(|error| {
            assert_eq!(error, kernel::console::InputError::OutOfResources);
            OutOfResources
        })
    }),
    // A line for which there is no memory is printed in pieces. The test on the host looks for the whole line.
    ("long line of output", IsAnError, || {
        counted(|| println!("a line of {:>1000} characters", 1021));
        if HAS_FAILED.load(Ordering::Relaxed) { Err(OutOfResources) } else { Ok(()) }
    }),
    ("random bytes", IsImpossible, || {
        counted(|| kernel::fill_random(&mut [0; 100]));
        Ok(())
    }),
    ("freeing memory", IsImpossible, || {
        counted(mm::free_cached_memory);
        Ok(())
    }),
];

fn access(access: impl FnOnce() -> Result<(), DiskError>) -> Result<(), OutOfResources> {
    counted(access).map_err(|error| {
        assert_eq!(error, DiskError::OutOfResources);
        OutOfResources
    })
}

guest_test!(each_allocation_fails_once, hidden, seconds = 120);
/// Run by `tests/unoptimised.rs`, with a disk, a network and lines of input, and with the option `panic=isolate`.
fn each_allocation_fails_once() {
    #[expect(unsafe_code, reason = "the allocator calls a function of this test")]
    // SAFETY: `refuses` only compares and changes numbers.
    unsafe {
        refuse_memory_if(refuses);
    }
    let mut total = 0;
    let of_kernel = || OF_KERNEL.iter().chain(network::OPERATIONS);
    for &(name, shortage, operation) in OPERATIONS.iter().chain(of_kernel()) {
        for later_fail in [false, true] {
            let failed = (0..).take_while(|&number| fails_as_documented(name, shortage, operation, number, later_fail));
            let count = failed.count();
            println!("{name}: {count} allocations");
            let is_of_kernel = of_kernel().any(|(other, ..)| *other == name);
            assert!(count > 0 || shortage == IsImpossible || !is_of_kernel, "{name} allocates nothing");
            total += count;
        }
    }
    // Slots of Gs and of timers are reused here, so some of the shared operations allocate nothing.
    assert!(total > 100, "only {total} allocations failed");
}

/// Calls the operation with the allocation of this number failing. Returns whether there was such an allocation.
fn fails_as_documented(name: &str, shortage: Shortage, operation: Operation, number: usize, later_fail: bool) -> bool {
    // Frees the cached stacks, so that a spawn needs a new one.
    mm::free_cached_memory();
    SUCCESSES.store(number, Ordering::Relaxed);
    LATER_FAIL.store(later_fail, Ordering::Relaxed);
    HAS_FAILED.store(false, Ordering::Relaxed);
    let result = Builder::new().stack_size(1 << 18).go(operation).join();
    COUNTED.store(0, Ordering::Relaxed);
    let has_failed = HAS_FAILED.load(Ordering::Relaxed);
    let is_allowed = match shortage {
        _ if !has_failed => result == Ok(Ok(())),
        IsAnError | OfThreads => result == Ok(Err(OutOfResources)),
        Panics => result.as_ref().map_or(true, |result| result.is_err()),
        IsImpossible => false,
    };
    assert!(is_allowed, "{name}, allocation {number}, {later_fail}: {result:?}");
    check_that_the_scheduler_works();
    has_failed
}

guest_test!(one_allocation_fails, hidden, seconds = 60);
/// Run by `tests/unoptimised.rs` once for each allocation of each operation that panics without memory. So each run
/// ends the program, and the host checks how. The input has the index of the operation and the number of the
/// allocation that fails.
fn one_allocation_fails() {
    #[expect(unsafe_code, reason = "the allocator calls a function of this test")]
    // SAFETY: `refuses` only compares and changes numbers.
    unsafe {
        refuse_memory_if(refuses);
    }
    let mut line = String::new();
    stdin().read_line(&mut line).expect("memory for the line");
    let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().expect("two numbers");
    let Some((name, _, operation)) = OPERATIONS.iter().filter(|(_, shortage, _)| *shortage == Panics).nth(next())
    else {
        println!("no such operation");
        return;
    };
    println!("{name}");
    mm::free_cached_memory();
    SUCCESSES.store(next(), Ordering::Relaxed);
    let result = Builder::new().stack_size(1 << 18).go(operation).join();
    COUNTED.store(0, Ordering::Relaxed);
    assert!(HAS_FAILED.load(Ordering::Relaxed) || result == Ok(Ok(())), "{result:?}");
    check_that_the_scheduler_works();
    println!("{}", if HAS_FAILED.load(Ordering::Relaxed) { "an error" } else { "no such allocation" });
}
