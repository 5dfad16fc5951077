//! A long test that does everything at once. Gs spawn, join, park, wake, sleep, compute, block in a device, make system
//! calls, panic and overflow their stacks, while the number of Ps changes. During some periods, the running Gs are
//! preempted after random gaps of 20 to 200 microseconds. At the end, the counters must account for every G. A watchdog
//! checks that runnable Gs run.

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gmp_sched::JoinError;
use gmp_sched::goroutine::{GoroutineId, Status};
use gmp_sched::processor::ProcessorStatus;
use kernel::clock::now;
use kernel::disk;
use kernel::internals::Storm;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;
use kernel::watchdog::longest_off_times;

use crate::provoke;

/// An operation of a G.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Operation {
    Spawn,
    Detach,
    Yield,
    Sleep,
    Device,
    Syscall,
    Compute,
    Allocate,
    Lock,
}

const OPERATIONS: [(Operation, &str); 9] = [
    (Operation::Spawn, "spawned and joined"),
    (Operation::Detach, "spawned and detached"),
    (Operation::Yield, "yields"),
    (Operation::Sleep, "sleeps"),
    (Operation::Device, "waits for a device"),
    (Operation::Syscall, "system calls"),
    (Operation::Compute, "computations"),
    (Operation::Allocate, "allocations"),
    (Operation::Lock, "lock acquisitions"),
];

static DONE: [AtomicU64; OPERATIONS.len()] = [const { AtomicU64::new(0) }; OPERATIONS.len()];
static STOP: AtomicBool = AtomicBool::new(false);
/// Number of Gs that were spawned.
static SPAWNED: AtomicU64 = AtomicU64::new(0);
/// Number of Gs that returned.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// Number of Gs that died by a panic or a stack overflow.
static DIED: AtomicU64 = AtomicU64::new(0);
/// The number of Gs that may still die. It is limited, because each death loses a stack forever and prints a report.
static TO_DIE: AtomicU64 = AtomicU64::new(0);
/// Number of dead Gs whose joiner got the error.
static REPORTED: AtomicU64 = AtomicU64::new(0);
/// Many Gs take this lock, and some of them hold it for a while.
static LOCK: Mutex<u64> = Mutex::new(0);

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Spawns a G. Counts the G in `SPAWNED`, and in `ENDED` when `body` has returned.
fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    SPAWNED.fetch_add(1, Ordering::Relaxed);
    go(|| {
        let result = body();
        ENDED.fetch_add(1, Ordering::Relaxed);
        result
    })
}

/// Joins the children and returns the sum of their rounds. A child that has died adds nothing to the sum, and is
/// counted in `REPORTED`.
fn join(children: Vec<JoinHandle<u64>>) -> u64 {
    let count = |child: JoinHandle<u64>| {
        child.join().unwrap_or_else(|error| {
            assert_ne!(error, JoinError::Exited);
            REPORTED.fetch_add(1, Ordering::Relaxed);
            0
        })
    };
    children.into_iter().map(count).sum()
}

/// Ends the calling G by a panic or a stack overflow, if one more G may die.
fn die_if_wanted(random: &mut Random) {
    let one_less = |left: u64| left.checked_sub(1);
    if TO_DIE.load(Ordering::Relaxed) == 0
        || TO_DIE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    {
        return;
    }
    DIED.fetch_add(1, Ordering::Relaxed);
    if random.below(4) == 0 {
        provoke::stack_overflow();
    }
    panic!("this G has to die");
}

