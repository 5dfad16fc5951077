//! What a channel is without its values: the lock, who waits, how many values there are.
//!
//! It does not depend on the type of the values, so that a select can look at, lock and queue on channels of all types
//! with the same code.

use core::mem::ManuallyDrop;
use core::ptr;

#[cfg(not(gmp_loom))]
use super::spinning::SpinningLock as RawLock;
#[cfg(gmp_loom)]
use super::stand_in::BlockingLock as RawLock;
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::engine::switch::Commit;
use crate::entities::goroutine::WaitReason;
use crate::library::waiter::{WaitQueue, Waiter, Woken};
use crate::platform::{Pinned, Platform, Site};
use crate::synctest::Home;

/// Go: the part of `hchan` in front of its buffer.
///
/// All fields may be read without the lock, as a hint; what changes is written under it.
#[derive(Debug)]
pub(crate) struct Header<P: Platform> {
    lock: RawLock<P>,
    /// Why those wait who wait to send, and those who wait to receive.
    wait_reasons: [WaitReason; 2],
    pub(super) capacity: usize,
    /// Values in the buffer, and [`SPECIAL`] and [`CLOSED`]: in one word, since most operations ask for all of it.
    word: AtomicUsize,
    /// Gs that wait for somebody to take their value. Go: `sendq`.
    pub(super) senders: WaitQueue<P>,
    /// Gs that wait for a value. Go: `recvq`.
    pub(super) receivers: WaitQueue<P>,
    /// Where it was made.
    home: Home<P>,
    /// Who waits for it in a bubble waits for that one. Changes with the timer whose channel it is, which no one waits for then.
    waits_within_bubble: AtomicBool,
}

/// It is closed, or of a bubble, and nobody outside may use it.
const SPECIAL: usize = 1 << (usize::BITS - 1);
/// Nothing can be sent any more. Stays so. Only where it is special.
const CLOSED: usize = SPECIAL >> 1;
/// The rest of the word.
const LENGTH: usize = CLOSED - 1;

/// What a channel's word says.
#[derive(Clone, Copy)]
pub(super) struct Word(usize);

impl Word {
    /// Nothing is in the buffer, and the channel is open and in no bubble.
    #[inline(always)]
    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The channel is closed, or in a bubble.
    #[inline(always)]
    pub(super) fn is_special(self) -> bool {
        self.0 & SPECIAL != 0
    }

    /// Values in the buffer, if it is not [special](Self::is_special).
    #[inline(always)]
    pub(super) fn plain_length(self) -> usize {
        debug_assert!(!self.is_special(), "there is more than a length in it");
        self.0
    }

    /// Values in the buffer.
    #[inline(always)]
    pub(super) fn length(self) -> usize {
        self.0 & LENGTH
    }

    /// Values in the buffer; below zero if the channel is closed.
    #[inline(always)]
    fn level(self) -> isize {
        (self.0 << 1).cast_signed() >> 1
    }
}

/// What is said to have been done from outside of a bubble.
pub(super) const SEND_ON: &str = "send on";
/// See [`SEND_ON`].
pub(super) const RECEIVE_ON: &str = "receive on";

/// The two things to be done with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Side {
    /// To send.
    Send,
    /// To receive.
    Receive,
}

impl<P: Platform> Header<P> {
    /// Values in a buffer at most: as many as the word can count.
    pub(super) const CAPACITY_LIMIT: usize = LENGTH;

    /// `never` says that the other side will not be there. Go: a nil channel.
    pub(crate) fn new(capacity: usize, never: bool, home: Home<P>) -> Self {
        let wait_reasons = if never {
            [WaitReason::ChanSendNil, WaitReason::ChanReceiveNil]
        } else {
            [WaitReason::ChanSend, WaitReason::ChanReceive]
        };
        Self {
            lock: RawLock::new(),
            wait_reasons,
            capacity,
            word: AtomicUsize::new(if home.is_bubble() { SPECIAL } else { 0 }),
            senders: WaitQueue::new(),
            receivers: WaitQueue::new(),
            waits_within_bubble: AtomicBool::new(home.is_bubble()),
            home,
        }
    }

