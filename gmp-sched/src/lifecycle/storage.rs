//! Where the closure of a G is, and later its result.
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
//! Because of this layout a spawn that reuses a slot allocates nothing, and a join handle needs no shared heap cell. If
//! closure and result are small, neither the spawn nor the join touches the new G's stack. When the G begins to run, it
//! may get the stack of a G that has ended, which is in the caches
//! ([`exchange_stacks`](crate::refinements::exchange_stacks)).

use crate::base::error::JoinError;
use crate::entities::goroutine::Goroutine;
use crate::entities::inline_body::{ALIGN, ROOM};
use crate::platform::Platform;

/// The largest size of a closure or result of a G, in bytes. Put a larger closure or result into a `Box`.
pub const BODY_LIMIT: usize = 4096;

/// Whether a `B` is stored in the G, and not on its stack.
pub(super) const fn fits<B>() -> bool {
    size_of::<B>() <= ROOM && align_of::<B>() <= ALIGN
}

/// The address of a closure or a result of type `B`, for a G whose stack ends at `top`. The closure is moved out before
/// the result is stored, so the two may overlap.
#[inline(always)]
pub(super) fn storage<Plat: Platform, B>(goroutine: &Goroutine<Plat>, top: impl FnOnce() -> usize) -> *mut B {
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
pub(super) fn below<B>(top: usize) -> usize {
    if fits::<B>() { top } else { storage_on_stack::<B>(top) }
}

/// The result of a closure, or the reason why there is none.
pub(super) type Outcome<T> = Result<T, JoinError>;

/// Stores the result of a G whose closure has been moved out. The caller is that G, or acts for it.
#[inline(always)]
pub(crate) fn put_result<Plat: Platform, T: Send>(goroutine: &Goroutine<Plat>, result: Result<T, JoinError>) {
    let address = storage::<Plat, Outcome<T>>(goroutine, || goroutine.stack_top());
    #[expect(unsafe_code, reason = "stores the result where the closure was")]
    // SAFETY: `install` made room for the result, and the closure has been moved out.
    unsafe {
        address.write(result);
    }
}

/// Moves the result out of its storage. The caller owns the result, has seen in the completion word that the result is
/// stored, and calls this only once.
pub(crate) fn take_result<T: Send, Plat: Platform>(goroutine: &Goroutine<Plat>) -> Result<T, JoinError> {
    let address = storage::<Plat, Outcome<T>>(goroutine, || goroutine.stack_top());
    #[expect(unsafe_code, reason = "moves the result out of its storage")]
    // SAFETY: only a handle of type `T`, or the G itself in `Body::run`, calls this function. Before the call, the
    // completion word has shown that the result is in place and belongs to the caller.
    unsafe {
        address.read()
    }
}
