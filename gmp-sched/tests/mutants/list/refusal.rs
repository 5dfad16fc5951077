//! Mutants of operations that panic because their caller may not wait.

use super::Catcher::Model;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/sync/mutex.rs",
        "a G is queued for a mutex before the check that it may wait",
        "            let blocking = Blocking::<Plat>::new(reason, limit);",
        "            let me = Pinned::<Plat>::of_scheduler().try_machine().and_then(|machine| machine.current_goroutine());
            if let Some(me) = me {
                let queue = self.queue.lock();
                me.waiter.prepare(me, crate::entities::goroutine::WaitGeneration::SOLE, core::ptr::null_mut());
                queue.push_back(&me.waiter);
                let _ = self.word.fetch_or(QUEUED, Ordering::Relaxed);
            }
            let blocking = Blocking::<Plat>::new(reason, limit);
            if me.is_some() {
                self.leave_queue();
            }",
        Model("refusal::refused_lock_of_a_mutex"),
    ),
    mutant(
        "library/sync/semaphore.rs",
        "a G is queued for a permit before the check that it may wait",
        "        let blocking = Blocking::<Plat>::new(reason, limit);",
        "        let me = Pinned::<Plat>::of_scheduler().try_machine().and_then(|machine| machine.current_goroutine());
        if let Some(me) = me {
            let queue = self.queue.lock();
            me.waiter.prepare(me, crate::entities::goroutine::WaitGeneration::SOLE, core::ptr::null_mut());
            me.waiter.outcome.store(permits as usize, Ordering::Relaxed);
            queue.push_back(&me.waiter);
        }
        let blocking = Blocking::<Plat>::new(reason, limit);
        if let Some(me) = me {
            self.queue.lock().remove(&me.waiter);
        }",
        Model("refusal::refused_acquisition_of_a_permit"),
    ),
    mutant(
        "library/sync/condvar.rs",
        "a wait for a notification unlocks the mutex before the check that the caller may wait",
        "        let blocking = Blocking::<Plat>::new(WaitReason::CondvarWait, limit);",
        "        mutex.release();
        let blocking = Blocking::<Plat>::new(WaitReason::CondvarWait, limit);
        mutex.acquire(WaitReason::MutexLock, None);",
        Model("refusal::refused_wait_for_a_notification"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait reserves the signal before the check that the caller may wait",
        "            if let Some(raised) = self.park(CurrentGoroutine::of(pinned), end) {",
        "            let exchange = |from, to| {
                let _ = self.word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
            };
            exchange(EMPTY, PARKING);
            let caller = CurrentGoroutine::of(pinned);
            exchange(PARKING, EMPTY);
            if let Some(raised) = self.park(caller, end) {",
        Model("refusal::refused_wait_for_a_signal_leaves_the_signal_free"),
    ),
    mutant(
        "library/device_signals.rs",
        "a wait for a signal for which another G waits takes the raise from that G",
        "                _ => return Found::Taken,",
        "                DELIVERED => {
                    self.word.store(EMPTY, Ordering::Relaxed);
                    return Found::Taken;
                }
                _ => return Found::Taken,",
        Model("refusal::refused_wait_for_a_signal_leaves_the_raise"),
    ),
];
