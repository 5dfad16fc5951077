//! Deduplication of concurrent calls. Go: `golang.org/x/sync/singleflight`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Mutex, OnceCell};
use crate::platform::Platform;

/// Lets concurrent callers with the same key share one call. If a call with the same key is under way, a caller waits
/// for that call and gets its value. Go: `singleflight.Group`.
///
/// Values are not cached. After a call has ended, the next caller makes a new one.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use gmp_sched::native::{self, SingleFlight};
///
/// unsafe { native::enter() }.run(1, || {
///     let (flights, calls) = (Arc::new(SingleFlight::new()), Arc::new(AtomicU32::new(0)));
///     let all: Vec<_> = (0..8)
///         .map(|_| {
///             let (flights, calls) = (flights.clone(), calls.clone());
///             native::go(move || {
///                 let fetched = flights.call("name", || {
///                     calls.fetch_add(1, Ordering::Relaxed);
///                     // With one P, the other Gs make their calls before this one continues.
///                     native::yield_now();
///                     42
///                 });
///                 fetched.value
///             })
///         })
///         .collect();
///     assert!(all.into_iter().all(|handle| handle.join().unwrap() == 42));
///     assert_eq!(calls.load(Ordering::Relaxed), 1);
/// });
/// ```
#[doc(alias = "singleflight")]
pub struct SingleFlight<K, V, Plat: Platform> {
    /// The calls under way, in the order of their keys.
    calls: Mutex<Calls<K, V, Plat>, Plat>,
}

type Calls<K, V, Plat> = Vec<(K, Arc<Call<V, Plat>>)>;

struct Call<V, Plat: Platform> {
    value: OnceCell<V, Plat>,
    /// Whether another caller waits for the value, too.
    is_shared: AtomicBool,
    /// Whether the call has ended, so that no later caller may join it. A call that ends by a panic stays in the map,
    /// because removing it may block.
    is_over: AtomicBool,
}

impl<V, Plat: Platform> Call<V, Plat> {
    fn new() -> Self {
        Self { value: OnceCell::new(), is_shared: AtomicBool::new(false), is_over: AtomicBool::new(false) }
    }
}

/// A guard of each caller. Dropping it ends the call, even if `fetch` or the clone of the value panics. If `fetch`
/// panics and other callers wait, the call goes on, because one of them calls its own function.
struct End<'a, V, Plat: Platform>(&'a Arc<Call<V, Plat>>);

