//! Channels: pass values from one G to another. Go: `chan`.
//!
//! [`channel()`] makes a channel with a buffer of a given capacity. With capacity 0, sender and receiver wait for each
//! other. Both sides can be cloned and shared. Waiters are served in FIFO order.
//!
//! ```
//! use gmp_sched::native::{self, channel, go};
//!
//! unsafe { native::enter() }.run(2, || {
//!     let (sender, receiver) = channel(0);
//!     for n in 1..=3 {
//!         let sender = sender.clone();
//!         go(move || sender.send(n * n).unwrap()).detach();
//!     }
//!     drop(sender);
//!     assert_eq!(receiver.iter().sum::<i32>(), 14);
//! });
//! ```
//!
//! # The end of a channel
//!
//! A channel is closed by [`Sender::close`] or when its last sender is dropped. Afterwards nothing can be sent.
//! Values in the buffer can still be received; after the last of them, receives return an error. When the last
//! receiver is dropped, the channel is closed as well, and the values in the buffer are dropped. A send to a closed
//! channel returns an error, which holds the unsent value. (In Go such a send panics.)
//!
//! # What happens before what
//!
//! - A send happens before the completion of the corresponding receive.
//! - The n-th receive happens before the completion of the (n + capacity)-th send.
//! - Closing happens before a receive that reports the channel as closed.
//!
//! # Invariants
//!
//! While the lock of a channel is free:
//!
//! - At least one of the two wait queues is empty. The exception is a channel without a buffer on which one G waits in
//!   a select both to send and to receive. Both queues then contain only cases of this select, which do not match each
//!   other.
//! - If the buffer has a value, no receiver waits.
//! - If the buffer has room, no sender waits. An unbuffered channel has no buffer, so this concerns only channels with
//!   a capacity.
//! - If the channel is closed, no G waits, and no value is added to the buffer.
//!
//! In these invariants, a G whose wait has been ended still counts as waiting while its waiter is in the queue. An
//! operation removes such waiters before it concludes that no G waits on the other side.
//!
//! In debug builds, each release of the lock checks these invariants. `header` relies on the second and third
//! invariants when it checks without the lock whether an operation would have to wait. Go: the comment at the beginning
//! of `runtime/chan.go`.
//!
//! # Scheduling
//!
//! If an operation finds a G waiting on the other side, the calling G continues without a context switch. The G that
//! waited goes to `runnext` of the same P, so it usually runs next there. Making a channel allocates memory; the
//! operations on the channel do not. No function of this module may be called from an interrupt. An operation that has
//! to wait must be called by a G that is not pinned. An operation that need not wait may be called by any thread.
//!
//! Both sides may be used by Gs of different schedulers and by threads that are not Ms, because a readied G runs under
//! its own scheduler.
//!
//! # Bubbles
//!
//! A channel made in a [bubble](crate#features) belongs to the Gs of that bubble. A G outside of the bubble panics if
//! it sends to the channel, closes it, or would have to wait for it, as in Go. Two kinds of misuse are not detected,
//! because the check would slow down correct use: a G outside of the bubble can receive a value that is in the buffer
//! or that a waiting sender has, and a select outside of the bubble waits if it finds nothing ready.

#[expect(unsafe_code, reason = "moves values from one stack to another")]
mod channel;
mod error;
mod go_like;
#[expect(unsafe_code, reason = "counts the handles of a channel, and frees it")]
mod handle;
mod header;
mod invariants;
mod iter;
#[cfg(gmp_loom)]
#[expect(unsafe_code, reason = "shares a guard between loom's threads, and passes the lock on as an address")]
mod loom_lock;
mod observers;
#[expect(unsafe_code, reason = "moves values through slots that may be empty")]
mod perform;
mod receiver;
#[expect(unsafe_code, reason = "keeps values in entries that may be empty")]
mod ring;
mod sender;
mod spinning;
#[cfg(all(test, feature = "std", debug_assertions))]
mod tests;
#[expect(unsafe_code, reason = "keeps a value in a slot that may be empty")]
mod unsent;

pub(crate) use channel::{Attempt, Channel, MOVED};
pub use error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
pub use go_like::Chan;
pub(crate) use header::{Header, Held, Side};
pub use iter::{IntoIter, Iter};
pub(crate) use perform::{Unmoved, unlock_and_ready};
pub use receiver::Receiver;
pub use sender::Sender;
#[cfg(gmp_loom)]
pub(crate) use spinning::SpinningLock;

use crate::base::error::OutOfResources;
use crate::entities::bubble::BubbleRef;
use crate::platform::Platform;

/// Makes a channel with room for `capacity` values. With capacity 0, a sender waits until a receiver takes its value.
/// Go: `make(chan T, capacity)`.
///
/// ```
/// use gmp_sched::native::{self, channel};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(2);
///     sender.send("one").unwrap();
///     sender.send("two").unwrap();
///     assert_eq!((receiver.recv(), receiver.recv()), (Ok("one"), Ok("two")));
/// });
/// ```
///
/// # Panics
///
/// There is no memory for the channel, or `capacity` is at least an eighth of the range of `usize`.
#[doc(alias = "makechan")]
#[track_caller]
#[must_use]
pub fn channel<T, Plat: Platform>(capacity: usize) -> (Sender<T, Plat>, Receiver<T, Plat>) {
    match try_channel(capacity) {
        Ok(handles) => handles,
        Err(OutOfResources) => panic!("cannot make a channel for {capacity} values: too many, or no memory"),
    }
}

/// Like [`channel()`], but returns an error if there is no memory.
///
/// ```
/// use gmp_sched::chan::{Receiver, Sender, try_channel};
/// use gmp_sched::native::Native;
/// use gmp_sched::platform::OutOfResources;
///
/// let made: Result<(Sender<u64, Native>, Receiver<u64, Native>), _> = try_channel(usize::MAX / 2);
/// assert!(matches!(made, Err(OutOfResources)));
/// ```
///
/// # Errors
///
/// There is no memory for the channel, or `capacity` is at least an eighth of the range of `usize`.
#[expect(clippy::type_complexity, reason = "both sides of a channel")]
pub fn try_channel<T, Plat: Platform>(capacity: usize) -> Result<(Sender<T, Plat>, Receiver<T, Plat>), OutOfResources> {
    make(capacity, BubbleRef::current())
}

/// Like [`try_channel`], but the channel belongs to no [bubble](self#bubbles), even if the calling G is in one. It is for
/// code that readies Gs from outside of bubbles, such as a network: while a G of a bubble waits for the channel, the clock
/// of the bubble does not advance.
///
/// # Errors
///
/// In the same cases as [`try_channel`].
#[expect(clippy::type_complexity, reason = "both sides of a channel")]
pub fn try_channel_in_no_bubble<T, Plat: Platform>(
    capacity: usize,
) -> Result<(Sender<T, Plat>, Receiver<T, Plat>), OutOfResources> {
    make(capacity, BubbleRef::none())
}

#[expect(clippy::type_complexity, reason = "both sides of a channel")]
fn make<T, Plat: Platform>(
    capacity: usize,
    bubble: BubbleRef<Plat>,
) -> Result<(Sender<T, Plat>, Receiver<T, Plat>), OutOfResources> {
    let (sender, receiver) = handle::pair(capacity, bubble)?;
    Ok((Sender { handle: sender }, Receiver { handle: receiver }))
}

/// Like [`Receiver::never`], but returns an error if there is no memory.
pub(crate) fn try_never<T, Plat: Platform>() -> Result<Receiver<T, Plat>, OutOfResources> {
    Ok(Receiver { handle: handle::single()? })
}
