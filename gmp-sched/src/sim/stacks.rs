//! The stacks of a simulated machine: those of its Gs, of its threads, and of its idle CPUs.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

use super::Sim;
use crate::base::id::GoroutineId;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::lifecycle::join::has_result;
use crate::native::stack;

/// The size of a stack in bytes, unless a larger one is asked for. Formatting a panic on the host needs most of it.
pub(super) const STACK_BYTES: usize = 128 * 1024;

std::thread_local! {
    static FREE: Free = const { Free(RefCell::new(Vec::new())) };
}

/// Stacks of earlier runs on this host thread, for reuse.
struct Free(RefCell<Vec<Range<usize>>>);

impl Drop for Free {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmaps stacks")]
        // SAFETY: `stack::allocate` made these stacks, and nothing has used them since their run was over.
        unsafe {
            stack::release_all(self.0.take().into_iter());
        }
    }
}

/// The stacks of one run.
#[derive(Debug, Default)]
pub(super) struct Stacks(RefCell<Vec<Range<usize>>>);

impl Stacks {
    /// Takes a stack that was used before, or allocates one.
    pub(super) fn take(&self) -> Range<usize> {
        let free = FREE.with(|free| free.0.borrow_mut().pop());
        let stack = free.unwrap_or_else(|| stack::allocate(STACK_BYTES).expect("memory for a simulated stack"));
        self.0.borrow_mut().push(stack.clone());
        stack
    }

    /// Called when a run has ended without a failure: lets later runs use its stacks, unless something may still refer
    /// to one of them. A G that has not ended, or that has a result or was abandoned, may be known to an object that
    /// outlives the run, for example to a channel in a static. (The main G does not end, but it has left the program's
    /// closure. The background G does not end either, and knows no object.)
    pub(super) fn end(&self, scheduler: &'static Scheduler<Sim>) {
        let has_ended = |goroutine: &Goroutine<Sim>| goroutine.status() == Status::Dead && !has_result(goroutine);
        let is_kept = |id| id == GoroutineId::MAIN || id == GoroutineId::BACKGROUND;
        let is_over = scheduler.counts().abandoned == 0
            && scheduler.goroutines().all(|goroutine| is_kept(goroutine.id()) || has_ended(goroutine));
        if is_over {
            FREE.with(|free| free.0.borrow_mut().append(&mut self.0.borrow_mut()));
        }
    }
}
