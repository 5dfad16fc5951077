//! Pools of reusable values. Go: `sync.Pool` (sync/pool.go, go1.27).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crossbeam_utils::CachePadded;

use crate::base::error::OutOfResources;
use crate::base::spin_lock::Lock;
use crate::entities::machine::Machine;
use crate::platform::{Pinned, Platform};

/// A pool of values that are costly to make, with a free list for each P. Go: `sync.Pool`.
///
/// A value is taken from the free list of the current P or, if that list is empty, from the list of another P. If all
/// lists are empty, a new value is made. A returned value goes to the free list of the current P; if that list is full,
/// the value is dropped. So the pool holds at most the chosen number of values for each P. The pool keeps these values
/// until it is dropped. (In Go the garbage collector clears a pool.)
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
pub struct Pool<T, Plat: Platform, F = fn() -> T> {
    lists: Box<[FreeList<T, Plat>]>,
    /// Capacity of each free list.
    each: usize,
    make: F,
}

/// The free list of one P, in separate cache lines to avoid false sharing.
type FreeList<T, Plat> = CachePadded<Lock<Vec<T>, Plat>>;

impl<T, Plat: Platform, F: Fn() -> T> Pool<T, Plat, F> {
    /// Makes an empty pool with as many free lists as there are Ps now. Each list holds up to `each` values. `make`
    /// makes new values.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || assert_eq!(*Pool::<u32>::try_new(1, || 7).unwrap().get(), 7));
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for the free lists.
    pub fn try_new(each: usize, make: F) -> Result<Self, OutOfResources> {
        let processors = Pinned::<Plat>::of_scheduler().try_machine().map_or(1, |machine| machine.scheduler().procs());
        let mut lists = Vec::new();
        lists.try_reserve_exact(processors).map_err(|_| OutOfResources)?;
        for _ in 0..processors {
            let mut list = Vec::new();
            list.try_reserve_exact(each).map_err(|_| OutOfResources)?;
            lists.push(CachePadded::new(Lock::new(list)));
        }
        Ok(Self { lists: lists.into_boxed_slice(), each, make })
    }

    /// Like [`try_new`](Self::try_new), but panics if there is no memory.
    ///
    /// ```
    /// use gmp_sched::native::{self, Pool};
    /// unsafe { native::enter() }.run(1, || assert_eq!(*Pool::<u32>::new(1, || 7).get(), 7));
    /// ```
    ///
    /// # Panics
    ///
    /// There is no memory for the free lists.
    #[track_caller]
    pub fn new(each: usize, make: F) -> Self {
        match Self::try_new(each, make) {
            Ok(pool) => pool,
            Err(error) => panic!("cannot make a pool: {error}"),
        }
    }

    /// Returns a value of the pool or a new one. Dropping the value returns it to the pool. Does not block; not
    /// callable from interrupts. Go: `Get`.
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
    pub fn get(&self) -> Pooled<'_, T, Plat, F> {
        let value = self.take().unwrap_or_else(&self.make);
        Pooled { pool: self, value: Some(value) }
    }

    /// Puts a value into the free list of the current P, or drops the value if that list is full. The value need not
    /// come from the pool. Does not block; not callable from interrupts. Go: `Put`.
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
            let pinned = Pinned::<Plat>::of_scheduler();
            let mut list = self.lists[self.index(&pinned)].lock();
            if list.len() < self.each {
                list.push(value);
                None
            } else {
                Some(value)
            }
        };
        // The value is dropped after the unlock and the unpin, because its `drop` may do anything.
        drop(rejected);
    }

    /// Takes a value from the free list of this P, otherwise from the lists of the other Ps in order.
    fn take(&self) -> Option<T> {
        let pinned = Pinned::<Plat>::of_scheduler();
        let first = self.index(&pinned);
        let (before, from) = self.lists.split_at(first);
        from.iter().chain(before).find_map(|list| list.lock().pop())
    }

    fn index(&self, pinned: &Pinned<Plat>) -> usize {
        let processor = pinned.try_machine().and_then(Machine::processor);
        processor.map_or(0, |processor| processor.id().get() as usize % self.lists.len())
    }
}

impl<T, Plat: Platform, F> fmt::Debug for Pool<T, Plat, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("lists", &self.lists.len()).finish_non_exhaustive()
    }
}

/// A value of a [`Pool`]. Dropping it returns the value to the pool.
///
/// ```
/// use gmp_sched::native::{self, Pool};
/// use gmp_sched::sync::Pooled;
/// unsafe { native::enter() }.run(1, || {
///     let pool: Pool<u32> = Pool::new(1, || 3);
///     assert_eq!(Pooled::into_inner(pool.get()), 3);
/// });
/// ```
pub struct Pooled<'a, T, Plat: Platform, F: Fn() -> T> {
    pool: &'a Pool<T, Plat, F>,
    /// `Some` until this guard is dropped.
    value: Option<T>,
}

impl<T, Plat: Platform, F: Fn() -> T> Pooled<'_, T, Plat, F> {
    /// Takes the value out of the pool. The value will not be returned to the pool.
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

impl<T, Plat: Platform, F: Fn() -> T> Deref for Pooled<'_, T, Plat, F> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is dropped")
    }
}

impl<T, Plat: Platform, F: Fn() -> T> DerefMut for Pooled<'_, T, Plat, F> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until it is dropped")
    }
}

impl<T, Plat: Platform, F: Fn() -> T> Drop for Pooled<'_, T, Plat, F> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.pool.put(value);
        }
    }
}

impl<T: fmt::Debug, Plat: Platform, F: Fn() -> T> fmt::Debug for Pooled<'_, T, Plat, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
