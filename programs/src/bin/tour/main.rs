//! A tour of the scheduler. It shows each of its mechanisms in a few lines.
//!
//! `cargo run -- tour --check` also compares what happened with what the text of the tour promises. If a promise does
//! not hold, the tour says which, and ends with the status 1. So whoever has changed a mechanism sees what it broke.

#![no_std]
#![cfg_attr(not(test), no_main)]

mod promises;
mod story;

use core::hint;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::clock;
use kernel::console::SincePowerOn;
use kernel::disk;
use kernel::gmp_sched::Counts;
use kernel::gmp_sched::device_signals::Signal;
use kernel::gmp_sched::goroutine::GoroutineId;
use kernel::gmp_sched::scheduler::Scheduler;
use kernel::gmp_sched::trace::EventKind;
use kernel::percpu;
use kernel::pit;
use kernel::platform::{Kernel, mark, scheduler};
use kernel::prelude::*;
use kernel::watchdog::longest_off_times;

use crate::promises::promise;
use crate::story::Story;

kernel::main!(main);

fn main(arguments: &[&str]) -> i32 {
    let is_checked = match arguments {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("tour: unknown arguments {arguments:?}\nusage: cargo run -- tour [--check]");
            return 1;
        }
    };
    let up = SincePowerOn(Duration::from_nanos(clock::since_power_on()));
    println!("main is G 1, and began {up}.");
    println!("{} CPUs are up; {} Gs may run at once.\n", num_cpu(), procs());
    spread();
    preemption();
    handoff();
    waits();
    counters();
    if is_checked { promises::report() } else { 0 }
}

/// Returns the scheduler's counters, or zeros on a platform without a scheduler.
fn counts() -> Counts {
    scheduler().map_or_else(Counts::default, Scheduler::counts)
}

/// Runs `body` and draws what ran on each P meanwhile. Each column is a fraction of the time, and each letter is a G.
/// Main is `@`, as is any other G that was spawned before this call.
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

/// The number of events that the trace keeps for each P.
const EVENTS: usize = 4096;
const COLUMNS: usize = 72;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Returns a lower bound of the ids of Gs that are spawned later.
fn next_id() -> u64 {
    go(|| ()).id().get() + 1
}

/// The number of Gs to spread over the Ps.
const PARTS: usize = 48;
/// How many numbers each G of [`spread`] checks.
const NUMBERS: usize = 5_000;

/// Main spawns all Gs on its P, and the other Ps steal them.
fn spread() {
    mark("stealing");
    println!("-- stealing: main spawns {PARTS} Gs on its own P. Each counts primes. The other Ps come and steal them.");
    let (mut primes, mut took) = (0, Duration::ZERO);
    let mut by_cpu = vec![0; num_cpu()];
    let before = counts();
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
    promise("each part was counted once: there are 21221 primes", primes == 21_221);
    if procs() > 1 {
        promise("other Ps steal Gs", counts().steals > before.steals);
        promise("the Gs ran on several CPUs", by_cpu.iter().filter(|&&gs| gs > 0).count() > 1);
    }
}

