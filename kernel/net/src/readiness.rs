//! How Gs wait for a socket: in wait queues, and, for selects, at a channel that gets a value when a call need not
//! wait.

use gmp_sched::cancel::{ContextError, Limit};
use gmp_sched::chan::{Receiver, Sender, try_channel, try_channel_in_no_bubble};
use gmp_sched::platform::Platform;
use gmp_sched::sync::{Condvar, LimitedCondvar as _, MutexGuard};

use crate::error::NetError;
use crate::wake::WokenBy;

/// The wait queues of a connection, which are used with the lock of its shard. Never freed, only used again.
pub(crate) struct Waits<Plat: Platform> {
    pub(crate) readable: Queue<Plat>,
    pub(crate) writable: Queue<Plat>,
}

impl<Plat: Platform> Waits<Plat> {
    pub(crate) const fn new(woken_by: WokenBy) -> Self {
        Self { readable: Queue::new(woken_by), writable: Queue::new(woken_by) }
    }
}

/// A wait queue.
pub(crate) struct Queue<Plat: Platform> {
    changed: Condvar<Plat>,
    woken_by: WokenBy,
}

impl<Plat: Platform> Queue<Plat> {
    const fn new(woken_by: WokenBy) -> Self {
        Self { changed: Condvar::new(), woken_by }
    }

    /// Unlocks the mutex of `guard`, waits until another G wakes the caller, but no longer than `limit`, and locks the
    /// mutex again.
    ///
    /// # Errors
    /// If the limit ends the wait.
    pub(crate) fn wait_limited<T>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: Limit<'_, Plat>,
    ) -> Result<(), ContextError> {
        match self.woken_by {
            WokenBy::Device => self.changed.wait_for_device(guard, limit),
            WokenBy::Gs => self.changed.wait_limited(guard, limit),
        }
    }

    /// Wakes the G that has waited longest. Does not block.
    pub(crate) fn notify_one(&self) {
        self.changed.notify_one();
    }

    /// Wakes all Gs that wait. Does not block.
    pub(crate) fn notify_all(&self) {
        self.changed.notify_all();
    }
}

/// The channel of one kind of calls of a socket. It exists from the first select on, and is closed with the socket.
pub struct Readiness<Plat: Platform> {
    channel: Option<(Sender<(), Plat>, Receiver<(), Plat>)>,
    woken_by: WokenBy,
}

impl<Plat: Platform> core::fmt::Debug for Readiness<Plat> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Readiness").field("woken_by", &self.woken_by).finish_non_exhaustive()
    }
}

impl<Plat: Platform> Readiness<Plat> {
    /// Makes a readiness without a channel. `woken_by` is who calls [`announce`](Self::announce).
    #[must_use]
    pub const fn new(woken_by: WokenBy) -> Self {
        Self { channel: None, woken_by }
    }

    /// Returns the receiver for the case of a select. It has a value only if `is_ready` returns true, or after the next
    /// [`announce`](Self::announce). The caller has a lock, without which nobody calls `announce`.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn receiver(&mut self, is_ready: impl FnOnce() -> bool) -> Result<Receiver<(), Plat>, NetError> {
        let (sender, receiver) = match (&mut self.channel, self.woken_by) {
            (Some(channel), _) => channel,
            // What serves the device is in no bubble, so the channel must be in none, either.
            (none, WokenBy::Device) => none.insert(try_channel_in_no_bubble(1)?),
            (none, WokenBy::Gs) => none.insert(try_channel(1)?),
        };
        // A value of an earlier moment, which may not be true any more.
        let _ = receiver.try_recv();
        if is_ready() {
            // The channel has room for a value.
            let _ = sender.try_send(());
        }
        Ok(receiver.clone())
    }

    /// A call need not wait now. Does not block.
    pub fn announce(&self) {
        if let Some((sender, _)) = &self.channel {
            // If there is a value already, no other one is needed.
            let _ = sender.try_send(());
        }
    }

    /// Closes the channel, if there is one, because the socket is closed.
    pub fn close(&mut self) {
        self.channel = None;
    }
}
