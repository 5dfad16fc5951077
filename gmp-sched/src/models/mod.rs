//! loom models of the protocols between Ms. Within the limits below, each model explores every interleaving of its
//! threads' steps with up to [`PREEMPTIONS`] preemptions, and every reordering that the memory model allows. The models
//! run the engine's own code, up to where it would switch stacks. Closures replace the code of Gs, and each model does
//! only a few steps of a program.
//!
//! `cargo test -p gmp-sched --test models` builds the crate with `--cfg gmp_loom` and runs the models. `--test mutants`
//! shows that each model detects the errors for which it was written: that test breaks the engine and expects a model
//! to fail.
//!
//! loom has three limits. First, it treats `SeqCst` loads and stores as `AcqRel`, so only fences give a total order.
//! Second, if one thread stores to a word and another exchanges it, loom does not order the two modifications, which
//! causes false alarms. Third, to decide which other order to explore, loom uses only the *last* access to a word. If
//! two threads load a word and then a third changes it, the first load is forgotten, so loom explores too little of
//! some protocols. Models that are small enough make loom switch at every point of the protocol instead; see
//! [`explore_every_point`].

mod background;
mod cancel;
mod channel;
mod checked;
mod coroutine;
mod deadlock;
mod device_signals;
mod epoch;
mod future;
mod idle;
mod in_place;
mod join;
mod kthread;
mod lock;
mod locked;
mod platform;
mod poll_turn;
mod pollers;
mod refusal;
mod retire;
mod run_queue;
mod scope;
mod second_waiters;
mod shut_down;
mod sync;
mod syscall;
mod timers;
mod token;
mod wake;
mod watchdog;
mod world;

use core::cell::Cell;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::modelled_lock::with_spinning_locks;
use crate::base::points::Points;

/// Maximum number of preemptions in one run of a model, unless loom's variable `LOOM_MAX_PREEMPTIONS` is set.
const PREEMPTIONS: usize = 3;

/// A model with more runs than this fails. It must be made smaller, because loom has to finish in seconds.
const RUNS_AT_MOST: u64 = 2_000_000;

std::thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
    static IS_EVERY_POINT_TRIED: Cell<bool> = const { Cell::new(false) };
}

loom::lazy_static! {
    /// Modified by all threads at each point, in models of [`explore_every_point`], so that loom explores every order
    /// of the points.
    static ref POINTS: AtomicU32 = AtomicU32::new(0);
}

/// Marks a point of a protocol in a model.
fn pass_point() {
    if IS_EVERY_POINT_TRIED.get() {
        // Ordering: Relaxed, so that the access does not order anything in the model.
        POINTS.fetch_add(1, Ordering::Relaxed);
    }
}

/// For models that use a type without a platform: points that do nothing, because loom itself chooses which thread runs
/// next.
#[derive(Debug)]
struct LoomPoints;

impl Points for LoomPoints {
    fn relax() {
        loom::thread::yield_now();
    }
}

/// Explores `model` to the end, with every order in which its threads pass the [points](Points::point). (Each run has
/// at most [`PREEMPTIONS`] preemptions here too.)
fn explore_every_point(model: impl Fn() + Sync + Send + 'static) {
    IS_EVERY_POINT_TRIED.set(true);
    explore(model);
    IS_EVERY_POINT_TRIED.set(false);
}

/// Runs `explore` twice: with locks that loom provides, and with modelled spinlocks like those of the crate `spin`.
fn explore_with_both_locks(explore: impl Fn()) {
    explore();
    with_spinning_locks(explore);
}

/// Runs `model` until loom has explored all its runs with up to [`PREEMPTIONS`] preemptions.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.max_branches = 10_000;
    RUNS.set(0);
    builder.check(move || {
        RUNS.set(RUNS.get() + 1);
        assert!(RUNS.get() < RUNS_AT_MOST, "the model is too large");
        crate::entities::scheduler_number::restart_numbers();
        // The static `POINTS` is initialised here, before other threads exist, so that loom does not explore the order
        // of its initialisation.
        pass_point();
        model();
    });
    std::println!("{} runs", RUNS.get());
}
