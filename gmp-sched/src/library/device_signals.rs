//! Waiting for devices without blocking an M: a G parks until an interrupt handler raises a [`Signal`].
//!
//! Go has to ask the operating system which descriptors are ready (`netpoll`). An idle M asks, an M that finds no other
//! work asks, and sysmon asks if no M has done so for 10 ms. Here the interrupt handler puts the signal on the *raised
//! list* and makes an M check that list at once, even when every P is busy. (On threads, if every P is busy, the signal
//! is found by the next pick or by sysmon, which may preempt a G.) So there is no blocking poll and no poll deadline.
//! The code in the file `poll` takes the signals from that list. The file also explains why no raise is lost.
//!
//! # A signal
//!
//! ```text
//!         before parking     in the commit          raise
//!   EMPTY ───────▶ PARKING ───────▶ WAITING ─────────▶ QUEUED, on the raised list
//!    │ ▲             │ raise            │ limit            │ poll                 the G runs
//!    │ │ next wait   ▼                  ▼                  ├─────────▶ DELIVERED ──────────▶ EMPTY
//!    └▶ RAISED ◀─────┘                EMPTY                └─▶ RAISED, if the limit came first
//!  raise
//! ```
//!
//! *Limit* means that the deadline of the wait has passed, or that its context is done. In the states PARKING, WAITING,
//! QUEUED and DELIVERED the signal's word also contains the wait generation, which identifies one wait. This is needed
//! because, after a short limit, the G may continue and wait again while the commit of its previous wait is still
//! running on another M.
//!
//! In the states PARKING, WAITING and DELIVERED the signal belongs to the G of that wait until this G runs again. If
//! another G begins to wait for the signal then, that other G panics, and the signal does not change.
//!
//! A signal is a semaphore of one, like Go's `pollDesc.rg`. A raise that comes while no G waits is kept for the next
//! wait. Several raises between two waits count as one. After a raise that ends the wait of a G, further raises have no
//! effect until this G runs again.
//!
//! A raise need not know which scheduler the waiting G belongs to. The signal knows the G, and the G its scheduler. So
//! the signal goes to the raised list of that scheduler, from whichever thread, CPU or scheduler it is raised.
//!
//! ```
//! use gmp_sched::device_signals::Signal;
//! use gmp_sched::native::{self, Native};
//! use std::time::Duration;
//!
//! static DONE: Signal<Native> = Signal::new();
//!
//! unsafe { native::enter() }.run(1, || {
//!     // This thread plays the role of a device's interrupt handler.
//!     let device = std::thread::spawn(|| DONE.raise());
//!     DONE.wait();
//!     assert!(!DONE.wait_timeout(Duration::from_millis(1)), "it was raised once");
//!     device.join().unwrap();
//! });
//! ```

use core::ptr;
use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::engine::hooks::Window;
use crate::engine::hooks::before_wait;
use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitGeneration, WaitReason};
use crate::entities::scheduler::Scheduler;
pub use crate::entities::signal::Signal;
use crate::entities::signal::{
    DELIVERED, EMPTY, PARKING, QUEUED, RAISED, TAG, WAITING, generation_of, with_generation,
};
use crate::entities::window::At;
use crate::library::sleep::now;
use crate::library::wait_end::WaitEnd;
use crate::platform::{Pinned, Platform};

/// What a G finds in a signal for which it is about to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The signal has been raised since the last wait, so the G need not wait.
    Raised,
    /// The signal has not been raised, so the G has to wait.
    Nothing,
    /// A raise that came during another wait has not been delivered yet, or has been delivered just now. If the limit
    /// has ended that wait, the signal becomes RAISED when an M delivers the raise. So the G has to check again.
    OnItsWay,
    /// The signal belongs to another G, which waits for it or has not run since the end of its wait.
    Taken,
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Readies the Gs whose signals were raised, for a caller that is a G or a waker. Returns whether there were any.
    /// These Gs go to `runnext`, as if the caller had readied them.
    pub(crate) fn poll(&'static self, pinned: &Pinned<Plat>) -> bool {
        let mut any = false;
        self.poll_each(pinned, |goroutine| {
            ready_pinned(pinned, goroutine);
            any = true;
        });
        any
    }
}

