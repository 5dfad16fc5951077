//! The poller of the host: an idle thread of the scheduler asks the operating system which sockets are ready, and raises
//! the signals of the Gs that wait for them ([`gmp_sched::native::Netpoll`]). So a G that waits for a socket blocks no
//! thread of the scheduler.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex};

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, ExpectedWakes, expect_wakes};
use gmp_sched::sync::LimitedMutex as _;
use kernel_net::{NetError, Readiness, Way, WokenBy};
use mio::event::Source;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::assert_may_block;
use crate::host::platform::{self, Kernel, Limit, Receiver};
use crate::host::sync::InterruptMutex;

/// How many events are taken at once.
const EVENTS: usize = 256;
/// The token of [`Poller::waker`].
const WAKER: Token = Token(usize::MAX);

/// The wait for one direction of a socket.
struct Direction {
    /// Held by the G that reads, or that writes.
    turn: platform::Mutex<()>,
    ready: Signal<Kernel>,
    /// Whether there is a channel for selects.
    is_selected: AtomicBool,
    /// No G is preempted while it holds this lock, because sysmon may wait for it.
    select: InterruptMutex<Selects>,
}

/// The channel for selects. While it exists, no deadlock is reported, because an idle thread may ready a G that selects.
struct Selects {
    readiness: Readiness<Kernel>,
    expected: Option<ExpectedWakes>,
    /// The socket, from the first select on.
    socket: Option<Arc<dyn AsFd + Send + Sync>>,
}

impl Selects {
    const fn new() -> Self {
        Self { readiness: Readiness::new(), expected: None, socket: None }
    }

    /// Announces that a call need not wait, if that is still so. The event that the caller has got may be old: a G may
    /// have read what had arrived before it began to wait again.
    fn announce(&self, way: Way) {
        if self.socket.as_ref().is_some_and(|socket| is_ready(socket, way)) {
            self.readiness.announce();
        }
    }
}

/// Whether a call need not wait. Returns `false` if the host cannot say that.
fn is_ready(socket: &impl AsFd, way: Way) -> bool {
    let flag = if way == Way::Read { PollFlags::IN } else { PollFlags::OUT };
    let mut now = [PollFd::new(socket, flag)];
    poll(&mut now, Some(&Timespec::default())).is_ok_and(|ready| ready != 0)
}

impl Direction {
    fn new() -> Self {
        Self {
            turn: platform::Mutex::new(()),
            ready: Signal::new(),
            is_selected: AtomicBool::new(false),
            select: InterruptMutex::new(Selects::new()),
        }
    }

    /// Notes that the socket may be ready: wakes the Gs that wait for it.
    fn announce(&'static self, way: Way) {
        self.ready.raise();
        if self.is_selected() {
            self.select.lock().announce(way);
        }
    }

    /// Whether a G may wait for this direction in a select. A G that begins such a wait at the same time finds by
    /// itself that the socket is ready.
    fn is_selected(&self) -> bool {
        // Ordering: partner: the fence in `Watched::select`. The caller knows that the socket is ready. So either the
        // caller sees that a G selects, or that G, which asks the host after its own fence, sees that the socket is
        // ready.
        fence(Ordering::SeqCst);
        self.is_selected.load(Ordering::Relaxed)
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
    waker: Waker,
    /// Locked only by the thread that polls, of which there is one.
    events: Mutex<(Poll, Events)>,
    /// No G is preempted while it holds this lock, because sysmon may wait for it.
    table: InterruptMutex<Table>,
}

/// The poller, or why there is none.
static POLLER: LazyLock<io::Result<Poller>> = LazyLock::new(|| {
    let poll = Poll::new()?;
    let registry = poll.registry().try_clone()?;
    let waker = Waker::new(&registry, WAKER)?;
    let events = Mutex::new((poll, Events::with_capacity(EVENTS)));
    let table = InterruptMutex::new(Table { all: Vec::new(), free: Vec::new() });
    Ok(Poller { registry, waker, events, table })
});

impl Poller {
    fn get() -> Result<&'static Self, NetError> {
        let poller = POLLER.as_ref().map_err(|_| NetError::OutOfResources)?;
        native::set_netpoll(poller);
        Ok(poller)
    }
}

