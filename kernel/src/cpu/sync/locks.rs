//! What the locks of the machine and of the host have in common. The module `host/sync` includes this file by its path.

/// Implements the traits of a lock and of its guard. The field `guard` of the guard dereferences to the data.
macro_rules! lock_traits {
    ($lock:ident, $guard:ident) => {
        /// Does not show the data. With the lock held, neither the data's own `Debug` nor the writer could block.
        impl<T> core::fmt::Debug for $lock<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }

        impl<T> core::ops::Deref for $guard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.guard
            }
        }

        impl<T> core::ops::DerefMut for $guard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.guard
            }
        }
    };
}
pub(super) use lock_traits;