impl<V, Plat: Platform> Drop for End<'_, V, Plat> {
    fn drop(&mut self) {
        let Self(call) = self;
        // Without other callers, there are two references: the map's and this caller's.
        if call.value.get().is_some() || Arc::strong_count(call) <= 2 {
            // Ordering: Relaxed. A later caller must not join this call if it begins after `call` has returned here.
            // What orders these two events (for example a lock) also makes this store visible to the later caller.
            call.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// The result of [`SingleFlight::call`]. See that method for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched<V> {
    /// The value.
    pub value: V,
    /// Whether other callers get the same value.
    pub is_shared: bool,
}

impl<K: Ord + Clone, V: Clone, Plat: Platform> SingleFlight<K, V, Plat> {
    /// Makes a `SingleFlight` without calls under way.
    ///
    /// ```
    /// use gmp_sched::native::SingleFlight;
    /// static FLIGHTS: SingleFlight<u32, u32> = SingleFlight::new();
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { calls: Mutex::new(Vec::new()) }
    }

    /// Returns the value of `fetch` or, if a call with the same key is under way, the value of that call. Blocks the
    /// calling G meanwhile; not callable from interrupts. Allocates heap cells; if there is no memory for them, the
    /// program ends, as with the types of `alloc`. Go: `Do`.
    ///
    /// ```
    /// use gmp_sched::native::{self, SingleFlight};
    /// unsafe { native::enter() }.run(1, || {
    ///     let fetched = SingleFlight::new().call(1, || "one");
    ///     assert_eq!((fetched.value, fetched.is_shared), ("one", false));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// - `fetch` panics, or calls this method with the same key. After a panic, a waiter calls its own function
    ///   instead.
    /// - Cloning the value panics.
    /// - The G that ran the `fetch` of the call ended without unwinding (see [`Once`](super::Once)).
    /// - The call has to wait, although the caller is pinned or is not a G with a P.
    #[track_caller]
    #[doc(alias = "Do")]
    pub fn call(&self, key: K, fetch: impl FnOnce() -> V) -> Fetched<V> {
        let call = self.join_or_begin(&key);
        let value = {
            let _end = End(&call);
            call.value.get_or_init(fetch).clone()
        };
        // The call is removed before any caller returns with its value, because later callers must make a new call.
        self.remove_if(&key, |found| Arc::ptr_eq(found, &call));
        Fetched { value, is_shared: call.is_shared.load(Ordering::Relaxed) }
    }

    /// Forgets a call with this key that is under way, so that the next call with this key calls its own `fetch`. Go:
    /// `Forget`.
    ///
    /// ```
    /// use gmp_sched::native::{self, SingleFlight};
    /// unsafe { native::enter() }.run(1, || SingleFlight::<u32, u32>::new().forget(&1));
    /// ```
    ///
    /// # Panics
    ///
    /// The call has to wait for another call of this `SingleFlight`, although the caller is pinned or is not a G with a
    /// P.
    #[track_caller]
    #[doc(alias = "Forget")]
    pub fn forget(&self, key: &K) {
        self.remove_if(key, |_| true);
    }

    /// Returns the call with this key that is under way, or a new one.
    ///
    /// What the program may define for a key or a value (`clone`, `drop`) is called without the lock, because it may
    /// block or use this `SingleFlight`. Under the lock, keys are only compared, and nothing is allocated.
    #[track_caller]
    fn join_or_begin(&self, key: &K) -> Arc<Call<V, Plat>> {
        let new = Arc::new(Call::new());
        let mut entry = Some((key.clone(), Arc::clone(&new)));
        let mut roomier = Vec::new();
        loop {
            let needed = {
                let mut calls = self.calls.lock();
                match find(&calls, key) {
                    Ok(index) if !calls[index].1.is_over.load(Ordering::Relaxed) => {
                        let call = &calls[index].1;
                        call.is_shared.store(true, Ordering::Relaxed);
                        return Arc::clone(call);
                    }
                    Ok(ended) => {
                        if let Some(entry) = &mut entry {
                            // The ended call is dropped after the unlock.
                            mem::swap(entry, &mut calls[ended]);
                        }
                        return new;
                    }
                    Err(index) => {
                        let needed = calls.len() + 1;
                        if calls.capacity() < needed && roomier.capacity() >= needed {
                            roomier.append(&mut calls);
                            mem::swap(&mut *calls, &mut roomier);
                        }
                        if calls.capacity() >= needed {
                            calls.extend(entry.take());
                            calls[index..].rotate_right(1);
                            return new;
                        }
                        needed
                    }
                }
            };
            roomier = Vec::with_capacity(2 * needed);
        }
    }

    /// Removes the call with this key if `is_it` returns true for the call.
    #[track_caller]
    fn remove_if(&self, key: &K, is_it: impl FnOnce(&Arc<Call<V, Plat>>) -> bool) {
        let removed = {
            let mut calls = self.calls.lock();
            let index = find(&calls, key).ok().filter(|&index| is_it(&calls[index].1));
            index.map(|index| calls.remove(index))
        };
        drop(removed);
    }
}

/// Finds the call with this key, or else the index at which it is to be inserted.
fn find<K: Ord, V, Plat: Platform>(calls: &Calls<K, V, Plat>, key: &K) -> Result<usize, usize> {
    calls.binary_search_by(|(known, _)| known.cmp(key))
}

impl<K: Ord + Clone, V: Clone, Plat: Platform> Default for SingleFlight<K, V, Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, Plat: Platform> fmt::Debug for SingleFlight<K, V, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}
