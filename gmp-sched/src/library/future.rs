//! Futures in Gs: `core::future` libraries, driven by a G that parks while there is nothing to poll.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::base::atomic::{AtomicU8, Ordering};
use crate::engine::park::{park, ready_pinned};
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::platform::{Pinned, Platform, Site};

/// Nothing has happened since the last poll.
const IDLE: u8 = 0;
/// Somebody called the waker since the last poll.
const WOKEN: u8 = 1;
/// The G is parked; whoever moves the word away from here readies it.
const WAITING: u8 = 2;

/// What a waker points at. It outlives the [`block_on`] for as long as somebody keeps a waker, which then wakes nobody.
pub(crate) struct Cell<P: Platform> {
    state: AtomicU8,
    goroutine: &'static Goroutine<P>,
}

/// Runs `future` to its end in the calling G; gives what it gives.
///
/// Blocks the calling G while the future is pending. Its waker may be called from any G and, where there are such, from
/// threads outside the scheduler, but not from interrupts. Called late or too often, it does nothing. Takes one heap cell;
/// without memory for it the program ends, as with all such types of `alloc`.
///
/// Where the platform has threads outside the scheduler, any of them may be going to wake such a G, and so no deadlock is
/// told while one waits.
///
/// ```
/// use std::future;
/// use gmp_sched::native;
///
/// let answer = unsafe { native::enter() }.run(1, || native::block_on(async { 40 + future::ready(2).await }));
/// assert_eq!(answer, 42);
/// ```
///
/// # Panics
///
/// The caller is not a G with a P; the future panics.
pub fn block_on<P: Platform, F: Future>(future: F) -> F::Output {
    let cell = Arc::new(Cell::<P>::new());
    let waker = Waker::from(cell.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        cell.wait();
    }
}

impl<P: Platform> Cell<P> {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(IDLE), goroutine: Pinned::<P>::new().goroutine() }
    }

    /// Parks the calling G, which is this cell's, until the waker is called, unless it has been since the last time.
    fn wait(&self) {
        park::<P>(WaitReason::Future, |_, _| self.commit());
        self.resumed();
    }

    /// On the far side: the G has been left. Returns `false` if the waker has been called, and the G is to go on.
    pub(crate) fn commit(&self) -> bool {
        P::point(Site::Park);
        // Ordering: Release publishes the parked context to the waker. It fails if that came first.
        self.state.compare_exchange(IDLE, WAITING, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The G runs again.
    pub(crate) fn resumed(&self) {
        // Ordering: Acquire; partner: the exchange in `wake_by_ref`: the poll that follows sees what the waker's caller did.
        self.state.swap(IDLE, Ordering::Acquire);
    }
}

impl<P: Platform> Wake for Cell<P> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        P::point(Site::Park);
        // Ordering: Release for what the caller did before, see `wait`; Acquire takes over the parked context.
        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {
            ready_pinned(&Pinned::new(), self.goroutine);
        }
    }
}

impl<P: Platform> fmt::Debug for Cell<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("goroutine", &self.goroutine.id())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use alloc::vec::Vec;
    use core::future::poll_fn;
    use core::task::Poll;
    use core::time::Duration;
    use std::thread;

    use crate::native::{THREADS, block_on, go};

    /// A future that a thread outside completes, after a while in which every M is idle.
    async fn from_outside() {
        let mut is_first = true;
        poll_fn(move |context| {
            if !is_first {
                return Poll::Ready(());
            }
            is_first = false;
            let waker = context.waker().clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                waker.wake();
            });
            Poll::Pending
        })
        .await;
    }

    #[test]
    fn a_thread_outside_wakes_a_future() {
        for processors in [1, 4] {
            THREADS.run(processors, || {
                let others: Vec<_> = (0..3).map(|_| go(|| block_on(from_outside()))).collect();
                block_on(from_outside());
                others.into_iter().for_each(|other| other.join().unwrap());
            });
        }
    }
}