/// Performs random operations until `STOP` is set. A child also ends after at most six operations. Returns the number
/// of operations. `depth` is 0 for the first Gs, 1 for their children, and so on. Gs at depth 3 spawn no children.
fn life(seed: u64, depth: u32) -> u64 {
    let mut random = Random::new(seed);
    let mut rounds = 0;
    let limit = if depth == 0 { u64::MAX } else { 1 + random.below(6) };
    while rounds < limit && !STOP.load(Ordering::Relaxed) {
        rounds += 1;
        let microseconds = Duration::from_micros(random.below(2000));
        let (seed, kind) = (random.below(u64::MAX), random.below(100));
        let operation = match kind {
            0..=19 if depth < 3 => {
                let done = join((0..4).map(|child| spawn(move || life(seed + child, depth + 1))).collect());
                assert!(done <= 4 * 6, "4 children did {done} things");
                Operation::Spawn
            }
            20..=24 if depth < 3 => {
                spawn(move || life(seed, depth + 1)).detach();
                Operation::Detach
            }
            25..=44 => {
                sleep(microseconds);
                Operation::Sleep
            }
            45..=49 => {
                disk::delay(microseconds).expect("memory for another M");
                Operation::Device
            }
            50..=54 => {
                gmp_sched::syscall::syscall::<Kernel, _>(|| spin(microseconds / 8));
                Operation::Syscall
            }
            55..=64 => {
                spin(microseconds / 2);
                Operation::Compute
            }
            65..=74 => {
                let bytes = vec![seed as u8; random.below(20_000) as usize];
                yield_now();
                assert!(bytes.iter().all(|&byte| byte == seed as u8), "memory changed");
                Operation::Allocate
            }
            75..=84 => {
                let mut turns = LOCK.lock();
                *turns += 1;
                if random.below(10) == 0 {
                    sleep(microseconds / 20);
                }
                Operation::Lock
            }
            _ => {
                yield_now();
                Operation::Yield
            }
        };
        DONE[operation as usize].fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            die_if_wanted(&mut random);
        }
    }
    rounds
}

/// Computes for about `duration` without giving way.
fn spin(duration: Duration) {
    let end = now() + duration.as_nanos() as u64;
    let mut value = 1.0f64;
    while now() < end {
        value = core::hint::black_box(value * 1.000_001 + 1e-9);
    }
    assert!(value.is_finite());
}

/// The interval between the watchdog's checks.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long a G may be runnable while a P is idle, in nanoseconds.
const PATIENCE: u64 = 100_000_000;

/// Checks all Gs repeatedly until `STOP` is set. Returns how many times a G was runnable for longer than [`PATIENCE`]
/// while every check found an idle P.
fn watchdog() -> u64 {
    let scheduler = scheduler().expect("the scheduler runs");
    // The keys are the Gs that the last check found runnable while a P was idle. The value for a G is the time since
    // which every check has found this.
    let mut waiting: BTreeMap<GoroutineId, u64> = BTreeMap::new();
    let mut found = 0;
    while !STOP.load(Ordering::Relaxed) {
        let time = now();
        let is_idle = scheduler.processors().iter().any(|processor| processor.status() == ProcessorStatus::Idle);
        let mut still = BTreeMap::new();
        if is_idle {
            for goroutine in scheduler.goroutines().filter(|goroutine| goroutine.status() == Status::Runnable) {
                let since = *waiting.get(&goroutine.id()).unwrap_or(&time);
                if time - since > PATIENCE {
                    println!(
                        "watchdog: G {} waits to run, and a P is idle\n{}",
                        goroutine.id(),
                        scheduler.scheddetail()
                    );
                    found += 1;
                } else {
                    still.insert(goroutine.id(), since);
                }
            }
        }
        waiting = still;
        sleep(INTERVAL);
    }
    found
}

/// Whether each operation was performed, a G has died and the number of Ps has changed. On a busy host, this may take
/// longer than the chosen duration of the test.
fn everything_has_happened(resizes: u64) -> bool {
    DONE.iter().chain([&DIED]).all(|count| count.load(Ordering::Relaxed) > 0) && resizes > 0
}

/// Starts storms of preemptions, changes the number of Ps, and makes Gs die. Continues until the time `end` has come
/// and [`everything_has_happened`]. Returns how many times the number of Ps changed.
fn stir(end: u64, step: Duration) -> u64 {
    let (original, mut random, mut resizes) = (procs(), Random::new(99), 0);
    for round in 1u64.. {
        // There is a storm in every tenth round.
        let storm =
            round.is_multiple_of(10).then(|| Storm::begin(Duration::from_micros(20)..Duration::from_micros(200)));
        TO_DIE.store(1 + random.below(4), Ordering::Relaxed);
        sleep(step / 2);
        // The number of Ps may exceed the number of CPUs. In every second round it is the original number.
        let wanted = if round.is_multiple_of(2) { original } else { 1 + random.below(2 * num_cpu() as u64) as usize };
        resizes += u64::from(set_procs(wanted).expect("memory for its M") != wanted);
        sleep(step / 2);
        drop(storm);
        if now() >= end && everything_has_happened(resizes) {
            break;
        }
    }
    TO_DIE.store(0, Ordering::Relaxed);
    set_procs(original).expect("they were there");
    resizes
}

