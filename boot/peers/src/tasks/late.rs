//! How late tasks run after the end of a sleep.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{join_all, on_worker};
use crate::report::{SHORT_NAP, compute_until, nap, report_late};

/// Sleeps, and returns how late the sleep ended.
async fn lateness(duration: Duration) -> Duration {
    let start = Instant::now();
    sleep(duration).await;
    start.elapsed().saturating_sub(duration)
}

pub fn sleepers(&procs: &usize) {
    on_worker(procs, async move {
        let sleeper = |g| async move {
            let mut late = Vec::new();
            for n in 0..20 {
                late.push(lateness(nap(g, n)).await);
            }
            late
        };
        let late = join_all((0..1000).map(|g| tokio::spawn(sleeper(g))).collect()).await;
        report_late("sleep_overshoot", procs, late.concat());
    });
}

/// Calls `body` again and again while each worker has a hog, and returns the results. A hog is a task that computes and
/// never awaits. Nothing preempts the hogs, so `body` returns only after they have ended. In Go, the hogs end after 100
/// results. Here, there is no result while they run, so they end after a second, and there is one result.
async fn beside_hogs<B: Future<Output = Duration>>(procs: usize, body: impl Fn() -> B) -> Vec<Duration> {
    let end = Instant::now() + Duration::from_secs(1);
    let hogs = (0..procs).map(|_| tokio::spawn(async move { compute_until(|| Instant::now() >= end) })).collect();
    let mut results = Vec::new();
    while Instant::now() < end {
        results.push(body().await);
    }
    join_all(hogs).await;
    results
}

pub fn hogs(&procs: &usize) {
    on_worker(procs, async move {
        report_late("hog_wakeup", procs, beside_hogs(procs, || lateness(SHORT_NAP)).await);
    });
}

pub fn ping_pong_beside_hogs(&procs: &usize) {
    on_worker(procs, async move {
        let ((to, there), (from, here)) = (async_channel::bounded(1), async_channel::bounded(1));
        tokio::spawn(async move {
            while let Ok(()) = there.recv().await {
                from.send(()).await.expect("open");
            }
        });
        let late = beside_hogs(procs, || async {
            let (late, woken) = (lateness(SHORT_NAP).await, Instant::now());
            to.send(()).await.expect("open");
            here.recv().await.expect("open");
            late + woken.elapsed()
        });
        report_late("pingpong_beside_hogs", procs, late.await);
    });
}
