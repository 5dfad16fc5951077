//! The part of the contest of lab 9 that runs on the machine: with `--icount` and one CPU, a nanosecond is an
//! instruction. Prints how many instructions a run took.

#![no_std]
#![cfg_attr(not(test), no_main)]
#![forbid(unsafe_code)]

use kernel::prelude::*;

kernel::main!(main, policy = lab_policy::LabPolicy);

/// How often each G gives way.
const ROUNDS: u64 = 2_000;

fn main(arguments: &[&str]) -> i32 {
    let run: fn() = match arguments {
        ["yields"] => yields,
        ["spawns"] => spawns,
        _ => {
            eprintln!("usage: contest yields, or contest spawns");
            return 1;
        }
    };
    // The first run is not measured. It allocates the stacks, and fills the caches.
    run();
    let begin = now();
    run();
    println!("{}", (now() - begin).as_nanos());
    0
}

/// Eight Gs give way to each other.
fn yields() {
    let gs: Vec<_> = (0..8).map(|_| go(|| (0..ROUNDS).for_each(|_| yield_now()))).collect();
    gs.into_iter().for_each(|g| g.join().expect("no panic"));
}

/// Gs are spawned and joined.
fn spawns() {
    for _ in 0..20 {
        let gs: Vec<_> = (0..100).map(|number| go(move || number)).collect();
        gs.into_iter().for_each(|g| _ = g.join().expect("no panic"));
    }
}
