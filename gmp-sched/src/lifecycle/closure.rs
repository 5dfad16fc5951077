//! The closure of a G: how it is installed in a new G, runs, and leaves its result.

use core::any;
use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::base::error::JoinError;
use crate::context::{self, Start, Transfer, Word};
use crate::engine::ready::ready_pinned;
use crate::engine::switch::arrive;
use crate::entities::goroutine::{BodyFunctions, Goroutine, StackSize};
use crate::entities::inline_body::ALIGN;
use crate::lifecycle::children::Children;
use crate::lifecycle::finish::{StackUse, finish};
use crate::lifecycle::join::{Finished, finished};
use crate::lifecycle::storage::{Outcome, below, fits, put_result, storage, take_result};
use crate::platform::{Pinned, Platform};

/// The scope that a new G belongs to: a reference to the children of the scope, or [`NoScope`] if the G is not a child
/// of a scope. Functions take the type of the scope as a type parameter, so that the code for a G without a scope does
/// not test whether there is a scope.
pub(crate) trait OptionalScope<Plat: Platform> {
    /// Stores this scope in a new G.
    fn store_in(self, goroutine: &Goroutine<Plat>);

    /// Returns the children of the scope of `me`, if `me` is the child of a scope. [`store_in`](Self::store_in) of the
    /// same type has been called for `me`.
    fn children(me: &'static Goroutine<Plat>) -> Option<&'static Children<Plat>>;
}

/// The type of the scope of Gs that are not children of a scope.
pub(crate) struct NoScope;

impl<Plat: Platform> OptionalScope<Plat> for NoScope {
    #[inline(always)]
    fn store_in(self, _: &Goroutine<Plat>) {}

    #[inline(always)]
    fn children(_: &'static Goroutine<Plat>) -> Option<&'static Children<Plat>> {
        None
    }
}

impl<Plat: Platform> OptionalScope<Plat> for &Children<Plat> {
    fn store_in(self, goroutine: &Goroutine<Plat>) {
        goroutine.scope.store(core::ptr::from_ref(self).expose_provenance(), Ordering::Relaxed);
    }

