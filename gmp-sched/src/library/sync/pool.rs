//! Values to be used again. Go: `sync.Pool` (sync/pool.go, go1.27).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::base::spin_lock::Lock;
use crate::entities::machine::Machine;
use crate::platform::{OutOfResources, Pinned, Platform};

/// Values that are costly to make, kept for use again: each P has a shelf of its own. Go: `sync.Pool`.
///
/// A value is taken from the shelf of the current P, else from another's, else made. Put back, it goes to the shelf of
/// the P on which that happens; if this is full it is dropped. So the pool never has more than its shelves hold, as many
/// as were asked for times the number of Ps, and it keeps these as long as it lives: there is no garbage collector to
/// clear it, as there is in Go.
///
/// ```
/// use std::sync::Arc;
/// use gmp_sched::native::{self, Pool};
///
/// unsafe { native::enter() }.run(2, || {
///     let buffers: Arc<Pool<Vec<u8>>> = Arc::new(Pool::new(4, || Vec::with_capacity(4096)));
///     let mut buffer = buffers.get();
///     buffer.extend(b"abc");
///     buffer.clear();
///     drop(buffer);
///     assert!(buffers.get().capacity() >= 4096);
/// });
/// ```
pub struct Pool<T, P: Platform, F = fn() -> T> {
    shelves: Box<[Shelf<T, P>]>,
    /// How many values a shelf holds.
    each: usize,
    make: F,
}

/// In cache lines of its own.
#[repr(align(128))]
struct Shelf<T, P: Platform>(Lock<Vec<T>, P>);

impl<T, P: Platform, F: Fn() -> T> Pool<T, P, F> {
    /// An empty pool whose shelves hold `each` values, for the Ps there are now. What it lacks `make` makes.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || assert_eq!(*Pool::<u32>::try_new(1, || 7).unwrap().get(), 7));
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for the shelves.
    pub fn try_new(each: usize, make: F) -> Result<Self, OutOfResources> {
        let processors = Pinned::<P>::new().try_machine().map_or(1, |machine| machine.scheduler().procs());
        let mut shelves = Vec::new();
        shelves.try_reserve_exact(processors).map_err(|_| OutOfResources)?;
        for _ in 0..processors {
            let mut shelf = Vec::new();
            shelf.try_reserve_exact(each).map_err(|_| OutOfResources)?;
            shelves.push(Shelf(Lock::new(shelf)));
        }
        Ok(Self { shelves: shelves.into_boxed_slice(), each, make })
    }

    /// [`try_new`](Self::try_new) for those who cannot go on without.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || assert_eq!(*Pool::<u32>::new(1, || 7).get(), 7));
    /// ```
    ///
    /// # Panics
    ///
    /// There is no memory for the shelves.
    #[track_caller]
    pub fn new(each: usize, make: F) -> Self {
        match Self::try_new(each, make) {
            Ok(pool) => pool,
            Err(error) => panic!("cannot make a pool: {error}"),
        }
    }

    /// A value that was put back, or a new one. It goes back when what this gives is dropped. Does not block; not callable
    /// from interrupts. Go: `Get`.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || {
    ///     let pool: Pool<Vec<u8>> = Pool::new(1, Vec::new);
    ///     pool.get().push(1);
    ///     assert_eq!(*pool.get(), [1], "what was put back is as it was left");
    /// });
    /// ```
    #[doc(alias = "Get")]
    pub fn get(&self) -> Pooled<'_, T, P, F> {
        let value = self.take().unwrap_or_else(&self.make);
        Pooled { pool: self, value: Some(value) }
    }

    /// Puts a value there that may have come from elsewhere. Does not block; not callable from interrupts. Go: `Put`.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || {
    ///     let pool: Pool<u32> = Pool::new(1, || 0);
    ///     pool.put(5);
    ///     assert_eq!(*pool.get(), 5);
    /// });
    /// ```
    #[doc(alias = "Put")]
    pub fn put(&self, value: T) {
        let rejected = {
            let pinned = Pinned::<P>::new();
            let mut shelf = self.shelves[self.index(&pinned)].0.lock();
            if shelf.len() < self.each {
                shelf.push(value);
                None
            } else {
                Some(value)
            }
        };
        // Neither pinned nor under the lock: dropping it may do anything.
        drop(rejected);
    }

    /// From the shelf of this P, else from the others in turn.
    fn take(&self) -> Option<T> {
        let pinned = Pinned::<P>::new();
        let first = self.index(&pinned);
        let (before, from) = self.shelves.split_at(first);
        from.iter().chain(before).find_map(|shelf| shelf.0.lock().pop())
    }

    fn index(&self, pinned: &Pinned<P>) -> usize {
        let processor = pinned.try_machine().and_then(Machine::processor);
        processor.map_or(0, |processor| processor.id().get() as usize % self.shelves.len())
    }
}

impl<T, P: Platform, F> fmt::Debug for Pool<T, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("shelves", &self.shelves.len()).finish_non_exhaustive()
    }
}

/// A value of a [`Pool`], to which it goes back when this is dropped.
///
/// ```
/// use gmp_sched::native::{self, Pool};
/// use gmp_sched::sync::Pooled;
/// unsafe { native::enter() }.run(1, || {
///     let pool: Pool<u32> = Pool::new(1, || 3);
///     assert_eq!(Pooled::into_inner(pool.get()), 3);
/// });
/// ```
pub struct Pooled<'a, T, P: Platform, F: Fn() -> T> {
    pool: &'a Pool<T, P, F>,
    /// There until it is dropped.
    value: Option<T>,
}

impl<T, P: Platform, F: Fn() -> T> Pooled<'_, T, P, F> {
    /// The value itself, which does not go back.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || {
    ///     let pool: Pool<u32> = Pool::new(1, || 3);
    ///     assert_eq!(gmp_sched::sync::Pooled::into_inner(pool.get()), 3);
    /// });
    /// ```
    #[must_use]
    pub fn into_inner(mut pooled: Self) -> T {
        pooled.value.take().expect("it is there until it is dropped")
    }
}

impl<T, P: Platform, F: Fn() -> T> Deref for Pooled<'_, T, P, F> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is dropped")
    }
}

impl<T, P: Platform, F: Fn() -> T> DerefMut for Pooled<'_, T, P, F> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until it is dropped")
    }
}

impl<T, P: Platform, F: Fn() -> T> Drop for Pooled<'_, T, P, F> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.pool.put(value);
        }
    }
}

impl<T: fmt::Debug, P: Platform, F: Fn() -> T> fmt::Debug for Pooled<'_, T, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
