//! loom models of the protocols between Ms: every interleaving of their steps with up to [`PREEMPTIONS`] preemptions,
//! and every reordering that the memory model allows. What runs is the engine's own code, up to where it would switch
//! stacks: closures stand in for Gs, and a few steps for a program.
//!
//! Run by `cargo test -p gmp-sched --test models`, which calls this with `--cfg gmp_loom`. That each model sees what
//! it is there for is shown by `--test mutants`: it breaks the engine and expects a model to fail.
//!
//! Three limits of loom to know of. `SeqCst` loads and stores are to it what `AcqRel` ones are, so it sees only fences.
//! It has no total order of the writes to one word: a plain store beside another thread's exchange gives false alarms.
//! And it finds out where another order might matter by the *last* use of a word alone: that one thread looks is forgotten
//! when another looks, before it changes the word. So it tries too little where that is how a protocol goes; a model that
//! is small enough has it switch at every point of the protocols instead, see [`explore_every_point`].

mod cancel;
mod channel;
mod checked;
mod coroutine;
mod deadlock;
mod epoch;
mod future;
mod idle;
mod join;
mod kthread;
mod lock;
mod platform;
mod poller;
mod run_queue;
mod scope;
mod sync;
mod syscall;
mod timers;
mod token;
mod wake;
mod watchdog;
mod world;

use core::cell::Cell;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::platform::Points;

/// Preemptions in one run of a model.
const PREEMPTIONS: usize = 3;

/// Runs after which a model is too large: it is to be made smaller, since loom has to come to an end in seconds.
const RUNS_AT_MOST: u64 = 2_000_000;

std::thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
    static IS_EVERY_POINT_TRIED: Cell<bool> = const { Cell::new(false) };
}

loom::lazy_static! {
    /// What all threads change at each point, so that loom takes the order of the points to matter.
    static ref POINTS: AtomicU32 = AtomicU32::new(0);
}

/// A point of a protocol, in a model.
fn pass_point() {
    if IS_EVERY_POINT_TRIED.get() {
        // Ordering: it is to order nothing.
        POINTS.fetch_add(1, Ordering::Relaxed);
    }
}

/// loom itself chooses who steps next.
#[derive(Debug)]
struct Unwatched;

impl Points for Unwatched {
    fn relax() {
        loom::thread::yield_now();
    }
}

/// Explores `model` to the end, in all orders of the [points](Points::point) that its threads pass. (With at most three
/// preemptions, as everywhere.)
fn explore_every_point(model: impl Fn() + Sync + Send + 'static) {
    IS_EVERY_POINT_TRIED.set(true);
    explore(model);
    IS_EVERY_POINT_TRIED.set(false);
}

/// Explores `model` to the end.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 10_000;
    RUNS.set(0);
    builder.check(move || {
        RUNS.set(RUNS.get() + 1);
        assert!(RUNS.get() < RUNS_AT_MOST, "the model is too large");
        crate::entities::scheduler::restart_numbers();
        // Made here, before there are other threads, to which loom would order what came before.
        pass_point();
        model();
    });
    std::println!("{} runs", RUNS.get());
}
