//! Everything at once, for a long time: Gs spawn, join, park, wake, sleep, compute, block in a device, make system calls,
//! while some are being preempted every few microseconds. Every G is accounted for at the end, and a watchdog looks on.

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::goroutine::{GoroutineId, Status};
use gmp_sched::processor::ProcessorStatus;
use kernel::arch::x86_64::timer::now;
use kernel::disk;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;
use kernel::storm::Storm;
use kernel::watchdog::longest_windows;

/// What a G may do, and how often it was done.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Deed {
    Spawn,
    Detach,
    Yield,
    Sleep,
    Device,
    Syscall,
    Compute,
    Allocate,
}

const DEEDS: [(Deed, &str); 8] = [
    (Deed::Spawn, "spawned and joined"),
    (Deed::Detach, "spawned and left alone"),
    (Deed::Yield, "yields"),
    (Deed::Sleep, "sleeps"),
    (Deed::Device, "waits for a device"),
    (Deed::Syscall, "system calls"),
    (Deed::Compute, "computations"),
    (Deed::Allocate, "allocations"),
];

static DONE: [AtomicU64; DEEDS.len()] = [const { AtomicU64::new(0) }; DEEDS.len()];
static STOP: AtomicBool = AtomicBool::new(false);
/// Gs that were spawned, and that came to their end.
static BORN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

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

/// Spawns a G that is counted.
fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    BORN.fetch_add(1, Ordering::Relaxed);
    go(|| {
        let result = body();
        ENDED.fetch_add(1, Ordering::Relaxed);
        result
    })
}

/// Does random things until it is told to stop; gives how many. `depth` bounds what it spawns.
fn life(seed: u64, depth: u32) -> u64 {
    let mut random = Random::new(seed);
    let mut rounds = 0;
    // A child does a few things, one of the first Gs goes on to the end.
    let limit = if depth == 0 { u64::MAX } else { 1 + random.below(6) };
    while rounds < limit && !STOP.load(Ordering::Relaxed) {
        rounds += 1;
        let microseconds = Duration::from_micros(random.below(2000));
        let (seed, kind) = (random.below(u64::MAX), random.below(100));
        let deed = match kind {
            0..=19 if depth < 3 => {
                let children: Vec<_> = (0..4).map(|child| spawn(move || life(seed + child, depth + 1))).collect();
                let done: u64 = children.into_iter().map(|child| child.join().expect("it does not panic")).sum();
                assert!(done <= 4 * 6, "4 children did {done} things");
                Deed::Spawn
            }
            20..=24 if depth < 3 => {
                spawn(move || life(seed, depth + 1)).detach();
                Deed::Detach
            }
            25..=44 => {
                sleep(microseconds);
                Deed::Sleep
            }
            45..=49 => {
                disk::delay(microseconds).expect("memory for another M");
                Deed::Device
            }
            50..=54 => {
                let _syscall = gmp_sched::syscall::enter_syscall::<Kernel>();
                spin(microseconds / 8);
                Deed::Syscall
            }
            55..=64 => {
                spin(microseconds / 2);
                Deed::Compute
            }
            65..=74 => {
                let bytes = vec![seed as u8; random.below(20_000) as usize];
                yield_now();
                assert!(bytes.iter().all(|&byte| byte == seed as u8), "memory changed");
                Deed::Allocate
            }
            _ => {
                yield_now();
                Deed::Yield
            }
        };
        DONE[deed as usize].fetch_add(1, Ordering::Relaxed);
    }
    rounds
}

/// Computes for about that long without calling anything.
fn spin(duration: Duration) {
    let end = now() + duration.as_nanos() as u64;
    let mut value = 1.0f64;
    while now() < end {
        value = core::hint::black_box(value * 1.000_001 + 1e-9);
    }
    assert!(value.is_finite());
}

/// How often the watchdog looks, and for how long a G may be runnable while a P has nothing to do.
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: u64 = 100_000_000;

