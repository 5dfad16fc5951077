//! Lab 6: system calls, on simulated machines. Each machine takes the same steps in each run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::sysmon::Sysmon;
use gmp_sched::trace::{Event, EventKind, Track, TrackTrace};

use crate::machine::{of_cpus, run};

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A machine that may have more CPUs than Ps.
fn of(cpus: usize, processors: usize, seed: u64) -> Config {
    Config { processors, ..of_cpus(cpus, seed) }
}

/// Spawns `count` Gs that each do `what`, and waits for them.
fn each(count: usize, what: impl Fn() + Clone + Send + 'static) {
    let gs: Vec<_> = (0..count).map(|_| sim::go(what.clone())).collect();
    gs.into_iter().for_each(|g| g.join().expect("no panic"));
}

#[test]
fn work_goes_on_while_a_g_blocks() {
    for seed in 0..10 {
        let elapsed = run(of(1, 1, seed), || {
            let blocks = sim::go(|| sim::block(millis(20)));
            each(4, || sim::work(millis(5)));
            blocks.join().expect("no panic");
        });
        let elapsed = elapsed.elapsed;
        assert!(
            elapsed < millis(30),
            "one G blocks for 20 ms, others compute for 20 ms: on one P both take {} ms (seed {seed})",
            elapsed.as_millis()
        );
    }
}

#[test]
fn many_gs_block_at_once() {
    for seed in 0..5 {
        let elapsed = run(of(1, 1, seed), || each(20, || sim::block(millis(10)))).elapsed;
        assert!(
            elapsed < millis(20),
            "20 Gs that each block for 10 ms take {} ms on one P (seed {seed})",
            elapsed.as_millis()
        );
    }
}

#[test]
fn long_call_loses_its_p() {
    for seed in 0..10 {
        let report = run(of(2, 1, seed), || {
            let calls = sim::go(|| sim::syscall(millis(60)));
            each(4, || sim::work(millis(15)));
            calls.join().expect("no panic");
        });
        assert!(report.counts.retakes > 0, "a system call of 60 ms keeps the only P while Gs wait (seed {seed})");
        // The CPU checks the call at its next timer interrupt, which comes at the end of the slice.
        let elapsed = report.elapsed.as_millis();
        assert!(elapsed < 90, "a call of 60 ms beside work of 60 ms takes {elapsed} ms on two CPUs (seed {seed})");
    }
}

/// Many Gs make short calls in a row, so their P is often in a call when sysmon looks.
#[test]
fn short_calls_keep_their_p() {
    for seed in 0..10 {
        let report = run(of(2, 1, seed), || each(3, || (0..2000).for_each(|_| sim::syscall(micros(12)))));
        let (retakes, slices) = (report.counts.retakes, report.elapsed.as_millis() / 10);
        // At the end of its slice, a G loses its P even in a short call.
        assert!(
            u128::from(retakes) <= 2 * slices,
            "the P was retaken {retakes} times in {slices} slices from calls of 12 us (seed {seed})"
        );
    }
}

/// How often a P is retaken from a G that makes one call, while another P is idle. On a third P, a G does the checks of sysmon
/// again and again.
fn retakes_of_a_lone_call(call: Duration, seed: u64) -> u64 {
    let counts = run(of_cpus(3, seed), move || {
        let watches = sim::go(move || {
            let mut sysmon = Sysmon::new(Pinned::<Sim>::new().machine().scheduler());
            let end = sim::elapsed() + call;
            while sim::elapsed() < end {
                sysmon.check();
                sim::work(micros(50));
            }
        });
        sim::syscall(call);
        watches.join().expect("no panic");
    });
    counts.counts.retakes
}

#[test]
fn p_without_work_stays_with_its_m_for_a_slice() {
    for seed in 0..10 {
        let (short, long) = (retakes_of_a_lone_call(millis(7), seed), retakes_of_a_lone_call(millis(40), seed));
        assert!(
            short == 0,
            "a P without work was retaken from a call of 7 ms, although another P is idle (seed {seed})"
        );
        assert!(long == 1, "a P without work was retaken {long} times from one call of 40 ms (seed {seed})");
    }
}

#[test]
fn there_is_one_m_for_each_p_and_each_g_that_blocks() {
    let at_once = run(of(1, 1, 0), || each(20, || sim::block(millis(10)))).machines;
    assert!((21..=23).contains(&at_once), "20 Gs block at once on one P, with {at_once} Ms; 21 are needed");
    let one_by_one = run(of(1, 1, 0), || (0..200).for_each(|_| sim::block(micros(50))));
    let (machines, handoffs) = (one_by_one.machines, one_by_one.counts.handoffs);
    assert!(handoffs == 200, "200 blocking calls, and {handoffs} handoffs");
    assert!(machines <= 3, "200 blocking calls one after the other on one P, with {machines} Ms; 2 are needed");
}

