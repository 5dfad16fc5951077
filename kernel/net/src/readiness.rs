//! How Gs wait for a socket: in wait queues, and, for selects, at a channel that gets a value when a call need not
//! wait.

use gmp_sched::chan::{Receiver, Sender};
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::Condvar;

use crate::error::NetError;

/// The wait queues of a connection, which are used with the lock of its shard. Never freed, only used again.
pub(crate) struct Waits<Plat: Platform> {
    pub(crate) readable: Condvar<Plat>,
    pub(crate) writable: Condvar<Plat>,
}

impl<Plat: Platform> Waits<Plat> {
    pub(crate) const fn new() -> Self {
        Self { readable: Condvar::new(), writable: Condvar::new() }
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

    /// Returns the receiver for the case of a select. It has a value only if `is_ready` returns true, or after the next
    /// [`announce`](Self::announce). If there is no channel yet, `make` makes one for one value. The caller has a lock,
    /// which whoever calls `announce` needs.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn receiver(
        &mut self,
        make: impl FnOnce() -> Result<(Sender<(), Plat>, Receiver<(), Plat>), OutOfResources>,
        is_ready: impl FnOnce() -> bool,
    ) -> Result<Receiver<(), Plat>, NetError> {
        let (sender, receiver) = match &mut self.0 {
            Some(channel) => channel,
            none => none.insert(make()?),
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
