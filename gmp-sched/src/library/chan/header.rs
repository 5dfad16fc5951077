//! The part of a channel that does not depend on the type of its values: lock, wait queues, length.
//!
//! Because the header has the same type for all channels, a select can check, lock and queue on any channels with the
//! same code.

use core::ptr;

#[cfg(gmp_loom)]
use super::loom_lock::BlockingLock as RawLock;
#[cfg(not(gmp_loom))]
use super::spinning::SpinningLock as RawLock;
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::base::points::Site;
use crate::base::reference::AtomicRef;
use crate::entities::bubble::BubbleRef;
use crate::entities::goroutine::WaitReason;
#[cfg(doc)]
use crate::entities::timers::Fire;
use crate::entities::timers::FireTarget;
use crate::entities::wait_reason::Awaited;
use crate::entities::waiter::Waiter;
use crate::library::waiter::{WaitQueue, Woken};
use crate::platform::{Pinned, Platform};

/// The header of a channel. Go: the part of `hchan` before its buffer.
///
/// All fields may be read without the lock, as a hint. Mutable fields are written under the lock.
#[derive(Debug)]
pub(crate) struct Header<Plat: Platform> {
    lock: RawLock<Plat>,
    /// The wait reasons of senders and of receivers.
    wait_reasons: [WaitReason; 2],
    pub(super) capacity: usize,
    /// The number of values in the buffer and the bits [`RESTRICTED`], [`CLOSED`] and [`DORMANT`]. They are in one word,
    /// so that an operation checks all of them by one load.
    word: AtomicUsize,
    /// Gs that wait for a receiver. Go: `sendq`.
    pub(super) senders: WaitQueue<Plat>,
    /// Gs that wait for a sender. Go: `recvq`.
    pub(super) receivers: WaitQueue<Plat>,
    /// The bubble in which the channel was made, if any.
    bubble: BubbleRef<Plat>,
    /// The timer whose ticks are received from this channel, if there is one. Once set, it never changes.
    timer: AtomicRef<FireTarget<Plat>>,
    /// See [`Platform::channel_number`].
    number: u32,
}

/// Set if the channel is closed, was made in a bubble, or belongs to a dormant timer. Gs outside of that bubble must
/// not use the channel.
const RESTRICTED: usize = 1 << (usize::BITS - 1);
/// Set if the channel is closed, so that nothing can be sent any more. Never reset; set only together with
/// [`RESTRICTED`].
const CLOSED: usize = RESTRICTED >> 1;
/// Set while the channel's timer is dormant, that is, set but not among the timers of a P. Then no G waits for the
/// channel, and a receive must [settle](Fire::settle) the timer first. To the checks without the lock the channel seems
/// to be ready. Changed only together with [`RESTRICTED`].
const DORMANT: usize = CLOSED >> 1;
/// The mask of the bits below [`DORMANT`]. These bits are the number of values in the buffer.
const LENGTH: usize = DORMANT - 1;

/// The value of [`Header::word`].
#[derive(Clone, Copy)]
pub(super) struct Word(usize);

impl Word {
    /// Whether the buffer is empty, and the channel is open, in no bubble, and not that of a dormant timer.
    #[inline(always)]
    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the channel is closed, was made in a bubble, or belongs to a dormant timer.
    #[inline(always)]
    pub(super) fn is_restricted(self) -> bool {
        self.0 & RESTRICTED != 0
    }

    /// Whether the channel belongs to a dormant timer.
    pub(super) fn is_dormant(self) -> bool {
        self.0 & DORMANT != 0
    }

    /// Number of values in the buffer of a channel that is not [restricted](Self::is_restricted).
    #[inline(always)]
    pub(super) fn plain_length(self) -> usize {
        debug_assert!(!self.is_restricted(), "there is more than a length in it");
        self.0
    }

    /// Number of values in the buffer.
    #[inline(always)]
    pub(super) fn length(self) -> usize {
        self.0 & LENGTH
    }

    /// Number of values in the buffer, or a negative number if the channel is closed. A negative number is neither zero
    /// nor as large as the capacity, so `may_receive` and `may_send` return true for a closed channel.
    #[inline(always)]
    fn level(self) -> isize {
        (self.0 << 1).cast_signed() >> 1
    }
}

/// What the panic message calls a send to a channel of another bubble.
pub(super) const SEND_ON: &str = "send on";
/// What the panic message calls a receive from a channel of another bubble.
pub(super) const RECEIVE_ON: &str = "receive on";

/// The two operations on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
}

impl<Plat: Platform> Header<Plat> {
    /// Maximum capacity. The length bits cannot count more values.
    pub(super) const CAPACITY_LIMIT: usize = LENGTH;

