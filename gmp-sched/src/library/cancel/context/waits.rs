//! Waiting for the end of a context, and functions that run at its end.

use core::convert::Infallible;
use core::time::Duration;

use super::Context;
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::engine::hooks::before_wait;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::WaitReason;
use crate::library::cancel::{ContextFunction, done};
use crate::library::chan::Receiver;
use crate::library::limit::{ContextError, Limit};
use crate::library::time::now;
use crate::library::waiter::wait;
use crate::platform::Platform;

impl<Plat: Platform> Context<Plat> {
    /// Waits until the context is done, and returns why. Go: `<-ctx.Done()`. See [`with_timeout`](Self::with_timeout)
    /// for an example.
    ///
    /// Blocks the calling G, forever if the context is never done. Not callable from interrupts.
    ///
    /// # Panics
    ///
    /// The context is not done yet, and the caller is pinned or is not a G with a P.
    #[doc(alias = "Done")]
    #[track_caller]
    pub fn wait(&self) -> ContextError {
        loop {
            if let Err(error) = self.sleep_until(Instant::NEVER) {
                return error;
            }
        }
    }

    /// Returns a channel for use in a `select`. Nothing is sent on the channel, and it is closed when the context is
    /// done. Go: `Context.Done`.
    ///
    /// A cancellation closes the channel directly. If the context has a deadline, the first call also prepares a G that
    /// closes the channel at the deadline. Outside of a select, [`wait`](Self::wait) or an operation with a [`Limit`]
    /// costs less. Does not block; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context, channel};
    /// use gmp_sched::select;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let (_work, queue) = channel::<u32>(1);
    ///     cancel.cancel();
    ///     let error = select! {
    ///         recv(queue) => None,
    ///         recv(context.done()) => context.err(),
    ///     };
    ///     assert!(error.is_some());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// There is no memory for the channel or the G; or the context has a deadline and the caller is not a G with a P.
    #[doc(alias = "Done")]
    #[must_use]
    #[track_caller]
    pub fn done(&self) -> Receiver<Infallible, Plat> {
        match self.try_done() {
            Ok(done) => done,
            Err(error) => panic!("cannot tell of the end of a context: {error}"),
        }
    }

    /// Like [`done`](Self::done), but returns an error if there is no memory.
    ///
    /// ```
    /// use gmp_sched::native::Context;
    ///
    /// assert!(!Context::background().try_done().unwrap().is_closed());
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for the channel or the G; nothing has happened.
    ///
    /// # Panics
    ///
    /// The context has a deadline, and the caller is not a G with a P.
    #[track_caller]
    pub fn try_done(&self) -> Result<Receiver<Infallible, Plat>, OutOfResources> {
        done::channel(self.node.as_ref())
    }

    /// Sleeps for `duration`, or until the context is done.
    ///
    /// Blocks the calling G only; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     assert_eq!(Context::background().sleep(Duration::from_micros(10)), Ok(()));
    ///     let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    ///     assert_eq!(context.sleep(Duration::from_secs(3600)), Err(ContextError::DeadlineExceeded));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The context was done before the sleep was over.
    ///
    /// # Panics
    ///
    /// The context is not done yet, and the caller is pinned or is not a G with a P.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Result<(), ContextError> {
        self.sleep_until(now::<Plat>() + duration)
    }

    /// Sleeps like [`sleep`](Self::sleep), but until the point in time `when`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let soon = native::now() + Duration::from_millis(1);
    ///     assert_eq!(Context::background().sleep_until(soon), Ok(()));
    ///     assert!(native::now() >= soon);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// In the same cases as [`sleep`](Self::sleep).
    ///
    /// # Panics
    ///
    /// In the same cases as [`sleep`](Self::sleep).
    #[track_caller]
    pub fn sleep_until(&self, when: Instant) -> Result<(), ContextError> {
        before_wait::<Plat>();
        self.check()?;
        let limit = Limit::from(self).and(when);
        let caller = CurrentGoroutine::<Plat>::new();
        let generation = caller.me.open_wait();
        wait(caller, WaitReason::Context, generation, Some(limit), || ());
        // If the sleep and the context are both over, the sleep counts as complete.
        if when <= now::<Plat>() { Ok(()) } else { self.check() }
    }

    /// Runs `function` in a new G when the context is done. Go: `context.AfterFunc`.
    ///
    /// This call makes the G, and the G is started when the context is done. If a G of a [bubble](crate#features)
    /// cancels the context, the new G starts in that bubble. Does not block; not callable from interrupts.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use gmp_sched::native::{self, Context};
    ///
    /// static RAN: AtomicBool = AtomicBool::new(false);
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let function = context.after_func(|| RAN.store(true, Ordering::Relaxed));
    ///     cancel.cancel();
    ///     native::yield_now();
    ///     assert!(RAN.load(Ordering::Relaxed));
    ///     assert!(!function.stop());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the cases in which [`try_after_func`](Self::try_after_func) panics or returns an error.
    #[doc(alias = "AfterFunc")]
    #[track_caller]
    pub fn after_func(&self, function: impl FnOnce() + Send + 'static) -> ContextFunction<Plat> {
        match self.try_after_func(function) {
            Ok(function) => function,
            Err(error) => panic!("cannot prepare a G for a context: {error}"),
        }
    }

    /// Like [`after_func`](Self::after_func), but returns an error if there is no memory.
    ///
    /// # Errors
    ///
    /// There is no memory for the G, a timer or the context's hook; `function` is dropped, and nothing else has
    /// happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_after_func(
        &self,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<ContextFunction<Plat>, OutOfResources> {
        ContextFunction::new(self.node.as_ref(), function)
    }
}
