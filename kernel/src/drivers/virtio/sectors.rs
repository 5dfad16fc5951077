//! Locks for the sectors of a disk, so that no write or discard destroys another write.
//!
//! A write of a part of a sector reads the sector, changes the part and writes the sector. Meanwhile no other write or
//! discard may change the sector, so each write and each discard locks its sectors. Reads take no locks, because the
//! device reads and writes each sector as a whole.
//!
//! A lock guards many sectors: see [`stripes`]. A call takes its locks in ascending order, so calls cannot wait for
//! each other in a circle.

use alloc::boxed::Box;

use gmp_sched::cancel::ContextError;
use gmp_sched::sync::LimitedMutex as _;
use kernel_virtio::block::stripes::{self, LOCKS, MAX_LOCKS};

use crate::sched::platform::{Limit, Mutex, MutexGuard};

/// The locks of a disk.
#[derive(Debug)]
pub(super) struct SectorLocks(Box<[Mutex<()>]>);

/// Sectors that are locked until this value is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    _guards: heapless::Vec<MutexGuard<'static, ()>, MAX_LOCKS>,
}

impl SectorLocks {
    pub(super) fn new() -> Self {
        Self((0..LOCKS).map(|_| Mutex::new(())).collect())
    }

    /// Waits until the sectors are not locked, and locks them.
    ///
    /// # Errors
    /// If the limit ends the wait.
    ///
    /// # Panics
    /// If there are no sectors, or more than [`stripes::MAX_SECTORS`].
    pub(super) fn lock(&'static self, first: u64, count: u64, limit: &Limit<'_>) -> Result<Locked, ContextError> {
        let locks = stripes::locks(first, count);
        Ok(Locked { _guards: locks.map(|lock| self.0[lock].lock_until(*limit)).collect::<Result<_, _>>()? })
    }
}