/// Runs the test for at least `duration`, by the clock of the kernel.
fn soak(duration: Duration) -> Result<(), String> {
    let scheduler = scheduler().expect("the scheduler runs");
    let (before, alive_before) = (scheduler.counts(), num_goroutine());
    let dog = go(watchdog);
    let lives: Vec<_> = (0..4 * procs() as u64).map(|seed| spawn(move || life(seed + 1, 0))).collect();
    let end = now() + duration.as_nanos() as u64;
    let resizes = stir(end, (duration / 50).min(Duration::from_millis(500)));
    STOP.store(true, Ordering::Relaxed);
    let rounds = join(lives);
    // The detached Gs have to end, too.
    let has_ended = || ENDED.load(Ordering::Relaxed) + DIED.load(Ordering::Relaxed) >= SPAWNED.load(Ordering::Relaxed);
    while !has_ended() || num_goroutine() > alive_before + 1 {
        sleep(Duration::from_millis(1));
    }
    let found = dog.join().expect("it does not panic");
    // The last G that was joined may not have left its stack yet.
    while num_goroutine() > alive_before {
        sleep(Duration::from_millis(1));
    }
    let after = scheduler.counts();
    let spawned = SPAWNED.load(Ordering::Relaxed);
    println!("{spawned} Gs spawned, {rounds} rounds of the first ones:");
    for (operation, name) in OPERATIONS {
        println!("{:>10} {name}", DONE[operation as usize].load(Ordering::Relaxed));
    }
    for (count, name) in [
        (after.preemptions - before.preemptions, "preemptions"),
        (after.displacements - before.displacements, "displacements by urgent Gs"),
        (after.steals - before.steals, "steals"),
        (after.handoffs - before.handoffs, "handoffs"),
        (after.wakes - before.wakes, "wakeups of Ms"),
    ] {
        println!("{count:>10} {name}");
    }
    let died = DIED.load(Ordering::Relaxed);
    println!("{resizes:>10} changes of the number of Ps");
    println!(
        "{died:>10} Gs that died of a panic or of their stack, {} with a joiner",
        REPORTED.load(Ordering::Relaxed)
    );
    let longest = longest_off_times();
    println!("{:>7} us longest without preemption", longest.preemption_off.as_micros());
    println!("{:>7} us longest without interrupts", longest.interrupts_off.as_micros());
    // The scheduler has counted each of these Gs once, and in addition the G of the watchdog.
    assert_eq!((after.spawned - before.spawned, after.finished - before.finished), (spawned + 1, spawned + 1));
    assert_eq!((ENDED.load(Ordering::Relaxed) + died, after.abandoned - before.abandoned), (spawned, died));
    assert_eq!(num_goroutine(), alive_before);
    assert_eq!(*LOCK.lock(), DONE[Operation::Lock as usize].load(Ordering::Relaxed));
    // If virtual CPUs share the CPUs of the host, a woken M may not run for a while, so a G waits while a P is idle.
    // This is not the scheduler's fault. So such waits fail the test only if instructions are counted.
    let is_counted = kernel::args::option("program.soak") == Some("counted");
    if is_counted && found > 0 {
        return Err(format!("{found} times a G waited to run while a P was idle"));
    }
    Ok(())
}

fn a_while() -> Result<(), String> {
    soak(Duration::from_secs(5))
}
guest_test!(a_while, smp = &[1, 8], isolated, options = &["panic=isolate"], seconds = 90);

fn ten_minutes() -> Result<(), String> {
    soak(Duration::from_secs(600))
}
guest_test!(ten_minutes, smp = &[8], isolated, ignored, options = &["panic=isolate"], seconds = 900);

/// With `--icount` the clock is the number of executed instructions. All runs are equal, and a delay by the host takes
/// no time on that clock. So everything that the watchdog finds is a fault of the scheduler.
fn counted() -> Result<(), String> {
    soak(Duration::from_secs(2))
}
guest_test!(counted, smp = &[1, 8], icount, options = &["panic=isolate", "program.soak=counted"], seconds = 90);
