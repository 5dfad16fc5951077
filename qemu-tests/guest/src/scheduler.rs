//! Tests of the scheduler in the kernel, where Gs, Ms and Ps run on CPUs with timer interrupts.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use kernel::clock;
use kernel::disk;
use kernel::percpu::{self, PreemptGuard};
use kernel::platform::scheduler;
use kernel::prelude::*;

use crate::several::{go_each, join_all};

fn counts() -> gmp_sched::Counts {
    scheduler().expect("the scheduler runs").counts()
}

/// The Gs spin at a barrier, and none of them can be preempted or moved. So they pass the barrier only if as many Gs run
/// at once as there are Ps, each on a CPU of its own.
fn all_ps_run_at_once() {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    let handles = go_each(0..procs(), move |_| {
        let _pinned = PreemptGuard::new();
        ARRIVED.fetch_add(1, Ordering::SeqCst);
        while ARRIVED.load(Ordering::SeqCst) < procs() {
            core::hint::spin_loop();
        }
        percpu::current().index()
    });
    let mut cpus: Vec<_> = join_all(handles);
    cpus.sort_unstable();
    cpus.dedup();
    assert_eq!(cpus.len(), procs(), "{cpus:?}");
}
guest_test!(all_ps_run_at_once, smp = &[2, 8]);

/// All Gs are spawned on one P, and spin until every CPU has run one of them. Only stealing moves the Gs to other Ps.
fn stealing_spreads_gs_to_all_cpus() {
    static SEEN: [AtomicBool; 8] = [const { AtomicBool::new(false) }; 8];
    let all_seen = || SEEN[..procs()].iter().all(|seen| seen.load(Ordering::Relaxed));
    let before = counts().steals;
    join_all(go_each(0..8 * procs(), move |_| {
        while !all_seen() {
            SEEN[percpu::current().index()].store(true, Ordering::Relaxed);
            core::hint::spin_loop();
        }
    }));
    assert!(counts().steals > before);
}
// A slice lasts ten seconds, so that no G is preempted. A preempted G would go to the global queue, through which it
// could get to another P without stealing.
guest_test!(stealing_spreads_gs_to_all_cpus, smp = &[2, 8], options = &["slice_us=10000000"]);

/// Every P has hogs, which never call the scheduler. Nevertheless main wakes from its sleep, and all hogs run.
fn hogs_are_preempted() {
    /// Returns the number of preemptions and displacements so far. Displacements are counted, too, because the host may
    /// delay the machine. In this case the slice of a hog may end while main runs in the hog's place. Then the hog has
    /// been displaced, but is not preempted.
    fn interruptions() -> u64 {
        counts().preemptions + counts().displacements
    }
    static STOP: AtomicBool = AtomicBool::new(false);
    static TURNS: AtomicU32 = AtomicU32::new(0);
    let before = interruptions();
    let hogs = go_each(0..2 * procs(), move |_| {
        TURNS.fetch_add(1, Ordering::Relaxed);
        while !STOP.load(Ordering::Relaxed) {
            core::hint::black_box(());
        }
    });
    while TURNS.load(Ordering::Relaxed) < 2 * procs() as u32 {
        sleep(Duration::from_millis(1));
    }
    STOP.store(true, Ordering::Relaxed);
    join_all(hogs);
    assert!(interruptions() > before);
}
guest_test!(hogs_are_preempted, smp = &[1, 2, 8]);

/// A G in a blocking call keeps its M but not its P. So other Gs run although more Gs are in such calls than there are
/// Ps.
fn blocked_ms_hand_off_their_ps() {
    let before = counts().handoffs;
    // The first Gs may block before main continues, so the time is read before they are spawned.
    let start = clock::now();
    let blocked = go_each(0..4 * procs(), move |_| disk::delay(Duration::from_millis(30)).unwrap());
    yield_now();
    let busy = go_each(0..4 * procs(), move |n| n);
    busy.into_iter().enumerate().for_each(|(n, handle)| assert_eq!(handle.join().unwrap(), n));
    join_all(blocked);
    assert!(clock::now() - start >= 30_000_000);
    assert_eq!(counts().handoffs - before, 4 * procs() as u64);
}
guest_test!(blocked_ms_hand_off_their_ps, smp = &[1, 2, 8]);

/// If there are fewer Ps than CPUs, the number of Gs that run at once is at most the number of Ps.
fn fewer_ps_than_cpus_bound_the_running_gs() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    assert_eq!((procs(), num_cpu()), (3, 8));
    let handles = go_each(0..24, move |_| {
        // Preemption is off here, so each G that is counted is running.
        let _pinned = PreemptGuard::new();
        let at_once = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
        (0..20_000).for_each(|_| core::hint::spin_loop());
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        at_once
    });
    assert!(handles.into_iter().all(|handle| handle.join().unwrap() <= 3));
}
guest_test!(fewer_ps_than_cpus_bound_the_running_gs, options = &["procs=3"]);

fn main_exits() {
    for number in 1..5 {
        go(move || {
            sleep(Duration::from_micros(number * 100));
            println!("other {number} goes on");
        })
        .detach();
    }
    goexit();
}
guest_test!(
    main_exits,
    isolated,
    status = 2,
    texts = &["other 4 goes on", "fatal error: no goroutines (main called runtime.Goexit) - deadlock!"]
);
