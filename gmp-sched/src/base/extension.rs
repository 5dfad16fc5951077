//! A value that is stored in a structure of a lower layer although only a higher layer knows its type.

use core::any::Any;

use spin::Once;

use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;

/// Storage for a value whose type only a higher layer knows. The value is created on first use and never freed.
#[derive(Debug)]
pub(crate) struct Extension(Once<&'static (dyn Any + Send + Sync)>);

impl Extension {
    pub(crate) const fn new() -> Self {
        Self(Once::new())
    }

    /// Returns the value, which `make` creates on first use. Returns an error if there is no memory for the value. The
    /// caller is pinned.
    ///
    /// # Panics
    ///
    /// The value has another type than `T`.
    pub(crate) fn get_or_make<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> T,
    ) -> Result<&'static T, OutOfResources> {
        let value = self.0.try_call_once(|| {
            let value = make_forever(|| Ok(make()))?;
            Ok(value as &'static (dyn Any + Send + Sync))
        })?;
        Ok(value.downcast_ref().expect("each extension belongs to one module"))
    }

    /// Returns the value if it has been created. Takes no lock; callable from interrupts.
    #[cfg(feature = "std")]
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&'static T> {
        self.0.get().and_then(|value| value.downcast_ref())
    }
}
