//! Scopes whose children may fail. The first error cancels the context of the scope.

use core::fmt;

use super::Scope;
use crate::base::error::OutOfResources;
use crate::base::spin_lock::Lock;
use crate::library::cancel::{CancelHandle, Context};
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::platform::{Pinned, Platform};

/// A scope to spawn fallible Gs in; see [`try_scope`] for an example.
pub struct TryScope<'scope, 'env: 'scope, E, Plat: Platform> {
    scope: Scope<'scope, 'env, Plat>,
    context: Context<Plat>,
    cancel: CancelHandle<Plat>,
    /// The first error.
    error: Lock<Option<E>, Plat>,
}

/// Calls `body` with a scope whose Gs may fail, and waits for all of them. The scope has a context, which is a child of
/// `context`. The first error of a child or of the body is the result, and cancels the scope's context. The children
/// notice the cancellation only if they check that context or wait with it. Go: `errgroup.WithContext`, with borrowing.
///
/// Blocks the calling G until the last child has ended; not callable from interrupts.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Context};
///
/// let result: Result<(), String> = unsafe { native::enter() }.run(2, || {
///     let name = String::from("cable");
///     native::try_scope(&Context::background(), |scope| {
///         scope.go(|| scope.context().sleep(Duration::from_secs(3600)).map_err(|error| error.to_string()));
///         scope.go(|| Err(format!("{name} unplugged")));
///         Ok(())
///     })
/// });
/// assert_eq!(result.unwrap_err(), "cable unplugged");
/// ```
///
/// # Errors
///
/// The first error of a child or the body.
///
/// # Panics
///
/// - The caller is pinned or is not a G with a P. The body is not called in this case.
/// - The body or a child panics. The panic propagates after all children have ended.
#[doc(alias = "errgroup")]
#[track_caller]
pub fn try_scope<'env, Plat, E, F, T>(context: &Context<Plat>, body: F) -> Result<T, E>
where
    Plat: Platform,
    E: Send + 'env,
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E, Plat>) -> Result<T, E>,
{
    let (context, cancel) = context.with_cancel();
    let scope = TryScope { scope: Scope::new(), context, cancel, error: Lock::new(None) };
    let value = scope.scope.run(|| {
        let guard = CancelUnlessReturned { scope: &scope, has_returned: false };
        let result = body(&scope);
        guard.returned();
        result.map_err(|error| scope.fail(error))
    });
    let error = {
        let _pinned = Pinned::<Plat>::of_scheduler();
        scope.error.lock().take()
    };
    match error {
        Some(error) => Err(error),
        None => Ok(value.unwrap_or_else(|()| unreachable!("a body that fails leaves its error"))),
    }
}

impl<'scope, E: Send, Plat: Platform> TryScope<'scope, '_, E, Plat> {
    /// Spawns a G that runs `body` in this scope, as [`Scope::try_go`] does.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// let result = unsafe { native::enter() }.run(1, || {
    ///     native::try_scope(&Context::background(), |scope| {
    ///         scope.try_go(|| Err("too small")).map_err(|_| "no memory")?;
    ///         Ok(())
    ///     })
    /// });
    /// assert_eq!(result, Err("too small"));
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for the G or its stack; `body` is dropped, and nothing else has happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_go<F>(&'scope self, body: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
    {
        let spawned = self.scope.try_go_for::<F, _, _>(move || {
            let guard = CancelUnlessReturned { scope: self, has_returned: false };
            let result = __rust_begin_short_backtrace(body);
            guard.returned();
            if let Err(error) = result {
                self.fail(error);
            }
        });
        spawned.map(drop)
    }

    /// Like [`try_go`](Self::try_go), but panics if there is no memory. See [`try_scope`] for an example.
    ///
    /// # Panics
    ///
    /// In the cases in which [`try_go`](Self::try_go) panics or returns an error.
    #[track_caller]
    pub fn go<F>(&'scope self, body: F)
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
    {
        if let Err(error) = self.try_go(body) {
            panic!("cannot spawn a G: {error}");
        }
    }

    /// The scope's context. It is cancelled by the first error, by [`cancel`](Self::cancel), with its parent, and when
    /// [`try_scope`] returns. On a platform that can unwind, it is also cancelled by the body or a child that panics or
    /// exits. See [`try_scope`] for an example.
    pub fn context(&self) -> &Context<Plat> {
        &self.context
    }

    /// Cancels the scope's context, without an error. Does not block; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// let found: Result<(), ()> = unsafe { native::enter() }.run(2, || {
    ///     native::try_scope(&Context::background(), |scope| {
    ///         scope.go(|| {
    ///             scope.context().wait();
    ///             Ok(())
    ///         });
    ///         // Found; the sibling need not finish.
    ///         scope.cancel();
    ///         Ok(())
    ///     })
    /// });
    /// assert_eq!(found, Ok(()));
    /// ```
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    fn fail(&self, error: E) {
        let later = {
            let _pinned = Pinned::<Plat>::of_scheduler();
            let mut first = self.error.lock();
            if first.is_none() {
                *first = Some(error);
                None
            } else {
                Some(error)
            }
        };
        drop(later);
        self.cancel();
    }
}

/// A guard in the body and in each child. If the body or child unwinds, because it panics or exits, dropping the guard
/// cancels the others.
struct CancelUnlessReturned<'a, 'scope, 'env: 'scope, E: Send, Plat: Platform> {
    scope: &'a TryScope<'scope, 'env, E, Plat>,
    has_returned: bool,
}

impl<E: Send, Plat: Platform> CancelUnlessReturned<'_, '_, '_, E, Plat> {
    fn returned(mut self) {
        self.has_returned = true;
    }
}

impl<E: Send, Plat: Platform> Drop for CancelUnlessReturned<'_, '_, '_, E, Plat> {
    fn drop(&mut self) {
        if !self.has_returned {
            self.scope.cancel();
        }
    }
}

impl<E, Plat: Platform> fmt::Debug for TryScope<'_, '_, E, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryScope").field("scope", &self.scope).field("context", &self.context).finish_non_exhaustive()
    }
}
