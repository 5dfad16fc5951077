//! How much the tests explore.

use std::env;

/// Returns whether the tests explore all that they can, because `GMP_TESTS=all` is set. An ordinary run of the tests
/// explores a part of this, so that it ends sooner.
pub(crate) fn is_all() -> bool {
    env::var("GMP_TESTS").is_ok_and(|which| which == "all")
}
