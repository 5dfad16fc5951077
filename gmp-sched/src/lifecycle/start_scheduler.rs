//! The first G of a scheduler, and Gs that are spawned from outside of the scheduler.

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::engine::hooks;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::lifecycle::closure::{self, NoScope, StackEnd};
use crate::lifecycle::free_slots;
use crate::lifecycle::join::{ATTACHED, JoinHandle};
use crate::lifecycle::new_goroutine::SMALLEST_STACK;
use crate::platform::{Pinned, Platform};

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes one M for each P, and puts the main G, which runs `main` and has number 1, on the global queue. Does not
    /// wait for the main G. The caller is not an M, but a thread of the operating system, or the boot CPU while that
    /// CPU is pinned. Allocates.
    ///
    /// # Errors
    ///
    /// The platform has no thread for one of the Ms, or no stack for the main G. In this case no G runs, now or later.
    ///
    /// # Safety
    ///
    /// This is called once for each run of the scheduler. From here on Gs run on the platform's threads and move
    /// between them. The caller guarantees that the code of the Gs meets the platform's requirements for code that
    /// moves. (The kernel and the simulator have no such requirements; see `native::enter` for threads of an operating
    /// system.)
    #[expect(unsafe_code, reason = "Gs move between threads, which the platform may restrict")]
    pub unsafe fn start<F>(&'static self, main: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() + Send + 'static,
    {
        // SAFETY: the requirements of `start_with_stack` are those of this function, which the caller meets.
        unsafe { self.start_with_stack(Plat::STACK_SIZE, main) }
    }

    /// Like [`start`](Self::start), with a stack of at least `bytes` bytes for the main G.
    ///
    /// # Errors
    ///
    /// In the same cases as [`start`](Self::start), or if the platform has no stacks of that size.
    ///
    /// # Safety
    ///
    /// The requirements of [`start`](Self::start) apply.
    #[expect(unsafe_code, reason = "Gs move between threads, which the platform may restrict")]
    pub unsafe fn start_with_stack<F>(&'static self, bytes: usize, main: F) -> Result<(), OutOfResources>
    where
        F: FnOnce() + Send + 'static,
    {
        for _ in 0..self.procs() {
            self.add_machine()?;
        }
        #[cfg(feature = "refinements")]
        if let Some(scavenge) = Plat::scavenger() {
            crate::lifecycle::start_background::start_background(self, scavenge)?;
        }
        let goroutine = free_slots::take_with_stack(self, bytes.max(SMALLEST_STACK))?;
        inject_new(self, goroutine, GoroutineId::MAIN, main);
        Ok(())
    }
}

/// Runs `body` as a detached G of `scheduler`, for a caller that is not an M of `scheduler`. Does not block; allocates.
#[cfg(feature = "std")]
pub(crate) fn spawn_from_outside<Plat, F>(scheduler: &'static Scheduler<Plat>, body: F) -> Result<(), OutOfResources>
where
    Plat: Platform,
    F: FnOnce() + Send + 'static,
{
    let pinned = Pinned::<Plat>::of_scheduler();
    let free = scheduler.free.lock().pop_with_stack().inspect(|free| hooks::check_poison(*free));
    drop(pinned);
    let goroutine = free.map_or_else(|| free_slots::take_with_stack(scheduler, Plat::STACK_SIZE), Ok)?;
    goroutine.set_name(None);
    inject_new(scheduler, goroutine, GoroutineId(scheduler.take_goroutine_ids()), body);
    scheduler.started_without_processor.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Turns a slot that the caller owns into a detached G on the global queue.
fn inject_new<Plat, F>(
    scheduler: &'static Scheduler<Plat>,
    goroutine: &'static Goroutine<Plat>,
    id: GoroutineId,
    body: F,
) where
    Plat: Platform,
    F: FnOnce() + Send + 'static,
{
    install_detached(goroutine, id, body);
    let _pinned = Pinned::<Plat>::of_scheduler();
    hooks::spawned_outside(None, goroutine);
    scheduler.inject_from_outside(goroutine);
}

/// Turns a slot that the caller owns into a detached G, which the caller must make runnable or park.
pub(crate) fn install_detached<Plat, F>(goroutine: &'static Goroutine<Plat>, id: GoroutineId, body: F)
where
    Plat: Platform,
    F: FnOnce() + Send + 'static,
{
    closure::install::<Plat, F, F, (), _>(StackEnd::of(goroutine), body, NoScope);
    goroutine.completion.store(ATTACHED, Ordering::Relaxed);
    goroutine.begin(id, None);
    // The main G of each run has the same id, so the ranking of an earlier main G would seem to be its own.
    goroutine.ranking.begin_next(0);
    JoinHandle::<(), Plat>::new(goroutine).detach();
}
