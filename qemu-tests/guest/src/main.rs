//! The tests that run in the kernel.
//!
//! Without arguments, this program lists the tests. With the argument `serve`, it runs the tests that the host names on
//! the console. With names as arguments, it runs the tests of these names. The protocol is described in
//! [`boot_protocol::report`]. To add a test, write a function and pass its name to [`guest_test!`].
#![no_std]
#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]

extern crate alloc;

/// What the module `several` needs.
#[cfg(gmp_machine)]
use kernel::platform;

#[cfg(gmp_machine)]
#[macro_use]
mod registry;
#[cfg(gmp_machine)]
mod contexts;
#[cfg(gmp_machine)]
mod disk_cursors;
#[cfg(gmp_machine)]
mod disk_faults;
#[cfg(gmp_machine)]
mod disk_queues;
#[cfg(gmp_machine)]
mod disks;
#[cfg(gmp_machine)]
mod failing;
#[cfg(gmp_machine)]
mod handoff;
#[cfg(gmp_machine)]
mod heap;
#[cfg(gmp_machine)]
mod idle;
#[cfg(gmp_machine)]
mod isolation;
#[cfg(gmp_machine)]
mod leaks;
#[cfg(gmp_machine)]
mod library;
#[cfg(gmp_machine)]
mod machine;
#[cfg(gmp_machine)]
mod masked;
#[cfg(gmp_machine)]
mod memory;
#[cfg(gmp_machine)]
mod messages;
#[cfg(gmp_machine)]
mod misuse;
#[cfg(gmp_machine)]
mod network;
#[cfg(gmp_machine)]
mod non_maskable;
#[cfg(gmp_machine)]
mod order;
#[cfg(gmp_machine)]
mod overflow;
#[cfg(gmp_machine)]
mod preemption;
#[cfg(gmp_machine)]
mod printing;
#[cfg(gmp_machine)]
mod provoke;
#[cfg(gmp_machine)]
mod random;
#[cfg(gmp_machine)]
mod reports;
#[cfg(gmp_machine)]
mod scavenge;
#[cfg(gmp_machine)]
mod scheduler;
#[cfg(gmp_machine)]
mod serve;
#[cfg(gmp_machine)]
#[path = "../../../gmp-sched/tests/shared/several.rs"]
mod several;
#[cfg(gmp_machine)]
mod signals;
#[cfg(gmp_machine)]
mod soak;
#[cfg(gmp_machine)]
mod stacks;
#[cfg(gmp_machine)]
mod stacks_without_memory;
#[cfg(gmp_machine)]
mod traced;
#[cfg(gmp_machine)]
#[expect(unsafe_code, reason = "takes vectors")]
mod vectors;
#[cfg(gmp_machine)]
mod without_memory;
#[cfg(gmp_machine)]
mod world;

#[cfg(gmp_machine)]
use serve::main;

kernel::main!(main);

/// On the host there is nothing to test, so this function prints how to run the tests on the machine.
#[cfg(not(gmp_machine))]
fn main(_: &[&str]) -> i32 {
    kernel::println!("These tests run on the machine: cargo test -p qemu-tests --test machine");
    64
}