impl<Plat: Platform> Signal<Plat> {
    /// Waits until the signal is raised; returns at once if it has been raised since the last wait. Blocks the calling
    /// G, not its M. Not callable from interrupts. Go: `netpollblock`.
    ///
    /// # Panics
    ///
    /// The caller is pinned or is not a G with a P, or another G waits for this signal.
    #[doc(alias = "netpollblock")]
    #[track_caller]
    pub fn wait(&'static self) {
        assert!(self.wait_unless(Instant::NEVER), "a wait without a deadline ends by the raise");
    }

    /// Like [`wait`](Self::wait), but `end` may end the wait, too. Returns whether the signal was raised.
    #[track_caller]
    pub(crate) fn wait_unless(&'static self, end: impl WaitEnd<Plat>) -> bool {
        before_wait::<Plat>();
        loop {
            let pinned = Pinned::<Plat>::of_scheduler();
            match self.check(&pinned) {
                Found::Raised => return true,
                Found::Nothing => {}
                Found::OnItsWay => {
                    drop(pinned);
                    crate::engine::yield_now::yield_now::<Plat>();
                    continue;
                }
                Found::Taken => {
                    drop(pinned);
                    panic!("two Gs wait for one signal");
                }
            }
            if let Some(raised) = self.park(CurrentGoroutine::of(pinned), end) {
                return raised;
            }
        }
    }

