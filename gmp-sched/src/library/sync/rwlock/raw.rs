//! The implementation of `lock_api`'s traits.

#![expect(unsafe_code, reason = "promises exclusion to lock_api")]

use core::mem;
use core::time::Duration;

use lock_api::GuardSend;

use super::RawRwLock;
use super::readers::{ReaderSlot, Readers};
use crate::base::instant::Instant;
use crate::base::under_loom::const_init;
use crate::entities::goroutine::WaitReason;
use crate::library::limit::Limit;
use crate::library::sync::blocking::OnDrop;
use crate::platform::Platform;

// SAFETY: an exclusive holder holds the mutex of the writers, and saw a count of zero after it had closed the count. No
// reader is admitted until the holder opens the count. A reader is counted until it leaves.
unsafe impl<Plat: Platform, R: Readers> lock_api::RawRwLock for RawRwLock<Plat, R> {
    const INIT: Self = const_init!(Self::new());

    type SharedGuard = ReaderSlot;
    type ExclusiveGuard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) -> ReaderSlot {
        self.share(None).expect("it waits until it has it")
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<ReaderSlot> {
        self.try_share()
    }

    #[inline]
    unsafe fn unlock_shared(&self, slot: ReaderSlot) {
        self.unshare(slot);
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) -> GuardSend {
        self.exclude(None);
        GuardSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardSend> {
        self.try_exclude().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _: GuardSend) {
        self.include();
    }

    fn is_locked(&self) -> bool {
        self.writers.is_held() || !self.readers.is_empty::<Plat>()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.readers.is_closed() && self.is_excluded()
    }
}

// SAFETY: the writer counts itself as a reader before it lets other Gs in, so no other writer gets the lock in between.
unsafe impl<Plat: Platform, R: Readers> lock_api::RawRwLockDowngrade for RawRwLock<Plat, R> {
    unsafe fn downgrade(&self, _: GuardSend) -> ReaderSlot {
        self.downgrade()
    }
}

// SAFETY: a lock that is taken before its timeout excludes other holders in the same way as in the implementation of
// `lock_api::RawRwLock` above.
unsafe impl<Plat: Platform, R: Readers> lock_api::RawRwLockTimed for RawRwLock<Plat, R> {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> Option<ReaderSlot> {
        self.share(Some(&Limit::after(timeout)))
    }

    #[track_caller]
    fn try_lock_shared_until(&self, deadline: Instant) -> Option<ReaderSlot> {
        self.share(Some(&deadline.into()))
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.exclude(Some(&Limit::after(timeout))).then(GuardSend::new)
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.exclude(Some(&deadline.into())).then(GuardSend::new)
    }
}

// SAFETY: an upgradable reader holds the mutex of the writers, so no other G writes or upgrades.
unsafe impl<Plat: Platform, R: Readers> lock_api::RawRwLockUpgrade for RawRwLock<Plat, R> {
    type UpgradableGuard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock_upgradable(&self) -> GuardSend {
        self.writers.acquire(WaitReason::RwLockRead, None);
        GuardSend::new()
    }

    #[inline]
    fn try_lock_upgradable(&self) -> Option<GuardSend> {
        self.writers.try_acquire().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_upgradable(&self, _: GuardSend) {
        self.writers.release();
    }

    #[track_caller]
    unsafe fn upgrade(&self, _: GuardSend) -> GuardSend {
        let release = OnDrop(|| self.writers.release());
        self.drain(None);
        mem::forget(release);
        GuardSend::new()
    }

    unsafe fn try_upgrade(&self, guard: GuardSend) -> Result<GuardSend, GuardSend> {
        if self.try_drain() { Ok(guard) } else { Err(guard) }
    }
}

// SAFETY: an upgradable reader holds the mutex of the writers, so no other G writes or upgrades. When an upgradable
// reader is downgraded, it is counted as a reader before the mutex is unlocked.
unsafe impl<Plat: Platform, R: Readers> lock_api::RawRwLockUpgradeDowngrade for RawRwLock<Plat, R> {
    unsafe fn downgrade_upgradable(&self, _: GuardSend) -> ReaderSlot {
        let slot = self.add_reader();
        self.writers.release();
        slot
    }

    unsafe fn downgrade_to_upgradable(&self, guard: GuardSend) -> GuardSend {
        self.open();
        guard
    }
}
