//! Groups of Gs with a common error. Go: `golang.org/x/sync/errgroup`.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Mutex, Permit, Semaphore, WaitGroup};
use crate::base::error::OutOfResources;
use crate::library::cancel::Context;
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::lifecycle::join::JoinHandle;
use crate::lifecycle::spawn::try_go_for;
use crate::platform::Platform;

/// A group of Gs that work on parts of one task: [`wait`](Self::wait) waits for all Gs and returns the first error. Go:
/// `errgroup.Group`.
///
/// The first error cancels the group: from then on [`is_canceled`](Self::is_canceled) returns true. The G that failed
/// cancels the [context](Self::with_context) and calls the [hooks](Self::on_cancel). A context that is added later is
/// cancelled at once, and a hook that is added later is called at once. Cancelling does not stop the other Gs by itself.
///
/// The shared state of a group, each hook and each derived context are heap cells. If there is no memory for one of
/// them, the program ends, as with the types of `alloc`.
///
/// ```
/// use gmp_sched::native::{self, ErrorGroup};
///
/// unsafe { native::enter() }.run(2, || {
///     let group = ErrorGroup::new();
///     for n in 1..=4 {
///         group.go(move || if n == 3 { Err("three") } else { Ok(()) });
///     }
///     assert_eq!(group.wait(), Err("three"));
/// });
/// ```
#[doc(alias = "errgroup")]
pub struct ErrorGroup<E, Plat: Platform> {
    shared: Arc<Shared<E, Plat>>,
}

struct Shared<E, Plat: Platform> {
    under_way: WaitGroup<Plat>,
    /// Each G of the group that has not ended holds a permit. `None` if the group has no limit.
    limit: Option<Semaphore<Plat>>,
    /// Whether there is an error.
    is_canceled: AtomicBool,
    outcome: Mutex<Outcome<E, Plat>, Plat>,
}

struct Outcome<E, Plat: Platform> {
    /// The first error.
    error: Option<E>,
    /// What is called at the first error. Empty after that.
    hooks: Vec<Hook<E, Plat>>,
}

/// Called without the lock of the group's outcome.
type Hook<E, Plat> = Box<dyn FnOnce(&Shared<E, Plat>) + Send>;

