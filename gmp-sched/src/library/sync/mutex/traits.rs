//! The traits of the crate `lock_api`, which has the guards.

use core::time::Duration;

use lock_api::GuardSend;

use super::RawMutex;
use crate::base::instant::Instant;
use crate::base::under_loom::const_init;
use crate::engine::hooks::before_wait;
use crate::entities::goroutine::WaitReason;
use crate::library::limit::Limit;
use crate::platform::Platform;

// SAFETY: `HELD` is set by a compare-exchange that finds the mutex free, or by a handover while the mutex is `KEPT`. It
// stays set until the matching release, so no other G locks in between. `acquire` panics only before it has locked.
unsafe impl<Plat: Platform> lock_api::RawMutex for RawMutex<Plat> {
    const INIT: Self = const_init!(Self::new());

    type Guard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardSend {
        self.acquire(WaitReason::MutexLock, None);
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.try_acquire().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardSend) {
        self.release();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held()
    }
}

// SAFETY: see the implementation of `lock_api::RawMutex` above. The mutex stays locked during a handover to the next
// holder.
unsafe impl<Plat: Platform> lock_api::RawMutexFair for RawMutex<Plat> {
    #[inline]
    unsafe fn unlock_fair(&self, _: GuardSend) {
        self.release_fairly();
    }
}

// SAFETY: see the implementation of `lock_api::RawMutex` above.
unsafe impl<Plat: Platform> lock_api::RawMutexTimed for RawMutex<Plat> {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> Option<GuardSend> {
        before_wait::<Plat>();
        // The clock is read only if the call has to wait.
        (self.try_acquire() || self.acquire_slow(WaitReason::MutexLock, Some(&Limit::after(timeout))))
            .then(GuardSend::new)
    }

    #[inline]
    #[track_caller]
    fn try_lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.acquire(WaitReason::MutexLock, Some(&deadline.into())).then(GuardSend::new)
    }
}
