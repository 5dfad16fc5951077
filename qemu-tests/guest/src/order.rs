//! The tests in `gmp-sched/tests/shared/order.rs`, run on the kernel. They run on a machine of their own, on which a
//! slice is much longer than a test.

/// What the module `waiters` needs of the platform under test.
mod platform {
    pub(crate) use kernel::platform::*;
}

/// Turns the named function into a test, which runs on the numbers of CPUs in `procs`.
macro_rules! shared_test {
    ($name:ident, procs = $procs:expr) => {
        guest_test!($name, smp = $procs, options = &["slice_us=10000000"]);
    };
}

#[path = "../../../gmp-sched/tests/shared/order.rs"]
mod waiters;
