//! Tests of asynchronous preemption. A G may be preempted anywhere in its own code, and is resumed with its state
//! unchanged. Code with preemption off is not preempted.

mod hold;
mod reserve;
mod state;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gmp_sched::platform::{Pinned, Platform as _};
use gmp_sched::preempt;
use kernel::clock::now;
use kernel::internals::Storm;
use kernel::percpu::PreemptGuard;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;
use kernel::sync::{InterruptMutex, PreemptMutex};

fn preemptions() -> u64 {
    scheduler().expect("the scheduler runs").counts().preemptions
}

/// Begins a storm, in which each CPU is preempted every 3 to 30 microseconds.
fn storm() -> Storm {
    Storm::begin(Duration::from_micros(3)..Duration::from_micros(30))
}

/// Runs `body` in a G while other Gs spin, one for each P. Returns the result, and the number of preemptions of all Gs
/// meanwhile. The caller must have begun a [`storm`] of preemptions.
fn preemptions_during<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> (T, u64) {
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let others: Vec<_> = (0..procs()).map(|_| go(spin_until_stopped)).collect();
    fn spin_until_stopped() {
        while !STOP.load(Ordering::Relaxed) {
            core::hint::black_box(());
        }
    }
    let before = preemptions();
    let result = go(body).join().unwrap();
    let count = preemptions() - before;
    STOP.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
    (result, count)
}

/// A single `memcpy` is preempted, and nevertheless copies every byte.
fn preempted_copies_are_complete() {
    const LENGTH: usize = 8 << 20;
    let storm = storm();
    let ((), count) = preemptions_during(|| {
        let source: Vec<u8> = (0..LENGTH).map(|index| (index.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect();
        // The host decides when the timer of a CPU fires, so a copy may end before that.
        loop {
            let before = preemptions();
            let copy = source.clone();
            assert!(copy == source);
            if preemptions() > before {
                break;
            }
        }
    });
    drop(storm);
    assert!(count > 0);
}
guest_test!(preempted_copies_are_complete, smp = &[1, 2, 8], seconds = 60);

/// Runs a scalar and a vectorised floating-point loop first without and then with preemptions, and compares the
/// results.
fn preempted_computations_return_the_same_results() {
    fn scalar(seed: u32) -> u64 {
        (0..300_000u32).fold(f64::from(seed), |value, step| value * 0.999_999 + f64::from(step % 7)).to_bits()
    }
    fn vector(seed: u32) -> u64 {
        let mut lanes = [0f32; 64];
        for step in 0..5_000u32 {
            for (index, lane) in lanes.iter_mut().enumerate() {
                *lane = *lane * 0.5 + (step.wrapping_mul(seed | 1) as usize + index) as f32;
            }
        }
        lanes.iter().fold(0, |sum: u64, lane| sum.wrapping_mul(31).wrapping_add(u64::from(lane.to_bits())))
    }
    let expected: Vec<_> = (0..6).map(|seed| (scalar(seed), vector(seed))).collect();
    let _storm = storm();
    let before = preemptions();
    // The host decides when the timer of a CPU fires, so all computations may end before that.
    while preemptions() == before {
        let handles: Vec<_> = (0..6 * procs() as u32).map(|n| go(move || (scalar(n % 6), vector(n % 6)))).collect();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), expected[n % 6]);
        }
    }
}
guest_test!(preempted_computations_return_the_same_results, smp = &[1, 2, 8], seconds = 60);

