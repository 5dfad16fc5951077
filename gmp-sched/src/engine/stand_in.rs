//! How a G waits where no stack is switched: under loom, where a thread stands for it and blocks.

use alloc::vec::Vec;
use core::cell::RefCell;

use loom::thread::{self, Thread};

use crate::base::atomic::Ordering;
use crate::engine::caller::Caller;
use crate::entities::goroutine::Goroutine;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};

std::thread_local! {
    /// Those that wait, by the address of their G. All of loom's threads take turns on one thread of the host.
    static WAITING: RefCell<Vec<(usize, Thread)>> = const { RefCell::new(Vec::new()) };
}

fn address<P: Platform>(goroutine: &Goroutine<P>) -> usize {
    core::ptr::from_ref(goroutine).addr()
}

/// In place of a switch: runs `commit`, as the far side does, and comes back when somebody has readied the calling G.
pub(crate) fn leave<P: Platform>(
    caller: Caller<P>,
    commit: impl FnOnce(&Pinned<P>, &'static Goroutine<P>),
) -> Pinned<P> {
    let Caller { pinned, me, .. } = caller;
    wait(me, || commit(&pinned, me));
    me.set_status(Status::Running);
    pinned
}

/// Blocks the thread that stands for `me`, having run `far_side`, until somebody has readied the G.
pub(crate) fn wait<P: Platform>(me: &'static Goroutine<P>, far_side: impl FnOnce()) {
    WAITING.with_borrow_mut(|waiting| waiting.push((address(me), thread::current())));
    far_side();
    // Ordering: as between the two ends of a run queue.
    while me.completion.load(Ordering::Acquire) == 0 {
        thread::park();
    }
    me.completion.store(0, Ordering::Relaxed);
}

/// Lets the thread go on that stands for `goroutine`; returns whether there is one. The others are for a run queue.
pub(crate) fn ready<P: Platform>(goroutine: &Goroutine<P>) -> bool {
    let thread = WAITING.with_borrow_mut(|waiting| {
        let place = waiting.iter().position(|&(each, _)| each == address(goroutine))?;
        Some(waiting.swap_remove(place).1)
    });
    let Some(thread) = thread else { return false };
    goroutine.completion.store(1, Ordering::Release);
    thread.unpark();
    true
}

/// Forgets those that waited when the last run of a model was broken off.
pub(crate) fn reset() {
    WAITING.with_borrow_mut(Vec::clear);
}
