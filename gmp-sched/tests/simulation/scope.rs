//! Scopes in the simulator, with children that borrow, end at any time, and are cancelled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Config, Context, Sim, scope, try_scope};

use crate::anything::{anything, microseconds};
use crate::explore::{Random, explore};

/// A value that checks, when it is dropped, that the parent's frame still exists. It also counts its drop there.
struct Borrows<'a> {
    alive: &'a AtomicUsize,
    dropped: &'a AtomicUsize,
}

impl Drop for Borrows<'_> {
    fn drop(&mut self) {
        assert_eq!(self.alive.load(Ordering::Relaxed), ALIVE, "the parent's frame is gone");
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

const ALIVE: usize = 0xA11E;

/// Children and grandchildren use the parent's frame until they have ended and their results have been dropped,
/// whatever is done with their handles. The scope ends only after that.
#[test]
fn scope_ends_after_its_children_and_their_results() {
    explore(|seed| {
        let mut random = Random::new(seed);
        for round in 0..3 {
            let (alive, dropped) = (AtomicUsize::new(ALIVE), AtomicUsize::new(0));
            let (alive, dropped) = (&alive, &dropped);
            let borrows = move || Borrows { alive, dropped };
            scope(|scope| {
                for child in 0..5 {
                    let held = borrows();
                    let handle = scope.go(move || {
                        let mut random = Random::new(seed * 47 + round * 5 + child);
                        let _held = held;
                        anything(&mut random);
                        if random.below(2) == 0 {
                            let grandchild = scope.go(move || {
                                anything(&mut random);
                                borrows()
                            });
                            if child % 2 == 0 {
                                drop(grandchild.join().unwrap());
                            }
                        } else {
                            drop(borrows());
                        }
                        borrows()
                    });
                    anything(&mut random);
                    match random.below(3) {
                        0 => drop(handle.join().unwrap()),
                        1 => drop(handle),
                        _ => {
                            scope.go(move || drop(handle.join().unwrap()));
                        }
                    }
                }
            });
            assert_eq!(dropped.load(Ordering::Relaxed), 15);
            alive.store(0, Ordering::Relaxed);
        }
    });
}

/// A parent that is pinned cannot wait for its children, so the wait panics. Unwinding would free the frames from which
/// the children borrow, so the program must end instead.
#[test]
fn parent_that_cannot_wait_for_its_children_ends_the_program() {
    let failure = sim::run(Config::default(), || {
        scope(|scope| {
            scope.go(|| sim::sleep(Duration::from_millis(1)));
            // The CPU stays pinned, so the parent cannot block.
            std::mem::forget(Pinned::<Sim>::new());
        });
    });
    let message = failure.unwrap_err().message;
    assert!(message.starts_with("fatal error: a G cannot wait for the children of its scope"), "{message}");
}

/// If children fail, the scope returns the error of one of them, and the children that wait are cancelled. If no child
/// fails, the deadline of the context ends the waits.
#[test]
fn first_error_ends_the_scope_and_cancels_its_children() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let (above, cancel) = Context::background().with_timeout(microseconds(1 + random.below(400)));
        let failing = random.below(4);
        let told = AtomicUsize::new(0);
        let result = try_scope(&above, |scope| {
            for child in 0..4u64 {
                let told = &told;
                scope.go(move || {
                    let mut random = Random::new(seed * 53 + child);
                    anything(&mut random);
                    if child < failing {
                        return Err(child);
                    }
                    let error = scope.context().wait();
                    assert!(error == ContextError::Canceled || sim::elapsed() > Duration::ZERO);
                    told.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
            }
            anything(&mut random);
            Ok(())
        });
        assert_eq!(told.load(Ordering::Relaxed) as u64, 4 - failing);
        match result {
            Ok(()) => assert!(failing == 0 && above.err() == Some(ContextError::DeadlineExceeded)),
            Err(child) => assert!(child < failing),
        }
        cancel.cancel();
    });
}
