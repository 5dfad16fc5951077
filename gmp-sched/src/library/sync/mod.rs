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
//! Programs use the aliases of their platform, which leave out the last type parameter: [`platform_aliases!`](crate::platform_aliases!).
//!
//! # Common properties
//!
//! - The types block the calling G only. A call that may block must not be made from interrupts or with preemption
//!   turned off. If it has to wait there, it panics with the caller's location. A call that never blocks (`try_lock`,
//!   `unlock`, `notify_…`, `done`, `release`) is callable with preemption turned off.
//! - Queues are first in, first out. A readied waiter runs next on the waker's P, as in Go. If the waker belongs to another
//!   scheduler or is a thread that is not an M, the waiter goes to the global queue of its own scheduler.
//! - Locks are not poisoned. A panic in a critical section unlocks the lock, as in `lock_api`. In the kernel, a G that
//!   panics is not unwound. So the locks that it holds stay locked, and a [`Once`] whose function it was running is
//!   poisoned.
//! - The first wait with a deadline allocates a timer. Otherwise the types do not allocate, unless a type says so.
//! - The G that drops a guard unlocks; it need not be the G that locked.
//!
//! # Implementation
//!
//! Each type has an atomic word, which one instruction changes while no G has to wait. When a G has to wait, a wait
//! queue with a spinlock is used, too (see `waiter`). No G is readied while such a spinlock is held.
//!
#![cfg_attr(
    not(feature = "extras"),
    doc = "[`ErrorGroup`]: crate#features\n[`Pool`]: crate#features\n[`ReadMostlyRwLock`]: crate#features\n[`SingleFlight`]: crate#features"
)]

macro_rules! constructor {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),*) -> Self $body:block) => {
        $(#[$meta])*
        #[cfg(not(gmp_loom))]
        $vis const fn $name($($argument: $type),*) -> Self $body

        // loom's atomics and locks have no `const` constructors.
        $(#[$meta])*
        #[cfg(gmp_loom)]
        $vis fn $name($($argument: $type),*) -> Self $body
    };
}

mod barrier;
mod blocking;
#[cfg(not(gmp_loom))]
mod condvar;
#[cfg(all(feature = "extras", not(gmp_loom)))]
mod error_group;
#[cfg(not(gmp_loom))]
mod limited;
mod mutex;
mod once;
#[cfg(not(gmp_loom))]
mod once_cell;
#[cfg(all(feature = "extras", not(gmp_loom)))]
mod pool;
mod rwlock;
mod semaphore;
#[cfg(all(feature = "extras", not(gmp_loom)))]
mod single_flight;
mod wait_group;

pub use ::lock_api;
pub use barrier::{Barrier, BarrierWaitResult};
#[cfg(not(gmp_loom))]
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(all(feature = "extras", not(gmp_loom)))]
pub use error_group::{ErrorGroup, TryGoError};
#[cfg(not(gmp_loom))]
pub use limited::{LimitedCondvar, LimitedMutex, LimitedRwLock};
pub use mutex::RawMutex;
#[cfg(not(gmp_loom))]
pub use mutex::{Mutex, MutexGuard};
pub use once::Once;
#[cfg(not(gmp_loom))]
pub use once_cell::{Lazy, OnceCell};
#[cfg(all(feature = "extras", not(gmp_loom)))]
pub use pool::{Pool, Pooled};
#[cfg(all(feature = "extras", not(gmp_loom)))]
pub use rwlock::ReadMostlyRwLock;
#[cfg(feature = "extras")]
pub use rwlock::SpreadCounts;
pub use rwlock::{OneCount, RawRwLock, ReaderSlot, Readers};
#[cfg(not(gmp_loom))]
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
#[cfg(all(feature = "extras", not(gmp_loom)))]
pub use single_flight::{Fetched, SingleFlight};
pub use wait_group::WaitGroup;
