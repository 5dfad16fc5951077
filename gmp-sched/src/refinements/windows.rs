#![doc = include_str!("windows.md")]

use core::marker::PhantomData;
use core::mem;

use crate::platform::Platform;

/// The windows. Each of them has a row in the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A G has the status Waiting, but has not left its M.
    Park,
    /// An M has recorded that its next G runs, but has not switched to it.
    Switch,
    /// The commit of the G that has left runs.
    Commit,
    /// A G is in the wait queue of a lock, but is not parked.
    WaitQueue,
    /// A G is in the wait queue of a channel, but is not parked.
    ChannelQueue,
    /// A G is in the wait queues of the channels of a select, but is not parked.
    SelectQueues,
    /// A G has reserved a device signal, but is not parked.
    Signal,
    /// A wait for a condition variable has unlocked the mutex, and has not locked it again.
    Relock,
    /// A waiter has been removed from its queue, and its G is not runnable.
    Wakeup,
    /// A timer has been removed from its P, and its action has not run.
    DueTimer,
    /// A G that ends has published its result, and has not left its M.
    End,
    /// The two sides of a coroutine know each other, and the switch has not happened.
    #[cfg_attr(
        not(any(feature = "extras", all(test, feature = "std"))),
        expect(dead_code, reason = "only coroutines have this window")
    )]
    Coroutine,
    /// A G has given up its P, and the guard of the system call does not exist.
    SyscallEntry,
    /// The guard of a system call is dropped, and the G has no P.
    SyscallExit,
    /// The Ps are stopped, and the value that starts them again does not exist.
    WorldStop,
    /// The value that starts the Ps again is dropped, and they are not started.
    WorldStart,
}

/// An open window. If a panic unwinds through it, the program ends. On platforms that do not unwind, this type does
/// nothing. On all platforms, opening and closing a window takes no instruction.
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
        injected::reach(at, injected::Edge::Begin);
        window
    }

    /// Closes the window.
    #[inline(always)]
    pub(crate) fn close(self) {
        #[cfg(all(test, feature = "std"))]
        injected::reach(self.at, injected::Edge::End);
        mem::forget(self);
    }
}

impl<Plat: Platform> Drop for Window<Plat> {
    /// Called only by an unwinding.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let Some(machine) = Plat::current_machine() else {
            // A panic during an unwinding ends the process.
            panic!("a panic in the window {:?} on a thread that is no M", self.at);
        };
        let scheduler = machine.scheduler();
        match (self.at, machine.committing()) {
            (At::Commit, Some(parks)) => {
                Plat::fatal(scheduler, format_args!("the commit of a park panicked: goroutine {} parks", parks.id()))
            }
            (at, _) => Plat::fatal(scheduler, format_args!("a panic in the window {at:?} of the scheduler")),
        }
    }
}

/// Panics that a test injects at the ends of a window.
#[cfg(all(test, feature = "std"))]
pub(crate) mod injected {
    use alloc::vec::Vec;
    use core::cell::{Cell, RefCell};

    use super::At;

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

    /// Called at an end of a window.
    pub(super) fn reach(at: At, edge: Edge) {
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