/// Looks on until it is told to stop; gives how many Gs it found runnable for too long while a P was idle all the time.
fn watchdog() -> u64 {
    let scheduler = scheduler().expect("the scheduler runs");
    // Since when each G has been seen runnable at every look, with a P idle at every look.
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
                    println!("watchdog: G {} waits to run, and a P is idle\n{}", goroutine.id(), scheduler.detail());
                    found += 1;
                } else {
                    still.insert(goroutine.id(), since);
                }
            }
        }
        waiting = still;
        sleep(LOOK);
    }
    found
}

/// Runs it all for so long, on the machine's clock.
fn soak(duration: Duration) -> Result<(), String> {
    let scheduler = scheduler().expect("the scheduler runs");
    let (before, alive_before) = (scheduler.counts(), num_goroutine());
    let dog = go(watchdog);
    let lives: Vec<_> = (0..4 * procs() as u64).map(|seed| spawn(move || life(seed + 1, 0))).collect();
    let end = now() + duration.as_nanos() as u64;
    let mut round = 0u64;
    while now() < end {
        // A tenth of the time it storms.
        round += 1;
        let storm =
            round.is_multiple_of(10).then(|| Storm::begin(Duration::from_micros(20)..Duration::from_micros(200)));
        sleep((duration / 50).min(Duration::from_millis(500)));
        drop(storm);
    }
    STOP.store(true, Ordering::Relaxed);
    let rounds: u64 = lives.into_iter().map(|life| life.join().expect("it does not panic")).sum();
    // Those nobody waits for come to their end, too.
    while ENDED.load(Ordering::Relaxed) < BORN.load(Ordering::Relaxed) || num_goroutine() > alive_before + 1 {
        sleep(Duration::from_millis(1));
    }
    let found = dog.join().expect("it does not panic");
    // Whoever is joined has not left its stack yet.
    while num_goroutine() > alive_before {
        sleep(Duration::from_millis(1));
    }
    let after = scheduler.counts();
    let born = BORN.load(Ordering::Relaxed);
    println!("{born} Gs lived, {rounds} rounds of the first ones:");
    for (deed, name) in DEEDS {
        println!("{:>10} {name}", DONE[deed as usize].load(Ordering::Relaxed));
    }
    for (count, name) in [
        (after.preemptions - before.preemptions, "preemptions"),
        (after.displacements - before.displacements, "displacements by timers"),
        (after.steals - before.steals, "steals"),
        (after.handoffs - before.handoffs, "handoffs"),
        (after.wakes - before.wakes, "wake-ups of Ms"),
    ] {
        println!("{count:>10} {name}");
    }
    let windows = longest_windows();
    println!("{:>7} us longest without preemption", windows.preemption_off.as_micros());
    println!("{:>7} us longest without interrupts", windows.interrupts_off.as_micros());
    // Each G that was spawned has finished, and nothing else has; the watchdog is one.
    assert_eq!((after.spawned - before.spawned, after.finished - before.finished), (born + 1, born + 1));
    assert_eq!(num_goroutine(), alive_before);
    for (deed, name) in DEEDS {
        assert!(DONE[deed as usize].load(Ordering::Relaxed) > 0, "none: {name}");
    }
    // Where virtual CPUs share those of the host, one that has been woken may not run for a while; that is no fault of ours.
    let is_counted = kernel::args::option("soak") == Some("counted");
    if is_counted && found > 0 {
        return Err(format!("{found} times a G waited to run while a P was idle"));
    }
    Ok(())
}

fn a_while() -> Result<(), String> {
    soak(Duration::from_secs(20))
}
guest_test!(a_while, smp = &[1, 2, 8], isolated, seconds = 90);

fn ten_minutes() -> Result<(), String> {
    soak(Duration::from_secs(600))
}
guest_test!(ten_minutes, smp = &[8], isolated, ignored, seconds = 900);

/// Instructions are counted: what the watchdog finds is the scheduler's fault, and every run prints the same.
fn counted() -> Result<(), String> {
    soak(Duration::from_secs(2))
}
guest_test!(counted, smp = &[1, 8], icount, options = &["soak=counted"], seconds = 90);
