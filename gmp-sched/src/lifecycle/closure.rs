//! The closure of a G and its result.
//!
//! ```text
//!   in the G  ┌──────────────────────────────┐
//!             │ closure, later the result    │ up to 64 bytes: `InlineBody`
//!             └──────────────────────────────┘
//!   stack top ┌──────────────────────────────┐
//!             │ closure or result, if larger │
//!             ├──────────────────────────────┤
//!             │ frames of the running G …    │
//! ```
//!
//! Because of this layout a spawn allocates nothing, and a join handle needs no shared heap cell. If closure and result
//! are small, neither the spawn nor the join touches the new G's stack. When a G ends, the next G may run on the same
//! stack, which is in the caches ([`exchange_stacks`](crate::engine::stacks::exchange_stacks)).

use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::base::error::JoinError;
use crate::context::{self, Entry, Transfer, Word};
use crate::engine::switch::arrive;
use crate::entities::goroutine::{BodyFunctions, Goroutine, StackSize};
use crate::entities::inline_body::{ALIGN, ROOM};
use crate::lifecycle::children::Children;
use crate::lifecycle::finish::{StackUse, finish, finish_scoped};
use crate::lifecycle::join::{ResultOwner, finished};
use crate::platform::{Pinned, Platform};

/// The largest size of a closure or result, in bytes. Put larger ones into a `Box`.
pub const BODY_LIMIT: usize = 4096;

/// Whether a `B` is stored in the G, and not on its stack.
const fn fits<B>() -> bool {
    size_of::<B>() <= ROOM && align_of::<B>() <= ALIGN
}

/// The address of a closure or a result of type `B`, for a G whose stack ends at `top`. The closure is moved out before
/// the result is stored, so the two may overlap.
#[inline(always)]
fn storage<P: Platform, B>(goroutine: &Goroutine<P>, top: impl FnOnce() -> usize) -> *mut B {
    if fits::<B>() {
        goroutine.body.room().cast()
    } else {
        core::ptr::with_exposed_provenance_mut(storage_on_stack::<B>(top()))
    }
}

/// The address of the storage for a `B` on the stack that ends at `top`.
#[inline(always)]
fn storage_on_stack<B>(top: usize) -> usize {
    const {
        assert!(size_of::<B>() <= BODY_LIMIT, "closure or result of a G too large: put what is in it into a Box");
        assert!(align_of::<B>() <= BODY_LIMIT, "closure or result of a G has too large an alignment");
    }
    (top - size_of::<B>().next_multiple_of(ALIGN)) & !(align_of::<B>() - 1)
}

/// The address at which the frames of the G begin. This is below the storage of a `B` if that storage is on the stack,
/// otherwise it is `top`.
#[inline(always)]
fn below<B>(top: usize) -> usize {
    if fits::<B>() { top } else { storage_on_stack::<B>(top) }
}

/// The result of a closure, or the reason why there is none.
type Outcome<T> = Result<T, JoinError>;

struct Types<T>(PhantomData<T>);

impl<T: Send> Types<T> {
    const fn functions<P: Platform>() -> &'static BodyFunctions<P> {
        const { &BodyFunctions { fail: fail::<P, T> } }
    }

    /// Like [`functions`](Self::functions), for a child of a scope.
    const fn scoped_functions<P: Platform>() -> &'static BodyFunctions<P> {
        const { &BodyFunctions { fail: fail_scoped::<P, T> } }
    }
}

/// The upper end of the stack of a G that is being spawned.
///
/// This value is made before the closure is passed to [`install`]. If `install` read the address itself, the compiler
/// would copy the closure twice.
pub(crate) struct StackEnd<'a, P: Platform> {
    goroutine: &'a Goroutine<P>,
    address: usize,
}

impl<'a, P: Platform> StackEnd<'a, P> {
    /// Reads the address from a slot that the caller owns.
    #[inline(always)]
    pub(crate) fn of(goroutine: &'a Goroutine<P>) -> Self {
        Self { goroutine, address: goroutine.stack_top() }
    }
}

/// Stores `closure` in the G and prepares its context to run it. The caller owns the slot, and makes sure that
/// everything that the closure and its result borrow lives long enough.
#[inline(always)]
pub(crate) fn install<P, F, T>(end: StackEnd<'_, P>, closure: F)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    install_with::<P, F, T>(end, closure, run::<P, F, T>, Types::<T>::functions());
}

/// Like [`install`], for a child of a scope.
pub(crate) fn install_scoped<P, F, T>(end: StackEnd<'_, P>, closure: F, children: &Children<P>)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    end.goroutine.scope.store(core::ptr::from_ref(children).expose_provenance(), Ordering::Relaxed);
    install_with::<P, F, T>(end, closure, run_scoped::<P, F, T>, Types::<T>::scoped_functions());
}

