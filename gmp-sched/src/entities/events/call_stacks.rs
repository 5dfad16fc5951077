//! The call stacks of a [profile](crate::trace#profiles): of Gs that park, and of code that unlocks a lock for which
//! other Gs wait. They are recorded together with the events of the trace.
//!
//! If a G has waited for a lock, a profile charges the time of the wait to the code that unlocked the lock, because
//! that code held the lock for too long. Go does the same. The unlock readies the G, so the call stack of the unlock is
//! recorded when the G is readied. Go: `mutexevent` and `blockevent` (runtime/mprof.go, go1.27).

use core::ptr;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::events::write_event;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::platform::Platform;
use crate::record::trace::{Event, EventKind};
use crate::record::trace_ring::{FRAMES, Ring};

/// Records the call stack of the calling G, which parks, and the lock for which it parks, if any. The caller of this
/// function has already recorded the event of the park.
#[cold]
#[inline(never)]
#[doc(alias = "blockevent")]
pub(super) fn write_park<Plat: Platform>(ring: &Ring, when: Instant) {
    let Some(goroutine) = Plat::current_machine().and_then(Machine::current_goroutine) else { return };
    write_call_stack(ring, goroutine, when);
    if is_lock(goroutine.wait_reason()) {
        write_lock(ring, EventKind::LockWait, goroutine, when);
    }
}

/// Records that the wait of `goroutine` ends. `by` is the number of the calling G, or 0 if there is none. During a
/// profile, if the unlock of a lock ended the wait, also records the call stack of the unlock.
#[cold]
#[inline(never)]
#[doc(alias = "mutexevent")]
pub(super) fn write_ready<Plat: Platform>(ring: &Ring, goroutine: &Goroutine<Plat>, by: u64) {
    let when = Plat::now();
    write_event::<Plat>(ring, Event { when, kind: EventKind::Ready, goroutine: Some(goroutine.id()), detail: by });
    if ring.records_call_stacks() && is_lock(goroutine.wait_reason()) && is_unlocked(goroutine) {
        write_lock(ring, EventKind::Unlock, goroutine, when);
        // Without a current G, the caller is g0 or a thread that is not an M. On g0, the commit of a park unlocks the
        // lock, and the call stack of that park has already been recorded. The call stack of a thread that is not an M
        // is not recorded.
        if Plat::current_machine().and_then(Machine::current_goroutine).is_some() {
            write_call_stack(ring, goroutine, when);
        }
    }
}

/// Whether a wait for this reason belongs to the profile of locks. Go: the callers of `semacquire1` with
/// `semaMutexProfile`.
fn is_lock(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::MutexLock | WaitReason::RwLockRead | WaitReason::RwLockWrite)
}

/// Whether the wait of `goroutine` for a lock was ended by an unlock, and not by the limit of the wait.
fn is_unlocked<Plat: Platform>(goroutine: &Goroutine<Plat>) -> bool {
    let waiter = &goroutine.waiter;
    waiter.sole.load(Ordering::Relaxed).is_some()
        || goroutine.woken_by.load(Ordering::Relaxed).is_some_and(|by| ptr::eq(by, &raw const *waiter))
}

/// Records an event whose detail is the address of the lock that `goroutine` waits for or has waited for.
fn write_lock<Plat: Platform>(ring: &Ring, kind: EventKind, goroutine: &Goroutine<Plat>, when: Instant) {
    let detail = goroutine.waiter.slot.load(Ordering::Relaxed).addr() as u64;
    ring.write(Event { when, kind, goroutine: Some(goroutine.id()), detail });
}

fn write_call_stack<Plat: Platform>(ring: &Ring, goroutine: &Goroutine<Plat>, when: Instant) {
    let mut addresses = [0; FRAMES];
    let count = Plat::call_stack(&mut addresses);
    ring.write_call_stack(&addresses[..count], when, Some(goroutine.id()));
}
