//! The park token between a thread that parks and two that wake it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use loom::cell::UnsafeCell;

use super::{Unwatched, explore};
use crate::kthread::token::Token;
use crate::primitives::{AtomicBool, AtomicU32, Ordering};

/// A thread whose saved context is `context`, and which whoever makes it ready "runs" by looking at that.
struct Parking {
    token: Token<Unwatched>,
    context: UnsafeCell<u32>,
    made_ready: AtomicU32,
}

// SAFETY: the cell is the thing under test: loom reports any access that the token does not order.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Sync for Parking {}

impl Parking {
    fn new() -> Self {
        let token = Token::parked();
        // Started by its first token.
        assert!(token.give());
        Self { token, context: UnsafeCell::new(0), made_ready: AtomicU32::new(0) }
    }

    fn run(&self) {
        self.made_ready.fetch_add(1, Ordering::Relaxed);
        #[expect(unsafe_code, reason = "reads the checked cell")]
        // SAFETY: loom checks that the save comes before.
        self.context.with(|context| assert_eq!(unsafe { *context }, 1));
    }

    /// Near side and far side of a park; runs on if the token came in between.
    fn park(&self) {
        if self.token.take() {
            return;
        }
        #[expect(unsafe_code, reason = "writes the checked cell")]
        // SAFETY: loom checks that nobody reads it before the commit.
        self.context.with_mut(|context| unsafe { *context = 1 });
        if !self.token.commit_park() {
            self.run();
        }
    }
}

#[test]
fn a_token_is_not_lost_and_used_once() {
    explore(|| {
        let thread = Arc::new(Parking::new());
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let thread = thread.clone();
                loom::thread::spawn(move || {
                    if thread.token.give() {
                        thread.run();
                    }
                })
            })
            .collect();
        thread.park();
        for waker in wakers {
            waker.join().unwrap();
        }
        // Either the token came before the park, which then did not block, or exactly one made the thread ready.
        assert!(thread.made_ready.load(Ordering::Relaxed) <= 1);
    });
}

#[test]
fn what_the_waker_did_is_seen_by_the_woken() {
    explore(|| {
        let thread = Arc::new((Parking::new(), AtomicBool::new(false)));
        let waker = {
            let thread = thread.clone();
            loom::thread::spawn(move || {
                thread.1.store(true, Ordering::Relaxed);
                thread.0.token.give()
            })
        };
        let token_came_first = thread.0.token.take();
        if token_came_first {
            assert!(thread.1.load(Ordering::Relaxed));
        }
        waker.join().unwrap();
    });
}