/// Checks that the guard that `hold` returns keeps preemption off. While the guard exists, no other G runs. As soon as
/// the guard is dropped, another G runs. Must be called with one P.
fn is_left_alone<G>(hold: impl FnOnce() -> G) {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let other = go(|| {
        while !STOP.load(Ordering::Relaxed) {
            TURNS.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Wait until the other G has begun. From here on, the two Gs alternate only by preemption.
    while TURNS.load(Ordering::Relaxed) == 0 {
        yield_now();
    }
    let held = hold();
    let turns = TURNS.load(Ordering::Relaxed);
    let start = now();
    while now() - start < 5 * SLICE_NS {
        core::hint::black_box(());
    }
    // If interrupts are on, a tick has requested a preemption by now. The next lines request one in any case.
    let pinned = Pinned::<Kernel>::new();
    preempt::request(pinned.machine());
    drop(pinned);
    let during = TURNS.load(Ordering::Relaxed);
    drop(held);
    // After the guard has turned interrupts on by `sti`, the processor takes no interrupt before the end of the next
    // instruction. So at least one instruction must follow here before the other G can run.
    core::hint::spin_loop();
    let after = TURNS.load(Ordering::Relaxed);
    STOP.store(true, Ordering::Relaxed);
    other.join().unwrap();
    assert_eq!(during, turns, "preempted where that is forbidden");
    assert!(after > during, "not preempted at once when that was allowed again");
}

/// The length of a slice in the tests that call [`is_left_alone`], in nanoseconds.
const SLICE_NS: u64 = 200_000;

fn sections_with_preemption_off_are_not_preempted() {
    static OF_THREADS: PreemptMutex<()> = PreemptMutex::new(());
    static OF_HANDLERS: InterruptMutex<()> = InterruptMutex::new(());
    is_left_alone(PreemptGuard::new);
    is_left_alone(|| (PreemptGuard::new(), PreemptGuard::new()));
    is_left_alone(|| OF_THREADS.lock());
    is_left_alone(|| OF_HANDLERS.lock());
    is_left_alone(|| (PreemptGuard::new(), OF_HANDLERS.lock()));
    // The scheduler holds such a `Pinned` while it holds one of its locks.
    is_left_alone(Pinned::<Kernel>::new);
}
// The clock counts instructions. Otherwise, a delay by the host could use up the slice in which the other G must run.
guest_test!(sections_with_preemption_off_are_not_preempted, smp = &[1], icount, options = &["slice_us=200"]);

/// Main requests the preemption of the Gs on the other CPUs again and again, long before their slices end. The requests
/// are IPIs.
fn ipi_preempts_a_g_on_another_cpu() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let before = preemptions();
    let hogs: Vec<_> = (1..procs())
        .map(|_| {
            go(|| {
                while !STOP.load(Ordering::Relaxed) {
                    core::hint::black_box(());
                }
            })
        })
        .collect();
    // There are fewer hogs than other CPUs or as many, so main finds a CPU without a hog.
    let wanted = before + 1_000;
    while preemptions() < wanted {
        let scheduler = scheduler().expect("the scheduler runs");
        let own = Kernel::current_machine().map(|machine| machine.id());
        for machine in scheduler.machines().filter(|machine| machine.processor().is_some()) {
            if Some(machine.id()) != own {
                preempt::request(machine);
            }
        }
        yield_now();
    }
    STOP.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}
// A slice lasts ten seconds, so that no tick ends a slice during the test.
guest_test!(ipi_preempts_a_g_on_another_cpu, smp = &[2, 8], options = &["slice_us=10000000"]);

/// With the shortest slice, every P switches constantly between Gs that never yield. Nevertheless, main and all other
/// Gs run.
fn main_runs_in_a_storm_of_short_slices() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    let before = preemptions();
    let hogs: Vec<_> = (0..4 * procs())
        .map(|_| {
            go(|| {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                let mut rounds = 0u64;
                while !STOP.load(Ordering::Relaxed) {
                    rounds += 1;
                    ROUNDS.fetch_add(1, Ordering::Relaxed);
                }
                rounds
            })
        })
        .collect();
    while preemptions() - before < 2_000 || BEGUN.load(Ordering::Relaxed) < 4 * procs() as u64 {
        sleep(Duration::from_millis(1));
    }
    STOP.store(true, Ordering::Relaxed);
    let rounds: u64 = hogs.into_iter().map(|hog| hog.join().unwrap()).sum();
    assert_eq!(rounds, ROUNDS.load(Ordering::Relaxed));
}
guest_test!(main_runs_in_a_storm_of_short_slices, smp = &[1, 2, 8], options = &["slice_us=100"], seconds = 60);
