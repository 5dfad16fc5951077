//! Waits with a limit. If a deadline or a context ends a wait, the error says which, and the wait leaves no waiter and
//! no lock behind.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::chan::{RecvTimeoutError, SendTimeoutError};
use gmp_sched::select::{Select, recv, send};
use gmp_sched::sync::{LimitedCondvar, LimitedMutex, LimitedRwLock};
use gmp_sched::time::Instant;

use super::platform::{
    Condvar, Context, JoinHandle, Limit, Mutex, ReadMostlyRwLock, RwLock, Semaphore, Sender, Ticker, Timer, WaitGroup,
    channel, go, now, yield_now,
};
use super::several::join_all;

/// A duration that is longer than any test takes.
const FOREVER: Duration = Duration::from_secs(36_000);

/// Objects for which Gs wait. The test holds the locks and a permit of the semaphore, and no event ends one of the
/// other waits. So each wait blocks until its limit ends it.
struct Busy {
    mutex: Mutex<u32>,
    /// This mutex is not held. The wait for the condition variable `changed` uses it.
    free: Mutex<()>,
    lock: RwLock<u32>,
    spread: ReadMostlyRwLock<u32>,
    changed: Condvar,
    semaphore: Semaphore,
    group: WaitGroup,
    timer: Timer,
    ticker: Ticker,
}

impl Busy {
    fn new() -> Self {
        let group = WaitGroup::new();
        group.add(1);
        Self {
            mutex: Mutex::new(0),
            free: Mutex::new(()),
            lock: RwLock::new(0),
            spread: ReadMostlyRwLock::new(0),
            changed: Condvar::new(),
            semaphore: Semaphore::new(2),
            group,
            timer: Timer::new(FOREVER),
            ticker: Ticker::new(FOREVER),
        }
    }

    /// Waits for object number `way`, but no longer than `limit` allows. Returns what ended the wait.
    fn wait(&self, way: usize, limit: Limit<'_>) -> ContextError {
        let error = match way {
            0 => self.mutex.lock_until(limit).map(drop).err(),
            1 => self.lock.read_until(limit).map(drop).err(),
            2 => self.lock.write_until(limit).map(drop).err(),
            3 => self.spread.read_until(limit).map(drop).err(),
            4 => self.spread.write_until(limit).map(drop).err(),
            5 => self.changed.wait_limited(&mut self.free.lock(), limit).err(),
            6 => self.semaphore.acquire_until(2, limit).map(drop).err(),
            7 => self.group.wait_until(limit).err(),
            8 => self.timer.wait_until(limit).err(),
            9 => self.ticker.wait_until(limit).err(),
            10 => {
                let (_sender, receiver) = channel::<u8>(0);
                match receiver.recv_until(limit).unwrap_err() {
                    RecvTimeoutError::Timeout => Some(ContextError::DeadlineExceeded),
                    RecvTimeoutError::Canceled => Some(ContextError::Canceled),
                    RecvTimeoutError::Closed => None,
                }
            }
            11 => {
                let (sender, _receiver) = channel(0);
                match sender.send_until(7, limit).unwrap_err() {
                    SendTimeoutError::Timeout(7) => Some(ContextError::DeadlineExceeded),
                    SendTimeoutError::Canceled(7) => Some(ContextError::Canceled),
                    _ => None,
                }
            }
            _ => {
                let never = Sender::never();
                let (mut tick, mut sent) = (recv(&self.timer), send(&never, 7));
                let error = Select::new(&mut [tick.case(), sent.case()]).wait_until(limit).err();
                assert_eq!((tick.into_result(), sent.into_inner()), (None, Some(7)));
                error
            }
        };
        error.expect("the wait succeeded, or its channel was closed")
    }
}

const WAYS: usize = 13;

/// Holds the locks, lets one G wait in each of the [`WAYS`], and calls `body` after these Gs have had time to begin
/// their waits. Returns what ended each wait.
fn all_wait(limit: impl Fn() -> (Context, Instant), body: impl FnOnce()) -> Vec<ContextError> {
    let busy = Arc::new(Busy::new());
    let held = (busy.mutex.lock(), busy.lock.write(), busy.spread.write(), busy.semaphore.acquire(1));
    let waiting: Vec<JoinHandle<ContextError>> = (0..WAYS)
        .map(|way| {
            let (busy, (context, deadline)) = (busy.clone(), limit());
            go(move || busy.wait(way, Limit::from(&context).and(deadline)))
        })
        .collect();
    (0..50).for_each(|_| yield_now());
    body();
    let errors = join_all(waiting);
    drop(held);
    // The waits have left nothing behind, so the locks are free again.
    assert!(busy.mutex.try_lock().is_some() && busy.free.try_lock().is_some());
    assert!(busy.lock.try_write().is_some() && busy.spread.try_write().is_some());
    assert_eq!((busy.semaphore.available(), busy.changed.notify_all()), (2, 0));
    busy.group.done();
    busy.group.wait();
    errors
}

fn cancellation_ends_every_wait() {
    let (context, cancel) = Context::background().with_cancel();
    let (below, _cancel) = context.with_timeout(FOREVER);
    let errors = all_wait(|| (below.clone(), Instant::NEVER), || cancel.cancel());
    assert_eq!(errors, [ContextError::Canceled; WAYS]);
    // The following waits begin after the context has been cancelled.
    let errors = all_wait(|| (below.clone(), Instant::NEVER), || ());
    assert_eq!(errors, [ContextError::Canceled; WAYS]);
}
shared_test!(cancellation_ends_every_wait);

fn deadline_ends_every_wait() {
    let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(5));
    let errors = all_wait(|| (context.clone(), Instant::NEVER), || ());
    assert_eq!(errors, [ContextError::DeadlineExceeded; WAYS]);
    let soon = || (Context::background(), now() + Duration::from_millis(2));
    assert_eq!(all_wait(soon, || ()), [ContextError::DeadlineExceeded; WAYS]);
    let past = || (Context::background(), Instant::from_nanos(0));
    assert_eq!(all_wait(past, || ()), [ContextError::DeadlineExceeded; WAYS]);
}
shared_test!(deadline_ends_every_wait);

/// Operations that need not wait succeed, even if their limit has already expired.
fn expired_limit_does_not_prevent_success() {
    let (context, cancel) = Context::background().with_cancel();
    cancel.cancel();
    assert!(Mutex::new(()).lock_until(&context).is_ok());
    assert!(RwLock::new(()).read_until(&context).is_ok() && RwLock::new(()).write_until(&context).is_ok());
    assert!(Semaphore::new(1).acquire_until(1, &context).is_ok() && WaitGroup::new().wait_until(&context).is_ok());
    let (sender, receiver) = channel(1);
    assert_eq!(sender.send_until(1, &context), Ok(()));
    assert_eq!(Select::new(&mut [recv(&receiver).case()]).ordered().wait_until(&context), Ok(0));
    assert_eq!(sender.send_until(2, &context), Ok(()));
    assert_eq!(receiver.recv_until(&context), Ok(2));
}
shared_test!(expired_limit_does_not_prevent_success);
