//! A value in a structure of a lower layer, of a type that only a higher one knows.

use alloc::vec::Vec;
use core::any::Any;

use spin::Once;

use crate::base::error::OutOfResources;

/// The place for such a value. It is made when it is needed first, and never freed.
#[derive(Debug)]
pub(crate) struct Extension(Once<&'static (dyn Any + Send + Sync)>);

impl Extension {
    pub(crate) const fn new() -> Self {
        Self(Once::new())
    }

    /// The value, which `make` makes if there is none. Called pinned.
    ///
    /// # Panics
    ///
    /// It is of another type.
    pub(crate) fn get_or_make<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> T,
    ) -> Result<&'static T, OutOfResources> {
        let value = self.0.try_call_once(|| {
            let mut storage = Vec::new();
            storage.try_reserve_exact(1).map_err(|_| OutOfResources)?;
            storage.push(make());
            let value: &'static T = &storage.leak()[0];
            Ok(value as &'static (dyn Any + Send + Sync))
        })?;
        Ok(value.downcast_ref().expect("each extension belongs to one module"))
    }
}
