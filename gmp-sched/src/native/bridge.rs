//! Channels and futures for threads that are not Ms.
//!
//! Only Gs can wait in a channel. So a thread that has to wait passes its operation to a G of a scheduler that exists
//! for such operations alone. That scheduler has one P and is never shut down.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::panic;
use std::sync::{OnceLock, mpsc};
use std::thread;

use super::{Native, expect_wakes, pool};
use crate::base::error::OutOfResources;
use crate::entities::scheduler::Scheduler;
use crate::library::chan::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use crate::lifecycle::start_scheduler::spawn_from_outside;
use crate::platform::Platform;

/// The operation of a waiting thread.
type Operation<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Returns the scheduler whose Gs wait on behalf of threads that are not Ms.
fn bridge() -> &'static Scheduler<Native> {
    static BRIDGE: OnceLock<&Scheduler<Native>> = OnceLock::new();
    BRIDGE.get_or_init(|| {
        let scheduler = pool::enter(1);
        #[expect(unsafe_code, reason = "enters the platform")]
        // SAFETY: the Gs of this scheduler run only operations of `wait_in_goroutine`, which do not use thread-local
        // variables. The scheduler is new, or its last run has ended.
        let started = unsafe { scheduler.start(|| ()) };
        started.unwrap_or_else(|error| panic!("no thread or stack for the Gs that wait for threads: {error}"));
        scheduler
    })
}

/// Whether the caller is a G that can itself wait in a channel. The result is `false` in a system call, and on a thread
/// outside of all schedulers.
fn is_goroutine() -> bool {
    Native::current_machine().is_some_and(|machine| machine.processor().is_some())
}

/// Runs `operation` in a G of [`bridge`], and blocks the calling thread until `operation` has returned. `operation` may
/// wait as a G does. But `operation` must not block its thread, because the bridge has only one P, and must not use
/// thread-local variables. Returns an error if there is no memory for the G. Panics if the bridge cannot be started,
/// and if `operation` panics.
fn wait_in_goroutine<R: Send>(operation: impl FnOnce() -> R + Send) -> Result<R, OutOfResources> {
    // No deadlock is reported while this thread waits, because the thread may wake Gs after its wait.
    let _expected = expect_wakes();
    let (sender, result) = mpsc::sync_channel(1);
    let operation: Operation<'_> = Box::new(move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(operation));
        // This does not fail, because the waiting thread keeps the receiver until it has received the outcome.
        let _ = sender.send(outcome);
    });
    #[expect(unsafe_code, reason = "a G uses what a thread has borrowed")]
    // SAFETY: what `operation` borrows lives until this function returns. If the spawn below fails, it drops the
    // operation. Otherwise `recv` returns after the operation has been consumed. What is left of the closure then is
    // the sender of an empty channel, which borrows nothing.
    let operation = unsafe { core::mem::transmute::<Operation<'_>, Operation<'static>>(operation) };
    spawn_from_outside(bridge(), operation)?;
    match result.recv().expect("the G sends the outcome") {
        Ok(result) => Ok(result),
        Err(payload) => panic::resume_unwind(payload),
    }
}

impl<T: Send> Sender<T, Native> {
    /// Like [`send`](Self::send), but callable on every thread. If the caller is not a G, or is a G in a call of
    /// [`blocking`](super::blocking) or [`syscall`](super::syscall), its thread is blocked while the channel is full.
    ///
    /// While a thread is blocked here, no deadlock is reported, because this thread may wake Gs afterwards. But a
    /// deadlock is reported if all Gs wait while the thread is elsewhere, for example before its first call or between
    /// two calls. So if a G may wait for a value of this thread, call [`expect_wakes`] before that wait begins, and
    /// keep its result until the thread has sent its last value.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// let (sender, receiver) = native::channel(0);
    /// let feeder = std::thread::spawn(move || (0..3).for_each(|line| sender.blocking_send(line).unwrap()));
    /// let expected = native::expect_wakes();
    /// let lines = unsafe { native::enter() }.run(1, move || receiver.iter().collect::<Vec<_>>());
    /// assert_eq!(lines, [0, 1, 2]);
    /// feeder.join().unwrap();
    /// drop(expected);
    /// ```
    ///
    /// # Errors
    ///
    /// The channel is closed, or is closed during the wait. The error holds the value.
    ///
    /// # Panics
    ///
    /// - There is no memory or thread for the wait.
    /// - The channel belongs to a [bubble](crate#features), and the call has to wait although the caller is not a G that
    ///   could wait by itself. Outside of a call of [`blocking`](super::blocking), a G of the bubble waits by itself.
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        if is_goroutine() {
            return self.send(value);
        }
        match self.try_send(value) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(value)) => Err(SendError(value)),
            Err(TrySendError::Full(value)) => wait_in_goroutine(|| self.send(value)).expect("memory for the wait"),
        }
    }
}

impl<T: Send> Receiver<T, Native> {
    /// Like [`recv`](Self::recv), but callable on every thread. If the caller is not a G, or is a G in a call of
    /// [`blocking`](super::blocking) or [`syscall`](super::syscall), its thread is blocked while the channel is empty.
    ///
    /// While a thread is blocked here, no deadlock is reported, because this thread may wake Gs afterwards. But a
    /// deadlock is reported if all Gs wait while the thread is elsewhere, for example before its first call or between
    /// two calls. So if a G may wait until this thread receives a value, call [`expect_wakes`] before that wait begins,
    /// and keep its result until the thread has received its last value.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// let (sender, receiver) = native::channel(0);
    /// // The G may send before the reader receives.
    /// let expected = native::expect_wakes();
    /// let reader = std::thread::spawn(move || receiver.blocking_recv());
    /// unsafe { native::enter() }.run(1, move || sender.send(7).unwrap());
    /// assert_eq!(reader.join().unwrap(), Ok(7));
    /// drop(expected);
    /// ```
    ///
    /// # Errors
    ///
    /// The channel is closed and drained.
    ///
    /// # Panics
    ///
    /// - There is no memory or thread for the wait.
    /// - The channel belongs to a [bubble](crate#features), and the call has to wait although the caller is not a G that
    ///   could wait by itself. Outside of a call of [`blocking`](super::blocking), a G of the bubble waits by itself.
    #[track_caller]
    pub fn blocking_recv(&self) -> Result<T, RecvError> {
        if is_goroutine() {
            return self.recv();
        }
        match self.try_recv() {
            Ok(value) => Ok(value),
            Err(TryRecvError::Closed) => Err(RecvError),
            Err(TryRecvError::Empty) => wait_in_goroutine(|| self.recv()).expect("memory for the wait"),
        }
    }
}

/// Unparks the thread that runs a future.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` to completion on the calling thread, which is not an M or is in a system call.
pub(super) fn block_thread_on<F: Future>(future: F) -> F::Output {
    // No deadlock is reported while this thread waits, because the thread may wake Gs when the future is ready.
    let _expected = expect_wakes();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
