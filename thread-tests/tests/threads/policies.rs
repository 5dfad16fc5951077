//! Policies of programs, on threads.

use std::time::Duration;

use gmp_sched::native::{self, Builder, channel};
use gmp_sched::policy::{EarliestDeadline, Policy, PriorityAging};
use thread_tests::THREADS;

use crate::several::join_all;

/// Gs that do everything at which a policy is asked, on several Ps.
fn everything_ends(policy: &'static dyn Policy) {
    for procs in [1, 4] {
        let sum = THREADS.policy(policy).run(procs, || {
            let (sender, receiver) = channel::<u64>(3);
            let senders: Vec<_> = (0..100)
                .map(|number| {
                    let sender = sender.clone();
                    Builder::new().parameter(number % 5 * 1_000_000).go(move || {
                        native::yield_now();
                        native::sleep(Duration::from_micros(number));
                        native::syscall(std::thread::yield_now);
                        native::blocking(|| ());
                        native::set_parameter(number % 3);
                        sender.send(number).unwrap();
                    })
                })
                .collect();
            drop(sender);
            let sum: u64 = receiver.iter().sum();
            join_all(senders);
            sum
        });
        assert_eq!(sum, (0..100).sum());
    }
}

#[test]
fn gs_end_with_priorities() {
    everything_ends(&PriorityAging);
}

#[test]
fn gs_end_with_deadlines() {
    everything_ends(&EarliestDeadline);
}

/// A scheduler is used again by later runs, without its policy.
#[test]
fn policy_holds_for_one_run() {
    let order = |threads: native::Threads| {
        threads.run(1, || {
            let (sender, receiver) = channel::<u64>(2);
            let gs = [2, 1].map(|priority| {
                let sender = sender.clone();
                Builder::new().parameter(priority).go(move || sender.send(priority).unwrap())
            });
            join_all(gs);
            [receiver.recv().unwrap(), receiver.recv().unwrap()]
        })
    };
    assert_eq!(order(THREADS.policy(&PriorityAging)), [2, 1]);
    // By Go's rules, the G that was spawned last is in `runnext`.
    assert_eq!(order(THREADS), [1, 2]);
}