fn is_prime(number: usize) -> bool {
    number >= 2
        && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

static STOP: AtomicBool = AtomicBool::new(false);
static HOGS: AtomicUsize = AtomicUsize::new(0);

/// Spawns two Gs for each P. These Gs never call a function, so only interrupts can preempt them.
fn preemption() {
    mark("preemption");
    println!(
        "-- preemption: {} Gs spin in loops that call nothing, two for each P. Each runs for 10 to 30 ms,",
        2 * procs()
    );
    println!("   and main, which sleeps 15 ms at a time, takes a CPU at once when it wakes.");
    let before = counts();
    drawn(|| {
        let hogs: Vec<_> = (0..2 * procs()).map(|_| go(hog)).collect();
        let is_shown = || HOGS.load(Ordering::Relaxed) == hogs.len() && counts().displacements > before.displacements;
        for round in 0..40 {
            sleep(Duration::from_millis(15));
            // On a busy host it takes longer until everything has happened that the text promises.
            if round >= 3 && is_shown() {
                break;
            }
        }
        promise("each hog runs, although none calls anything", HOGS.load(Ordering::Relaxed) == hogs.len());
        STOP.store(true, Ordering::Relaxed);
        for hog in hogs {
            hog.join().expect("no hog panics");
        }
    });
    let after = counts();
    println!(
        "   {} slices ended; a G was displaced by main {} times.\n",
        after.preemptions - before.preemptions,
        after.displacements - before.displacements,
    );
    promise("hogs are preempted when their slice is over", after.preemptions > before.preemptions);
    promise("main displaces a hog when it wakes", after.displacements > before.displacements);
}

#[expect(clippy::missing_spin_loop, reason = "a hog that is nice to nobody")]
fn hog() {
    HOGS.fetch_add(1, Ordering::Relaxed);
    while !STOP.load(Ordering::Relaxed) {}
}

static DONE: AtomicUsize = AtomicUsize::new(0);

/// Twice as many Gs as there are Ps block their Ms. The Ps of these Ms are handed off.
fn handoff() {
    let blocked = 2 * procs();
    mark("handoff");
    println!("-- handoff: {blocked} Gs block in a driver for 20 ms each, with their Ms. Their Ps do not wait.");
    let machines = || scheduler().map_or(0, |scheduler| scheduler.machines().count());
    let (before, handoffs) = (machines(), counts().handoffs);
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
    let after = machines();
    println!("   main went on meanwhile ({rounds} yields); there were {before} Ms, now there are {after}.\n");
    promise("the P of each M that blocks is handed off", counts().handoffs >= handoffs + blocked as u64);
    promise("there are more Ms than Ps", after > procs());
    promise("main runs while the Gs block", rounds > 0);
}

/// Shows step by step what happens to G, M and P in each of the three ways in which a driver waits. There is only one P
/// meanwhile, so that main and the G that waits compete for this P.
fn waits() {
    let Some(scheduler) = scheduler() else { return };
    mark("three ways to wait");
    println!("-- three ways to wait for a device, with one P: what happens to G, M and P, step by step.");
    let procs = set_procs(1).expect("one P is allowed");
    let before = scheduler.counts();
    println!("   A driver that blocks for 3 ms: the P is handed off at once. Main waits for the G, so the P is free.");
    let block = || disk::delay(Duration::from_millis(3)).expect("memory for another M");
    let story = Story::of(scheduler, EventKind::HandOff, block, || ());
    story.tell();
    promise("another M runs main while the driver blocks", story.main.machine != story.before.machine);
    println!("   The same, but main does not wait, so the P is busy when the call ends.");
    Story::of(scheduler, EventKind::HandOff, block, || compute(4)).tell();
    println!(
        "   A driver that waits for a signal: M and P stay together. Main raises the signal, as an interrupt does."
    );
    let story = Story::of(scheduler, EventKind::Park, || SIGNAL.wait(), || SIGNAL.raise());
    story.tell();
    promise("the M of a G that parks runs main", story.main.machine == story.before.machine);
    println!("   A driver that polls a register for 30 ms: its CPU is busy, so the P is not handed off at once.");
    let poll = || pit::wait(Duration::from_millis(30)).expect("a PIT");
    let story = Story::of(scheduler, EventKind::SyscallEnter, poll, || compute(25));
    story.tell();
    promise("sysmon retakes the P of a long call", counts().retakes > before.retakes);
    promise("the M that gets the P runs main", story.main.machine != story.before.machine);
    let after = scheduler.counts();
    println!(
        "   counted: {} handoffs, {} retaken by sysmon, {} parks.\n",
        after.handoffs - before.handoffs,
        after.retakes - before.retakes,
        after.parks - before.parks,
    );
    set_procs(procs).expect("as many Ps as before");
}

static SIGNAL: Signal<Kernel> = Signal::new();

/// Computes for this number of milliseconds.
fn compute(milliseconds: u64) {
    let end = clock::now() + milliseconds * 1_000_000;
    while clock::now() < end {
        hint::spin_loop();
    }
}

/// Prints the scheduler's counters, and the longest times without interrupts and without preemption. This is the last
/// part of the tour.
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
        ("displacements by urgent Gs", counts.displacements),
        ("handoffs", counts.handoffs),
        ("retakes by sysmon", counts.retakes),
        ("taken from the global queue", counts.global_takes),
    ] {
        println!("   {count:>8} {name}");
    }
    let longest = longest_off_times();
    println!("\n-- the longest that ticks have seen on any CPU:");
    println!("   {:>8} us without interrupts", longest.interrupts_off.as_micros());
    println!("   {:>8} us without preemption", longest.preemption_off.as_micros());
}
