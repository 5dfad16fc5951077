//! The tests in `shared` on operating-system threads.
#![no_std]
#![cfg(not(gmp_loom))]

extern crate alloc;
extern crate std;

/// The platform under test, as `shared` wants it.
mod platform {
    pub(crate) use gmp_sched::native::*;

    /// How many Gs a test may have at the same time, where it takes many. Before Linux 6.13 each stack takes two mappings of
    /// the 65,530 that a process may have, and a scheduler keeps its stacks to the end of it.
    pub(crate) const MANY: usize = 2_000;
}

/// Makes the function of that name a test, with schedulers of 1, 2 and 8 Ps or of as many as it wants.
macro_rules! shared_test {
    ($name:ident) => {
        shared_test!($name, procs = &[1, 2, 8]);
    };
    ($name:ident, procs = $procs:expr) => {
        mod $name {
            #[test]
            fn on_threads() {
                let procs: &[usize] = $procs;
                for &procs in procs {
                    crate::entered::THREADS.run(procs, super::$name);
                }
            }
        }
    };
}

#[path = "../threads/entered.rs"]
mod entered;
#[path = "../shared/mod.rs"]
mod shared;