    /// Takes the lock. The caller holds no other channel's, or those of lower addresses only; and stays pinned while it has
    /// it.
    #[inline(always)]
    pub(crate) fn lock(&self, _pinned: &Pinned<P>) -> Held<'_, P> {
        self.lock.lock();
        Held { header: self }
    }

    /// [`lock`](Self::lock), unless somebody has it; whatever other channels' the caller holds, for it does not wait.
    #[inline(always)]
    pub(crate) fn try_lock(&self, _pinned: &Pinned<P>) -> Option<Held<'_, P>> {
        self.lock.try_lock().then(|| Held { header: self })
    }

    /// The lock of a caller that has taken it before and forgotten it.
    #[inline(always)]
    pub(crate) fn assume_locked(&self) -> Held<'_, P> {
        Held { header: self }
    }

    /// Whether [`Channel::close`](super::channel::Channel::close) was called. It stays so.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `close`: what came before that is seen.
        self.word().0 & CLOSED != 0
    }

    /// Whether nothing can be sent, or received that is not there yet: it is closed or, for the calling G, in another bubble.
    /// Only to be asked if its word is [special](Word::is_special).
    #[cold]
    #[inline(never)]
    pub(super) fn refuses(&self) -> bool {
        self.is_closed() || self.home.is_foreign()
    }

    /// Panics if what has [refused](Self::refuses) is open: it is used from outside of its bubble. Called without locks.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn check_closed(&self, what: &str) {
        if !self.is_closed() {
            self.check_bubble(what);
        }
    }

    /// Unlocks it, and panics if it is not closed: it was used from outside of its bubble.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn refused(&self, pinned: Pinned<P>, held: Held<'_, P>, what: &str) {
        drop((held, pinned));
        self.check_closed(what);
    }

    /// Panics if the calling G is not in the channel's bubble, if it is of one.
    #[track_caller]
    pub(super) fn check_bubble(&self, what: &str) {
        assert!(!self.home.is_foreign(), "{what} synctest channel from outside bubble");
    }

    /// What its word says.
    #[inline(always)]
    pub(super) fn word(&self) -> Word {
        // Ordering: Acquire, for those who ask without the lock. Partner: the Release in `close`: what came before that is seen.
        Word(self.word.load(Ordering::Acquire))
    }

    /// [`word`](Self::word), asked after something else has been looked at without the lock.
    #[inline(always)]
    fn word_by_now(&self) -> Word {
        P::point(Site::Channel);
        self.word()
    }

    /// Values in the buffer.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.word().length()
    }

    /// Whether a receive would find something, if nobody was faster. Needs no lock.
    #[inline(always)]
    fn may_receive(&self) -> bool {
        // Without branches, in this order.
        !self.senders.is_empty() | (self.word_by_now().level() != 0)
    }

    /// Whether a send would be through at once, if nobody was faster. Needs no lock.
    #[inline(always)]
    fn may_send(&self) -> bool {
        !self.receivers.is_empty() | (self.word_by_now().level() < self.capacity.cast_signed())
    }

    /// Whether that side would get through at once, if nobody was faster. Needs no lock.
    ///
    /// If it says no there was a moment during the call at which that side would have had to wait. Without a buffer that was
    /// when it found nobody in the queue, since a channel that is open afterwards was so before. With one it was when it read
    /// the word: where there is a value nobody waits for one, and where there is room nobody waits for that. Go: the fast
    /// paths of `chanrecv` and `chansend`.
    #[inline]
    pub(crate) fn looks_ready(&self, side: Side) -> bool {
        match side {
            Side::Send => self.may_send(),
            Side::Receive => self.may_receive(),
        }
    }

    /// [`looks_ready`](Self::looks_ready) for a caller that looks more closely if it says yes: a channel in a bubble may have
    /// nothing for a receiver then.
    #[inline(always)]
    pub(crate) fn may_be_ready(&self, side: Side) -> bool {
        match side {
            Side::Send => self.may_send(),
            Side::Receive => !self.senders.is_empty() | !self.word_by_now().is_zero(),
        }
    }

    /// Why a G waits on that side.
    #[inline(always)]
    pub(super) fn wait_reason(&self, side: Side) -> WaitReason {
        self.wait_reasons[side as usize]
    }

    /// [`wait_reason`](Self::wait_reason) of a G in a bubble, which matters: whether it is the channel's.
    pub(crate) fn wait_reason_in_bubble(&self, side: Side) -> WaitReason {
        let reason = self.wait_reason(side);
        // Ordering: Relaxed: changed, for a timer's channel, before anybody has the timer.
        if self.waits_within_bubble.load(Ordering::Relaxed) { reason.within_bubble() } else { reason }
    }

    /// Says whether those who will wait for the channel of a timer wait for a bubble's clock. Who may use the channel is the
    /// timer's to know.
    pub(crate) fn set_waits_within_bubble(&self, within: bool) {
        self.waits_within_bubble.store(within, Ordering::Relaxed);
    }

    /// Who waits on that side.
    #[inline]
    pub(crate) fn queue(&self, side: Side) -> &WaitQueue<P> {
        match side {
            Side::Send => &self.senders,
            Side::Receive => &self.receivers,
        }
    }
}

/// The lock of a channel, held.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held<'a, P: Platform> {
    header: &'a Header<P>,
}

impl<P: Platform> Held<'_, P> {
    /// Whether it is the lock of that channel.
    #[inline(always)]
    pub(super) fn is_of(&self, header: &Header<P>) -> bool {
        ptr::eq(self.header, header)
    }

    /// One value more is in the buffer than `before` says, or one less.
    #[inline(always)]
    pub(super) fn set_len(&self, before: Word, change: isize) {
        // Ordering: Release; partner: `word`.
        self.header.word.store(before.0.wrapping_add_signed(change), Ordering::Release);
    }

    /// Closes the channel and ends all waits; `None` if it was closed before.
    #[inline(always)]
    pub(crate) fn close(&self) -> Option<[Woken<P>; 2]> {
        if self.header.is_closed() {
            return None;
        }
        // Ordering: Release; partner: `word`.
        self.header.word.store(self.header.word().0 | SPECIAL | CLOSED, Ordering::Release);
        Some([self.header.senders.take_all(), self.header.receivers.take_all()])
    }

    /// Unlocks on the far side of a park.
    #[inline(always)]
    pub(super) fn into_commit(self) -> Commit<P> {
        let held = ManuallyDrop::new(self);
        #[expect(unsafe_code, reason = "the channel has to be there when its lock is freed")]
        // SAFETY: it is borrowed by the G that waits, which goes on only when somebody has locked it after this.
        unsafe {
            held.header.lock.unlock_commit()
        }
    }

    /// Takes `waiter` out of the queue of that side; tells whether it still stood there.
    pub(crate) fn remove(&self, side: Side, waiter: &'static Waiter<P>) -> bool {
        self.header.queue(side).remove(waiter)
    }
}

impl<P: Platform> Drop for Held<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.header.lock.unlock();
    }
}