#[test]
fn no_m_is_woken_for_a_p_without_work() {
    for seed in 0..5 {
        let counts = run(of(2, 2, seed), || (0..200).for_each(|_| sim::block(micros(50)))).counts;
        let (handoffs, wakes) = (counts.handoffs, counts.wakes);
        assert!(handoffs == 200, "200 blocking calls, and {handoffs} handoffs (seed {seed})");
        assert!(wakes <= 5, "200 handoffs with nothing to run woke an M {wakes} times (seed {seed})");
    }
}

/// For each blocking call: the P that was handed off, and the P on which the G continued.
fn returns(traces: &[TrackTrace]) -> Vec<(u32, u32)> {
    let mut events: Vec<(u32, &Event)> = Vec::new();
    for trace in traces {
        if let Track::Processor(number) = trace.track {
            events.extend(trace.events.iter().map(|event| (number, event)));
        }
    }
    events.sort_by_key(|(_, event)| event.when);
    let mut left = HashMap::new();
    let mut returns = Vec::new();
    for (on, event) in events {
        match event.kind {
            EventKind::HandOff => drop(left.insert(event.goroutine, on)),
            EventKind::SyscallExit => returns.extend(left.remove(&event.goroutine).map(|from| (from, on))),
            _ => {}
        }
    }
    returns
}

/// Three Gs block for different times, on four Ps. So when a call ends, the old P of its G is idle, and other Ps are
/// idle, too.
#[test]
fn g_returns_to_its_old_p_if_that_is_idle() {
    let (mut returned, mut elsewhere) = (0, 0);
    for seed in 0..5 {
        let (ran, traces) = sim::run_traced(of_cpus(4, seed), 10_000, || {
            let block = |time| {
                sim::go(move || {
                    for _ in 0..100 {
                        sim::work(micros(20));
                        sim::block(micros(time));
                    }
                })
            };
            let gs = [37, 50, 83].map(block);
            gs.into_iter().for_each(|g| g.join().expect("no panic"));
        });
        ran.unwrap_or_else(|failure| panic!("on 4 CPUs, seed {seed}: {}", failure.message));
        let returns = returns(&traces);
        returned += returns.len();
        elsewhere += returns.iter().filter(|(from, to)| from != to).count();
    }
    assert!(returned > 1200, "of 1500 blocking calls, {returned} handed a P off and got one back");
    // At first the Gs share Ps, so some old Ps are not idle when a call ends.
    assert!(elsewhere < 60, "of 1500 blocking calls, {elsewhere} ended on another P, although most old ones were idle");
}

#[test]
fn g_returns_to_an_idle_p_and_disturbs_nobody() {
    for seed in 0..10 {
        let report = run(of(2, 2, seed), || {
            let stays = sim::go(|| {
                for _ in 0..20 {
                    let before = sim::machine();
                    sim::block(micros(200));
                    assert!(sim::machine() == before, "a G changed its M in a blocking call, although a P was idle");
                }
            });
            // One of the two Ps is busy.
            sim::work(millis(9));
            stays.join().expect("no panic");
        });
        let (handoffs, displaced) = (report.counts.handoffs, report.counts.displacements);
        assert!(handoffs == 20, "20 blocking calls, and {handoffs} handoffs (seed {seed})");
        assert!(displaced == 0, "{displaced} Gs were displaced, although a P was idle (seed {seed})");
    }
}

/// A tree of Gs that compute, sleep, yield, block and make system calls. The bits of `path` choose what each of them does.
fn tree(path: u64, depth: u32, ended: &Arc<AtomicUsize>) {
    let mut children = Vec::new();
    for child in 0..if depth > 0 { 3 } else { 0 } {
        let path = path.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) + child;
        let counter = ended.clone();
        children.push(sim::go(move || tree(path, depth - 1, &counter)));
        let time = micros(path >> 8 & 0x3FF);
        match path & 7 {
            0 => sim::sleep(time),
            1 | 2 => sim::block(time),
            3 => sim::syscall(time * 40),
            4 => sim::syscall(time / 50),
            5 => sim::work(time * 10),
            _ => sim::yield_now(),
        }
    }
    children.into_iter().for_each(|child| child.join().expect("no panic"));
    ended.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn no_g_and_no_p_is_lost_in_random_programs() {
    let (mut handoffs, mut retakes) = (0, 0);
    for seed in 0..60 {
        let (cpus, processors) = [(1, 1), (2, 1), (2, 2), (4, 3)][seed as usize % 4];
        let counts = run(of(cpus, processors, seed), move || {
            let ended = Arc::new(AtomicUsize::new(0));
            (0..3).for_each(|root| tree(seed * 3 + root + 1, 3, &ended));
            let ended = ended.load(Ordering::Relaxed);
            assert!(ended == 3 * 40, "{ended} of 120 Gs have ended");
        });
        handoffs += counts.counts.handoffs;
        retakes += counts.counts.retakes;
    }
    assert!(handoffs > 0 && retakes > 0, "in 60 programs, {handoffs} Ps were handed off and {retakes} retaken");
}