    /// Like [`wait`](Self::wait), but waits for `timeout` at most. Returns whether the signal was raised.
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&'static self, timeout: Duration) -> bool {
        self.wait_unless(now::<Plat>() + timeout)
    }

    /// Returns what the calling G finds when it is about to wait. If the signal is raised, makes it EMPTY again.
    pub(crate) fn check(&'static self, pinned: &Pinned<Plat>) -> Found {
        loop {
            match self.word.load(Ordering::Acquire) & TAG {
                RAISED => {
                    // Ordering: Acquire, to see what the handler did before the raise (partner: the exchange in
                    // `raise`). Release, so that the next wait writes `self.goroutine` only after all accesses to this
                    // field on behalf of earlier waits (partner: the exchange in `announce`).
                    let taken = self.word.compare_exchange(RAISED, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
                    // The exchange fails if another G, which also begins to wait, has taken the raise since the load.
                    if taken.is_ok() {
                        return Found::Raised;
                    }
                }
                EMPTY => return Found::Nothing,
                // A raise has put the signal on the raised list for another wait. The M that takes the signal from the
                // list stores RAISED if the limit has ended that wait, otherwise DELIVERED. This call of `poll` does
                // so, unless another M has taken the signal already.
                QUEUED => {
                    if !self.poll_for_last_wait(pinned) {
                        return Found::OnItsWay;
                    }
                }
                _ => return Found::Taken,
            }
        }
    }

    /// Takes the signals from the raised list that this signal is on. That list belongs to the scheduler of the G that
    /// waited last, which may be another one than the caller's, and may have ended. Returns what `poll` returns.
    fn poll_for_last_wait(&'static self, pinned: &Pinned<Plat>) -> bool {
        let here = pinned.machine().scheduler();
        let last = self.goroutine.load(Ordering::Relaxed).map(Goroutine::scheduler);
        match last.filter(|&last| !ptr::eq(last, here)) {
            None => here.poll(pinned),
            Some(other) => {
                other.poll_from_outside(pinned);
                false
            }
        }
    }

    /// Parks the calling G. Returns `Some(true)` if a raise ended the wait, `Some(false)` if `end` ended it, and `None`
    /// if the caller has to check the signal again.
    #[cfg_attr(feature = "std", track_caller)]
    fn park(&'static self, caller: CurrentGoroutine<Plat>, end: impl WaitEnd<Plat>) -> Option<bool> {
        let (me, scheduler) = (caller.me, caller.machine.scheduler());
        let generation = self.announce(scheduler, me)?;
        let window = Window::<Plat>::open(At::Signal);
        // The closure is `move`, because the G may run and overwrite its stack once the commit has armed `end`.
        let commit = move |pinned: &Pinned<Plat>, me| self.commit(pinned, me, generation, end);
        drop(park_with(caller, WaitReason::IoWait, commit));
        window.close();
        self.end(scheduler, me, end)
    }

    /// Reserves the signal for a wait of `me`, the calling G. Returns `None` if the signal is no longer EMPTY. In that
    /// case the signal is unchanged, and the caller has to check it again.
    pub(crate) fn announce(
        &'static self,
        scheduler: &Scheduler<Plat>,
        me: &'static Goroutine<Plat>,
    ) -> Option<WaitGeneration> {
        let generation = me.open_wait();
        Plat::point(Site::DeviceSignal);
        // Ordering: Acquire, so that the store to `self.goroutine` below comes after all accesses that the last wait
        // made to that field. Partners: the exchanges in `check` and `end` that store EMPTY.
        self.word
            .compare_exchange(EMPTY, with_generation(PARKING, generation), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // The exchange in `commit` publishes this store to `raise`, and `raise` publishes it to `deliver`.
        self.goroutine.store(Some(me), Ordering::Relaxed);
        // From here until the G runs again, it is counted as waiting for a device. So no deadlock is reported while a
        // raise is being delivered.
        scheduler.signals.waiting.fetch_add(1, Ordering::Relaxed);
        Some(generation)
    }

    /// Commit of the park. Runs after `me` has left its stack. Returns `false` if `me` has to continue at once.
    pub(crate) fn commit(
        &'static self,
        pinned: &Pinned<Plat>,
        me: &'static Goroutine<Plat>,
        generation: WaitGeneration,
        end: impl WaitEnd<Plat>,
    ) -> bool {
        // ANCHOR: commit
        end.arm(pinned, me, generation);
        Plat::point(Site::DeviceSignal);
        let [parking, waiting] = [PARKING, WAITING].map(|state| with_generation(state, generation));
        // Ordering: Release publishes `self.goroutine` and the fact that this G has left its stack. Partner: the
        // exchange in `raise`.
        let waits = self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();
        // If the exchange failed, the signal was raised in the meantime. If the claim then succeeds, the G has to
        // continue at once (`false`). If the claim fails, `end` has already readied the G, and nothing is left to do
        // (`true`).
        waits || !me.claim(generation)
        // ANCHOR_END: commit
    }

    /// Called by `me` when it runs again; returns what [`park`](Self::park) returns.
    pub(crate) fn end(
        &'static self,
        scheduler: &Scheduler<Plat>,
        me: &'static Goroutine<Plat>,
        end: impl WaitEnd<Plat>,
    ) -> Option<bool> {
        scheduler.signals.waiting.fetch_sub(1, Ordering::Relaxed);
        end.disarm(me);
        Plat::point(Site::DeviceSignal);
        // ANCHOR: end
        // In these three states, no raise is left to take. In any other state, a raise came before the G was waiting,
        // or after `end` had ended the wait. In that case this function returns `None`, so that the caller checks the
        // signal again and takes the raise.
        let ended = |word| matches!(word & TAG, PARKING | WAITING | DELIVERED).then_some(EMPTY);
        // Ordering: Acquire, to see what the handlers of all raises so far did; partner: the exchange in `raise`.
        // Release, so that the next wait, of any G, comes after this wait; partner: the exchange in `announce`.
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;
        Some(word & TAG == DELIVERED)
        // ANCHOR_END: end
    }

    /// If a G waits, ends its wait; otherwise makes the next wait return at once. After a raise that ends a wait,
    /// further raises have no effect until the G that waited runs again. Does not block or allocate, and takes no lock.
    /// Callable from interrupts and from any thread, also from one of another scheduler. Go: `netpollready`,
    /// `netpollunblock`.
    ///
    /// ```
    /// use gmp_sched::device_signals::Signal;
    /// use gmp_sched::native::{self, Native};
    ///
    /// static READY: Signal<Native> = Signal::new();
    ///
    /// READY.raise();
    /// unsafe { native::enter() }.run(1, || READY.wait());
    /// ```
    #[doc(alias = "netpollready")]
    pub fn raise(&'static self) {
        Plat::point(Site::DeviceSignal);
        // ANCHOR: raise
        // Ordering: Release publishes what the handler did, even if the word does not change. Partners: the exchanges
        // in `check` and `end`.
        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            Some(match word & TAG {
                WAITING => with_generation(QUEUED, generation_of(word)),
                QUEUED | DELIVERED => word,
                _ => RAISED,
            })
        });
        if found.is_ok_and(|word| word & TAG != WAITING) {
            return;
        }
        // The exchange has acquired this field from `commit`. While the state is QUEUED, no other wait can begin, and
        // nobody delivers the raise before the signal is on the list. So the field is that of the wait which is ended.
        let goroutine = self.goroutine.load(Ordering::Relaxed).expect("a G waits");
        let scheduler = goroutine.scheduler();
        scheduler.put_raised(self, goroutine);
        scheduler.wake_poller();
        // ANCHOR_END: raise
    }
}
