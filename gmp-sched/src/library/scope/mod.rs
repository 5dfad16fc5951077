//! Scoped Gs: children that may borrow from their parent's frame, because they cannot outlive it.
//!
//! The model is `std::thread::scope`. A scope ends when all its children have ended. The parent waits for them whether
//! the body of the scope returned or panicked. The result of a child may borrow, too. So a child that is not joined
//! drops its result before it counts as ended. A child costs the same as any other G, and needs no heap cell.
//!
//! [`try_scope`] adds cancellation. Its children may fail. The first error is the scope's result, and cancels the
//! other children through a [`Context`](crate::cancel::Context).
//!
#![cfg_attr(not(feature = "extras"), doc = "[`try_scope`]: crate#features")]

#[cfg(feature = "extras")]
mod fallible;

#[cfg(feature = "extras")]
pub use fallible::{TryScope, try_scope};

use core::fmt;
use core::marker::PhantomData;

use crate::base::error::{JoinError, OutOfResources};
use crate::base::id::GoroutineId;
use crate::lifecycle::children::Children;
use crate::lifecycle::exit::exit_body;
use crate::lifecycle::join::JoinHandle;
use crate::lifecycle::new_goroutine::spawn_scoped;
use crate::platform::Platform;

/// A scope to spawn Gs in; see [`scope`] for an example.
pub struct Scope<'scope, 'env: 'scope, Plat: Platform> {
    children: Children<Plat>,
    // Both lifetimes are invariant, because if one of them could shrink, a child could borrow a value that ends before
    // the scope does.
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// A handle to join a scoped G. If this handle is dropped, the G still runs, and the scope waits for it. See [`scope`]
/// for an example.
pub struct ScopedJoinHandle<'scope, T: Send, Plat: Platform> {
    /// `None` after the G has been joined.
    handle: Option<JoinHandle<T, Plat>>,
    children: &'scope Children<Plat>,
}

/// Calls `body` with a scope, and waits for all Gs spawned in it. These Gs may borrow everything that outlives the
/// call.
///
/// Blocks the calling G until the last child has ended; not callable from interrupts. On a platform that cannot unwind,
/// a panic of the body ends either the program or only the G (see [`abandon`](crate::lifecycle::exit::abandon)). In the
/// second case the G first waits for its children, because the children may borrow from stack frames of the G's
/// ancestors.
///
/// ```
/// use gmp_sched::native;
///
/// let total = unsafe { native::enter() }.run(4, || {
///     let numbers: Vec<u64> = (1..=100).collect();
///     let mut largest = 0;
///     let total = native::scope(|scope| {
///         scope.go(|| largest = *numbers.iter().max().unwrap());
///         let halves = numbers.chunks(50).map(|half| scope.go(move || half.iter().sum::<u64>()));
///         halves.collect::<Vec<_>>().into_iter().map(|half| half.join().unwrap()).sum::<u64>()
///     });
///     assert_eq!(largest, 100);
///     total
/// });
/// assert_eq!(total, 5050);
/// ```
///
/// A value that is dropped before the scope ends cannot be borrowed:
///
/// ```compile_fail
/// use gmp_sched::native;
///
/// native::scope(|scope| {
///     let short_lived = String::from("gone when the body returns");
///     scope.go(|| short_lived.len());
/// });
/// ```
///
/// # Panics
///
/// - The caller is pinned or is not a G with a P. The body is not called in this case.
/// - The body panics, or a child that is not joined panics. The panic propagates after all children have ended.
#[track_caller]
pub fn scope<'env, Plat, F, T>(body: F) -> T
where
    Plat: Platform,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, Plat>) -> T,
{
    let scope = Scope::new();
    scope.run(|| body(&scope))
}

impl<Plat: Platform> Scope<'_, '_, Plat> {
    fn new() -> Self {
        Self { children: Children::new(), _scope: PhantomData, _env: PhantomData }
    }

    /// Calls `body`, and waits for all children, even if `body` panics.
    #[track_caller]
    fn run<T>(&self, body: impl FnOnce() -> T) -> T {
        match self.children.open(|| Plat::run_body(body)) {
            Ok(_) if self.children.have_panicked() => panic!("a scoped G panicked"),
            Ok(result) => result,
            Err(JoinError::Exited) => exit_body::<Plat>(),
            Err(error) => error.propagate("the body of a scope panicked"),
        }
    }
}

