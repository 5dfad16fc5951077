//! Runs futures of `core::future` in Gs. A G parks while its future is pending.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::base::atomic::{AtomicU8, Ordering};
use crate::base::points::Site;
use crate::engine::hooks::before_wait;
use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::platform::{Pinned, Platform};

/// The waker has not been called since the last poll.
const IDLE: u8 = 0;
/// The waker has been called since the last poll.
const WOKEN: u8 = 1;
/// The G is parked. The waker that changes this state readies the G.
const WAITING: u8 = 2;

/// The heap cell that wakers point to. The cell lives as long as a waker points to it. After [`block_on`] has returned,
/// waking does nothing.
pub(crate) struct Cell<Plat: Platform> {
    state: AtomicU8,
    goroutine: &'static Goroutine<Plat>,
}

/// Runs `future` to completion in the calling G; returns its output.
///
/// Blocks the calling G while the future is pending. The future's waker may be called from any G and from threads
/// outside the scheduler, if the platform has any, but not from interrupts. Spurious and late calls are harmless.
/// Allocates one heap cell. If there is no memory for it, the program ends, as with the types of `alloc`.
///
/// On a platform that has threads outside the scheduler, such a thread may wake the G. So no deadlock is reported while
/// a G waits here.
///
/// ```
/// use std::future;
/// use gmp_sched::native;
///
/// let answer = unsafe { native::enter() }.run(1, || native::block_on(async { 40 + future::ready(2).await }));
/// assert_eq!(answer, 42);
/// ```
///
/// On `native`, `block_on` may also be called on a thread that is not an M or is in a system call. It then blocks that
/// thread.
///
/// # Panics
///
/// - The future panics.
/// - The future is pending, and the caller is a pinned G.
/// - The caller is not a G with a P, and the platform is not `native`.
#[track_caller]
pub fn block_on<Plat: Platform, F: Future>(future: F) -> F::Output {
    if Pinned::<Plat>::of_scheduler().try_machine().and_then(Machine::processor).is_some() {
        return block_goroutine_on::<Plat, F>(future);
    }
    // If the platform cannot block this thread, `block_goroutine_on` panics, at the latest when the future is pending,
    // and says why the caller may not wait.
    Plat::block_thread_on(future).unwrap_or_else(block_goroutine_on::<Plat, F>)
}

#[track_caller]
fn block_goroutine_on<Plat: Platform, F: Future>(future: F) -> F::Output {
    before_wait::<Plat>();
    let cell = Arc::new(Cell::<Plat>::new());
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

impl<Plat: Platform> Cell<Plat> {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(IDLE), goroutine: Pinned::<Plat>::of_scheduler().goroutine() }
    }

    /// Parks the calling G, the owner of this cell, unless the waker has been called since the last poll.
    #[cfg_attr(feature = "std", track_caller)]
    fn wait(&self) {
        drop(park_with(CurrentGoroutine::<Plat>::new(), WaitReason::Future, |_, _| self.commit()));
        self.resumed();
    }

    /// The commit of the park. Returns `false` if the waker has been called; the G must then continue.
    pub(crate) fn commit(&self) -> bool {
        Plat::point(Site::Park);
        // Ordering: Release publishes the parked context to the waker. The exchange fails if the waker was called
        // first.
        self.state.compare_exchange(IDLE, WAITING, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Resets the state after the park.
    pub(crate) fn resumed(&self) {
        // Ordering: Acquire; partner: the exchange in `wake_by_ref`. The next poll sees what the waker's caller did.
        self.state.swap(IDLE, Ordering::Acquire);
    }
}

impl<Plat: Platform> Wake for Cell<Plat> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Plat::point(Site::Park);
        // Ordering: Release publishes the caller's earlier writes to the next poll; partner: the Acquire in `resumed`.
        // Acquire makes the parked context visible; partner: the Release in `commit`.
        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {
            ready_pinned(&Pinned::of_scheduler(), self.goroutine);
        }
    }
}

impl<Plat: Platform> fmt::Debug for Cell<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("goroutine", &self.goroutine.id())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
