//! The park token between a thread that parks and two that wake it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::checked::Checked;
use super::{Unwatched, explore};
use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::kthread::token::Token;

/// A thread whose saved context is `context`; making it ready "runs" it by using that.
struct Parking {
    token: Token<Unwatched>,
    context: Checked,
    made_ready: AtomicU32,
}

impl Parking {
    fn new() -> Self {
        let token = Token::parked();
        // Started by its first token.
        assert!(token.give());
        Self { token, context: Checked::default(), made_ready: AtomicU32::new(0) }
    }

    fn run(&self) {
        self.made_ready.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.context.uses(), 1, "run before its context was saved");
    }

    /// Near side and far side of a park; continues if the token came in between.
    fn park(&self) {
        if self.token.take() {
            return;
        }
        self.context.used();
        if !self.token.commit_park() {
            self.run();
        }
    }
}

#[test]
fn token_is_consumed_once_and_not_lost() {
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
        // Either the token came before the park, which then did not block, or exactly one giver made the thread ready.
        let blocked = thread.context.uses() == 1;
        assert_eq!(thread.made_ready.load(Ordering::Relaxed), u32::from(blocked));
    });
}

/// If the token is there already when it is given again, the thread sees what the second giver did.
#[test]
fn woken_thread_sees_what_all_givers_did() {
    explore(|| {
        let thread = Arc::new((Parking::new(), [AtomicBool::new(false), AtomicBool::new(false)]));
        let wakers: Vec<_> = (0..2)
            .map(|waker| {
                let thread = thread.clone();
                loom::thread::spawn(move || {
                    thread.1[waker].store(true, Ordering::Relaxed);
                    thread.0.token.give()
                })
            })
            .collect();
        // Every give is seen by a later take or far side of a park.
        let mut seen = [false; 2];
        let mut look = || seen = [0, 1].map(|waker| seen[waker] || thread.1[waker].load(Ordering::Relaxed));
        if thread.0.token.take() {
            look();
        }
        if !thread.0.token.commit_park() {
            look();
        }
        let made_ready: Vec<_> = wakers.into_iter().map(|waker| waker.join().unwrap()).collect();
        assert!(seen == [true; 2] || made_ready.contains(&true) || thread.0.token.take(), "{seen:?} {made_ready:?}");
    });
}
