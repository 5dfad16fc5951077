//! The workloads with channels between threads, which the operating system schedules: with the channels of Rust's
//! standard library, of crossbeam-channel and of flume. The functions of these libraries have the same names, so each
//! workload is written once, as a macro that is expanded for each library.

use crate::report::version_of;
use crate::threads::use_cpus;
use crate::{Arguments, Workload};

pub fn run_crossbeam(arguments: &Arguments) {
    println!("crossbeam-channel {}, between threads of Rust's standard library", version_of("crossbeam-channel"));
    run(arguments, CROSSBEAM);
}

pub fn run_flume(arguments: &Arguments) {
    println!("flume {}, between threads of Rust's standard library", version_of("flume"));
    run(arguments, FLUME);
}

fn run(arguments: &Arguments, workloads: &[Workload<usize>]) {
    use_cpus(arguments.procs);
    arguments.run(&arguments.procs, workloads);
}

const CROSSBEAM: &[Workload<usize>] = &[
    ("chan_pingpong", crossbeam::ping_pong),
    ("chan_mpmc_4x4_cap128", crossbeam::many_to_many),
    ("select_4", crossbeam::select_of_four),
    ("ring_1000", crossbeam::ring),
];

const FLUME: &[Workload<usize>] = &[
    ("chan_pingpong", flume::ping_pong),
    ("chan_mpmc_4x4_cap128", flume::many_to_many),
    ("select_4", flume::select_of_four),
    ("ring_1000", flume::ring),
];

/// Defines the workloads in which each receiver is used by one thread. `$bounded` makes a channel.
macro_rules! one_receiver {
    ($bounded:path) => {
        use std::mem;
        use std::thread;
        use std::time::Instant;

        use $bounded as bounded;

        use crate::report::report_each;

        pub fn ping_pong(&procs: &usize) {
            const ROUNDS: u64 = 60_000;
            let ((to, there), (from, here)) = (bounded(0), bounded(0));
            let start = Instant::now();
            let other = thread::spawn(move || there.into_iter().for_each(|value: u64| from.send(value).expect("open")));
            for round in 0..ROUNDS {
                to.send(round).expect("open");
                here.recv().expect("open");
            }
            drop(to);
            other.join().expect("no panic");
            report_each("chan_pingpong", procs, ROUNDS, start);
        }

        pub fn ring(&procs: &usize) {
            const HOPS: u64 = 100_000;
            let (first, mut last) = bounded::<u64>(0);
            for _ in 1..1000 {
                let (sender, receiver) = bounded(0);
                let from = mem::replace(&mut last, receiver);
                // An error of `send` is ignored. The ring has then ended, and the next thread receives no more tokens.
                thread::spawn(move || from.into_iter().for_each(|token| _ = sender.send(token)));
            }
            let start = Instant::now();
            first.send(HOPS).expect("the ring is closed");
            for token in last {
                if token <= 1000 {
                    break;
                }
                first.send(token - 1000).expect("the ring is closed");
            }
            report_each("ring_1000", procs, HOPS, start);
        }
    };
}

/// Defines the workloads that need a receiver that several threads share, or a select. The function `receive_from_any`
/// receives from one of four channels.
macro_rules! shared_receivers {
    () => {
        pub fn many_to_many(&procs: &usize) {
            const EACH: u64 = 100_000;
            let start = Instant::now();
            let (sender, receiver) = bounded(128);
            for _ in 0..4 {
                let sender = sender.clone();
                thread::spawn(move || (0..EACH).for_each(|value| sender.send(value).expect("receivers")));
            }
            drop(sender);
            let receive = |_| {
                let receiver = receiver.clone();
                thread::spawn(move || receiver.into_iter().sum::<u64>())
            };
            let receivers: Vec<_> = (0..4).map(receive).collect();
            let sums = receivers.into_iter().map(|thread| thread.join().expect("no panic"));
            assert_eq!(sums.sum::<u64>(), 2 * EACH * (EACH - 1));
            report_each("chan_mpmc_4x4_cap128", procs, 4 * EACH, start);
        }

        pub fn select_of_four(&procs: &usize) {
            const EACH: u64 = 50_000;
            let start = Instant::now();
            let channels = [(); 4].map(|()| bounded(0));
            for (sender, _) in &channels {
                let sender = sender.clone();
                thread::spawn(move || (0..EACH).for_each(|value| sender.send(value).expect("a receiver")));
            }
            let receivers = channels.each_ref().map(|(_, receiver)| receiver);
            (0..4 * EACH).for_each(|_| _ = receive_from_any(receivers));
            report_each("select_4", procs, 4 * EACH, start);
        }
    };
}

pub mod of_std {
    one_receiver!(std::sync::mpsc::sync_channel);
}

mod crossbeam {
    use crossbeam_channel::{Receiver, select};

    one_receiver!(crossbeam_channel::bounded);
    shared_receivers!();

    fn receive_from_any([one, two, three, four]: [&Receiver<u64>; 4]) -> u64 {
        select! {
            recv(one) -> value => value,
            recv(two) -> value => value,
            recv(three) -> value => value,
            recv(four) -> value => value,
        }
        .expect("open")
    }
}

mod flume {
    use flume::{Receiver, Selector};

    one_receiver!(::flume::bounded);
    shared_receivers!();

    fn receive_from_any([one, two, three, four]: [&Receiver<u64>; 4]) -> u64 {
        Selector::new()
            .recv(one, |value| value)
            .recv(two, |value| value)
            .recv(three, |value| value)
            .recv(four, |value| value)
            .wait()
            .expect("open")
    }
}
