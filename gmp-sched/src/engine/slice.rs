//! Time slices: how long the G on a P may run while others wait.
//!
//! An ordinary switch measures no time: it arms no timer and reads no clock. While a CPU runs a thread, the timer of
//! the CPU fires at least once per slice length. Its interrupt handler compares the P's tick, which counts slices, with
//! the tick that it saw last time. If the two are equal for the length of a slice, the slice is over. So a slice lasts
//! between one and three times its length. (In Go, sysmon makes this comparison, on a thread of its own: `retake`.)
//!
//! A slice belongs to the P. It begins with a G from the ring, from the global queue or from another P, or, if the last
//! one is over, with an urgent G. Gs from `runnext` and other urgent Gs continue it (`pop_local` tells a G of the ring
//! from that of `runnext` by [`Slice`](crate::base::run_queue::Slice)), and a system call does not interrupt it. When it is
//! over, the running G goes to the tail of the global queue or, if it is urgent, of the urgent queue, and the G in
//! `runnext` to the tail of the ring. `sim::slices` checks how long the Gs in these queues wait.
//!
//! Where there are no timer interrupts ([`Platform::TIMER_INTERRUPTS`]), sysmon checks in place of the handler, and
//! `refinements::slices_on_threads` ends the slice.

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::put_next_last;
use crate::entities::current_slice::NONE;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

impl<Plat: Platform> Processor<Plat> {
    /// Ends the current slice if it has lasted too long.
    pub(crate) fn check_slice(&self, now: Instant) {
        self.set_clock(now);
        self.sampler.advance();
        let (slice, tick) = (&self.slice, self.tick());
        // ANCHOR: check_slice
        // Ordering: Acquire; partner: the Release in `CurrentSlice::begin`.
        if slice.seen.load(Ordering::Acquire) != tick {
            slice.begin(tick, now);
        } else if now - Instant::from_nanos(slice.since.load(Ordering::Relaxed)) >= Plat::slice() {
            self.end_slice(tick);
        }
        // ANCHOR_END: check_slice
    }

    /// Ends the slice of `tick`, so that its G is preempted at the next point where the G can be switched out. (If sysmon
    /// calls this, the holder of the P may have begun the next slice already. That slice must not end.)
    pub(crate) fn end_slice(&self, tick: u64) {
        self.slice.ends.store(tick, Ordering::Relaxed);
        if !Plat::TIMER_INTERRUPTS {
            // If the holder of the P begins a slow pick at the same time, the request may be lost. In that case sysmon
            // repeats it.
            self.request_slow_pick();
        }
    }

    /// Called when the slice is over and the running G has to give way: begins the next slice. If the running G is
    /// urgent, the time of urgent Gs is over, too, so that another G runs first, if one waits.
    pub(crate) fn pass_slice_on(&'static self, scheduler: &'static Scheduler<Plat>, is_urgent: bool) {
        put_next_last(scheduler, self);
        // The pick of the next G advances the tick.
        self.slice.begin(self.tick() + 1, Plat::now());
        if !Plat::TIMER_INTERRUPTS {
            // Otherwise the pick would check the global queue first.
            self.slice.ends.store(NONE, Ordering::Relaxed);
        }
        if is_urgent {
            self.use_up_urgent_time();
        } else {
            self.renew_urgent_time();
        }
    }

    /// Returns the time until which no other G may displace the running G.
    pub(crate) fn undisturbed_until(&self) -> Instant {
        Instant::from_nanos(self.slice.undisturbed_since.load(Ordering::Relaxed)) + Plat::undisturbed()
    }

    /// Whether the current slice is over. From another M the answer may be stale.
    #[inline(always)]
    pub(crate) fn is_slice_over(&self) -> bool {
        self.slice.ends.load(Ordering::Relaxed) == self.tick()
    }
}
