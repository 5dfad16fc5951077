#![doc = include_str!("windows.md")]

use core::marker::PhantomData;
use core::mem;

use crate::entities::window::At;
use crate::platform::Platform;

/// An open window. On all platforms, opening and closing a window takes no instruction.
#[must_use = "the window is open until `close` is called"]
pub(crate) struct Window<Plat: Platform> {
    at: At,
    platform: PhantomData<Plat>,
}

impl<Plat: Platform> Window<Plat> {
    /// Opens the window `at`.
    #[inline(always)]
    pub(crate) fn open(at: At) -> Self {
        let window = Self { at, platform: PhantomData };
        #[cfg(all(test, feature = "std"))]
        injected::reach(at, true);
        window
    }

    /// Closes the window.
    #[inline(always)]
    pub(crate) fn close(self) {
        #[cfg(all(test, feature = "std"))]
        injected::reach(self.at, false);
        mem::forget(self);
    }
}

impl<Plat: Platform> Drop for Window<Plat> {
    /// Called only by an unwinding. Inlined, so that the window need not be in memory.
    #[inline(always)]
    fn drop(&mut self) {
        panicked::<Plat>(self.at);
    }
}

/// Ends the program, because a panic unwinds out of the window `at`. On platforms that do not unwind, this never
/// happens.
#[cold]
#[inline(never)]
fn panicked<Plat: Platform>(at: At) -> ! {
    let Some(machine) = Plat::current_machine() else {
        // A panic during an unwinding ends the process.
        panic!("a panic in the window {at:?} on a thread that is no M");
    };
    let scheduler = machine.scheduler();
    match (at, machine.committing()) {
        (At::Commit, Some(parks)) => {
            Plat::fatal(scheduler, format_args!("the commit of a park panicked: goroutine {} parks", parks.id()))
        }
        (at, _) => Plat::fatal(scheduler, format_args!("a panic in the window {at:?} of the scheduler")),
    }
}

/// Panics that a test injects at the ends of a window.
#[cfg(all(test, feature = "std"))]
pub(crate) mod injected {
    use alloc::vec::Vec;
    use core::cell::{Cell, RefCell};

    use crate::entities::window::At;

    /// All windows.
    pub(crate) const ALL: [At; 16] = [
        At::Park,
        At::Switch,
        At::Commit,
        At::WaitQueue,
        At::ChannelQueue,
        At::SelectQueues,
        At::Signal,
        At::Relock,
        At::Wakeup,
        At::DueTimer,
        At::End,
        At::Coroutine,
        At::SyscallEntry,
        At::SyscallExit,
        At::WorldStop,
        At::WorldStart,
    ];

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Edge {
        Begin,
        End,
    }

    std::thread_local! {
        /// Where the next panic happens on this thread.
        static PANIC_AT: Cell<Option<(At, Edge)>> = const { Cell::new(None) };
        /// The ends of windows that were reached on this thread.
        static REACHED: RefCell<Vec<(At, Edge)>> = const { RefCell::new(Vec::new()) };
    }

    /// Makes the next code that reaches this end of a window panic.
    pub(crate) fn panic_at(at: At, edge: Edge) {
        PANIC_AT.set(Some((at, edge)));
    }

    /// Whether this end of a window was reached on the calling thread.
    pub(crate) fn was_reached(at: At, edge: Edge) -> bool {
        REACHED.with_borrow(|reached| reached.contains(&(at, edge)))
    }

    /// Called at the beginning or the end of a window.
    pub(crate) fn reach(at: At, begins: bool) {
        let edge = if begins { Edge::Begin } else { Edge::End };
        REACHED.with_borrow_mut(|reached| {
            if !reached.contains(&(at, edge)) {
                reached.push((at, edge));
            }
        });
        if PANIC_AT.get() == Some((at, edge)) {
            PANIC_AT.set(None);
            panic!("injected");
        }
    }
}
