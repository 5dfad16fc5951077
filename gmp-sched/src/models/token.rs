//! Models of the park token. One thread parks, and two threads wake it. No wakeup is lost, and the thread is made ready
//! at most once for each park.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::checked::Checked;
use super::{LoomPoints, explore};
use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::kthread::token::Token;

/// A thread whose saved context is `context`. A waker that makes the thread ready calls `run`, which accesses the
/// context as a switch to the thread would.
struct Parking {
    token: Token<LoomPoints>,
    context: Checked,
    made_ready: AtomicU32,
}

impl Parking {
    fn new() -> Self {
        let token = Token::parked();
        // A new token is in the state of a parked thread, so that the first `give` starts the thread. The thread of the
        // models is already running, so this call does what the start would do.
        assert!(token.give());
        Self { token, context: Checked::default(), made_ready: AtomicU32::new(0) }
    }

    fn run(&self) {
        self.made_ready.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.context.uses(), 1, "run before its context was saved");
    }

    /// Runs the near side and the far side of a park. Returns at once if a token was given before.
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
        // If the token came before the park, the park did not block. Otherwise the thread was made ready exactly once,
        // by a waker or by the commit of its park.
        let blocked = thread.context.uses() == 1;
        assert_eq!(thread.made_ready.load(Ordering::Relaxed), u32::from(blocked));
    });
}

/// If a thread that has a token is given a second one, the thread also sees what the second waker did before.
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
        // Whenever the thread consumes a token, it records which wakers' stores it sees.
        let mut seen = [false; 2];
        let mut observe = || seen = [0, 1].map(|waker| seen[waker] || thread.1[waker].load(Ordering::Relaxed));
        if thread.0.token.take() {
            observe();
        }
        if !thread.0.token.commit_park() {
            observe();
        }
        let made_ready: Vec<_> = wakers.into_iter().map(|waker| waker.join().unwrap()).collect();
        assert!(seen == [true; 2] || made_ready.contains(&true) || thread.0.token.take(), "{seen:?} {made_ready:?}");
    });
}
