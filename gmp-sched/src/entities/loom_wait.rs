//! How a G waits under loom, where no stack is switched: a loom thread runs in place of each G, and blocks when the G
//! waits.

use alloc::vec::Vec;
use core::cell::RefCell;

use loom::thread::{self, Thread};

use crate::base::atomic::Ordering;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};

std::thread_local! {
    /// The blocked threads, by the address of their G. All threads of loom run on one thread of the host and share this
    /// variable.
    static WAITING: RefCell<Vec<(usize, Thread)>> = const { RefCell::new(Vec::new()) };
}

fn address<Plat: Platform>(goroutine: &Goroutine<Plat>) -> usize {
    core::ptr::from_ref(goroutine).addr()
}

/// Takes the place of a context switch under loom. Runs `commit`, which a context switch runs after it has saved the
/// context of the calling G, and returns when that G has been readied.
pub(crate) fn leave<Plat: Platform>(
    caller: CurrentGoroutine<Plat>,
    commit: impl FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>),
) -> Pinned<Plat> {
    let CurrentGoroutine { pinned, me, .. } = caller;
    wait(me, || commit(&pinned, me));
    me.set_status(Status::Running);
    pinned
}

/// Runs `far_side`, then blocks the thread of `me` until the G has been readied.
pub(crate) fn wait<Plat: Platform>(me: &'static Goroutine<Plat>, far_side: impl FnOnce()) {
    WAITING.with_borrow_mut(|waiting| waiting.push((address(me), thread::current())));
    far_side();
    // Ordering: Acquire, to see what the code that readied the G did. Partner: the Release in `ready`.
    while me.completion.load(Ordering::Acquire) == 0 {
        thread::park();
    }
    me.completion.store(0, Ordering::Relaxed);
}

/// Unblocks the thread of `goroutine` and returns `true`. Returns `false` if no thread is blocked for that G; the
/// caller then puts the G on a run queue.
pub(crate) fn ready<Plat: Platform>(goroutine: &Goroutine<Plat>) -> bool {
    let thread = WAITING.with_borrow_mut(|waiting| {
        let index = waiting.iter().position(|&(each, _)| each == address(goroutine))?;
        Some(waiting.swap_remove(index).1)
    });
    let Some(thread) = thread else { return false };
    goroutine.completion.store(1, Ordering::Release);
    thread.unpark();
    true
}

/// Forgets the threads that were blocked when the last run of a model was aborted.
pub(crate) fn reset() {
    WAITING.with_borrow_mut(Vec::clear);
}
