//! Tests of Ps and Ms while Gs wait for devices. The clock of these tests counts instructions, so the results are the
//! same in all runs.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gmp_sched::platform::Pinned;
use kernel::clock;
use kernel::disk;
use kernel::pit;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

use crate::several::{go_each, join_all};

const MILLISECOND: u64 = 1_000_000;

fn counts() -> gmp_sched::Counts {
    scheduler().expect("the scheduler runs").counts()
}

/// Ms are reused, so their number depends on how many calls block at once, and not on how many calls there are. At most
/// `blocking_limit` calls block at once. Further calls wait until earlier calls have ended, and the log says so.
fn blocking_calls_reuse_ms_and_wait_at_the_limit() {
    const LIMIT: usize = 16;
    /// Runs `gs` Gs, each of which makes `calls` blocking calls. Returns how many Ms exist afterwards, in addition to
    /// one for each P.
    fn block(gs: usize, calls: usize, each: Duration) -> usize {
        let blocking = (0..gs).map(|_| go(move || (0..calls).for_each(|_| disk::delay(each).unwrap())));
        blocking.collect::<Vec<_>>().into_iter().for_each(|handle| handle.join().unwrap());
        scheduler().expect("the scheduler runs").machines().count() - procs()
    }
    assert_eq!(block(8, 125, Duration::from_millis(1)), 8);
    let start = clock::now();
    assert_eq!(block(64, 1, Duration::from_millis(20)), LIMIT);
    let took = clock::now() - start;
    assert!((80 * MILLISECOND..90 * MILLISECOND).contains(&took), "four rounds of {LIMIT} calls took {took} ns");
}
guest_test!(
    blocking_calls_reuse_ms_and_wait_at_the_limit,
    smp = &[2],
    options = &["blocking_limit=16"],
    texts = &["as many calls block their Ms as the option `blocking_limit` allows"],
    icount
);

/// Three hogs compute on the only P. Nevertheless main, whose call blocks its M, runs within a millisecond after the
/// device is done, and each hog does more than half as much work as any other.
fn g_that_returns_from_a_blocking_call_runs_within_a_millisecond_beside_hogs() {
    static STOP: AtomicBool = AtomicBool::new(false);
    const CALL: u64 = MILLISECOND;
    let hogs = go_each(0..3, move |_| {
        let mut rounds = 0_u64;
        while !STOP.load(Ordering::Relaxed) {
            rounds += 1;
        }
        rounds
    });
    let lateness = |_| {
        let start = clock::now();
        disk::delay(Duration::from_nanos(CALL)).unwrap();
        clock::now() - start - CALL
    };
    let latest = (0..200).map(lateness).max().expect("there are calls");
    STOP.store(true, Ordering::Relaxed);
    assert!(latest < MILLISECOND, "the G ran only {latest} ns after the end of its call");
    let rounds: Vec<_> = join_all(hogs);
    let (least, most) = (rounds.iter().min(), rounds.iter().max());
    assert!(least.zip(most).is_some_and(|(least, most)| least * 2 > *most), "the hogs did {rounds:?} rounds");
}
guest_test!(g_that_returns_from_a_blocking_call_runs_within_a_millisecond_beside_hogs, smp = &[1], icount);

/// Calls that block Ms for long do not make other calls more expensive. Main makes the other calls. A hog uses the rest
/// of the only CPU and counts its rounds. The count shows how much of the CPU main's calls take.
fn blocked_ms_do_not_slow_other_calls_down() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    const CALLS: u64 = 100;
    const BLOCKED: u64 = 1000;
    const LONG: Duration = Duration::from_secs(2);
    /// Returns how many rounds the hog does during `body`, and how long `body` takes, in nanoseconds.
    fn rounds_during(body: impl FnOnce()) -> (u64, u64) {
        let (rounds, start) = (ROUNDS.load(Ordering::Relaxed), clock::now());
        body();
        (ROUNDS.load(Ordering::Relaxed) - rounds, clock::now() - start)
    }
    /// Returns how many nanoseconds of the CPU a call takes.
    fn cost() -> u64 {
        let (rounds, took) = rounds_during(|| sleep(Duration::from_millis(CALLS)));
        let call = || disk::delay(Duration::from_nanos(MILLISECOND)).unwrap();
        let (beside_calls, calls_took) = rounds_during(|| (0..CALLS).for_each(|_| call()));
        (calls_took - beside_calls * took / rounds) / CALLS
    }
    let hog = go(|| {
        while !STOP.load(Ordering::Relaxed) {
            ROUNDS.fetch_add(1, Ordering::Relaxed);
        }
    });
    let alone = cost();
    let start = clock::now();
    let blocked = go_each(0..BLOCKED, move |_| disk::delay(LONG).unwrap());
    let blocked_ms = || scheduler().expect("the scheduler runs").counts().handoffs;
    let before = blocked_ms();
    while blocked_ms() - before < BLOCKED {
        sleep(Duration::from_nanos(MILLISECOND));
    }
    let beside_others = cost();
    assert!(clock::now() - start < LONG.as_nanos() as u64, "the calls of the others have ended");
    STOP.store(true, Ordering::Relaxed);
    hog.join().unwrap();
    join_all(blocked);
    println!("a call takes {alone} ns, beside {BLOCKED} others {beside_others} ns");
    assert!(beside_others < 2 * alone);
}
guest_test!(blocked_ms_do_not_slow_other_calls_down, smp = &[1], options = &["blocking_limit=1100"], icount);

