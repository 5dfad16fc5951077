//! The data of device signals; see [`crate::engine::device_signals`].

use core::fmt;

use crate::base::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::reference::AtomicRef;
use crate::base::under_loom::const_fn;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// The bits of a signal's word that contain the state of the signal. The higher bits contain a wait generation.
pub(crate) const TAG: u64 = 7;
pub(crate) const EMPTY: u64 = 0;
pub(crate) const RAISED: u64 = 1;
pub(crate) const PARKING: u64 = 2;
pub(crate) const WAITING: u64 = 3;
pub(crate) const QUEUED: u64 = 4;
pub(crate) const DELIVERED: u64 = 5;

/// An event that an interrupt handler raises and for which a G waits. Only one G at a time may wait for a signal. Go:
/// `pollDesc`, `netpollblock`.
///
/// A signal must live as long as the program. So a driver keeps it in a `static`, or reuses it instead of freeing it.
#[doc(alias = "pollDesc")]
pub struct Signal<Plat: Platform> {
    pub(crate) word: AtomicU64,
    /// The G that waits; `word` contains its wait generation. The G writes this field while the state is PARKING;
    /// others read it while the state is QUEUED.
    pub(crate) goroutine: AtomicRef<Goroutine<Plat>>,
    /// The next signal on the list of raised signals.
    pub(crate) next: AtomicRef<Self>,
}

impl<Plat: Platform> Signal<Plat> {
    const_fn! {
        /// A signal that is not raised. This function is `const`, so that a driver may declare the signal as a
        /// `static`, which its interrupt handler raises.
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicU64::new(EMPTY), goroutine: AtomicRef::none(), next: AtomicRef::none() }
        }
    }
}

impl<Plat: Platform> Default for Signal<Plat> {
    fn default() -> Self {
        Self::new()
    }
}

/// The raised signals, and the number of Gs that wait for a signal.
pub(crate) struct SignalList<Plat: Platform> {
    /// A lock-free stack of the raised signals. Any thread may push a signal, and an M or sysmon takes all signals
    /// at once, so there is no ABA problem.
    pub(crate) ready: AtomicRef<Signal<Plat>>,
    pub(crate) waiting: AtomicUsize,
}

impl<Plat: Platform> SignalList<Plat> {
    pub(crate) fn new() -> Self {
        Self { ready: AtomicRef::none(), waiting: AtomicUsize::new(0) }
    }

    /// Whether there is a raised signal to take. Callable from interrupts.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed).is_some()
    }
}

impl<Plat: Platform> fmt::Debug for Signal<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.word.load(Ordering::Relaxed) & TAG {
            EMPTY => "Signal(empty)",
            RAISED => "Signal(raised)",
            QUEUED => "Signal(queued)",
            DELIVERED => "Signal(delivered)",
            _ => "Signal(waiting)",
        })
    }
}

impl<Plat: Platform> fmt::Debug for SignalList<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalList").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}
