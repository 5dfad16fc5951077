//! A pool of workers with a deadline: one channel carries jobs, another carries results, and a context ends all
//! workers.
//!
//! ```sh
//! cargo run -p gmp-sched --example worker_pool
//! ```

use std::time::Duration;

use gmp_sched::native::{self, Context, Receiver, Sender, channel, go};
use gmp_sched::select;

const WORKERS: usize = 4;

/// Computes one job after the other until there are no more jobs or `context` is done.
fn work(context: &Context, jobs: &Receiver<u64>, results: &Sender<(u64, u64)>) {
    loop {
        select! {
            recv(jobs) -> job => {
                let Ok(job) = job else { return };
                if results.send((job, (1..=job).sum())).is_err() {
                    return;
                }
            }
            until(context) => return,
        }
    }
}

/// Returns the sums of 1 to n for each n below `count`. Omits sums that are not computed before `limit` has passed.
fn sums(count: u64, limit: Duration) -> Vec<(u64, u64)> {
    let (context, cancel) = Context::background().with_timeout(limit);
    let (job_sender, jobs) = channel(0);
    let (result_sender, results) = channel(WORKERS);
    for _ in 0..WORKERS {
        let (context, jobs, results) = (context.clone(), jobs.clone(), result_sender.clone());
        go(move || work(&context, &jobs, &results)).detach();
    }
    // Now only the workers hold receivers of jobs and senders of results, so both channels close when the workers end.
    drop((jobs, result_sender));
    go(move || (0..count).try_for_each(|job| job_sender.send(job))).detach();
    let mut sums: Vec<_> = results.iter().collect();
    drop(cancel);
    sums.sort_unstable();
    sums
}

fn main() {
    // SAFETY: no G uses a thread-local variable or holds a lock of `std` while it waits.
    let threads = unsafe { native::enter() };
    for (job, sum) in threads.run(2, || sums(20, Duration::from_secs(5))) {
        println!("1 + ... + {job} = {sum}");
    }
}

/// There is always a job, so the workers end only because the deadline competes with the jobs.
#[test]
fn deadline_ends_the_workers() {
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let sums = threads.run(2, || sums(u64::MAX, Duration::from_millis(20)));
    assert!((0..).map(|job| (job, job * (job + 1) / 2)).take(sums.len()).eq(sums));
}

#[test]
fn every_job_is_done_once() {
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let expected: Vec<_> = (0..1000).map(|job| (job, job * (job + 1) / 2)).collect();
    assert_eq!(threads.run(2, || sums(1000, Duration::from_secs(600))), expected);
}
