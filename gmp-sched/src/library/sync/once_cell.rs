//! Lazily initialised values. Go: `sync.OnceValue` (sync/oncefunc.go, go1.27).

#![expect(unsafe_code, reason = "shares a value that is written once")]

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Deref;

use super::once::Once;
use crate::base::under_loom::const_fn;
use crate::platform::Platform;

/// A cell that is initialised once, by its first user. Go: `sync.OnceValue`, but here each call passes the function.
///
/// ```
/// use gmp_sched::native::{self, OnceCell};
/// static NAME: OnceCell<String> = OnceCell::new();
///
/// unsafe { native::enter() }.run(2, || {
///     let names: Vec<_> = (0..4).map(|n| native::go(move || NAME.get_or_init(|| n.to_string()).clone())).collect();
///     assert!(names.into_iter().all(|name| Some(&name.join().unwrap()) == NAME.get()));
/// });
/// ```
#[doc(alias = "OnceValue")]
pub struct OnceCell<T, Plat: Platform> {
    once: Once<Plat>,
    /// Written by the function that `once` runs; valid when `once` is done.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: one G writes the value before `once` is done; afterwards there are only shared references. A G other than the
// one that made the cell may initialise or drop the value, hence `Send`.
unsafe impl<T: Send + Sync, Plat: Platform> Sync for OnceCell<T, Plat> {}

impl<T, Plat: Platform> OnceCell<T, Plat> {
    const_fn! {
        /// Makes an empty cell.
        ///
        /// ```
        /// assert_eq!(gmp_sched::native::OnceCell::<u32>::new().get(), None);
        /// ```
        #[must_use]
        pub fn new() -> Self {
            Self { once: Once::new(), value: UnsafeCell::new(None) }
        }
    }

    /// Returns the value if the cell is initialised. Does not block; callable from anywhere.
    ///
    /// ```
    /// let cell = gmp_sched::native::OnceCell::new();
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.once.is_done() {
            return None;
        }
        // SAFETY: `once` is done, so the value is not written any more except through `&mut self`.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// Initialises the cell with `value`. Blocks the calling G while another G initialises the cell; not callable from
    /// interrupts.
    ///
    /// ```
    /// let cell = gmp_sched::native::OnceCell::new();
    /// assert_eq!((cell.set(1), cell.set(2)), (Ok(()), Err(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// The cell is already initialised. The error holds `value`.
    ///
    /// # Panics
    ///
    /// - The cell is [poisoned](Once).
    /// - The call has to wait, although the caller is pinned or is not a G with a P.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("this runs once"));
        value.map_or(Ok(()), Err)
    }

    /// Returns the value. If the cell is empty, initialises the cell with the result of `make`. Other callers wait
    /// meanwhile. May block the calling G; not callable from interrupts.
    ///
    /// ```
    /// let cell = gmp_sched::native::OnceCell::new();
    /// assert_eq!((*cell.get_or_init(|| 1), *cell.get_or_init(|| 2)), (1, 1));
    /// ```
    ///
    /// # Panics
    ///
    /// - `make` panics, which leaves the cell empty, or `make` initialises the same cell.
    /// - The cell is [poisoned](Once).
    /// - The call has to wait, although the caller is pinned or is not a G with a P.
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.once.call_once(|| {
            let value = make();
            // SAFETY: `once` runs one function at a time, so no other G writes the value. References to the value exist
            // only after `once` is done, and then this function does not run any more.
            unsafe { *self.value.get() = Some(value) };
        });
        self.get().expect("it is done when `call_once` returns")
    }

    /// Returns the value if the cell is initialised, for a caller with exclusive access.
    ///
    /// ```
    /// let mut cell = gmp_sched::native::OnceCell::new();
    /// cell.set(1).unwrap();
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.into_inner(), Some(2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Returns the value if the cell is initialised.
    ///
    /// ```
    /// assert_eq!(gmp_sched::native::OnceCell::<u32>::new().into_inner(), None);
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

impl<T, Plat: Platform> Default for OnceCell<T, Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug, Plat: Platform> fmt::Debug for OnceCell<T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}

/// A value that is initialised by its first user; other users wait meanwhile. Go: `sync.OnceValue`.
///
/// ```
/// use gmp_sched::native::{self, Lazy};
/// static SQUARES: Lazy<Vec<u32>> = Lazy::new(|| (0..10).map(|n| n * n).collect());
///
/// unsafe { native::enter() }.run(2, || assert_eq!(native::go(|| SQUARES[9]).join().unwrap(), 81));
/// ```
///
/// # Panics
///
/// - The initialising function panics, or it uses the value that it initialises. After a panic, the next user calls the
///   function again.
/// - The value is [poisoned](super::Once).
/// - The call has to wait, although the caller is pinned or is not a G with a P.
#[doc(alias = "OnceFunc")]
#[doc(alias = "OnceValues")]
pub struct Lazy<T, Plat: Platform, F = fn() -> T> {
    cell: OnceCell<T, Plat>,
    make: F,
}

impl<T, Plat: Platform, F: Fn() -> T> Lazy<T, Plat, F> {
    const_fn! {
        /// Makes a value that `make` initialises on first use.
        ///
        /// ```
        /// let lazy: gmp_sched::native::Lazy<u32> = gmp_sched::native::Lazy::new(|| 3);
        /// assert_eq!(*lazy, 3);
        /// ```
        pub fn new(make: F) -> Self {
            Self { cell: OnceCell::new(), make }
        }
    }

    /// Returns the value. May block the G; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::Lazy;
    /// let lazy: Lazy<u32> = Lazy::new(|| 3);
    /// assert_eq!(*Lazy::force(&lazy), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// In the cases that the documentation of [`Lazy`] lists.
    #[inline]
    #[track_caller]
    pub fn force(lazy: &Self) -> &T {
        lazy.cell.get_or_init(&lazy.make)
    }
}

impl<T, Plat: Platform, F: Fn() -> T> Deref for Lazy<T, Plat, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T: fmt::Debug, Plat: Platform, F> fmt::Debug for Lazy<T, Plat, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.cell.get()).finish()
    }
}
