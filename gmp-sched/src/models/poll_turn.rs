//! Models of the turn to poll.

use alloc::sync::Arc;

use loom::thread::JoinHandle;

use super::checked::Checked;
use super::explore;
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::poll_turn::PollTurn;

/// The turn, and whether sysmon was woken.
struct Scene {
    turn: PollTurn,
    is_woken: AtomicBool,
    /// What the thread that polls uses.
    events: Checked,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self { turn: PollTurn::new(), is_woken: AtomicBool::new(false), events: Checked::default() })
    }

    /// The caller polls, and sysmon watches and is about to look. Its thread returns whether it has to look again.
    fn watched() -> (Arc<Self>, JoinHandle<bool>) {
        let scene = Self::new();
        assert!(scene.turn.take());
        let mut left = 1;
        assert!(scene.turn.watch(&mut left), "a thread has polled since");
        let sysmon = scene.clone();
        (scene, loom::thread::spawn(move || sysmon.turn.watch(&mut left)))
    }

    fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Relaxed)
    }

    /// Polls once, if nobody else does.
    fn poll(&self) {
        if self.turn.take() {
            self.events.used();
            self.leave();
        }
    }

    fn leave(&self) {
        if self.turn.leave() {
            self.is_woken.store(true, Ordering::Relaxed);
        }
    }
}

/// Sysmon watches, and looks while the thread that polls gives up the turn. If the look tells sysmon not to look again,
/// the thread wakes sysmon.
#[test]
fn sysmon_watches_when_nobody_polls() {
    explore(|| {
        let (scene, sysmon) = Scene::watched();
        scene.leave();
        assert!(sysmon.join().unwrap() || scene.is_woken(), "nobody polls, and nobody notices");
    });
}

/// Two threads try to poll at the same time. If both poll, they do so one after the other, and the second one sees what
/// the first one has done.
#[test]
fn only_one_thread_polls() {
    explore(|| {
        let scene = Scene::new();
        let other = scene.clone();
        let polls = loom::thread::spawn(move || other.poll());
        scene.poll();
        polls.join().unwrap();
        assert!(!scene.turn.is_taken() && scene.events.uses() != 0);
    });
}
