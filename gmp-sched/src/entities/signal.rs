//! The data of device signals; see [`crate::library::device_signals`].

use core::fmt;

use crate::base::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::points::Site;
use crate::base::reference::AtomicRef;
use crate::base::under_loom::const_fn;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;
use crate::record::trace::EventKind;

/// The bits of a signal's word that contain the state of the signal. The higher bits contain a wait generation.
pub(crate) const TAG: u64 = 7;
pub(crate) const EMPTY: u64 = 0;
pub(crate) const RAISED: u64 = 1;
pub(crate) const PARKING: u64 = 2;
pub(crate) const WAITING: u64 = 3;
pub(crate) const QUEUED: u64 = 4;
pub(crate) const DELIVERED: u64 = 5;

/// Returns the word of a signal that is in `state` during the wait with this generation.
pub(crate) fn with_generation(state: u64, generation: WaitGeneration) -> u64 {
    generation.0 << TAG.count_ones() | state
}

pub(crate) fn generation_of(word: u64) -> WaitGeneration {
    WaitGeneration(word >> TAG.count_ones())
}

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

impl<Plat: Platform> Signal<Plat> {
    /// Called for a signal that has just been taken from the raised list. If its G still waits, ends the wait and
    /// returns the G, which the caller must ready. Otherwise returns `None`, and keeps the raise for the next wait.
    fn deliver(&'static self) -> Option<&'static Goroutine<Plat>> {
        let goroutine = self.goroutine.load(Ordering::Relaxed).expect("queued while a G waits");
        // While the state is QUEUED, no other wait can begin, so the generation in the word does not change.
        let generation = generation_of(self.word.load(Ordering::Relaxed));
        let waits = goroutine.claim(generation);
        Plat::point(Site::DeviceSignal);
        // Ordering: Release, so that the next wait, of any G, comes after everything that this delivery did. Partner:
        // the exchange in `announce`.
        self.word.swap(if waits { with_generation(DELIVERED, generation) } else { RAISED }, Ordering::Release);
        waits.then_some(goroutine)
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

impl<Plat: Platform> Scheduler<Plat> {
    /// Puts `signal`, which was raised and ends the wait of `goroutine`, on the raised list. Callable from interrupts.
    pub(crate) fn put_raised(&self, signal: &'static Signal<Plat>, goroutine: &Goroutine<Plat>) {
        self.note_raise(goroutine.id());
        let ready = &self.signals.ready;
        loop {
            Plat::point(Site::DeviceSignal);
            let first = ready.load(Ordering::Relaxed);
            signal.next.store(first, Ordering::Relaxed);
            // Ordering: Release publishes the link and all stores before it. Partner: the swap in `take_raised`.
            if ready.replace(first, Some(signal), Ordering::Release, Ordering::Relaxed) {
                break;
            }
        }
    }

    /// Takes all signals from the raised list. Calls `each` with every G that waits for one of these signals, in the
    /// order of the raises. `by` is the P that the caller holds, if any.
    #[inline(always)]
    pub(crate) fn take_raised(&self, by: Option<&Processor<Plat>>, mut each: impl FnMut(&'static Goroutine<Plat>)) {
        Plat::point(Site::DeviceSignal);
        // Ordering: Acquire, to see the links. Partner: the `replace` in `put_raised`.
        let mut newest_first = self.signals.ready.swap(None, Ordering::Acquire);
        let mut oldest_first = None;
        while let Some(signal) = newest_first {
            newest_first = signal.next.load(Ordering::Relaxed);
            signal.next.store(oldest_first, Ordering::Relaxed);
            oldest_first = Some(signal);
        }
        while let Some(signal) = oldest_first {
            // The link is read first, because after the delivery the signal may be raised and linked again.
            oldest_first = signal.next.load(Ordering::Relaxed);
            if let Some(goroutine) = signal.deliver() {
                match by {
                    Some(processor) => processor.tracer.note::<Plat>(EventKind::Device, Some(goroutine.id()), 0),
                    None => self.note_outside(EventKind::Device, goroutine, 0),
                }
                each(goroutine);
            }
        }
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
