//! Watchdog duty: which CPUs check the others, so that a stuck CPU is found. While a CPU is busy, at least one other
//! CPU is on duty, if there is another one.
//!
//! A busy CPU checks the others at its timer ticks. A halted CPU has no tick. But a halted CPU on duty keeps its timer
//! armed while another CPU is busy, because otherwise the only busy CPU could get stuck unnoticed. When all CPUs halt,
//! they let their timers run out. The next CPU that becomes busy then finds no other CPU on duty, and must call a
//! halted CPU to duty.
//!
//! No call is missed. A CPU that becomes busy sets its busy flag, fences, and counts the CPUs on duty. A CPU that wants
//! to go off duty decrements the count, fences, and checks the busy flags again. Either the first CPU sees that it must
//! call another one, or the second CPU sees that it must stay on duty.

use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::base::under_loom::const_fn;

/// The number of CPUs on watchdog duty.
#[derive(Debug)]
pub struct WatchdogDuty {
    count: AtomicUsize,
}

/// The watchdog state of one CPU.
#[derive(Debug)]
pub struct CpuDuty {
    /// Whether the CPU runs a thread, and so has a timer tick.
    is_busy: AtomicBool,
    /// Whether the CPU is on watchdog duty. While the CPU is on duty, its timer is armed. Written only by the CPU to
    /// which this state belongs.
    on_duty: AtomicBool,
}

impl WatchdogDuty {
    const_fn! {
        /// The state of a computer whose CPUs all halt.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "a static, made in one place")]
        pub fn new() -> Self {
            Self { count: AtomicUsize::new(0) }
        }
    }
}

impl CpuDuty {
    const_fn! {
        /// The state of a halted CPU.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "a part of a CPU's data, made in one place")]
        pub fn new() -> Self {
            Self { is_busy: AtomicBool::new(false), on_duty: AtomicBool::new(false) }
        }
    }
}

impl CpuDuty {
    /// Whether the CPU to which this state belongs runs a thread. Any CPU may call this.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Whether the CPU to which this state belongs is on watchdog duty. Any CPU may call this.
    #[inline]
    pub fn is_on_duty(&self) -> bool {
        self.on_duty.load(Ordering::Relaxed)
    }

    /// Called by the CPU to which this state belongs, when that CPU has nothing more to run. The CPU's timer stays
    /// armed. At its next tick, [`WatchdogDuty::stays_on_duty`] decides whether the CPU stays on duty.
    #[inline]
    pub fn becomes_idle(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
    }
}

impl WatchdogDuty {
    /// Called by the CPU `me` when it becomes busy. Returns whether `me` must call a halted CPU to duty. The halted
    /// CPU then calls [`answers_call`](Self::answers_call).
    #[inline]
    #[must_use = "no CPU is on duty unless one is called"]
    pub fn becomes_busy(&self, me: &CpuDuty) -> bool {
        me.is_busy.store(true, Ordering::Relaxed);
        self.add(me);
        // Ordering: SeqCst; partner: the fence in `stays_on_duty`.
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) <= 1
    }

    /// Called by the CPU `me` when its timer has fired. Returns whether to arm the timer for another check.
    pub fn stays_on_duty(&self, me: &CpuDuty, is_another_busy: impl Fn() -> bool) -> bool {
        if me.is_busy() || is_another_busy() {
            self.add(me);
            return true;
        }
        if !me.on_duty.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        // Ordering: SeqCst; partner: the fence in `becomes_busy`.
        fence(Ordering::SeqCst);
        let stays = is_another_busy();
        if stays {
            self.add(me);
        }
        stays
    }

    /// Called by the CPU `me` when another CPU has called `me` to duty and the timer of `me` is not armed. Returns
    /// whether to arm the timer for a check.
    pub fn answers_call(&self, me: &CpuDuty, is_another_busy: impl Fn() -> bool) -> bool {
        let joins = !me.is_on_duty() && is_another_busy();
        if joins {
            self.add(me);
        }
        joins
    }

    fn add(&self, me: &CpuDuty) {
        if !me.on_duty.swap(true, Ordering::Relaxed) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
