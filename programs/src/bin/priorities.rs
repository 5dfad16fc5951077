//! A program with a scheduling policy of its own: Gs with a higher priority run first. Messages reach the G of the
//! highest priority at once, although more Gs compute all the time than there are CPUs.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::clock;
use kernel::gmp_sched::policy::PriorityAging;
use kernel::prelude::*;

kernel::main!(main, policy = PriorityAging);

fn main(_args: &[&str]) {
    let (sender, receiver) = channel::<u64>(100);
    let server = Builder::new().parameter(PriorityAging::HIGHEST).go(move || {
        let mut delays: Vec<u64> = receiver.iter().map(|sent| clock::now() - sent).collect();
        delays.sort_unstable();
        delays
    });
    for _ in 0..8 * procs() {
        let sender = sender.clone();
        go(move || {
            for _ in 0..20 {
                compute(Duration::from_millis(1));
                sender.send(clock::now()).unwrap();
            }
        })
        .detach();
    }
    drop(sender);
    let delays = server.join().unwrap();
    println!("{} messages, half of them within {} us", delays.len(), delays[delays.len() / 2] / 1000);
}

fn compute(time: Duration) {
    let until = now() + time;
    while now() < until {
        core::hint::spin_loop();
    }
}