    fn children(me: &'static Goroutine<Plat>) -> Option<&'static Children<Plat>> {
        let children = core::ptr::with_exposed_provenance(me.scope.load(Ordering::Relaxed));
        #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
        // SAFETY: `store_in` stored the address of the children, which are in a frame of the parent. The parent does
        // not leave the scope before its last child has been removed from the count, and the removal is the last access
        // of a child.
        unsafe {
            Some(&*children)
        }
    }
}

/// The upper end of the stack of a G that is being spawned.
///
/// This value is made before the closure is passed to [`install`]. If `install` read the address itself, the compiler
/// would copy the closure twice.
pub(crate) struct StackEnd<'a, Plat: Platform> {
    goroutine: &'a Goroutine<Plat>,
    address: usize,
}

impl<'a, Plat: Platform> StackEnd<'a, Plat> {
    /// Reads the address from a slot that the caller owns.
    #[inline(always)]
    pub(crate) fn of(goroutine: &'a Goroutine<Plat>) -> Self {
        Self { goroutine, address: goroutine.stack_top() }
    }
}

/// Stores `closure` in the G or on the G's stack, and prepares the context of the G to run the closure. The caller owns
/// the slot. The caller also makes sure that `scope`, and everything that the closure and its result borrow, lives long
/// enough. `N` is the type of the function that traces name. It is `F`, unless `F` is a closure of this crate that
/// calls a function of the program.
#[inline(always)]
pub(crate) fn install<Plat, N, F, T, S>(end: StackEnd<'_, Plat>, closure: F, scope: S)
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
    S: OptionalScope<Plat>,
{
    let StackEnd { goroutine, address: top } = end;
    debug_assert!(top.is_multiple_of(ALIGN), "the stack of {goroutine:?} ends at {top:#x}");
    let address = storage::<Plat, F>(goroutine, || top);
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
        context::prepare::<Body<Plat, F, T, S>>(&goroutine.context, top);
    }
    let functions = const {
        &BodyFunctions {
            fail: fail::<Plat, T, S>,
            #[cfg(feature = "std")]
            result_start: below::<Outcome<T>>,
            name: any::type_name::<N>,
        }
    };
    goroutine.body_functions.store(Some(functions), Ordering::Relaxed);
    scope.store_in(goroutine);
}

/// What a G with a closure `F` runs.
struct Body<Plat, F, T, S>(PhantomData<fn(Plat, F, T, S)>);

impl<Plat, F, T, S> Start for Body<Plat, F, T, S>
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
    S: OptionalScope<Plat>,
{
    /// Completes the switch to the new G.
    ///
    /// This is not done in [`run`](Self::run), into which the closure may be inlined. If the closure's frame is larger
    /// than the stack, the stack probe at the beginning of that function touches the guard page. At that moment the
    /// switch must be complete and the G must not be pinned any more. Otherwise the overflow could not end this G
    /// alone: it would end the whole program.
    ///
    /// `run_body` catches panics here, although no panic may leave a window. This G may be displaced as soon as its pin
    /// is lowered. When it is resumed, it runs the commit of the G that left before it, still inside this function. If
    /// this commit panics, the guard of a window ends the program with a report when the stack unwinds. But no stack
    /// begins to unwind if nothing would catch the panic.
    extern "sysv64" fn arrive(subject: usize, argument: Word, function: usize) {
        Plat::run_body(|| arrive::<Plat>(Transfer { function, subject, argument }).lower())
            .expect("windows end the program, and outside of them nothing panics here");
    }

    /// Runs the closure of the G with this context, which is the calling G, and ends this G.
    extern "sysv64" fn run(context: usize) -> ! {
        const { assert!(core::mem::offset_of!(Goroutine<Plat>, context) == 0) }
        #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
        // SAFETY: `install` prepares only contexts of Gs. A context is the first field of its G, so both have the same
        // address. Gs are never freed.
        let me = unsafe { &*core::ptr::with_exposed_provenance::<Goroutine<Plat>>(context) };
        let panicked = run_closure::<Plat, F, T>(me);
        let needs_drop = panicked || core::mem::needs_drop::<T>();
        let drop_result = needs_drop.then_some(|me| drop(take_result::<T, Plat>(me)));
        finish(me, panicked, stack_use::<Plat, T>(me), drop_result, S::children(me))
    }
}

/// Returns [`StackUse::Free`] if the stack of this G, which ends with a result of type `T`, can go to another G at
/// once. This requires that the result is stored in the G, and not on the stack, and that the stack has the standard
/// size.
#[inline(always)]
fn stack_use<Plat: Platform, T>(me: &Goroutine<Plat>) -> StackUse {
    if fits::<Outcome<T>>() && me.stack_size() == StackSize::Standard { StackUse::Free } else { StackUse::Kept }
}

/// Runs the closure of the calling G and stores its result. Returns whether the closure panicked.
#[inline(always)]
fn run_closure<Plat, F, T>(me: &'static Goroutine<Plat>) -> bool
where
    Plat: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let address = storage::<Plat, F>(me, || me.stack_top());
    #[expect(unsafe_code, reason = "moves the closure out of its storage")]
    // SAFETY: `install` with the same types stored the closure at this address, and each G runs its closure once.
    let closure = unsafe { address.read() };
    let result = Plat::run_body(|| __rust_begin_short_backtrace(closure));
    let panicked = matches!(result, Err(JoinError::Panicked(_)));
    put_result(me, result);
    panicked
}

/// Calls a function of the program. Because of the name of this function, the backtrace in the message of a panic ends
/// with the program's function, and does not show the calls by which the scheduler began the G.
#[inline(always)]
pub(crate) fn __rust_begin_short_backtrace<T>(function: impl FnOnce() -> T) -> T {
    function()
}

/// Implements [`BodyFunctions::fail`].
fn fail<Plat: Platform, T: Send, S: OptionalScope<Plat>>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
    error: JoinError,
) {
    let is_failure = error.is_failure();
    put_result::<Plat, T>(goroutine, Err(error));
    let is_unreported = match finished(goroutine) {
        // The G has nothing to drop, because the errors passed here have no payload.
        Finished::Detached => is_failure,
        Finished::Attached => false,
        Finished::Awaited(joiner) => {
            ready_pinned(pinned, joiner);
            false
        }
    };
    if let Some(children) = S::children(goroutine) {
        children.remove(pinned, is_unreported);
    }
}

/// Stores an error as the result of the calling G, whose closure will not return. Readies a waiting joiner, and removes
/// the G from its scope, if there is one.
pub(crate) fn fail_with<Plat: Platform>(pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>, error: JoinError) {
    let functions = me.body_functions.load(Ordering::Relaxed).expect("a G that runs has a closure");
    (functions.fail)(pinned, me, error);
}

/// Returns the address at which the result of a G begins on the stack of the G. Returns the end of the stack if the
/// result is in the G, and `None` if the slot has no stack any more.
#[cfg(feature = "std")]
pub(crate) fn result_start<Plat: Platform>(goroutine: &Goroutine<Plat>) -> Option<usize> {
    let functions = goroutine.body_functions.load(Ordering::Relaxed)?;
    let top = goroutine.stack_top();
    (top != 0).then(|| (functions.result_start)(top))
}
