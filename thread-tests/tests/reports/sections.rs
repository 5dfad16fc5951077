//! Sections in which a G must not wait.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::THREADS;
use gmp_sched::JoinError;
use gmp_sched::native::{self, forbid_waits};

const LOCKED: &str = "with a lock held";
const PINNED: &str = "with preemption turned off";

/// The message of the panic that ended a G.
fn message(error: JoinError) -> String {
    *error.into_panic().downcast::<String>().expect("a formatted message")
}

/// Runs `body` in a G of a scheduler of its own, and returns the message of its panic; `None` if it does not panic.
fn panic_in_goroutine(body: fn()) -> Option<String> {
    THREADS.run(1, move || native::go(body).join()).err().map(message)
}

#[test]
fn wait_in_a_section_panics_with_the_line_at_which_the_section_began() {
    let waits: &[fn()] = &[
        || native::yield_now(),
        || native::sleep(Duration::from_millis(1)),
        || assert!(native::channel::<()>(0).1.recv().is_ok()),
        || native::syscall(|| ()),
        || native::blocking(|| ()),
    ];
    let (begin, line) = (|| forbid_waits(PINNED), line!());
    let expected = format!("a G blocks, yields or ends with preemption turned off since {}:{line}:", file!());
    for &wait in waits {
        let result = THREADS.run(1, move || {
            native::go(move || {
                let _section = begin();
                wait();
            })
            .join()
        });
        let message = message(result.expect_err("it waited"));
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn wait_after_the_section_is_allowed() {
    let body = || {
        let (first, second) = (forbid_waits(LOCKED), forbid_waits(PINNED));
        drop(first);
        assert!(!native::may_wait());
        drop(second);
        assert!(native::may_wait());
        native::yield_now();
    };
    assert_eq!(panic_in_goroutine(body), None);
}

#[test]
fn spawn_and_wakeup_in_a_section_are_allowed() {
    let body = || {
        let (sender, receiver) = native::channel(1);
        let section = forbid_waits(LOCKED);
        let other = native::go(move || receiver.recv());
        sender.send(7).unwrap();
        drop(section);
        assert_eq!(other.join().unwrap(), Ok(7));
    };
    assert_eq!(panic_in_goroutine(body), None);
}

/// The G finds no P when its call returns, because the other G has the only P. A G without a section would then continue
/// on the thread of the other G.
#[test]
fn g_with_a_section_from_a_blocking_call_stays_on_its_thread() {
    let body = || {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let other = native::go(move || {
            while !seen.load(Ordering::Relaxed) {
                native::yield_now();
            }
        });
        let (section, thread) = native::blocking(|| {
            thread::sleep(Duration::from_millis(5));
            (forbid_waits(LOCKED), thread::current().id())
        });
        assert_eq!(thread::current().id(), thread);
        assert!(!native::may_wait());
        drop(section);
        assert!(native::may_wait());
        is_over.store(true, Ordering::Relaxed);
        other.join().unwrap();
    };
    for _ in 0..20 {
        assert_eq!(panic_in_goroutine(body), None);
    }
}

#[test]
fn section_of_another_thread_forbids_nothing() {
    let expected = native::expect_wakes();
    let (entered, is_entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let section = forbid_waits(LOCKED);
        entered.send(()).unwrap();
        let _ = may_leave.recv();
        drop(section);
    });
    is_entered.recv().unwrap();
    assert_eq!(panic_in_goroutine(|| native::go(native::yield_now).join().unwrap()), None);
    drop(leave);
    other.join().unwrap();
    drop(expected);
}

/// A thread-local variable enters a section in its drop, when the thread-local variables of `gmp-sched` are dropped already.
#[test]
fn section_at_the_end_of_a_thread_is_entered_and_left() {
    struct AtTheEnd(Cell<Option<mpsc::Sender<bool>>>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            drop(forbid_waits(LOCKED));
            let _ = self.0.take().map(|sender| sender.send(native::may_wait()));
        }
    }
    thread_local!(static LAST: AtTheEnd = const { AtTheEnd(Cell::new(None)) });
    let (sender, entered) = mpsc::channel();
    let ends = thread::spawn(move || {
        LAST.with(|last| last.0.set(Some(sender)));
        drop(forbid_waits(LOCKED));
    });
    assert_eq!(entered.recv(), Ok(true));
    ends.join().unwrap();
}
