//! The closure of a G and its result.
//!
//! ```text
//!   in the G  ┌──────────────────────────────┐
//!             │ closure, later the result    │ up to 64 bytes: `InlineBody`
//!             └──────────────────────────────┘
//!   stack top ┌──────────────────────────────┐
//!             │ those that are larger        │
//!             ├──────────────────────────────┤
//!             │ frames of the running body … │
//! ```
//!
//! So a spawn allocates nothing and a join handle needs no shared heap cell. A spawn does not touch the new G's stack either,
//! nor does whoever takes its result: when a G ends, the next one may run on its stack, which is in the caches
//! ([`exchange_stacks`](crate::engine::stacks::exchange_stacks)).

use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::base::error::JoinError;
use crate::context::{self, Entry, Transfer};
use crate::engine::switch::arrive;
use crate::entities::goroutine::{BodyFunctions, Goroutine, StackSize};
use crate::entities::inline_body::{ALIGN, ROOM};
use crate::lifecycle::children::Children;
use crate::lifecycle::finish::{StackUse, finish, finish_scoped};
use crate::lifecycle::join::{Audience, finished};
use crate::platform::{Pinned, Platform};

/// Bytes that a closure or result may take at most; larger ones belong into a `Box`.
pub const BODY_LIMIT: usize = 4096;

/// Whether a `B` has its place in the G.
const fn fits<B>() -> bool {
    size_of::<B>() <= ROOM && align_of::<B>() <= ALIGN
}

/// Where a closure or a result of type `B` lies, for a G whose stack ends at `top`. One comes after the other, so they may
/// overlap.
#[inline(always)]
fn place<P: Platform, B>(goroutine: &Goroutine<P>, top: impl FnOnce() -> usize) -> *mut B {
    if fits::<B>() {
        goroutine.body.room().cast()
    } else {
        core::ptr::with_exposed_provenance_mut(place_on_stack::<B>(top()))
    }
}

/// [`place`] on the stack that ends at `top`.
#[inline(always)]
fn place_on_stack<B>(top: usize) -> usize {
    const {
        assert!(size_of::<B>() <= BODY_LIMIT, "closure or result of a G too large: put what is in it into a Box");
        assert!(align_of::<B>() <= BODY_LIMIT, "closure or result of a G wants too large an alignment");
    }
    (top - size_of::<B>().next_multiple_of(ALIGN)) & !(align_of::<B>() - 1)
}

/// What is left of the stack that ends at `top` for one who needs a place for a `B`: where that ends.
#[inline(always)]
fn below<B>(top: usize) -> usize {
    if fits::<B>() { top } else { place_on_stack::<B>(top) }
}

/// What is left of a closure.
type Outcome<T> = Result<T, JoinError>;

struct Types<T>(PhantomData<T>);

impl<T: Send> Types<T> {
    const fn functions<P: Platform>() -> &'static BodyFunctions<P> {
        const { &BodyFunctions { fail: fail::<P, T> } }
    }

    /// Those of a child of a scope.
    const fn scoped_functions<P: Platform>() -> &'static BodyFunctions<P> {
        const { &BodyFunctions { fail: fail_scoped::<P, T> } }
    }
}

/// The upper end of the stack of a G that is being made.
///
/// To be looked up before the body goes on its way: with that look in between the compiler would move it twice.
pub(crate) struct StackEnd<'a, P: Platform> {
    goroutine: &'a Goroutine<P>,
    address: usize,
}

impl<'a, P: Platform> StackEnd<'a, P> {
    /// Of a slot that is the caller's.
    #[inline(always)]
    pub(crate) fn of(goroutine: &'a Goroutine<P>) -> Self {
        Self { goroutine, address: goroutine.stack_top() }
    }
}

/// Puts `closure` in its place and has the G begin with it. The caller owns the slot, and sees to it that what closure and
/// result borrow lives long enough.
#[inline(always)]
pub(crate) fn install<P, F, T>(end: StackEnd<'_, P>, closure: F)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    install_with::<P, F, T>(end, closure, run::<P, F, T>, Types::<T>::functions());
}

/// [`install`] for a child of a scope.
pub(crate) fn install_scoped<P, F, T>(end: StackEnd<'_, P>, closure: F, children: &Children<P>)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    end.goroutine.scope.store(core::ptr::from_ref(children).expose_provenance(), Ordering::Relaxed);
    install_with::<P, F, T>(end, closure, run_scoped::<P, F, T>, Types::<T>::scoped_functions());
}

