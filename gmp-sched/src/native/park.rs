//! The park token of a thread.
//!
//! The token is a futex, and takes no lock of the standard library. So a thread can be unparked by code that must not
//! wait for a lock that another thread holds.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use super::{Native, blocked, netpoll};
use crate::base::instant::Instant;
use crate::platform::Platform;

/// The thread has no token, and does not wait for one.
const NOTHING: u32 = 0;
/// The thread has been unparked since its last park.
const TOKEN: u32 = 1;
/// The thread waits for the token, or is about to wait. (This is one less than `NOTHING`.)
const WAITS: u32 = u32::MAX;
/// The thread waits at the netpoll, or is about to.
const POLLS: u32 = 2;

/// The park token of a thread, and the number of the thread.
#[derive(Debug, Default)]
pub struct Thread {
    state: AtomicU32,
    pub(super) number: blocked::ThreadNumber,
    /// Whether a signal that preempts the G of this thread has been sent and not arrived yet.
    pub(super) is_preempted: AtomicBool,
}

impl Thread {
    /// A thread without a token.
    pub(super) const fn new() -> Self {
        Self {
            state: AtomicU32::new(NOTHING),
            number: blocked::ThreadNumber::new(),
            is_preempted: AtomicBool::new(false),
        }
    }

    /// Blocks the calling thread until there is a token, or until the deadline. Takes the token. Only one thread at a
    /// time calls this.
    pub(super) fn park(&self, deadline: Option<Instant>) {
        // Ordering: Acquire, here and below; partner: the Release in `unpark`.
        if self.state.fetch_sub(1, Ordering::Acquire) == TOKEN {
            return;
        }
        loop {
            let left = deadline.map(|deadline| deadline - Native::now());
            if left.is_some_and(|left| left.is_zero()) {
                // The token may have come in the meantime. It is taken then, too.
                self.state.swap(NOTHING, Ordering::Acquire);
                return;
            }
            wait(&self.state, WAITS, left);
            if self.state.compare_exchange(TOKEN, NOTHING, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Called before the thread waits at the netpoll instead of for the token. If there is a token, takes it and returns
    /// `false`.
    pub(super) fn begin_to_poll(&self) -> bool {
        // Ordering: Acquire, here and in `end_poll`; partner: the Release in `unpark`.
        let begun = self.state.compare_exchange(NOTHING, POLLS, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !begun {
            self.state.swap(NOTHING, Ordering::Acquire);
        }
        begun
    }

    /// Called when the thread has waited at the netpoll. Takes the token, if it has come.
    pub(super) fn end_poll(&self) {
        self.state.swap(NOTHING, Ordering::Acquire);
    }

    /// Sets the token, and wakes the thread that waits for it. Async-signal-safe.
    pub(super) fn unpark(&self) {
        // Ordering: Release; partner: the Acquire in `park`.
        match self.state.swap(TOKEN, Ordering::Release) {
            WAITS => wake(&self.state),
            POLLS => netpoll::wake(),
            _ => {}
        }
    }
}

/// Blocks the calling thread while `word` has the value `expected`, at most for `limit`. May return early.
pub(super) fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    #[expect(unsafe_code, reason = "makes a system call")]
    // SAFETY: the word and the limit are valid during the call, and the system only reads them.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, limit);
    }
}

/// Wakes the thread that waits for a change of `word`.
fn wake(word: &AtomicU32) {
    wake_up_to(word, 1);
}

/// Wakes all threads that wait for a change of `word`.
pub(super) fn wake_all(word: &AtomicU32) {
    wake_up_to(word, i32::MAX);
}

fn wake_up_to(word: &AtomicU32, count: i32) {
    #[expect(unsafe_code, reason = "makes a system call")]
    // SAFETY: the system uses only the address of the word.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn token_that_comes_first_ends_the_next_park_at_once() {
        let thread = Thread::default();
        thread.unpark();
        thread.unpark();
        thread.park(None);
        let start = Native::now();
        thread.park(Some(start + Duration::from_millis(2)));
        assert!(Native::now() - start >= Duration::from_millis(2), "two unparks leave one token");
    }

    #[test]
    fn each_of_many_unparks_is_seen() {
        let (there, back) = (Thread::default(), Thread::default());
        thread::scope(|scope| {
            scope.spawn(|| (0..1_000).for_each(|_| (there.park(None), back.unpark()).0));
            for round in 0..1_000 {
                there.unpark();
                // In every other round, the park has a deadline that is never reached.
                back.park((round % 2 == 0).then(|| Native::now() + Duration::from_secs(1_000)));
            }
        });
    }
}
