//! Runs the random programs in the simulator, whose oracles check every run. The same seed leads to the same run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gmp_sched::sim::{self, Config};

use crate::value::{broken, set_simulated_seed};

#[path = "program/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "one source for every platform")]
mod program;

/// The names through which the programs use their platform.
mod platform {
    pub(super) use gmp_sched::sim::{
        CancelHandle, Chan, Condvar, Context, Lazy, Mutex, Once, RwLock, Semaphore, Sim, Timer, after, block_on, go,
        goexit, scope, set_procs, sleep, stop_the_world, try_after_func, try_lock_thread, try_pull, yield_now,
    };

    /// Whether the body of a G may end by a panic or an exit. In the simulator, a panic would end the run, and an exit
    /// would not unwind the stack.
    pub(super) const BODIES_MAY_UNWIND: bool = false;

    /// Given a random number, returns the number that decides how a body ends. In the simulator this is always a number
    /// for which the body ends neither by a panic nor by an exit.
    pub(super) fn fate(_: u32) -> u32 {
        u32::MAX
    }

    pub(super) fn syscall<R>(call: impl FnOnce() -> R) -> R {
        gmp_sched::syscall::syscall::<Sim, R>(call)
    }

    pub(super) fn try_blocking<R>(call: impl FnOnce() -> R) -> Result<R, gmp_sched::platform::OutOfResources> {
        gmp_sched::syscall::try_blocking::<Sim, R>(call)
    }

    /// Runs calls from outside in another G, because nothing is outside of the simulated machine.
    #[derive(Clone)]
    pub(super) struct Outside;

    impl Outside {
        pub(super) fn call(&self, body: impl FnOnce() + Send + 'static) {
            go(body).detach();
        }
    }
}

/// Runs one program.
fn run(seed: u64) {
    set_simulated_seed(seed);
    let cpus = [1, 2, 3, 4, 8][seed as usize % 5];
    let processors = [cpus, 1, 2 * cpus][seed as usize / 5 % 3].min(4);
    let config = Config { cpus, processors, procs_limit: 4, seed, step_limit: 2_000_000 };
    let ran = sim::run(config, move || {
        let shared = Arc::new(program::Shared::new(platform::Outside));
        for root in 0..6 {
            program::start(&shared, seed.wrapping_mul(97) + 13 * root, 20);
        }
        while shared.running.load(Ordering::Acquire) != 0 {
            sim::sleep(Duration::from_micros(200));
        }
        let left = shared.alive.load(Ordering::Relaxed);
        if left < 0 {
            broken(&format!("{left} values are left: some were dropped twice"));
        }
    });
    if let Err(failure) = ran {
        broken(&failure.to_string());
    }
}

#[test]
fn random_safe_programs_break_no_invariant_simulated() {
    crate::for_each_seed(300, run);
}
