//! How Gs wait for a socket: in wait queues, and, for selects, at a channel that gets a value when a call need not
//! wait.

use gmp_sched::cancel::{ContextError, Limit};
use gmp_sched::chan::{Receiver, Sender, try_channel, try_channel_in_no_bubble};
use gmp_sched::platform::Platform;
use gmp_sched::sync::{Condvar, LimitedCondvar as _, MutexGuard};

use crate::error::NetError;
use crate::wake::WokenBy;

/// The wait queues of a connection, which are used with the lock of its shard. They are never freed, but used again.
pub(crate) struct Waits<Plat: Platform> {
    pub(crate) readable: Queue<Plat>,
    pub(crate) writable: Queue<Plat>,
}

impl<Plat: Platform> Waits<Plat> {
    pub(crate) const fn new() -> Self {
        Self { readable: Queue(Condvar::new()), writable: Queue(Condvar::new()) }
    }
}

/// What is locked while a G begins to wait.
pub(crate) trait Served {
    /// Who wakes the Gs that wait.
    fn woken_by(&self) -> WokenBy;
}

/// A wait queue.
pub(crate) struct Queue<Plat: Platform>(Condvar<Plat>);

impl<Plat: Platform> Queue<Plat> {
    /// Unlocks the mutex of `guard`, waits until another G wakes the caller, but no longer than `limit`, and locks the
    /// mutex again.
    ///
    /// # Errors
    /// If the limit ends the wait.
    pub(crate) fn wait_limited<T: Served>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: Limit<'_, Plat>,
    ) -> Result<(), ContextError> {
        match guard.woken_by() {
            WokenBy::Device => self.0.wait_for_device(guard, limit),
            WokenBy::Gs => self.0.wait_limited(guard, limit),
        }
    }

    /// Wakes the G that has waited longest. Does not block.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all Gs that wait. Does not block.
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// The channel of one kind of calls of a socket. It exists from the first select on, and is closed with the socket.
pub struct Readiness<Plat: Platform>(Option<(Sender<(), Plat>, Receiver<(), Plat>)>);

impl<Plat: Platform> core::fmt::Debug for Readiness<Plat> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Readiness").field(&self.0.is_some()).finish()
    }
}

impl<Plat: Platform> Readiness<Plat> {
    /// Makes a readiness without a channel.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Returns the receiver for the case of a select. The receiver has a value only if `is_ready` returns true, or
    /// after the next [`announce`](Self::announce). The caller has the lock under which all calls of `announce` are
    /// made. `woken_by` says who makes them.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn receiver(
        &mut self,
        woken_by: WokenBy,
        is_ready: impl FnOnce() -> bool,
    ) -> Result<Receiver<(), Plat>, NetError> {
        let (sender, receiver) = match (&mut self.0, woken_by) {
            (Some(channel), _) => channel,
            // What serves the device is in no bubble, so the channel must be in none, either.
            (none, WokenBy::Device) => none.insert(try_channel_in_no_bubble(1)?),
            (none, WokenBy::Gs) => none.insert(try_channel(1)?),
        };
        // Remove the value of an earlier announcement: the call may have to wait again by now.
        let _ = receiver.try_recv();
        if is_ready() {
            // The channel has room for a value.
            let _ = sender.try_send(());
        }
        Ok(receiver.clone())
    }

    /// Announces that a call need not wait now. Does not block.
    pub fn announce(&self) {
        if let Some((sender, _)) = &self.0 {
            // If there is a value already, no other one is needed.
            let _ = sender.try_send(());
        }
    }
}

impl<Plat: Platform> Default for Readiness<Plat> {
    fn default() -> Self {
        Self::new()
    }
}
