//! The poller of the host: a thread that asks the operating system which sockets are ready, and raises the signals of
//! the Gs that wait for them. So a G that waits for a socket blocks no thread of the scheduler.

use alloc::boxed::Box;
use alloc::vec::Vec;
use std::io;
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{ExpectedWakes, expect_wakes};
use gmp_sched::sync::LimitedMutex as _;
use kernel_net::{NetError, Readiness, Way, WokenBy};
use mio::event::Source;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::assert_may_block;
use crate::host::platform::{self, Kernel, Limit, Receiver};

/// How many events the thread takes at once.
const EVENTS: usize = 256;

/// The wait for one direction of a socket.
struct Direction {
    /// Held by the G that reads, or that writes.
    turn: platform::Mutex<()>,
    ready: Signal<Kernel>,
    /// For selects.
    select: Mutex<Selects>,
}

/// The channel for selects. While it exists, no deadlock is reported, because the thread of the poller may ready a G
/// that selects.
struct Selects {
    readiness: Readiness<Kernel>,
    expected: Option<ExpectedWakes>,
}

impl Selects {
    const fn new() -> Self {
        Self { readiness: Readiness::new(WokenBy::Device), expected: None }
    }
}

impl Direction {
    fn new() -> Self {
        Self { turn: platform::Mutex::new(()), ready: Signal::new(), select: Mutex::new(Selects::new()) }
    }

    /// Locks the channel for selects. Poisoning is ignored, because nothing panics while the lock is held.
    fn select(&self) -> std::sync::MutexGuard<'_, Selects> {
        self.select.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket may be ready.
    fn announce(&'static self) {
        self.ready.raise();
        self.select().readiness.announce();
    }
}

/// The waits for a socket. Never freed, only used again. An event for the last user of the same waits wakes a G too
/// early, which then finds that its socket is not ready.
struct Waits {
    token: Token,
    read: Direction,
    write: Direction,
}

struct Table {
    all: Vec<&'static Waits>,
    free: Vec<&'static Waits>,
}

struct Poller {
    registry: Registry,
    table: Mutex<Table>,
}

/// The poller, or why there is none. The first use starts the thread.
static POLLER: LazyLock<io::Result<Poller>> = LazyLock::new(|| {
    let poll = Poll::new()?;
    let registry = poll.registry().try_clone()?;
    thread::Builder::new().name("poller".into()).spawn(move || serve(poll))?;
    Ok(Poller { registry, table: Mutex::new(Table { all: Vec::new(), free: Vec::new() }) })
});

/// Raises the signals of sockets that are ready, for ever.
fn serve(mut poll: Poll) {
    let mut events = Events::with_capacity(EVENTS);
    loop {
        // The call fails only if a signal handler has interrupted it.
        let _ = poll.poll(&mut events, None);
        let Ok(poller) = &*POLLER else { return };
        for event in &events {
            let Some(waits) = poller.lock().all.get(event.token().0).copied() else { continue };
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                waits.read.announce();
            }
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                waits.write.announce();
            }
        }
    }
}

impl Poller {
    fn get() -> Result<&'static Self, NetError> {
        POLLER.as_ref().map_err(|_| NetError::OutOfResources)
    }

    /// Locks the table. Poisoning is ignored, because nothing panics while the lock is held.
    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that the poller watches.
pub(super) struct Watched<S: Source> {
    socket: S,
    waits: &'static Waits,
}

impl<S: Source + AsFd> Watched<S> {
    pub(super) fn new(mut socket: S) -> Result<Self, NetError> {
        let poller = Poller::get()?;
        let mut table = poller.lock();
        let waits = table.free.pop().unwrap_or_else(|| {
            let token = Token(table.all.len());
            let waits = &*Box::leak(Box::new(Waits { token, read: Direction::new(), write: Direction::new() }));
            table.all.push(waits);
            waits
        });
        drop(table);
        let watched = poller.registry.register(&mut socket, waits.token, Interest::READABLE | Interest::WRITABLE);
        if let Err(error) = watched {
            poller.lock().free.push(waits);
            return Err(super::error(&error));
        }
        Ok(Self { socket, waits })
    }

    pub(super) fn socket(&self) -> &S {
        &self.socket
    }

    /// Calls `act` until it returns something else than `WouldBlock`. Waits before each further call.
    #[track_caller]
    pub(super) fn wait<R>(
        &self,
        way: Way,
        limit: Limit<'_>,
        mut act: impl FnMut(&S) -> io::Result<R>,
    ) -> Result<R, NetError> {
        assert_may_block();
        let Direction { turn, ready, .. } = self.direction(way);
        let _turn = turn.lock_until(limit)?;
        loop {
            match act(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !ready.wait_until(limit) {
                        return Err(limit.err().map_or(NetError::TimedOut, NetError::Limit));
                    }
                }
                result => {
                    self.announce_rest(way);
                    return result.map_err(|error| super::error(&error));
                }
            }
        }
    }

    /// Returns the receiver for a case of a select.
    #[track_caller]
    pub(super) fn select(&self, way: Way) -> Result<Receiver<()>, NetError> {
        assert_may_block();
        let mut selects = self.direction(way).select();
        let receiver = selects.readiness.receiver(|| self.is_ready(way))?;
        selects.expected.get_or_insert_with(expect_wakes);
        Ok(receiver)
    }

    /// If a further call need not wait, either, says so to a G that selects. The poller says only once that several
    /// datagrams or connections have arrived, perhaps to another G.
    fn announce_rest(&self, way: Way) {
        let selects = self.direction(way).select();
        if selects.expected.is_some() && self.is_ready(way) {
            selects.readiness.announce();
        }
    }

    fn direction(&self, way: Way) -> &'static Direction {
        if way == Way::Read { &self.waits.read } else { &self.waits.write }
    }

    /// Whether a call need not wait. If the host cannot say it, the call finds out why.
    fn is_ready(&self, way: Way) -> bool {
        let flag = if way == Way::Read { PollFlags::IN } else { PollFlags::OUT };
        let mut now = [PollFd::new(&self.socket, flag)];
        poll(&mut now, Some(&Timespec::default())).is_ok_and(|ready| ready != 0)
    }
}

impl<S: Source> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Ok(poller) = Poller::get() {
            // The socket was registered, and is closed after this.
            let _ = poller.registry.deregister(&mut self.socket);
            for direction in [&self.waits.read, &self.waits.write] {
                *direction.select() = Selects::new();
            }
            poller.lock().free.push(self.waits);
        }
    }
}