    /// Makes a channel on which nothing ever becomes ready. Go: a nil channel.
    pub(crate) fn never() -> Self {
        let wait_reasons = [WaitReason::ChanSendNil, WaitReason::ChanReceiveNil];
        Self { wait_reasons, ..Self::new(0, BubbleRef::none()) }
    }

    /// Whether the channel was made by [`never`](Self::never).
    pub(super) fn is_never(&self) -> bool {
        self.wait_reasons[0] == WaitReason::ChanSendNil
    }

    /// Makes an open channel that belongs to `bubble`.
    pub(crate) fn new(capacity: usize, bubble: BubbleRef<Plat>) -> Self {
        Self {
            lock: RawLock::new(),
            wait_reasons: [WaitReason::ChanSend, WaitReason::ChanReceive],
            capacity,
            word: AtomicUsize::new(if bubble.is_some() { RESTRICTED } else { 0 }),
            senders: WaitQueue::new(),
            receivers: WaitQueue::new(),
            timer: AtomicRef::none(),
            number: Plat::channel_number(),
            bubble,
        }
    }

    /// Makes this the channel of the ticks of `timer`.
    pub(crate) fn set_timer(&self, timer: &'static FireTarget<Plat>) {
        self.timer.store(Some(timer), Ordering::Relaxed);
    }

    /// Settles the dormant timer of this channel, whose lock is held. Returns the current word.
    pub(super) fn settle_timer(&self) -> Word {
        if let Some(timer) = self.timer.load(Ordering::Relaxed) {
            timer.0.settle();
        }
        self.word()
    }

    /// The place of the channel in the order in which a G locks several channels.
    #[inline(always)]
    pub(crate) fn place_in_order(&self) -> (u32, usize) {
        (self.number, ptr::from_ref(self).addr())
    }

    /// Takes the lock. The caller holds no channel locks, or only locks of channels at lower
    /// [places](Self::place_in_order). The caller stays pinned until it releases the lock.
    #[inline(always)]
    pub(crate) fn lock(&self, _pinned: &Pinned<Plat>) -> Held<'_, Plat> {
        self.lock.lock();
        Held { header: self }
    }

    /// Takes the lock if it is free. The caller may hold any other channel locks, because this function never waits.
    #[inline(always)]
    pub(crate) fn try_lock(&self, _pinned: &Pinned<Plat>) -> Option<Held<'_, Plat>> {
        self.lock.try_lock().then(|| Held { header: self })
    }

    /// Returns the guard again for a caller that has taken the lock and forgotten the guard.
    #[inline(always)]
    pub(crate) fn assume_locked(&self) -> Held<'_, Plat> {
        Held { header: self }
    }

    /// Whether the channel is closed. A closed channel stays closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `close`. Makes visible what happened before the close.
        self.word().0 & CLOSED != 0
    }

    /// Whether the channel is closed, or was made in a bubble that the calling G is not in. In both cases the G cannot
    /// send, and can receive only a value that is in the buffer or that a waiting sender has. Called only if the word
    /// is [restricted](Word::is_restricted).
    #[cold]
    #[inline(never)]
    pub(super) fn refuses(&self) -> bool {
        self.is_closed() || self.bubble.is_foreign()
    }

    /// Called without locks after the channel has [refused](Self::refuses) the calling G. Panics if the reason was that
    /// the G is outside of the channel's bubble; returns if the channel is closed.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn check_closed(&self, what: &str) {
        if !self.is_closed() {
            self.check_bubble(what);
        }
    }

    /// Panics if the channel was made in a bubble and the calling G is not in it.
    #[track_caller]
    pub(super) fn check_bubble(&self, what: &str) {
        assert!(!self.bubble.is_foreign(), "{what} synctest channel from outside bubble");
    }

    #[inline(always)]
    pub(super) fn word(&self) -> Word {
        // Ordering: Acquire, so that a load without the lock makes visible what happened before the store. Partners:
        // the Release in `change_len`, `set_dormant` and `close`.
        Word(self.word.load(Ordering::Acquire))
    }

    /// Loads the word without the lock. The caller has loaded another field just before, so a simulator may run another
    /// CPU between the two loads.
    #[inline(always)]
    fn word_by_now(&self) -> Word {
        Plat::point(Site::Channel);
        self.word()
    }

    /// Number of values in the buffer.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.word().length()
    }

    /// Whether a receive would return at once, unless another G performs an operation first. Takes no lock.
    #[inline(always)]
    fn may_receive(&self) -> bool {
        // The bitwise `|` avoids a branch. The order of the two loads matters; see `looks_ready`.
        !self.senders.is_empty() | (self.word_by_now().level() != 0)
    }

    /// Whether a send would return at once, unless another G performs an operation first. Takes no lock.
    #[inline(always)]
    fn may_send(&self) -> bool {
        !self.receivers.is_empty() | (self.word_by_now().level() < self.capacity.cast_signed())
    }

    /// Whether an operation of `side` would return at once, unless another G performs an operation first. Also true for
    /// a receive from a dormant timer, which only the receive itself can check. Takes no lock.
    ///
    /// If this returns false, there was a moment during the call at which the operation would have had to wait. On an
    /// unbuffered channel, that moment is when the queue was found empty. The channel was open then, because it was
    /// still open when the word was loaded afterwards. On a buffered channel, that moment is when the word was
    /// loaded, because no receiver waits while the buffer has a value, and no sender waits while the buffer has room.
    /// Go: the fast paths of `chanrecv` and `chansend`.
    #[inline]
    pub(crate) fn looks_ready(&self, side: Side) -> bool {
        match side {
            Side::Send => self.may_send(),
            Side::Receive => self.may_receive(),
        }
    }

    /// A cheaper version of [`looks_ready`](Self::looks_ready), for a caller that checks again under the lock. On a
    /// channel in a bubble it may return true for a receive although nothing is ready.
    #[inline(always)]
    pub(crate) fn may_be_ready(&self, side: Side) -> bool {
        match side {
            Side::Send => self.may_send(),
            Side::Receive => !self.senders.is_empty() | !self.word_by_now().is_zero(),
        }
    }

    /// The wait reason of a G that waits on `side`.
    #[inline(always)]
    pub(crate) fn wait_reason(&self, side: Side) -> WaitReason {
        self.wait_reasons[side as usize]
    }

    /// The waiters of `side`.
    #[inline]
    pub(crate) fn queue(&self, side: Side) -> &WaitQueue<Plat> {
        match side {
            Side::Send => &self.senders,
            Side::Receive => &self.receivers,
        }
    }
}

