//! The closure of a G and its result, on the G's own stack.
//!
//! ```text
//!   stack top ┌──────────────────────────────┐
//!             │ closure, later the result    │ ← `Goroutine::body`
//!             ├──────────────────────────────┤
//!             │ first frame (`prepare`)      │
//!             │ frames of the running body … │
//! ```
//!
//! So a spawn allocates nothing and a join handle needs no shared heap cell.

use core::marker::PhantomData;

use crate::context;
use crate::goroutine::Goroutine;
use crate::join::{Audience, JoinError, finished};
use crate::platform::{Pinned, Platform};
use crate::primitives::Ordering;
use crate::scope::Children;
use crate::spawn::{self, goroutine_main};

/// Bytes that a closure or result may take at most; larger ones belong into a `Box`.
pub const BODY_LIMIT: usize = 4096;

/// Where the body of a G lies whose stack ends at `top`: room for the closure, and afterwards for its result.
fn place<F, T>(top: usize) -> usize {
    const {
        assert!(size_of::<F>() <= BODY_LIMIT, "closure of a G too large: put what it captures into a Box");
        assert!(size_of::<Result<T, JoinError>>() <= BODY_LIMIT, "result of a G too large: put it into a Box");
        assert!(align_of::<F>() <= BODY_LIMIT, "closure of a G wants too large an alignment");
        assert!(align_of::<Result<T, JoinError>>() <= BODY_LIMIT, "result of a G wants too large an alignment");
    }
    let size = size_of::<F>().max(size_of::<Result<T, JoinError>>());
    let align = align_of::<F>().max(align_of::<Result<T, JoinError>>());
    (top - size) & !(align - 1)
}

/// What is done with the body of a G whose types only its spawner knew.
pub(crate) struct BodyFunctions<P: Platform> {
    /// Runs the closure on the G itself, and ends the G.
    run: fn(&'static Goroutine<P>) -> !,
    /// Puts an error in the place of the result, and tells those who wait; the closure has been moved out.
    fail: fn(&Pinned<P>, &'static Goroutine<P>, JoinError),
}

struct Types<F, T>(PhantomData<(F, T)>);

impl<F, T> Types<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    const fn functions<P: Platform>() -> &'static BodyFunctions<P> {
        const { &BodyFunctions { run: run::<P, F, T>, fail: fail::<P, T> } }
    }

    /// Those of a child of a scope.
    const fn scoped_functions<P: Platform>() -> &'static BodyFunctions<P> {
        const { &BodyFunctions { run: run_scoped::<P, F, T>, fail: fail_scoped::<P, T> } }
    }
}

/// Puts `closure` on the stack of `goroutine` and prepares its first frame. The caller owns the slot, and sees to it that
/// what closure and result borrow lives long enough.
#[inline]
pub(crate) fn install<P, F, T>(goroutine: &Goroutine<P>, closure: F)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    install_with::<P, F, T>(goroutine, closure, Types::<F, T>::functions());
}

/// [`install`] for a child of a scope.
pub(crate) fn install_scoped<P, F, T>(goroutine: &Goroutine<P>, closure: F, children: &Children<P>)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    goroutine.scope.store(core::ptr::from_ref(children).expose_provenance(), Ordering::Relaxed);
    install_with::<P, F, T>(goroutine, closure, Types::<F, T>::scoped_functions());
}

#[inline(always)]
fn install_with<P, F, T>(goroutine: &Goroutine<P>, closure: F, functions: &'static BodyFunctions<P>)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let body = place::<F, T>(goroutine.stack_top());
    #[expect(unsafe_code, reason = "writes to the stack of a G that does not run")]
    // SAFETY: `place` gives an aligned address in the stack's upper end, which is large enough for it; the slot is the
    // caller's, so nobody uses that stack.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<F>(body).write(closure);
    }
    #[expect(unsafe_code, reason = "lays the first frame on the stack of a G that does not run")]
    // SAFETY: the bytes below the body are free stack, as above.
    let stack_pointer = unsafe { context::prepare(body, goroutine_main::<P>) };
    goroutine.body.store(body, Ordering::Relaxed);
    goroutine.body_functions.store(Some(functions), Ordering::Relaxed);
    goroutine.context.set(stack_pointer);
}

