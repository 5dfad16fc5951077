//! The tests in `shared` on operating-system threads.
#![no_std]

extern crate alloc;
extern crate std;

/// The platform under test, with the names that the tests in `shared` use.
mod platform {
    pub(crate) use gmp_sched::native::*;

    /// Number of concurrent Gs in tests with many Gs. It is limited, because before Linux 6.13 each stack takes two of
    /// the 65,530 mappings of a process, and a scheduler keeps its stacks until it ends.
    pub(crate) const MANY: usize = 2_000;

    /// Returns how many slices have begun on the P of the calling G.
    pub(crate) fn tick() -> u64 {
        gmp_sched::platform::Pinned::<Native>::new().processor().tick()
    }
}

/// Turns the named function into a test, which runs it with 1, 2 and 8 Ps, or with the numbers of Ps in `procs`.
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
                    thread_tests::THREADS.run(procs, super::$name);
                }
            }
        }
    };
}

#[path = "../../../gmp-sched/tests/shared/several.rs"]
mod several;
#[path = "../../../gmp-sched/tests/shared/mod.rs"]
mod shared;