/// Like [`install`], with `run` as the entry of the G.
#[inline(always)]
fn install_with<P, F, T>(end: StackEnd<'_, P>, closure: F, run: Entry, functions: &'static BodyFunctions<P>)
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let StackEnd { goroutine, address: top } = end;
    debug_assert!(top.is_multiple_of(ALIGN), "the stack of {goroutine:?} ends at {top:#x}");
    let address = storage::<P, F>(goroutine, || top);
    #[expect(unsafe_code, reason = "writes to the body of a G that does not run")]
    // SAFETY: `storage` returns an aligned address in the G, or at the upper end of the G's stack, which is large
    // enough. The caller owns the slot, so nothing else uses this memory.
    unsafe {
        address.write(closure);
    }
    let top = below::<F>(top).min(below::<Outcome<T>>(top));
    #[expect(unsafe_code, reason = "prepares the context of a G that does not run")]
    // SAFETY: the bytes below the storage of closure and result are unused stack, because the caller owns the slot.
    // `top` is a multiple of 16, because it is the upper end of the stack or the beginning of a storage, and both are
    // multiples of 16.
    unsafe {
        context::prepare(&goroutine.context, top, run);
    }
    goroutine.body_functions.store(Some(functions), Ordering::Relaxed);
}

/// The function in which a G begins and ends. It completes the switch to the new G, runs the closure and ends the G.
extern "sysv64" fn run<P, F, T>(subject: usize, argument: Word, function: usize, context: usize) -> !
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

/// Like [`run`], for a child of a scope.
extern "sysv64" fn run_scoped<P, F, T>(subject: usize, argument: Word, function: usize, context: usize) -> !
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

/// Returns whether the stack of a G that ends with a result of type `T` is free. It is free if the result is stored in
/// the G and the stack has the standard size.
#[inline(always)]
fn stack_use<P: Platform, T>(me: &Goroutine<P>) -> StackUse {
    if fits::<Outcome<T>>() && me.stack_size() == StackSize::Standard { StackUse::Free } else { StackUse::Kept }
}

/// The G whose context is at `context`.
#[inline(always)]
fn owner<P: Platform>(context: usize) -> &'static Goroutine<P> {
    const { assert!(core::mem::offset_of!(Goroutine<P>, context) == 0) }
    #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
    // SAFETY: `install_with` prepares only contexts of Gs. A context is the first field of its G, so both have the same
    // address. Gs are never freed.
    unsafe {
        &*core::ptr::with_exposed_provenance::<Goroutine<P>>(context)
    }
}

/// Runs the closure of the calling G and stores its result. Returns whether the closure panicked.
#[inline(always)]
fn run_closure<P, F, T>(me: &'static Goroutine<P>) -> bool
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let address = storage::<P, F>(me, || me.stack_top());
    #[expect(unsafe_code, reason = "moves the closure out of its storage")]
    // SAFETY: `install` with the same types stored the closure at this address, and each G runs its closure once.
    let closure = unsafe { address.read() };
    let result = P::run_body(closure);
    let panicked = matches!(result, Err(JoinError::Panicked(_)));
    put_result(me, result);
    panicked
}

/// The children of the scope to which `me` belongs.
fn children<P: Platform>(me: &'static Goroutine<P>) -> &'static Children<P> {
    let children = core::ptr::with_exposed_provenance(me.scope.load(Ordering::Relaxed));
    #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
    // SAFETY: `install_scoped` stored the address of the children, which are in a frame of the parent. The parent does
    // not leave the scope before its last child has been removed from the count, and the removal is the last access of
    // a child.
    unsafe {
        &*children
    }
}

/// Implements [`BodyFunctions::fail`] for a G that is not the child of a scope.
fn fail<P: Platform, T: Send>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, error: JoinError) {
    put_result::<P, T>(goroutine, Err(error));
    // If the G itself owns the result, nothing has to be dropped, because this error has no payload.
    let _owner = finished(pinned, goroutine);
}

/// Implements [`BodyFunctions::fail`] for a child of a scope.
fn fail_scoped<P: Platform, T: Send>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, error: JoinError) {
    let is_failure = error.is_failure();
    put_result::<P, T>(goroutine, Err(error));
    let children = children(goroutine);
    let is_unreported = finished(pinned, goroutine) == ResultOwner::Goroutine && is_failure;
    children.remove(pinned, is_unreported);
}

/// Stores the result of a G whose closure has been moved out. The caller is that G, or acts for it.
#[inline(always)]
pub(crate) fn put_result<P: Platform, T: Send>(goroutine: &Goroutine<P>, result: Result<T, JoinError>) {
    let address = storage::<P, Outcome<T>>(goroutine, || goroutine.stack_top());
    #[expect(unsafe_code, reason = "stores the result where the closure was")]
    // SAFETY: `install` made room for the result, and the closure has been moved out.
    unsafe {
        address.write(result);
    }
}

/// Stores an error as the result of the calling G, whose closure will not return, and readies a waiting joiner.
pub(crate) fn fail_with<P: Platform>(pinned: &Pinned<P>, me: &'static Goroutine<P>, error: JoinError) {
    let functions = me.body_functions.load(Ordering::Relaxed).expect("a G that runs has a closure");
    (functions.fail)(pinned, me, error);
}

/// Moves the result out of its storage. The caller owns the result, has seen that it is in place, and calls this only
/// once.
pub(crate) fn take_result<T: Send, P: Platform>(goroutine: &Goroutine<P>) -> Result<T, JoinError> {
    let address = storage::<P, Outcome<T>>(goroutine, || goroutine.stack_top());
    #[expect(unsafe_code, reason = "moves the result out of its storage")]
    // SAFETY: only a handle of type `T`, or `run`, calls this function. Before the call, the completion word has shown
    // that the result is in place and belongs to the caller.
    unsafe {
        address.read()
    }
}