impl native::Netpoll for Poller {
    fn wait(&self, limit: Option<Duration>) {
        let Ok(mut events) = self.events.try_lock() else { return };
        let (poll, events) = &mut *events;
        // `mio` would round the limit up to milliseconds, so it gets only the whole milliseconds. A limit below one
        // millisecond is waited for here. The rest of a longer limit is left to the next wait, which comes soon.
        let whole = limit
            .map(|limit| Duration::from_secs(limit.as_secs()) + Duration::from_millis(limit.subsec_millis().into()));
        if let (Some(limit), Some(Duration::ZERO)) = (limit, whole)
            && let Ok(limit) = Timespec::try_from(limit)
        {
            let _ = rustix::event::poll(&mut [PollFd::new(&self.registry, PollFlags::IN)], Some(&limit));
        }
        // The call fails only if a signal handler has interrupted it.
        let _ = poll.poll(events, whole);
    }

    fn announce(&self) {
        let Ok(events) = self.events.try_lock() else { return };
        for event in &events.1 {
            let Some(waits) = self.table.lock().all.get(event.token().0).copied() else { continue };
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                waits.read.announce(Way::Read);
            }
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                waits.write.announce(Way::Write);
            }
        }
    }

    fn wake(&self) {
        // The call writes a number, for which there is always room.
        let _ = self.waker.wake();
    }
}

/// A socket that the poller watches.
pub(super) struct Watched<S: Source> {
    /// Selects refer to the socket, too, until this value is dropped.
    socket: Arc<S>,
    waits: &'static Waits,
}

impl<S: Source + AsFd + Send + Sync + 'static> Watched<S> {
    pub(super) fn new(mut socket: S) -> Result<Self, NetError> {
        let poller = Poller::get()?;
        let mut table = poller.table.lock();
        let waits = table.free.pop().unwrap_or_else(|| {
            let token = Token(table.all.len());
            let waits = &*Box::leak(Box::new(Waits { token, read: Direction::new(), write: Direction::new() }));
            table.all.push(waits);
            waits
        });
        drop(table);
        let watched = poller.registry.register(&mut socket, waits.token, Interest::READABLE | Interest::WRITABLE);
        if let Err(error) = watched {
            poller.table.lock().free.push(waits);
            return Err(super::error(&error));
        }
        Ok(Self { socket: Arc::new(socket), waits })
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
        let direction = self.direction(way);
        // This value is made and dropped without the lock of `select`, because `expect_wakes` takes a lock that a
        // preempted G may hold.
        let mut expected = (!direction.is_selected.load(Ordering::Relaxed)).then(expect_wakes);
        let mut selects = direction.select.lock();
        if selects.expected.is_none() {
            selects.expected = expected.take();
        }
        if selects.socket.is_none() {
            selects.socket = Some(self.socket.clone());
        }
        direction.is_selected.store(true, Ordering::Relaxed);
        // Ordering: partner: the fence in `Direction::is_selected`.
        fence(Ordering::SeqCst);
        selects.readiness.receiver(WokenBy::Device, || is_ready(&*self.socket, way))
    }

    /// If a further call need not wait, either, announces that to a G that selects. If several datagrams or connections
    /// have arrived, the poller has announced them only once, perhaps to another G.
    fn announce_rest(&self, way: Way) {
        let direction = self.direction(way);
        if direction.is_selected() {
            direction.select.lock().announce(way);
        }
    }

    fn direction(&self, way: Way) -> &'static Direction {
        if way == Way::Read { &self.waits.read } else { &self.waits.write }
    }
}

impl<S: Source> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Ok(poller) = Poller::get() {
            for direction in [&self.waits.read, &self.waits.write] {
                direction.is_selected.store(false, Ordering::Relaxed);
                let last = mem::replace(&mut *direction.select.lock(), Selects::new());
                drop(last);
            }
            // The socket was registered, no select refers to it any more, and it is closed after this.
            if let Some(socket) = Arc::get_mut(&mut self.socket) {
                let _ = poller.registry.deregister(socket);
            }
            poller.table.lock().free.push(self.waits);
        }
    }
}
