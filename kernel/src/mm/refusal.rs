//! A hook by which a test refuses memory. Only debug builds call it, so it costs other builds nothing.

use spin::Once;

static HOOK: Once<fn() -> bool> = Once::new();

/// Registers the function that decides whether a request is refused.
pub(crate) fn set(hook: fn() -> bool) {
    HOOK.call_once(|| hook);
}

/// Whether the caller's request for memory of the heap, or for a stack, is refused.
#[inline(always)]
pub(super) fn refuses() -> bool {
    cfg!(debug_assertions) && HOOK.get().is_some_and(|refuses| refuses())
}
