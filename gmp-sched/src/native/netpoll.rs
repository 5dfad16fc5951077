//! Where an idle M waits for devices of the operating system, such as sockets: at the [`Netpoll`] that the program sets.
//!
//! The first M that parks because it has nothing to run takes the *turn*, and waits at the netpoll instead of for its park
//! token alone. So the thread that an event wakes runs the G that waited for it, and no other thread is woken. The Ms that
//! park meanwhile wait for their tokens. (Go: `netpoll` in `findRunnable`.)
//!
//! When that M has left the netpoll, nobody polls until an M parks again. Usually the same M does, a moment later. But if
//! its G computes, sysmon notices within [`PATIENCE`] that nobody polls. Then sysmon lets an idle M poll, if a P is idle,
//! and otherwise polls itself. [`PollTurn`] ensures that sysmon looks.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::OnceLock;

use super::{Native, watch};
use crate::base::instant::Instant;
use crate::base::poll_turn::PollTurn;
use crate::entities::machine::Machine;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// How long nobody may poll while a G computes.
const PATIENCE: Duration = Duration::from_micros(500);

/// Waits for devices of the operating system. See [`set_netpoll`].
///
/// Only one thread at a time calls [`wait`](Self::wait) and [`announce`](Self::announce): an idle M, or sysmon, which must
/// not wait for a lock that a preempted G may hold.
pub trait Netpoll: Sync {
    /// Waits until a device is ready or `wake` is called, but no longer than `limit`. May return early. Returns at once
    /// if `wake` has been called since the last wait.
    fn wait(&self, limit: Option<Duration>);

    /// [Raises](crate::device_signals::Signal::raise) the signals of the devices that were ready in the last wait.
    fn announce(&self);

    /// Ends the wait of the thread that waits, or the next wait. Async-signal-safe.
    fn wake(&self);
}

/// The netpoll, once there is one.
static NETPOLL: OnceLock<&'static dyn Netpoll> = OnceLock::new();
/// The turn to poll.
static TURN: PollTurn = PollTurn::new();

/// Lets idle Ms of all schedulers of this process wait at `netpoll`. Only the first call in a process has an effect.
/// Callable from any thread; does not block.
pub fn set_netpoll(netpoll: &'static dyn Netpoll) {
    // If a netpoll was set before, it stays.
    let _ = NETPOLL.set(netpoll);
}

/// Parks `machine`, the calling M, which is idle, at the netpoll. Returns `false` if it cannot, because another thread
/// polls or because there is no netpoll.
pub(super) fn park(machine: &'static Machine<Native>, deadline: Option<Instant>) -> bool {
    let (Some(&netpoll), Some(thread)) = (NETPOLL.get(), machine.thread()) else { return false };
    if !TURN.take() {
        return false;
    }
    if thread.begin_to_poll() {
        netpoll.wait(deadline.map(|deadline| deadline - Native::now()));
        thread.end_poll();
        announce(netpoll, machine.scheduler());
    }
    if TURN.leave() {
        watch::wake_sysmon(machine.scheduler());
    }
    true
}

std::thread_local! {
    /// The scheduler whose raised signals the calling thread takes care of: it makes an M poll, or polls itself.
    static ANNOUNCES: Cell<Option<&'static Scheduler<Native>>> = const { Cell::new(None) };
}

/// Raises the signals of ready devices. If Gs of `scheduler` wait for some of them, the caller then polls, or makes an M
/// poll.
fn announce(netpoll: &dyn Netpoll, scheduler: &'static Scheduler<Native>) {
    ANNOUNCES.set(Some(scheduler));
    netpoll.announce();
    ANNOUNCES.set(None);
}

/// Does what [`Platform::polls_later`] says. Not inlined, because a G that raises signals may move to another thread.
#[inline(never)]
pub(super) fn polls_later(scheduler: &Scheduler<Native>) -> bool {
    ANNOUNCES.get().is_some_and(|own| ptr::eq(own, scheduler))
}

/// Ends the wait of an M that polls.
pub(super) fn wake() {
    if let Some(netpoll) = NETPOLL.get() {
        netpoll.wake();
    }
}

/// Called by the sysmon of `scheduler`. If nobody polls, lets an idle M poll, or polls if every P is busy. Returns how soon
/// sysmon must look again, if it must. `left` is what [`PollTurn::watch`] remembers.
pub(super) fn watch(scheduler: &'static Scheduler<Native>, left: &mut u32) -> Option<Duration> {
    let &netpoll = NETPOLL.get()?;
    if !TURN.watch(left) {
        return None;
    }
    if scheduler.idle_processors.load(Ordering::Relaxed) != 0 {
        if !TURN.is_taken()
            && let Some(machine) = scheduler.poller.load(Ordering::Acquire)
        {
            Native::unpark_thread(machine);
        }
    } else if TURN.take() {
        netpoll.wait(Some(Duration::ZERO));
        announce(netpoll, scheduler);
        if scheduler.signals.is_ready() {
            scheduler.wake_poller();
        }
        // The caller is sysmon, and looks again.
        TURN.leave();
    }
    Some(PATIENCE)
}
