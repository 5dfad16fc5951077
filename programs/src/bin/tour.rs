//! A tour of the scheduler: what it does, shown in a few lines each.

#![no_std]
#![no_main]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use kernel::arch::x86_64::timer;
use kernel::console::SincePowerOn;
use kernel::disk;
use kernel::percpu;
use kernel::platform::scheduler;
use kernel::prelude::*;
use kernel::watchdog::longest_windows;

kernel::main!(main);

fn main(_: &[&str]) {
    let up = SincePowerOn(Duration::from_nanos(timer::since_power_on()));
    println!("main is G 1, and began {up}.");
    println!("{} CPUs are up; {} Gs may run at once.\n", num_cpu(), procs());
    spread();
    preemption();
    handoff();
    counters();
}

/// Gs to spread, and numbers that each looks at.
const PARTS: usize = 64;
const NUMBERS: usize = 4_000;

/// All Gs are spawned on one P; the others come and steal them.
fn spread() {
    println!("-- stealing: main spawns {PARTS} Gs on its own P. Each counts primes, then says which CPU it ran on.");
    let start = timer::now();
    let parts: Vec<_> = (0..PARTS)
        .map(|part| {
            go(move || {
                let count = (part * NUMBERS..(part + 1) * NUMBERS).filter(|&number| is_prime(number)).count();
                (count, percpu::current().index())
            })
        })
        .collect();
    let mut by_cpu = vec![0; num_cpu()];
    let mut primes = 0;
    for part in parts {
        let (count, cpu) = part.join().expect("no part panics");
        primes += count;
        by_cpu[cpu] += 1;
    }
    let took = Duration::from_nanos(timer::now() - start);
    for (cpu, &gs) in by_cpu.iter().enumerate() {
        println!("   CPU {cpu}: {}", "#".repeat(gs));
    }
    println!("   {primes} primes below {}, in {} ms.\n", PARTS * NUMBERS, took.as_millis());
}

fn is_prime(number: usize) -> bool {
    number >= 2
        && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Every P gets a G that never calls anything; the timer takes the CPUs from them.
fn preemption() {
    println!("-- preemption: {} Gs spin in loops that call nothing, one for each P.", procs());
    let before = scheduler().map_or(0, |scheduler| scheduler.counts().preemptions);
    let hogs: Vec<_> = (0..procs()).map(|_| go(hog)).collect();
    for round in 1..=3 {
        sleep(Duration::from_millis(5));
        println!("   main woke from its sleep no. {round} all the same, on CPU {}.", percpu::current());
    }
    STOP.store(true, Ordering::Relaxed);
    for hog in hogs {
        hog.join().expect("no hog panics");
    }
    let after = scheduler().map_or(0, |scheduler| scheduler.counts().preemptions);
    println!("   Gs were made to give way {} times.\n", after - before);
}

#[expect(clippy::missing_spin_loop, reason = "a hog that is nice to nobody")]
fn hog() {
    while !STOP.load(Ordering::Relaxed) {}
}

static DONE: AtomicUsize = AtomicUsize::new(0);

/// More Gs block their Ms than there are CPUs; their Ps go to other Ms.
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

/// What all this took.
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
