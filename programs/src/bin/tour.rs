//! A tour of the scheduler. It shows each of its mechanisms in a few lines.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::hint;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::clock;
use kernel::console::SincePowerOn;
use kernel::disk;
use kernel::gmp_sched::Counts;
use kernel::gmp_sched::device_signals::Signal;
use kernel::gmp_sched::goroutine::GoroutineId;
use kernel::gmp_sched::platform::Pinned;
use kernel::gmp_sched::scheduler::Scheduler;
use kernel::gmp_sched::trace::{Event, EventKind};
use kernel::percpu;
use kernel::pit;
use kernel::platform::{Kernel, mark, scheduler};
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
    waits();
    counters();
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

/// Spawns two Gs for each P. These Gs never call a function, so only interrupts can preempt them.
fn preemption() {
    if !kernel::PREEMPTS_LOOPS {
        println!("-- preemption: of Gs that spin in loops there is none on the host.\n");
        return;
    }
    mark("preemption");
    println!(
        "-- preemption: {} Gs spin in loops that call nothing, two for each P. Each runs for 10 to 30 ms,",
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

/// Twice as many Gs as there are Ps block their Ms. The Ps of these Ms are handed off.
fn handoff() {
    let blocked = 2 * procs();
    mark("handoff");
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
    Story::of(scheduler, EventKind::HandOff, block, || ()).tell();
    println!("   The same, but main does not wait, so the P is busy when the call ends.");
    Story::of(scheduler, EventKind::HandOff, block, || compute(4)).tell();
    println!(
        "   A driver that waits for a signal: M and P stay together. Main raises the signal, as an interrupt does."
    );
    Story::of(scheduler, EventKind::Park, || SIGNAL.wait(), || SIGNAL.raise()).tell();
    println!("   A driver that polls a register for 30 ms: its CPU is busy, so the P is not handed off at once.");
    let poll = || pit::wait(Duration::from_millis(30)).expect("a PIT");
    Story::of(scheduler, EventKind::SyscallEnter, poll, || compute(25)).tell();
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

/// The M and the P on which a G runs.
#[derive(Clone, Copy)]
struct Place {
    machine: u32,
    processor: u32,
}

impl Place {
    /// Returns where the calling G runs.
    fn here() -> Self {
        let pinned = Pinned::<Kernel>::new();
        Self { machine: pinned.machine().id().get(), processor: pinned.processor().id().get() }
    }
}

/// What happened while a G waited for a device. The events come from the trace. The Gs themselves record where they
/// run.
struct Story {
    goroutine: GoroutineId,
    /// The kind of the event with which the wait begins.
    wait: EventKind,
    /// Where the G ran before its wait.
    before: Place,
    /// Where the G ran after its wait.
    after: Place,
    /// Where main ran during the wait.
    main: Place,
    /// Whether the M on which the G began to wait was idle at the end.
    is_idle: bool,
    /// The events on the only P, oldest first.
    events: Vec<Event>,
}

impl Story {
    /// Spawns a G that calls `wait`, whose first event is of the kind `kind`, and records what happens. When the G waits,
    /// main runs and calls `meanwhile`. Then main waits for the end of the G.
    fn of(
        scheduler: &'static Scheduler<Kernel>,
        kind: EventKind,
        wait: impl FnOnce() + Send + 'static,
        meanwhile: impl FnOnce(),
    ) -> Self {
        scheduler.start_trace(EVENTS).expect("memory for a trace");
        let waiting = go(move || {
            let before = Place::here();
            wait();
            (before, Place::here())
        });
        let goroutine = waiting.id();
        let has_begun = |event: &Event| event.kind == kind && event.goroutine == Some(goroutine);
        yield_now();
        // If the host is busy, the slice of the G may be over before the G waits.
        while !scheduler.processors()[0].trace().iter().any(has_begun) {
            yield_now();
        }
        let main = Place::here();
        meanwhile();
        let (before, after) = waiting.join().expect("the G does not panic");
        scheduler.stop_trace();
        let idle = |machine: u32| {
            let found = scheduler.machines().find(|other| other.id().get() == machine);
            found.is_some_and(|other| other.current_goroutine().is_none())
        };
        let events = scheduler.processors()[0].trace();
        Self { goroutine, wait: kind, before, after, main, is_idle: idle(before.machine), events }
    }

    /// Returns the time of the first event of this kind and this G among the events at `from` or later.
    fn when(&self, kind: EventKind, goroutine: Option<GoroutineId>, from: Instant) -> Option<Instant> {
        let is_wanted = |event: &&Event| event.kind == kind && event.goroutine == goroutine && event.when >= from;
        self.events.iter().find(is_wanted).map(|event| event.when)
    }

    /// Prints the steps, each with the microseconds since the wait began.
    fn tell(&self) {
        let own = Some(self.goroutine);
        let begin = self.when(self.wait, own, Instant::from_nanos(0)).expect("the G has waited");
        let mut steps = self.steps(begin);
        steps.sort_by_key(|(when, _)| *when);
        for (when, what) in steps {
            println!("   {:>8} us  {what}", (when - begin).as_micros());
        }
        if self.is_idle && self.after.machine != self.before.machine {
            println!("   {:>11}  M{} is on the list of idle Ms", "", self.before.machine);
        }
    }

    /// Returns what happened from `begin` on, each step with its time.
    fn steps(&self, begin: Instant) -> Vec<(Instant, String)> {
        let wait = self.wait;
        let (g, m, p) = (self.goroutine, self.before.machine, self.before.processor);
        let (n, q) = (self.after.machine, self.after.processor);
        let begins = match wait {
            EventKind::HandOff => format!("G{g} blocks M{m}, and P{p} is handed off"),
            EventKind::Park => format!("G{g} parks; M{m} keeps P{p}"),
            _ => format!("G{g} begins a system call on M{m}; P{p} stays marked for M{m}"),
        };
        let continues = match wait {
            EventKind::Park => format!("the signal is raised, and G{g} continues on M{n} with P{q}"),
            _ => format!("the call has ended, with P{p} busy: G{g} was queued, and continues on M{n}"),
        };
        let main = format!("M{} runs main with P{}", self.main.machine, self.main.processor);
        let returns = format!("the call ends; P{q} is free, and G{g} continues with it on M{n}");
        let when_returned = self.when(EventKind::SyscallExit, Some(g), begin);
        let when_started = self.when(EventKind::Start, Some(g), begin).filter(|_| when_returned.is_none());
        let steps = [
            (Some(begin), begins),
            (self.when(EventKind::Retake, None, begin), format!("sysmon retakes P{p} from M{m}")),
            (self.when(EventKind::Start, Some(GoroutineId::MAIN), begin), main),
            (when_returned, returns),
            (when_started, continues),
        ];
        steps.into_iter().filter_map(|(when, what)| Some((when?, what))).collect()
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
        ("displacements by timers", counts.displacements),
        ("handoffs", counts.handoffs),
        ("retakes by sysmon", counts.retakes),
        ("taken from the global queue", counts.global_takes),
    ] {
        println!("   {count:>8} {name}");
    }
    let windows = longest_windows();
    println!("\n-- the longest that ticks have seen on any CPU:");
    println!("   {:>8} us without interrupts", windows.interrupts_off.as_micros());
    println!("   {:>8} us without preemption", windows.preemption_off.as_micros());
}
