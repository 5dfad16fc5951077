//! A shard of a stack: the lock of some connections, and the G that serves them.

use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::cancel::Limit;
use gmp_sched::platform::Platform;
use gmp_sched::sync::{LimitedMutex as _, Mutex, MutexGuard};
use gmp_sched::time;

use crate::error::NetError;
use crate::own::Own;
use crate::readiness::{Queue, Waits};
use crate::state::State;
use crate::wake::Wake;

/// The number of frames, and of connections with something due, after which the G that serves a link lets other Gs use
/// the shard.
pub(crate) const BATCH: usize = 32;

/// Some of the connections of a stack, with a link of their own.
pub(crate) struct Shard<Plat: Platform> {
    state: Mutex<State<Plat>, Plat>,
    /// For calls that wait for an address of this computer, or of a name.
    pub(crate) configured: &'static Waits<Plat>,
    /// Wakes the G that serves the link.
    wake: Wake<Plat>,
    /// Whether the link is broken for ever, so that nobody has to serve it.
    is_closed: AtomicBool,
}

impl<Plat: Platform> Shard<Plat> {
    pub(crate) fn new(state: State<Plat>, wake: Wake<Plat>) -> Self {
        let (configured, is_closed) = (state.configured, AtomicBool::new(false));
        Self { state: Mutex::new(state), configured, wake, is_closed }
    }

    /// Wakes the G that serves the link. Callable from everywhere.
    pub(crate) fn announce(&'static self) {
        self.wake.raise();
    }

    /// Serves the link until it is [closed](Self::close). Calls `begin_round` without a lock, before each piece of
    /// work.
    pub(crate) fn serve(&'static self, begin_round: impl Fn()) {
        // Ordering: the lock of the state, or `wake`, orders this and `close`.
        while !self.is_closed.load(Ordering::Relaxed) {
            begin_round();
            // ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            let has_more = state.receive(BATCH, now) | state.run_timers(BATCH, now);
            let until = state.sleep();
            drop(state);
            if has_more {
                gmp_sched::yield_now::yield_now::<Plat>();
            } else {
                self.wake.wait_until(until);
            }
            // ANCHOR_END: serve
        }
    }

    /// Passes on some of the frames that have arrived, in place of the G that serves the link. That G wakes if there are more,
    /// or if another G has the lock: the caller also has frames for other shards, so it must not wait.
    pub(crate) fn serve_now(&'static self) {
        if let Some(mut state) = self.state.try_lock() {
            let now = state.now();
            state.receive(BATCH, now);
            self.unlock(state);
        } else {
            self.wake.raise();
        }
    }

    /// Returns the addresses of this computer if they have changed. Called by the G that serves the link.
    pub(crate) fn take_news(&'static self) -> Option<Own> {
        self.state.lock().take_news()
    }

    /// Ends all connections and UDP sockets, because the link is broken, and then the G that serves it.
    pub(crate) fn close(&'static self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.state.lock().close(time::now::<Plat>());
        self.wake.raise();
    }

    /// Locks the state for as long as it takes to call `act`.
    pub(crate) fn with<R>(&'static self, act: impl FnOnce(&mut State<Plat>) -> R) -> R {
        let mut state = self.state.lock();
        let result = act(&mut state);
        self.unlock(state);
        result
    }

    /// Ends a piece of work, and unlocks the state. The G that serves the link is woken only afterwards: it may
    /// displace the caller, and would wait for the lock.
    fn unlock(&'static self, mut state: MutexGuard<'_, State<Plat>, Plat>) {
        let is_needed = state.finish();
        drop(state);
        if is_needed {
            self.wake.raise();
        }
    }

    /// Calls `act` with the state until it returns a result. Before each further call, waits in the queue `queue`.
    ///
    /// # Errors
    /// If the limit ends the wait, or the device is broken.
    pub(crate) fn wait<R>(
        &'static self,
        limit: Limit<'_, Plat>,
        queue: &Queue<Plat>,
        mut act: impl FnMut(&mut State<Plat>) -> Option<Result<R, NetError>>,
    ) -> Result<R, NetError> {
        // ANCHOR: wait
        let mut state = self.state.lock_until(limit)?;
        loop {
            state.check_link()?;
            if let Some(result) = act(&mut state) {
                self.unlock(state);
                return result;
            }
            if state.finish() {
                self.wake.raise();
            }
            queue.wait_limited(&mut state, limit)?;
        }
        // ANCHOR_END: wait
    }
}
