//! Go's `sync` for Gs: a G that has to wait is parked, and its M runs other Gs meanwhile.
//!
//! | type | what | Go |
//! |---|---|---|
//! | [`Mutex`] | mutual exclusion | `sync.Mutex` |
//! | [`RwLock`] | many readers or one writer | `sync.RWMutex` |
//! | [`ReadMostlyRwLock`] | the same, without false sharing between readers on different Ps | |
//! | [`Condvar`] | waiting for a condition, with a mutex | `sync.Cond` |
//! | [`WaitGroup`] | waiting for a number of Gs to finish | `sync.WaitGroup` |
//! | [`Once`], [`OnceCell`], [`Lazy`] | one-time initialisation | `sync.Once`, `sync.OnceValue` |
//! | [`Semaphore`] | a number of permits | `golang.org/x/sync/semaphore` |
//! | [`Barrier`] | a number of Gs wait for each other | |
//! | [`Pool`] | reusable values | `sync.Pool` |
//! | [`ErrorGroup`] | a group of Gs and its first error | `golang.org/x/sync/errgroup` |
//! | [`SingleFlight`] | concurrent callers with the same key share one call | `golang.org/x/sync/singleflight` |
//!
//! Programs use the aliases of their platform, which leave out the last type parameter:
//! [`platform_aliases!`](crate::platform_aliases!).
//!
//! # Common properties
//!
//! - The types block the calling G only. A call that may block must not be made from interrupts or with preemption
//!   turned off. If it has to wait there, it panics with the caller's location. A call that never blocks (`try_lock`,
//!   `unlock`, `notify_…`, `done`, `release`) is callable with preemption turned off.
//! - Queues are first in, first out. A readied waiter goes to `runnext` of the waker's P, as in Go, so it usually runs
//!   next there. (If several waiters are readied at once, this holds for the last one.) If the waker belongs to another
//!   scheduler or is a thread that is not an M, the waiter goes to the global queue of its own scheduler.
//! - Locks are not poisoned. A panic in a critical section unlocks the lock, as in `lock_api`. In the kernel, a G that
//!   panics is not unwound. So the locks that it holds stay locked, and a [`Once`] whose function it was running is
//!   poisoned.
//! - The types do not allocate, unless the documentation of a type says so.
//! - Dropping a guard unlocks its lock. The G that drops the guard need not be the G that locked.
//!
//! # Implementation
//!
//! Most types have an atomic word, which one instruction changes while no G has to wait. When a G has to wait, a wait
//! queue with a spinlock is used, too (see `waiter`). [`Condvar`] and [`Barrier`], which exist only to wait, have the
//! queue and the spinlock alone. No G is readied while such a spinlock is held.
//!
#![cfg_attr(
    not(feature = "extras"),
    doc = "[`ErrorGroup`]: crate#features\n[`Pool`]: crate#features\n[`ReadMostlyRwLock`]: crate#features\n[`SingleFlight`]: crate#features"
)]

mod barrier;
mod blocking;
mod condvar;
#[cfg(feature = "extras")]
mod error_group;
mod limited;
mod mutex;
mod once;
mod once_cell;
#[cfg(feature = "extras")]
mod pool;
mod rwlock;
mod semaphore;
#[cfg(feature = "extras")]
mod single_flight;
mod wait_group;

pub use ::lock_api;
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(feature = "extras")]
pub use error_group::{ErrorGroup, TryGoError};
pub use limited::{LimitedCondvar, LimitedMutex, LimitedRwLock};
pub use mutex::RawMutex;
pub use mutex::{Mutex, MutexGuard};
pub use once::Once;
pub use once_cell::{Lazy, OnceCell};
#[cfg(feature = "extras")]
pub use pool::{Pool, Pooled};
#[cfg(feature = "extras")]
pub use rwlock::ReadMostlyRwLock;
pub use rwlock::{RawRwLock, readers};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
#[cfg(feature = "extras")]
pub use single_flight::{Fetched, SingleFlight};
pub use wait_group::WaitGroup;

/// The part of [`platform_aliases!`](crate::platform_aliases!) for the types of this module.
#[doc(hidden)]
#[macro_export]
macro_rules! sync_aliases {
    ($platform:ty) => {
        /// A value that one G at a time may access. See [`sync::Mutex`]($crate::sync::Mutex).
        pub type Mutex<T> = $crate::sync::Mutex<T, $platform>;

        /// Access to the value of a locked mutex. See [`sync::MutexGuard`]($crate::sync::MutexGuard).
        pub type MutexGuard<'a, T> = $crate::sync::MutexGuard<'a, T, $platform>;

        /// A value that many Gs may read or one G may write. See [`sync::RwLock`]($crate::sync::RwLock).
        pub type RwLock<T> = $crate::sync::RwLock<T, $platform>;

        /// Read access to the value of a lock. See [`sync::RwLockReadGuard`]($crate::sync::RwLockReadGuard).
        pub type RwLockReadGuard<'a, T> = $crate::sync::RwLockReadGuard<'a, T, $platform>;

        /// Write access to the value of a lock. See [`sync::RwLockWriteGuard`]($crate::sync::RwLockWriteGuard).
        pub type RwLockWriteGuard<'a, T> = $crate::sync::RwLockWriteGuard<'a, T, $platform>;

        /// Lets Gs wait, with a mutex, for a condition to become true. See [`sync::Condvar`]($crate::sync::Condvar).
        pub type Condvar = $crate::sync::Condvar<$platform>;

        /// Lets a G wait until a number of other Gs are done. See [`sync::WaitGroup`]($crate::sync::WaitGroup).
        pub type WaitGroup = $crate::sync::WaitGroup<$platform>;

        /// Runs an initialization once. See [`sync::Once`]($crate::sync::Once).
        pub type Once = $crate::sync::Once<$platform>;

        /// A value that is set at most once. See [`sync::OnceCell`]($crate::sync::OnceCell).
        pub type OnceCell<T> = $crate::sync::OnceCell<T, $platform>;

        /// A value that is computed when it is first used. See [`sync::Lazy`]($crate::sync::Lazy).
        pub type Lazy<T, F = fn() -> T> = $crate::sync::Lazy<T, $platform, F>;

        /// A counting semaphore. See [`sync::Semaphore`]($crate::sync::Semaphore).
        pub type Semaphore = $crate::sync::Semaphore<$platform>;

        /// Permits taken from a semaphore. See [`sync::Permit`]($crate::sync::Permit).
        pub type Permit<'a> = $crate::sync::Permit<'a, $platform>;

        /// A point at which a number of Gs wait for each other. See [`sync::Barrier`]($crate::sync::Barrier).
        pub type Barrier = $crate::sync::Barrier<$platform>;
    };
}