/// See [`BodyFunctions`].
fn run<P, F, T>(me: &'static Goroutine<P>) -> !
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let panicked = run_closure::<P, F, T>(me);
    spawn::finish(Pinned::<P>::new(), me, panicked, |me| drop(take_result::<T, P>(me)))
}

/// See [`BodyFunctions`].
fn run_scoped<P, F, T>(me: &'static Goroutine<P>) -> !
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let panicked = run_closure::<P, F, T>(me);
    spawn::finish_scoped(Pinned::<P>::new(), me, panicked, |me| drop(take_result::<T, P>(me)), children(me))
}

/// Runs the closure of the calling G and puts its result in its place; tells whether it panicked.
#[inline(always)]
fn run_closure<P, F, T>(me: &'static Goroutine<P>) -> bool
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let body = core::ptr::with_exposed_provenance_mut::<()>(me.body.load(Ordering::Relaxed));
    #[expect(unsafe_code, reason = "moves the closure out of its place")]
    // SAFETY: `install` with the same types put it there, and each G runs its body once.
    let closure = unsafe { body.cast::<F>().read() };
    let result = P::run_body(closure);
    let panicked = matches!(result, Err(JoinError::Panicked));
    put_result(me, result);
    panicked
}

/// The count among which a scoped G is.
fn children<P: Platform>(me: &'static Goroutine<P>) -> &'static Children<P> {
    let children = core::ptr::with_exposed_provenance(me.scope.load(Ordering::Relaxed));
    #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
    // SAFETY: `install_scoped` stored it, and a scope does not go away before its last child has been removed from the
    // count, which is the last thing that is done with it.
    unsafe {
        &*children
    }
}

/// See [`BodyFunctions`].
fn fail<P: Platform, T: Send>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, error: JoinError) {
    put_result::<P, T>(goroutine, Err(error));
    // If there is nobody, nobody else drops the error, and it needs no dropping.
    let _audience = finished(pinned, goroutine);
}

/// See [`BodyFunctions`].
fn fail_scoped<P: Platform, T: Send>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, error: JoinError) {
    put_result::<P, T>(goroutine, Err(error));
    let children = children(goroutine);
    if finished(pinned, goroutine) == Audience::Nobody && error.is_failure() {
        children.panicked();
    }
    children.remove(pinned);
}

/// Puts the result of a G whose closure has been moved out in its place.
#[inline(always)]
fn put_result<P: Platform, T: Send>(goroutine: &Goroutine<P>, result: Result<T, JoinError>) {
    let place = core::ptr::with_exposed_provenance_mut::<Result<T, JoinError>>(goroutine.body.load(Ordering::Relaxed));
    #[expect(unsafe_code, reason = "puts the result in the closure's place")]
    // SAFETY: the place is large and aligned enough for both, and the closure has been moved out.
    unsafe {
        place.write(result);
    }
}

/// Calls the body of the calling G.
#[inline(always)]
pub(crate) fn start<P: Platform>(me: &'static Goroutine<P>) -> ! {
    (functions(me).run)(me)
}

/// Puts an error in the place of the calling G's result, and tells those who wait: its body does not come back.
pub(crate) fn fail_with<P: Platform>(pinned: &Pinned<P>, me: &'static Goroutine<P>, error: JoinError) {
    (functions(me).fail)(pinned, me, error);
}

#[inline(always)]
fn functions<P: Platform>(goroutine: &Goroutine<P>) -> &'static BodyFunctions<P> {
    goroutine.body_functions.load(Ordering::Relaxed).expect("a G that runs has a body")
}

/// Moves the result out. The caller has the right to it, knows that it is there, and does this once.
pub(crate) fn take_result<T: Send, P: Platform>(goroutine: &Goroutine<P>) -> Result<T, JoinError> {
    let place = core::ptr::with_exposed_provenance::<Result<T, JoinError>>(goroutine.body.load(Ordering::Relaxed));
    #[expect(unsafe_code, reason = "moves the result out of its place")]
    // SAFETY: only the handle of type `T`, or `run` itself, calls this, after the completion word said that the result
    // is in place and theirs.
    unsafe {
        place.read()
    }
}
