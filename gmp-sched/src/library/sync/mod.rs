//! Go's `sync` for Gs: who has to wait is parked, and its M runs other Gs meanwhile.
//!
//! | type | what | Go |
//! |---|---|---|
//! | [`Mutex`] | one at a time | `sync.Mutex` |
//! | [`RwLock`] | many readers or one writer | `sync.RWMutex` |
//! | [`ReadMostlyRwLock`] | the same; readers on different Ps share no cache line | |
//! | [`Condvar`] | waiting, with a mutex, for something to become true | `sync.Cond` |
//! | [`WaitGroup`] | waiting for a number of Gs to finish | `sync.WaitGroup` |
//! | [`Once`], [`OnceCell`], [`Lazy`] | done once | `sync.Once`, `sync.OnceValue` |
//! | [`Semaphore`] | a number of permits | `golang.org/x/sync/semaphore` |
//! | [`Barrier`] | waiting for each other | |
//! | [`Pool`] | values to be used again | `sync.Pool` |
//! | [`ErrorGroup`] | Gs of which the first error counts | `golang.org/x/sync/errgroup` |
//! | [`SingleFlight`] | callers that want the same at the same time share one call | `golang.org/x/sync/singleflight` |
//!
//! Programs use the aliases of their platform, which leave out the last type parameter: [`crate::platform_aliases`].
//!
//! # What holds of all of them
//!
//! - They block the calling G only. What may block is not callable from interrupts nor with preemption turned off: it
//!   panics and names its caller. What must not wait (`try_lock`, `unlock`, `notify_…`, `done`, `release`) may be called
//!   by a G with preemption turned off.
//! - Queues are first in, first out. A waiter that is made runnable is the next on the waker's P, as in Go; it is put on the
//!   global queue of its own scheduler by a waker of another one, or by a thread that is no M.
//! - Nothing is poisoned: after a panic in a critical section the lock is free, as in `lock_api`. In the kernel a G that
//!   panics is not unwound: what it held stays held.
//! - Nothing is allocated, except for the room for a timer by the first wait with a deadline, and where a type says so.
//! - Locks are unlocked by whoever has the guard, which may be another G than the one that locked.
//!
//! # How they are built
//!
//! Each is a word, changed by one atomic instruction while nobody has to wait, and a queue of waiters with a spinlock,
//! which comes into play only when somebody has to (see `waiter`). A G is never made runnable under such a lock.

macro_rules! constructor {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),*) -> Self $body:block) => {
        $(#[$meta])*
        #[cfg(not(gmp_loom))]
        $vis const fn $name($($argument: $type),*) -> Self $body

        // loom's atomics and locks cannot be made at compile time.
        $(#[$meta])*
        #[cfg(gmp_loom)]
        $vis fn $name($($argument: $type),*) -> Self $body
    };
}

mod barrier;
mod blocking;
#[cfg(not(gmp_loom))]
mod condvar;
#[cfg(not(gmp_loom))]
mod error_group;
#[cfg(not(gmp_loom))]
mod limited;
mod mutex;
mod once;
#[cfg(not(gmp_loom))]
mod once_cell;
#[cfg(not(gmp_loom))]
mod pool;
mod rwlock;
mod semaphore;
#[cfg(not(gmp_loom))]
mod single_flight;
mod wait_group;

pub use ::lock_api;
pub use barrier::Barrier;
#[cfg(not(gmp_loom))]
pub use condvar::{Condvar, RawCondvar};
#[cfg(not(gmp_loom))]
pub use error_group::ErrorGroup;
#[cfg(not(gmp_loom))]
pub use limited::{LimitedCondvar, LimitedMutex, LimitedRwLock};
pub use mutex::RawMutex;
#[cfg(not(gmp_loom))]
pub use mutex::{Mutex, MutexGuard};
pub use once::Once;
#[cfg(not(gmp_loom))]
pub use once_cell::{Lazy, OnceCell};
#[cfg(not(gmp_loom))]
pub use pool::{Pool, Pooled};
pub use rwlock::{OneCount, Place, RawRwLock, Readers, SpreadCounts};
#[cfg(not(gmp_loom))]
pub use rwlock::{ReadMostlyRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
#[cfg(not(gmp_loom))]
pub use single_flight::{Fetched, SingleFlight};
pub use wait_group::WaitGroup;
