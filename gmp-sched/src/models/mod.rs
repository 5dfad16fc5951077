//! loom models of the leaf protocols: every interleaving and every reordering that the memory model allows, for a few
//! threads and a few steps. Closures stand in for Gs; no stack is switched under loom.
//!
//! Run by `cargo test -p gmp-sched --test models`, which calls this with `--cfg gmp_loom`.

mod run_queue;
mod token;

use crate::platform::Points;

/// loom itself chooses who steps next.
#[derive(Debug)]
struct Unwatched;

impl Points for Unwatched {
    fn relax() {
        loom::thread::yield_now();
    }
}

/// Explores `model` with at most three preemptions, which finds all known mutants in seconds.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