impl<Plat: Platform> Awaited for Header<Plat> {
    /// Whether the channel is in the calling G's bubble. Called only if the G may use the channel. If such a channel is
    /// in a bubble, that bubble is the G's. So it is enough to check whether the channel is in a bubble.
    fn is_of_current_bubble(&self) -> bool {
        // The channel of a timer belongs to no bubble, because the channel is reused by later timers. The timer itself
        // checks which Gs may use it.
        self.timer.load(Ordering::Relaxed).map_or(self.bubble.is_some(), |timer| timer.0.is_in_bubble())
    }
}

/// A guard that holds the lock of a channel. Dropping it releases the lock.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held<'a, Plat: Platform> {
    header: &'a Header<Plat>,
}

impl<Plat: Platform> Held<'_, Plat> {
    /// Whether this guard holds the lock of `header`.
    #[inline(always)]
    pub(super) fn is_of(&self, header: &Header<Plat>) -> bool {
        ptr::eq(self.header, header)
    }

    /// Changes the length by `change`.
    #[inline(always)]
    pub(super) fn change_len(&self, change: isize) {
        let before = self.header.word.load(Ordering::Relaxed);
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(before.wrapping_add_signed(change), Ordering::Release);
    }

    /// Sets whether the timer of this channel is dormant. Called only for the channel of a timer, which is never
    /// closed.
    pub(crate) fn set_dormant(&self, is_dormant: bool) {
        let length = self.header.len();
        let bits = if is_dormant { RESTRICTED | DORMANT } else { 0 };
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(length | bits, Ordering::Release);
    }

    /// Closes the channel and ends all waits. Returns the senders and receivers that waited, which the caller must
    /// ready. Returns `None` if the channel was closed already.
    #[inline(always)]
    pub(crate) fn close(&self) -> Option<[Woken<Plat>; 2]> {
        // ANCHOR: close
        if self.header.is_closed() {
            return None;
        }
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(self.header.word().0 | RESTRICTED | CLOSED, Ordering::Release);
        Some([self.header.senders.take_all(), self.header.receivers.take_all()])
        // ANCHOR_END: close
    }

    /// Removes `waiter` from the queue of `side`; returns whether it was still queued.
    pub(crate) fn remove(&self, side: Side, waiter: &'static Waiter<Plat>) -> bool {
        self.header.queue(side).remove(waiter)
    }
}

impl<Plat: Platform> Drop for Held<'_, Plat> {
    #[inline(always)]
    fn drop(&mut self) {
        // Not checked under loom: a model explores the orders of all loads, so the loads of this check would multiply
        // the number of its runs.
        if cfg!(all(debug_assertions, not(gmp_loom))) {
            self.header.assert_invariants();
        }
        self.header.lock.unlock();
    }
}
