//! Tests of the scheduler in the kernel, where Gs, Ms and Ps run on CPUs with timer interrupts.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use kernel::clock;
use kernel::disk;
use kernel::percpu;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

fn counts() -> gmp_sched::Counts {
    scheduler().expect("the scheduler runs").counts()
}

fn nanoseconds(since: u64) -> u64 {
    clock::now() - since
}

fn join_returns_results() {
    let handles: Vec<_> = (0..500u64).map(|n| go(move || n * n)).collect();
    let sum: u64 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
    assert_eq!(sum, (0..500).map(|n| n * n).sum());
}
guest_test!(join_returns_results, smp = &[1, 2, 8]);

/// The Gs spin at a barrier without calling the scheduler. They pass the barrier only if as many Gs run at once as
/// there are Ps.
fn all_ps_run_at_once() {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    let handles: Vec<_> = (0..procs())
        .map(|_| {
            go(|| {
                ARRIVED.fetch_add(1, Ordering::SeqCst);
                while ARRIVED.load(Ordering::SeqCst) < procs() {
                    core::hint::spin_loop();
                }
                percpu::current().index()
            })
        })
        .collect();
    let mut cpus: Vec<_> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    assert_eq!(cpus.len(), procs(), "{cpus:?}");
}
// A slice lasts ten seconds, so that no G is preempted. Preempted Gs would pass the barrier on a single CPU.
guest_test!(all_ps_run_at_once, smp = &[2, 8], options = &["slice_us=10000000"]);