/// Has the G begin with `run`.
#[inline(always)]
fn install_with<P, F, T>(end: StackEnd<'_, P>, closure: F, run: Entry, functions: &'static BodyFunctions<P>)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let StackEnd { goroutine, address: top } = end;
    debug_assert!(top.is_multiple_of(ALIGN), "the stack of {goroutine:?} ends at {top:#x}");
    let body = place::<P, F>(goroutine, || top);
    #[expect(unsafe_code, reason = "writes to the body of a G that does not run")]
    // SAFETY: `place` gives an aligned address in the G, or in its stack's upper end, which is large enough for it; the slot is
    // the caller's, so nobody uses either.
    unsafe {
        body.write(closure);
    }
    let top = below::<F>(top).min(below::<Outcome<T>>(top));
    #[expect(unsafe_code, reason = "prepares the context of a G that does not run")]
    // SAFETY: the bytes below the places of both are free stack, as above; both are multiples of 16. The slot is the caller's.
    unsafe {
        context::prepare(&goroutine.context, top, run);
    }
    goroutine.body_functions.store(Some(functions), Ordering::Relaxed);
}

/// The first and last function of a G: completes the switch that brought it here, runs the closure, ends the G.
extern "sysv64" fn run<P, F, T>(subject: usize, argument: usize, function: usize, context: usize) -> !
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    drop(arrive::<P>(Transfer { function, subject, argument }));
    let me = owner::<P>(context);
    let panicked = run_closure::<P, F, T>(me);
    let drop_result = |me| drop(take_result::<T, P>(me));
    finish(me, panicked, stack_use::<P, T>(me), core::mem::needs_drop::<T>().then_some(drop_result))
}

/// [`run`] for a child of a scope.
extern "sysv64" fn run_scoped<P, F, T>(subject: usize, argument: usize, function: usize, context: usize) -> !
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    drop(arrive::<P>(Transfer { function, subject, argument }));
    let me = owner::<P>(context);
    let panicked = run_closure::<P, F, T>(me);
    let drop_result = |me| drop(take_result::<T, P>(me));
    finish_scoped(me, panicked, stack_use::<P, T>(me), drop_result, children(me))
}

/// Whether the stack of a G that ends with such a result is free then.
#[inline(always)]
fn stack_use<P: Platform, T>(me: &Goroutine<P>) -> StackUse {
    if fits::<Outcome<T>>() && me.stack_size() == StackSize::Standard { StackUse::Free } else { StackUse::Kept }
}

/// The G whose context that is.
#[inline(always)]
fn owner<P: Platform>(context: usize) -> &'static Goroutine<P> {
    const { assert!(core::mem::offset_of!(Goroutine<P>, context) == 0) }
    #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
    // SAFETY: `install_with` prepares contexts of Gs only, each is resumed by a reference to its G's, and it comes first there;
    // Gs are never freed.
    unsafe {
        &*core::ptr::with_exposed_provenance::<Goroutine<P>>(context)
    }
}

/// Runs the closure of the calling G and puts its result in its place; tells whether it panicked.
#[inline(always)]
fn run_closure<P, F, T>(me: &'static Goroutine<P>) -> bool
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let body = place::<P, F>(me, || me.stack_top());
    #[expect(unsafe_code, reason = "moves the closure out of its place")]
    // SAFETY: `install` with the same types put it there, and each G runs its body once.
    let closure = unsafe { body.read() };
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

/// Puts the result of a G whose closure has been moved out in its place. The caller is that G, or speaks for it.
#[inline(always)]
pub(crate) fn put_result<P: Platform, T: Send>(goroutine: &Goroutine<P>, result: Result<T, JoinError>) {
    let place = place::<P, Outcome<T>>(goroutine, || goroutine.stack_top());
    #[expect(unsafe_code, reason = "puts the result in the closure's place")]
    // SAFETY: there is room for it since `install`, and the closure has been moved out.
    unsafe {
        place.write(result);
    }
}

/// Puts an error in the place of the calling G's result, and tells those who wait: its body does not come back.
pub(crate) fn fail_with<P: Platform>(pinned: &Pinned<P>, me: &'static Goroutine<P>, error: JoinError) {
    let functions = me.body_functions.load(Ordering::Relaxed).expect("a G that runs has a body");
    (functions.fail)(pinned, me, error);
}

/// Moves the result out. The caller has the right to it, knows that it is there, and does this once.
pub(crate) fn take_result<T: Send, P: Platform>(goroutine: &Goroutine<P>) -> Result<T, JoinError> {
    let place = place::<P, Outcome<T>>(goroutine, || goroutine.stack_top());
    #[expect(unsafe_code, reason = "moves the result out of its place")]
    // SAFETY: only the handle of type `T`, or `run` itself, calls this, after the completion word said that the result
    // is in place and theirs.
    unsafe {
        place.read()
    }
}