impl<E: Send + 'static, Plat: Platform> ErrorGroup<E, Plat> {
    /// Makes a group without Gs.
    ///
    /// ```
    /// use gmp_sched::native::{self, ErrorGroup};
    /// unsafe { native::enter() }.run(1, || assert_eq!(ErrorGroup::<()>::new().wait(), Ok(())));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Makes a group that has at most `limit` Gs at a time. While `limit` Gs have not ended, [`go`](Self::go) waits.
    /// Go: `SetLimit`.
    ///
    /// ```
    /// use gmp_sched::native::{self, ErrorGroup};
    /// unsafe { native::enter() }.run(2, || {
    ///     let group = ErrorGroup::<()>::with_limit(1);
    ///     group.go(|| Ok(()));
    ///     group.go(|| Ok(()));
    ///     assert_eq!(group.wait(), Ok(()));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// `limit` is zero or more than [`Semaphore::MAX`].
    #[must_use]
    #[doc(alias = "SetLimit")]
    #[track_caller]
    pub fn with_limit(limit: u32) -> Self {
        assert!(limit > 0, "an ErrorGroup with a limit of zero");
        Self::with(Some(Semaphore::new(limit)))
    }

    /// Derives a context for the group from `context`, and returns both. The derived context is cancelled when the
    /// first G fails, or when [`wait`](Self::wait) returns. If a G fails, the text of its error is the
    /// [cause](Context::cause). Go: `errgroup.WithContext`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Context, ErrorGroup};
    ///
    /// unsafe { native::enter() }.run(2, || {
    ///     let (group, context) = ErrorGroup::with_limit(2).with_context(&Context::background());
    ///     let other = context.clone();
    ///     group.go(move || other.sleep(Duration::from_secs(3600)).map_err(|error| error.to_string()));
    ///     group.go(|| Err("out of paper".to_string()));
    ///     assert_eq!(group.wait(), Err("out of paper".to_string()));
    ///     assert_eq!(context.cause().unwrap().to_string(), "out of paper");
    /// });
    /// ```
    #[doc(alias = "WithContext")]
    pub fn with_context(self, context: &Context<Plat>) -> (Self, Context<Plat>)
    where
        E: fmt::Display,
    {
        let (context, cancel) = context.with_cancel();
        self.add_hook(Box::new(move |shared| {
            // The group keeps the error for `wait`, so the cause is a copy of its text.
            let cause = shared.outcome.lock().error.as_ref().expect("a G has failed").to_string();
            cancel.cancel_with(cause);
        }));
        (self, context)
    }

    /// Adds a hook: a function that is called when the first G fails, by that G, or at once if a G has failed already.
    /// Hooks are called in the order in which they were added.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use gmp_sched::native::{self, ErrorGroup};
    ///
    /// unsafe { native::enter() }.run(2, || {
    ///     let stop = Arc::new(AtomicBool::new(false));
    ///     let told = stop.clone();
    ///     let group = ErrorGroup::new().on_cancel(move || told.store(true, Ordering::Relaxed));
    ///     group.go(|| Err("failed"));
    ///     assert_eq!(group.wait(), Err("failed"));
    ///     assert!(stop.load(Ordering::Relaxed));
    /// });
    /// ```
    #[must_use]
    pub fn on_cancel(self, on_cancel: impl FnOnce() + Send + 'static) -> Self {
        self.add_hook(Box::new(move |_| on_cancel()));
        self
    }

    fn add_hook(&self, hook: Hook<E, Plat>) {
        // If the vector is full, a larger one is allocated without the lock. Its room cannot be used up meanwhile, because
        // only the owner of the group adds hooks.
        let (count, room) = {
            let outcome = self.shared.outcome.lock();
            (outcome.hooks.len(), outcome.hooks.capacity())
        };
        let mut larger = Vec::with_capacity(if count < room { 0 } else { 2 * count + 1 });
        {
            let mut outcome = self.shared.outcome.lock();
            if outcome.error.is_none() {
                if count == room {
                    larger.append(&mut outcome.hooks);
                    mem::swap(&mut larger, &mut outcome.hooks);
                }
                outcome.hooks.push(hook);
                return;
            }
        }
        hook(&self.shared);
    }

    fn with(limit: Option<Semaphore<Plat>>) -> Self {
        let shared = Shared {
            under_way: WaitGroup::new(),
            limit,
            is_canceled: AtomicBool::new(false),
            outcome: Mutex::new(Outcome { error: None, hooks: Vec::new() }),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Waits until the limit allows another G, and then spawns a G of the group, which runs `body`. May block the
    /// calling G; not callable from interrupts. Go: `Go`.
    ///
    /// A panic of `body` ends the program, because there is no join handle to report it to. (In a kernel with the
    /// option `panic=isolate`, it ends only the G, and [`wait`](Self::wait) then waits forever.)
    ///
    /// ```
    /// use gmp_sched::native::{self, ErrorGroup};
    /// unsafe { native::enter() }.run(1, || {
    ///     let group = ErrorGroup::new();
    ///     group.go(|| "17".parse::<u32>().map(drop));
    ///     group.go(|| "seventeen".parse::<u32>().map(drop));
    ///     assert!(group.wait().is_err());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// - The caller is not a G with a P.
    /// - The call has to wait, although the caller is pinned.
    /// - There is no memory for a stack.
    #[track_caller]
    #[doc(alias = "Go")]
    pub fn go(&self, body: impl FnOnce() -> Result<(), E> + Send + 'static) {
        let permit = self.shared.limit.as_ref().map(|limit| limit.acquire(1));
        if let Err(error) = self.start(permit, body) {
            panic!("cannot spawn a G: {error}");
        }
    }

    /// Like [`go`](Self::go), but returns an error if the limit is reached or there is no memory. Go: `TryGo`.
    ///
    /// ```
    /// use gmp_sched::native::{self, ErrorGroup};
    /// use gmp_sched::sync::TryGoError;
    /// unsafe { native::enter() }.run(1, || {
    ///     let group = ErrorGroup::<()>::with_limit(1);
    ///     assert!(group.try_go(|| Ok(())).is_ok());
    ///     // The first has not run yet.
    ///     assert!(matches!(group.try_go(|| Ok(())), Err(TryGoError::LimitReached(_))));
    ///     assert_eq!(group.wait(), Ok(()));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The limit is reached, or there is no memory for a stack. In the first case the error holds `body`, in the second
    /// case `body` is dropped.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    #[doc(alias = "TryGo")]
    pub fn try_go<F: FnOnce() -> Result<(), E> + Send + 'static>(&self, body: F) -> Result<(), TryGoError<F>> {
        let permit = match &self.shared.limit {
            None => None,
            Some(limit) => match limit.try_acquire(1) {
                None => return Err(TryGoError::LimitReached(body)),
                permit => permit,
            },
        };
        self.start(permit, body).map_err(TryGoError::OutOfResources)
    }

    #[track_caller]
    fn start<F>(&self, permit: Option<Permit<'_, Plat>>, body: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() -> Result<(), E> + Send + 'static,
    {
        self.shared.under_way.add(1);
        // Forgets the permit, because the drop of `end` (made below) releases the permit.
        if let Some(permit) = permit {
            permit.forget();
        }
        // The closure owns `end`, so `end` is dropped even if the spawn fails or panics.
        let end = End(Arc::clone(&self.shared));
        let spawned = try_go_for::<Plat, F, _, _>(move || {
            let (body, end) = (body, end);
            if let Err(error) = __rust_begin_short_backtrace(body) {
                end.0.fail(error);
            }
        });
        spawned.map(JoinHandle::detach)
    }

    /// Whether a G of the group has failed. Callable from anywhere.
    ///
    /// ```
    /// use gmp_sched::native::{self, ErrorGroup};
    /// unsafe { native::enter() }.run(1, || assert!(!ErrorGroup::<()>::new().is_canceled()));
    /// ```
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.shared.is_canceled.load(Ordering::Acquire)
    }

    /// Waits until all Gs of the group have ended. Blocks the calling G; not callable from interrupts. Go: `Wait`.
    ///
    /// ```
    /// use gmp_sched::native::{self, ErrorGroup};
    /// unsafe { native::enter() }.run(1, || assert_eq!(ErrorGroup::<()>::new().wait(), Ok(())));
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the G that failed first.
    ///
    /// # Panics
    ///
    /// The call has to wait, although the caller is pinned or is not a G with a P.
    #[track_caller]
    #[doc(alias = "Wait")]
    pub fn wait(self) -> Result<(), E> {
        self.shared.under_way.wait();
        let Outcome { error, hooks } = {
            let mut outcome = self.shared.outcome.lock();
            Outcome { error: outcome.error.take(), hooks: mem::take(&mut outcome.hooks) }
        };
        // If the group has a context, one of the hooks owns the context's cancel handle. So dropping the hooks cancels
        // the context, too.
        drop(hooks);
        error.map_or(Ok(()), Err)
    }
}