/// A driver that polls keeps its CPU busy. After the next timer tick sysmon retakes the only P, so main runs long before
/// the driver is done. No system call was made on this machine before the driver's, so the thread of sysmon has not run
/// yet, and the same timer tick also has to start it.
fn sysmon_retakes_the_p_of_a_driver_that_polls() {
    const LENGTH: Duration = Duration::from_millis(100);
    let (before, start) = (counts(), clock::now());
    let polling = go(|| pit::wait(LENGTH));
    yield_now();
    let retaken = clock::now() - start;
    assert!((MILLISECOND..11 * MILLISECOND).contains(&retaken), "main ran again after {retaken} ns");
    assert_eq!(polling.join(), Ok(Ok(())));
    let took = clock::now() - start;
    assert!((99 * MILLISECOND..102 * MILLISECOND).contains(&took), "the driver took {took} ns");
    let after = counts();
    assert_eq!((after.retakes - before.retakes, after.handoffs - before.handoffs), (1, 0));
}
guest_test!(sysmon_retakes_the_p_of_a_driver_that_polls, smp = &[1], icount);

/// A G computes on each P. Beside 64 Gs that block their Ms again and again, the computing Gs do at least 97% of the
/// work that they do without the blocking Gs.
fn blocked_gs_leave_the_cpus_to_gs_that_compute() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    const BLOCKING: usize = 64;
    /// Computes for 100 ms on each P. Returns how much work was done.
    fn compute() -> u64 {
        let end = clock::now() + 100 * MILLISECOND;
        let computing = (0..procs()).map(|_| go(move || (0..).take_while(|_| clock::now() < end).count() as u64));
        computing.collect::<Vec<_>>().into_iter().map(|handle| handle.join().unwrap()).sum()
    }
    let alone = compute();
    let blocking = go_each(0..BLOCKING, move |_| {
        while !STOP.load(Ordering::Relaxed) {
            CALLS.fetch_add(1, Ordering::Relaxed);
            disk::delay(Duration::from_millis(20)).unwrap();
        }
    });
    while CALLS.load(Ordering::Relaxed) < BLOCKING as u64 {
        yield_now();
    }
    let beside = compute();
    STOP.store(true, Ordering::Relaxed);
    join_all(blocking);
    let calls = CALLS.load(Ordering::Relaxed);
    assert!(calls >= 3 * BLOCKING as u64, "the Gs blocked only {calls} times");
    assert!(beside * 100 >= alone * 97, "{beside} rounds beside {calls} blocking calls, {alone} rounds alone");
}
guest_test!(blocked_gs_leave_the_cpus_to_gs_that_compute, smp = &[1], icount);

/// There is one CPU. A G blocks its M for 3 ms, as a driver does, so its P is handed off to another M. The first M
/// keeps the CPU until it parks for the 3 ms. Only then does the other M get the CPU. It runs main, which computes for
/// 5 ms. The 3 ms end while main computes. At that time the M of main holds the P, so the G continues on the M of main.
fn driver_waits_for_its_device_before_the_next_m_gets_the_cpu() {
    let machine = || Pinned::<Kernel>::new().machine().id();
    let blocking = go(move || {
        let before = machine();
        disk::delay(Duration::from_millis(3)).unwrap();
        (before, machine())
    });
    yield_now();
    let (end, mains) = (clock::now() + 5 * MILLISECOND, machine());
    while clock::now() < end {}
    let (before, after) = blocking.join().unwrap();
    assert_ne!(before, mains);
    assert_eq!(after, mains);
}
guest_test!(driver_waits_for_its_device_before_the_next_m_gets_the_cpu, smp = &[1], icount);
