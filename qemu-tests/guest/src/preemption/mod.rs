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

use crate::several::{go_each, join_all};

fn preemptions() -> u64 {
    scheduler().expect("the scheduler runs").counts().preemptions
}

/// Begins a storm, in which each CPU is preempted every 3 to 30 microseconds.
fn storm() -> Storm {
    Storm::begin(Duration::from_micros(3)..Duration::from_micros(30))
}

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
    let hogs = go_each(1..procs(), move |_| {
        while !STOP.load(Ordering::Relaxed) {
            core::hint::black_box(());
        }
    });
    // There is one hog fewer than there are CPUs, so main finds a CPU without a hog.
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
    join_all(hogs);
}
// A slice lasts ten seconds, so that no tick ends a slice during the test.
guest_test!(ipi_preempts_a_g_on_another_cpu, smp = &[2, 8], options = &["slice_us=10000000"]);