/// All Gs are spawned on one P, and spin until every CPU has run one of them. Only stealing moves the Gs to other Ps.
fn stealing_spreads_gs_to_all_cpus() {
    static SEEN: [AtomicBool; 8] = [const { AtomicBool::new(false) }; 8];
    let all_seen = || SEEN[..procs()].iter().all(|seen| seen.load(Ordering::Relaxed));
    let before = counts().steals;
    let handles: Vec<_> = (0..8 * procs())
        .map(|_| {
            go(move || {
                while !all_seen() {
                    SEEN[percpu::current().index()].store(true, Ordering::Relaxed);
                    core::hint::spin_loop();
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
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
    let hogs: Vec<_> = (0..2 * procs())
        .map(|_| {
            go(|| {
                TURNS.fetch_add(1, Ordering::Relaxed);
                while !STOP.load(Ordering::Relaxed) {
                    core::hint::black_box(());
                }
            })
        })
        .collect();
    while TURNS.load(Ordering::Relaxed) < 2 * procs() as u32 {
        sleep(Duration::from_millis(1));
    }
    STOP.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    assert!(interruptions() > before);
}
guest_test!(hogs_are_preempted, smp = &[1, 2, 8]);

/// A G in a blocking call keeps its M but not its P. So other Gs run although more Gs are in such calls than there are
/// Ps.
fn blocked_ms_hand_off_their_ps() {
    let before = counts().handoffs;
    // The first Gs may block before main continues, so the time is read before they are spawned.
    let start = clock::now();
    let blocked: Vec<_> = (0..4 * procs()).map(|_| go(|| disk::delay(Duration::from_millis(30)).unwrap())).collect();
    yield_now();
    let busy: Vec<_> = (0..4 * procs()).map(|n| go(move || n)).collect();
    busy.into_iter().enumerate().for_each(|(n, handle)| assert_eq!(handle.join().unwrap(), n));
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
    assert!(nanoseconds(start) >= 30_000_000);
    assert_eq!(counts().handoffs - before, 4 * procs() as u64);
}
guest_test!(blocked_ms_hand_off_their_ps, smp = &[1, 2, 8]);

/// sysmon retakes the P of an M in a long system call and hands it off to another M.
fn sysmon_retakes_the_p_of_a_long_system_call() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let busy: Vec<_> = (0..procs())
        .map(|_| {
            go(|| {
                gmp_sched::syscall::syscall::<Kernel, _>(|| {
                    while !DONE.load(Ordering::Relaxed) {
                        core::hint::spin_loop();
                    }
                });
            })
        })
        .collect();
    // With one P, main runs again only because sysmon retakes the P from the G in the system call.
    yield_now();
    go(|| DONE.store(true, Ordering::Relaxed)).join().unwrap();
    busy.into_iter().for_each(|handle| handle.join().unwrap());
}
guest_test!(sysmon_retakes_the_p_of_a_long_system_call, smp = &[1, 2, 8]);

fn sleeps_are_not_short_and_end_in_order() {
    static ORDER: spin::Mutex<Vec<u64>> = spin::Mutex::new(Vec::new());
    let start = clock::now();
    let handles: Vec<_> = [60u64, 20, 40]
        .map(|milliseconds| {
            go(move || {
                sleep(Duration::from_millis(milliseconds));
                assert!(nanoseconds(start) >= milliseconds * 1_000_000);
                let _pinned = percpu::PreemptGuard::new();
                ORDER.lock().push(milliseconds);
            })
        })
        .into_iter()
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(*ORDER.lock(), [20, 40, 60]);
}
guest_test!(sleeps_are_not_short_and_end_in_order, smp = &[1, 2, 8], icount);

/// Gs perform random operations of all kinds. At the end, the counters agree with the number of Gs.
fn random_operations_account_for_every_g() {
    static FINISHED: AtomicUsize = AtomicUsize::new(0);
    fn tree(seed: u32, depth: u32) {
        let mut random = seed.wrapping_mul(0x9E37_79B9) | 1;
        let mut children = Vec::new();
        for child in 0..if depth > 0 { 3 } else { 0 } {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let seed = random.wrapping_add(child);
            children.push(go(move || tree(seed, depth - 1)));
            match random % 16 {
                0 => sleep(Duration::from_micros(u64::from(random % 3000))),
                1 => disk::delay(Duration::from_micros(u64::from(random % 2000))).unwrap(),
                2 => drop((0..random % 50_000).map(f64::from).fold(1.0, |a, b| core::hint::black_box(a * 0.999 + b))),
                3 => drop(vec![random; random as usize % 5000]),
                4 => gmp_sched::syscall::syscall::<Kernel, _>(|| ()),
                5..=9 => yield_now(),
                _ => {}
            }
        }
        children.into_iter().for_each(|child| child.join().unwrap());
        FINISHED.fetch_add(1, Ordering::Relaxed);
    }
    let before = counts().spawned;
    let roots: Vec<_> = (0..24).map(|seed| go(move || tree(seed, 4))).collect();
    roots.into_iter().for_each(|root| root.join().unwrap());
    assert_eq!(FINISHED.load(Ordering::Relaxed), 24 * 121);
    assert_eq!(counts().spawned - before, 24 * 121);
}
guest_test!(random_operations_account_for_every_g, smp = &[1, 2, 8], seconds = 60);

/// If there are fewer Ps than CPUs, the number of Gs that run at once is at most the number of Ps.
fn fewer_ps_than_cpus_bound_the_running_gs() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    assert_eq!((procs(), num_cpu()), (3, 8));
    let handles: Vec<_> = (0..24)
        .map(|_| {
            go(|| {
                // Preemption is off here, so each G that is counted is running.
                let _pinned = percpu::PreemptGuard::new();
                let at_once = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
                (0..20_000).for_each(|_| core::hint::spin_loop());
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                at_once
            })
        })
        .collect();
    assert!(handles.into_iter().all(|handle| handle.join().unwrap() <= 3));
}
guest_test!(fewer_ps_than_cpus_bound_the_running_gs, options = &["procs=3"]);

fn panic_in_a_goroutine() {
    go(|| panic!("on purpose")).join().unwrap();
}
guest_test!(
    panic_in_a_goroutine,
    status = 2,
    texts = &["panic at", "on purpose", "panic_in_a_goroutine", "goroutine 1 ["]
);

fn deadlock_of_all_gs_is_reported() {
    use gmp_sched::goroutine::WaitReason;
    let waiter = || gmp_sched::park::park::<Kernel>(WaitReason::Parked, |_, _| true);
    Builder::new().name("waiter").go(waiter).join().unwrap();
}
guest_test!(
    deadlock_of_all_gs_is_reported,
    isolated,
    status = 2,
    texts = &["fatal error: all goroutines are asleep - deadlock!", "(waiter) [parked, ", "goroutine 1 [join, "]
);

fn exit_ends_one_goroutine() {
    for round in 0..20 {
        let ending = go(move || {
            if round % 2 == 0 {
                sleep(Duration::from_micros(50));
            }
            goexit();
        });
        assert_eq!(ending.join(), Err(gmp_sched::JoinError::Exited));
        assert_eq!(go(move || round).join(), Ok(round));
    }
}
guest_test!(exit_ends_one_goroutine);

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