impl<'scope, Plat: Platform> Scope<'scope, '_, Plat> {
    /// Spawns a G that runs `body` in this scope, as [`spawn::try_go`](crate::lifecycle::spawn::try_go) does.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let words = ["to", "and", "fro"];
    ///     let longest = native::scope(|scope| {
    ///         let longest = scope.try_go(|| words.iter().map(|word| word.len()).max()).expect("memory for a stack");
    ///         longest.join().unwrap()
    ///     });
    ///     assert_eq!(longest, Some(3));
    /// });
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
    pub fn try_go<F, T>(&'scope self, body: F) -> Result<ScopedJoinHandle<'scope, T, Plat>, OutOfResources>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.try_go_for::<F, F, T>(body)
    }

    /// Like [`try_go`](Self::try_go), for a `body` of this crate that calls the program's function `N`. Traces name
    /// that function.
    #[expect(unsafe_code, reason = "spawns what borrows")]
    #[track_caller]
    pub(super) fn try_go_for<N, F, T>(
        &'scope self,
        body: F,
    ) -> Result<ScopedJoinHandle<'scope, T, Plat>, OutOfResources>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: 1. The body and its result are used only during `'scope`, because `run` returns or unwinds only after
        // the count of children is zero (`Children::open` waits for that). 2. A child is counted until its body has run
        // and its result has been dropped or left to the handle. The handle cannot outlive `'scope`.
        // 3. The count outlives the children, because it is in the frame of the caller of `run`.
        let spawned = unsafe { spawn_scoped::<Plat, N, F, T>(body, &self.children) };
        spawned.map(|handle| ScopedJoinHandle { handle: Some(handle), children: &self.children })
    }

    /// Like [`try_go`](Self::try_go), but panics if there is no memory. See [`scope`] for an example.
    ///
    /// # Panics
    ///
    /// In the cases in which [`try_go`](Self::try_go) panics or returns an error.
    #[track_caller]
    pub fn go<F, T>(&'scope self, body: F) -> ScopedJoinHandle<'scope, T, Plat>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match self.try_go(body) {
            Ok(handle) => handle,
            Err(error) => panic!("cannot spawn a G: {error}"),
        }
    }
}

impl<T: Send, Plat: Platform> ScopedJoinHandle<'_, T, Plat> {
    /// The id of the G.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || native::scope(|scope| assert_ne!(scope.go(|| ()).id(), scope.go(|| ()).id())));
    /// ```
    #[must_use]
    pub fn id(&self) -> GoroutineId {
        self.inner().id()
    }

    /// Whether the G has finished, so that [`join`](Self::join) does not block.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     native::scope(|scope| {
    ///         let child = scope.go(|| 7);
    ///         assert!(!child.is_finished(), "there is one P, and we have it");
    ///         native::yield_now();
    ///         assert!(child.is_finished());
    ///         assert_eq!(child.join(), Ok(7));
    ///     });
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.inner().is_finished()
    }

    /// Waits for the G and returns its result. Blocks the calling G; not callable from interrupts. See [`scope`] for an
    /// example.
    ///
    /// # Errors
    ///
    /// The G ended without a result. The error says how it ended.
    ///
    /// # Panics
    ///
    /// The call has to wait, although the caller is pinned or is not a G with a P.
    #[track_caller]
    pub fn join(mut self) -> Result<T, JoinError> {
        self.handle.take().expect("it is taken by `join` and `drop` only").join()
    }

    fn inner(&self) -> &JoinHandle<T, Plat> {
        self.handle.as_ref().expect("it is taken by `join` and `drop` only")
    }
}

impl<T: Send, Plat: Platform> Drop for ScopedJoinHandle<'_, T, Plat> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Some(Err(error)) = handle.discard()
            && error.is_failure()
        {
            self.children.panicked();
        }
    }
}

impl<Plat: Platform> fmt::Debug for Scope<'_, '_, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("children", &self.children).finish_non_exhaustive()
    }
}

impl<T: Send, Plat: Platform> fmt::Debug for ScopedJoinHandle<'_, T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("handle", &self.handle).finish_non_exhaustive()
    }
}
