//! A tour of the scheduler. It shows each of its mechanisms in a few lines.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::clock;
use kernel::console::SincePowerOn;
use kernel::disk;
use kernel::gmp_sched::Counts;
use kernel::gmp_sched::goroutine::GoroutineId;
use kernel::gmp_sched::scheduler::Scheduler;
use kernel::percpu;
use kernel::platform::scheduler;
use kernel::prelude::*;
use kernel::watchdog::longest_windows;

kernel::main!(main);

fn main(_: &[&str]) {
    let up = SincePowerOn(Duration::from_nanos(clock::since_power_on()));
    println!("main is G 1, and began {up}.");
    println!("{} CPUs are up; {} Gs may run at once.\n", num_cpu(), procs());
    spread();
    preemption();
    handoff();
    counters();
}

/// Runs `body` and draws what ran on each P meanwhile. Each column is a fraction of the time, and each letter is a G.
/// Main is `@`.
fn drawn(body: impl FnOnce()) {
    let Some(scheduler) = scheduler() else { return };
    let first = next_id();
    let start = clock::now();
    scheduler.start_trace(EVENTS).expect("memory for a trace");
    body();
    scheduler.stop_trace();
    let letter = |goroutine: GoroutineId| match goroutine.get().checked_sub(first) {
        Some(number) => char::from(LETTERS[number as usize % LETTERS.len()]),
        None => '@',
    };
    for line in scheduler.timeline(COLUMNS, letter, |goroutine| goroutine == GoroutineId::MAIN).lines() {
        println!("   {line}");
    }
    let column = Duration::from_nanos((clock::now() - start) / COLUMNS as u64);
    println!("   (a letter is a G, @ is main; a column is {}.{:03} ms)", column.as_millis(), column.as_micros() % 1000);
}

/// Number of events that the trace keeps for each P.
const EVENTS: usize = 4096;
const COLUMNS: usize = 72;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Returns a lower bound of the ids of Gs that are spawned later.
fn next_id() -> u64 {
    go(|| ()).id().get() + 1
}

/// The number of Gs to spread over the Ps. The next constant is how many numbers each G checks.
const PARTS: usize = 48;
const NUMBERS: usize = 5_000;

/// Main spawns all Gs on its P, and the other Ps steal them.
fn spread() {
    println!("-- stealing: main spawns {PARTS} Gs on its own P. Each counts primes. The other Ps come and steal them.");
    let (mut primes, mut took) = (0, Duration::ZERO);
    let mut by_cpu = vec![0; num_cpu()];
    drawn(|| {
        let start = clock::now();
        let parts: Vec<_> = (0..PARTS)
            .map(|part| {
                go(move || {
                    let count = (part * NUMBERS..(part + 1) * NUMBERS).filter(|&number| is_prime(number)).count();
                    (count, percpu::current().index())
                })
            })
            .collect();
        for part in parts {
            let (count, cpu) = part.join().expect("no part panics");
            primes += count;
            by_cpu[cpu] += 1;
        }
        took = Duration::from_nanos(clock::now() - start);
    });
    print!("   Gs by CPU:");
    by_cpu.iter().for_each(|gs| print!(" {gs}"));
    println!("; {primes} primes below {}, in {} ms.\n", PARTS * NUMBERS, took.as_millis());
}

fn is_prime(number: usize) -> bool {
    number >= 2
        && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Each P gets two Gs that never call a function. The timer preempts them.
fn preemption() {
    if !kernel::PREEMPTS_LOOPS {
        println!("-- preemption: of Gs that spin in loops there is none on the host.\n");
        return;
    }
    println!(
        "-- preemption: {} Gs spin in loops that call nothing, two for each P. They take turns every 10 ms,",
        2 * procs()
    );
    println!("   and main, which sleeps 15 ms at a time, takes a CPU at once when it wakes.");
    let before = scheduler().map_or_else(Counts::default, Scheduler::counts);
    drawn(|| {
        let hogs: Vec<_> = (0..2 * procs()).map(|_| go(hog)).collect();
        for _ in 0..4 {
            sleep(Duration::from_millis(15));
        }
        STOP.store(true, Ordering::Relaxed);
        for hog in hogs {
            hog.join().expect("no hog panics");
        }
    });
    let after = scheduler().map_or_else(Counts::default, Scheduler::counts);
    println!(
        "   {} slices ended; a G was displaced by main {} times.\n",
        after.preemptions - before.preemptions,
        after.displacements - before.displacements,
    );
}

#[expect(clippy::missing_spin_loop, reason = "a hog that is nice to nobody")]
fn hog() {
    while !STOP.load(Ordering::Relaxed) {}
}

static DONE: AtomicUsize = AtomicUsize::new(0);

/// More Gs than there are CPUs block their Ms. The Ps of these Ms are handed off.
fn handoff() {
    let blocked = 2 * procs();
    println!("-- handoff: {blocked} Gs block in a driver for 20 ms each, with their Ms. Their Ps do not wait.");
    let before = scheduler().map_or(0, |scheduler| scheduler.machines().count());
    let blocking: Vec<_> = (0..blocked)
        .map(|_| {
            go(|| {
                disk::delay(Duration::from_millis(20)).expect("memory for another M");
                DONE.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let mut rounds = 0u64;
    while DONE.load(Ordering::Relaxed) < blocked {
        rounds += 1;
        yield_now();
    }
    for handle in blocking {
        handle.join().expect("no G panics");
    }
    let after = scheduler().map_or(0, |scheduler| scheduler.machines().count());
    println!("   main went on meanwhile ({rounds} yields); there were {before} Ms, now there are {after}.\n");
}

/// Prints the counters at the end.
fn counters() {
    let Some(scheduler) = scheduler() else { return };
    println!("-- counters, for all Ps:");
    let counts = scheduler.counts();
    for (name, count) in [
        ("Gs spawned", counts.spawned),
        ("parks", counts.parks),
        ("wake-ups of idle Ms", counts.wakes),
        ("steals", counts.steals),
        ("rounds without a steal", counts.steal_misses),
        ("preemptions", counts.preemptions),
        ("displacements by timers", counts.displacements),
        ("handoffs", counts.handoffs),
        ("taken from the global queue", counts.global_takes),
    ] {
        println!("   {count:>8} {name}");
    }
    let windows = longest_windows();
    println!("\n-- the longest that ticks have seen on any CPU:");
    println!("   {:>8} us without interrupts", windows.interrupts_off.as_micros());
    println!("   {:>8} us without preemption", windows.preemption_off.as_micros());
}
