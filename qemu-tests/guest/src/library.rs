//! The tests that the library shares with its host: the same source as in `gmp-sched/tests/library.rs`.

/// The platform under test, as `shared` wants it.
mod platform {
    pub(crate) use kernel::platform::*;

    /// How many Gs a test may have at the same time, where it takes many.
    pub(crate) const MANY: usize = 10_000;
}

/// Makes the function of that name a test, on 1, 2 and 8 CPUs or on as many as it wants.
macro_rules! shared_test {
    ($name:ident) => {
        shared_test!($name, procs = &[1, 2, 8]);
    };
    ($name:ident, procs = $procs:expr) => {
        guest_test!($name, smp = $procs, seconds = 60);
    };
}

#[path = "../../../gmp-sched/tests/shared/mod.rs"]
mod shared;