impl<E, Plat: Platform> Shared<E, Plat> {
    /// If `error` is the first one, stores it and cancels the group.
    fn fail(&self, error: E) {
        let hooks = {
            let mut outcome = self.outcome.lock();
            if outcome.error.is_some() {
                return;
            }
            outcome.error = Some(error);
            mem::take(&mut outcome.hooks)
        };
        self.is_canceled.store(true, Ordering::Release);
        hooks.into_iter().for_each(|hook| hook(self));
    }
}

/// Why [`ErrorGroup::try_go`] has spawned nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TryGoError<F> {
    /// The group has as many Gs as its limit allows. The error contains the closure.
    LimitReached(F),
    /// There is no memory for a stack.
    OutOfResources(OutOfResources),
}

impl<F> fmt::Debug for TryGoError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitReached(_) => f.write_str("LimitReached(..)"),
            Self::OutOfResources(error) => f.debug_tuple("OutOfResources").field(error).finish(),
        }
    }
}

impl<F> fmt::Display for TryGoError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitReached(_) => f.write_str("the limit of the group is reached"),
            Self::OutOfResources(error) => error.fmt(f),
        }
    }
}

impl<F> core::error::Error for TryGoError<F> {}

/// Represents a G of the group. Dropped when the G has ended or could not be spawned.
struct End<E, Plat: Platform>(Arc<Shared<E, Plat>>);

impl<E, Plat: Platform> Drop for End<E, Plat> {
    fn drop(&mut self) {
        if let Some(limit) = &self.0.limit {
            limit.release(1);
        }
        self.0.under_way.done();
    }
}

impl<E: Send + 'static, Plat: Platform> Default for ErrorGroup<E, Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E, Plat: Platform> fmt::Debug for ErrorGroup<E, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorGroup").field("under_way", &self.shared.under_way).finish_non_exhaustive()
    }
}
