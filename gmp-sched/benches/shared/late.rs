//! How late Gs run after the end of a sleep.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use super::report::report_late;
use crate::platform::{Chan, go, now_ns, procs, sleep};

/// Sleeps for `milliseconds` and returns how late the sleep ended, in nanoseconds.
fn lateness(milliseconds: u64) -> u64 {
    let start = now_ns();
    sleep(Duration::from_millis(milliseconds));
    now_ns() - start - milliseconds * 1_000_000
}

/// Measures how late sleeps end. 1000 Gs sleep 20 times each, for 1 to 10 ms.
pub(super) fn sleepers() {
    let sleeping: Vec<_> = (0..1000)
        .map(|g| go(move || (0..20).map(|n| lateness(1 + (g * 7 + n * 3) % 10)).collect::<Vec<_>>()))
        .collect();
    let late = sleeping.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect();
    report_late("sleep_overshoot", late);
}

static STOP: AtomicBool = AtomicBool::new(false);
static SINK: AtomicU64 = AtomicU64::new(0);

/// Measures how late main wakes from sleeps of 1 ms while hogs run (Gs that compute and never wait).
pub(super) fn hogs() {
    report_late("hog_wakeup", beside_hogs(|_| lateness(1)));
}

/// Measures how late main has the answer of another G to a question that it asks after a sleep of 1 ms, while hogs run.
pub(super) fn ping_pong_beside_hogs() {
    let (there, here) = (Chan::new(0), Chan::new(0));
    let (to, from) = (there.clone(), here.clone());
    let other = go(move || {
        while let Ok(question) = to.recv() {
            from.send(question).expect("open");
        }
    });
    let late = beside_hogs(|round| {
        let late = lateness(1);
        let woken = now_ns();
        there.send(round).expect("open");
        here.recv().expect("open");
        late + now_ns() - woken
    });
    there.close();
    other.join().expect("no panic");
    report_late("pingpong_beside_hogs", late);
}

/// Calls `body` 100 times while as many hogs run as there are Ps. (A hog is a G that computes and never waits.) Returns
/// the results.
pub(crate) fn beside_hogs(body: impl Fn(u64) -> u64) -> Vec<u64> {
    STOP.store(false, Ordering::Relaxed);
    let hogs: Vec<_> = (0..procs())
        .map(|_| {
            go(|| {
                let mut x = 1u64;
                while !STOP.load(Ordering::Relaxed) {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                }
                SINK.fetch_add(x, Ordering::Relaxed);
            })
        })
        .collect();
    let results = (0..100).map(body).collect();
    STOP.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
    results
}
