//! The events of a trace; see [`crate::trace`].

use alloc::vec::Vec;

use crate::base::id::GoroutineId;
use crate::base::instant::Instant;

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The kind of an event. Unless stated otherwise, the event happened to its G, on the [`Track`] whose ring
        /// contains the event. The numbers of the kinds are stable; new kinds are added at the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            /// All kinds. The position of a kind is its number.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

event_kinds! {
    /// The G was spawned; the detail is the number of its creator, or 0 if it has none. Go: `GoCreate`.
    Spawn,
    /// The G became runnable; the detail is the number of the G that readied it, or 0 if no G did. Go: `GoUnblock`.
    Ready,
    /// The G runs from now on. If another G ran before, that G has left the P. The detail is how long the G was
    /// runnable, in nanoseconds. Go: `GoStart`.
    Start,
    /// The G yields; a [`Start`](Self::Start) follows, perhaps of the same G. Go: `GoStop`.
    Yield,
    /// The G was preempted; the detail is a [`PreemptReason`]. Go: `GoStop`.
    Preempt,
    /// The G parks; the detail is its [`WaitReason`](crate::entities::goroutine::WaitReason) as a number. Go:
    /// `GoBlock`.
    Park,
    /// The G has ended. Go: `GoDestroy`.
    End,
    /// The G enters a system call. Go: `GoSyscallBegin`.
    SyscallEnter,
    /// The G returns from a system call and continues on this P; the detail is the number of its M. Go:
    /// `GoSyscallEnd`.
    SyscallExit,
    /// The G enters a [blocking call](crate::engine::syscall::blocking), and the P is handed off. Go: `ProcSteal`.
    HandOff,
    /// sysmon, or a change of the number of Ps, retakes the P from a G in a system call. The event has no G. Go:
    /// `ProcSteal`.
    Retake,
    /// The P stole Gs from another P. The event's G runs next if the P had nothing else to run; otherwise that G goes
    /// to the tail of the ring. The lower 32 bits of the detail are the number of the other P, and the higher bits are
    /// how many Gs were stolen.
    Steal,
    /// The P becomes idle, because there is nothing to run. The event has no G. Go: `ProcStop`.
    Idle,
    /// An M holds the P again; the detail is the number of the M. The event has no G. Go: `ProcStart`.
    Busy,
    /// The M of the P begins to search the other Ps for work. The event has no G.
    Spin,
    /// The P is stopped together with the world. If its G was in a system call, this event comes when the call ends,
    /// and only if the world is still stopped then. The event has no G. Go: `ProcStop`.
    Stop,
    /// The G has stopped the world: no other G runs. Go: `STWBegin`.
    WorldStop,
    /// The G lets the world run again. Go: `STWEnd`.
    WorldStart,
    /// A timer is due; the detail is the number of the P that has the timer. If the next event on this track is a
    /// [`Ready`](Self::Ready), this timer readied the G. The event has no G.
    Timer,
    /// The device for which the G waits is ready. The next event of the G is its [`Ready`](Self::Ready), on the same
    /// track.
    Device,
    /// The G is put on the global run queue or, if it is locked, on the list of locked Gs.
    GlobalPut,
    /// The P takes Gs from the global run queue, or takes one locked G. The event's G runs next. The detail is how many
    /// Gs were taken.
    GlobalTake,
    /// Half of the ring of the P was moved to the global run queue, because the ring was full. The detail is how many
    /// Gs were moved. The event has no G.
    Overflow,
    /// The function that the G executes; the detail is the number of the text that names the function. Follows the
    /// [`Spawn`](Self::Spawn).
    Function,
    /// Up to seven bytes of the name of the G. If the name is longer, events with the other bytes follow.
    Name,
    /// The G begins a [span](crate::trace::span()); the detail is the number of the text that names the span.
    SpanBegin,
    /// The G ends a [span](crate::trace::span()); the detail is the number of the text that names the span.
    SpanEnd,
    /// The G calls [`mark`](crate::trace::mark); the detail is the number of the text that names the mark.
    Mark,
    /// Defines the text whose number is the detail. Events with the bytes of the text follow. The event has no G.
    TextBegin,
    /// Up to seven bytes of the text. The first byte is the lowest byte of the detail, and unused bytes are 0. The
    /// event has no G.
    TextBytes,
    /// The G returns from a system call and finds no P. It becomes runnable and goes to the global run queue, unless a
    /// [`UrgentPut`](Self::UrgentPut) follows. The detail is the number of the M of the call. Go:
    /// `GoSyscallEndBlocked`.
    SyscallReturn,
    /// The G switches to another G of its coroutine, which runs from now on; the detail is the number of that G. If
    /// the other G parked before the trace began, this event is missing. Go: `GoSwitch`.
    Switch,
    /// The CPU begins to run the thread of an M; the detail is the number of the M. The event has no G.
    RunMachine,
    /// The CPU begins to run a thread that is not an M, such as that of sysmon. The event has no G.
    RunThread,
    /// The CPU has no thread to run, and halts. The event has no G.
    Halt,
    /// The CPU takes an interrupt; the detail is the number of the text that names the interrupt. The event has no G.
    Interrupt,
    /// The handler of the interrupt returns. The event has no G.
    InterruptEnd,
    /// The CPU's interrupt handler raises the [signal](crate::device_signals) for which the G waits. A
    /// [`Device`](Self::Device) follows when an M delivers the signal.
    Raise,
    /// The simulator has found that the last step of the CPU violated a rule; the detail is the number of the text that
    /// states the rule. This is the last event of the trace.
    Violation,
    /// The call stack of the last [`Park`](Self::Park), [`Unlock`](Self::Unlock) or [`Interrupt`](Self::Interrupt)
    /// before this event: the calls that led to the park, those that led to the unlock, or those of the interrupted
    /// code. The detail is the number of the call stack. Only a [profile](crate::trace#profiles) contains this event.
    CallStack,
    /// Defines the call stack whose number is the detail. Events with its frames follow. The event has no G.
    CallStackBegin,
    /// One frame of the call stack, innermost first. The detail is the lower 56 bits of an address within the code:
    /// that of the interrupted instruction, or a return address minus one. The event has no G.
    CallStackFrame,
    /// The G, which parks, waits for the lock whose address is the detail. Follows the [`Park`](Self::Park). Only a
    /// [profile](crate::trace#profiles) contains this event.
    LockWait,
    /// The G has become runnable because the lock that it waited for was unlocked; the detail is the address of the
    /// lock. Follows the [`Ready`](Self::Ready). If no [`CallStack`](Self::CallStack) follows, the unlock was a part of
    /// the last park on this track, as in a wait for a condition variable. Only a [profile](crate::trace#profiles)
    /// contains this event.
    Unlock,
    /// The G goes to the tail of the P's ring. It was in `runnext`, but does not run next after all, for example because
    /// the slice that it would inherit is over. Or it has just been stolen while the ring had nothing else.
    Kick,
    /// The G is locked to its M from now on; the detail is the number of the M. A trace that begins later contains this
    /// event, too, on the track of callers without a P.
    LockThread,
    /// The G is no longer locked to an M.
    UnlockThread,
    /// The P goes out of use, because the number of Ps is lowered. Its Gs went to the head of the global run queue:
    /// first those that a [policy](crate::policy) placed, then those of the urgent queue, then that in `runnext`, then
    /// those of the ring. The event has no G.
    Retire,
    /// The G goes to the tail of the urgent queue of a P; the detail is the number of that P.
    UrgentPut,
}

/// Where an event happened. The events of each track are in a ring of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// On an M without a P, or on a thread that is not an M. All such Ms and threads share one track.
    Outside,
    /// On the CPU with this number. Only the kernel and the simulator have these tracks.
    Cpu(u32),
    /// On the P with this number.
    Processor(u32),
}

impl Track {
    pub(crate) fn to_word(self) -> u64 {
        match self {
            Self::Processor(number) => number.into(),
            Self::Cpu(number) => 1 << 32 | u64::from(number),
            Self::Outside => 2 << 32,
        }
    }

    /// Converts a word of the [memory layout](crate::trace::memory) to a track. Returns `None` if no track has this
    /// word.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        let number = word as u32;
        match word >> 32 {
            0 => Some(Self::Processor(number)),
            1 => Some(Self::Cpu(number)),
            2 => Some(Self::Outside),
            _ => None,
        }
    }
}

/// The events of one track, and how many events of the track were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackTrace {
    /// Where the events happened.
    pub track: Track,
    /// The events that have not been overwritten, oldest first.
    pub events: Vec<Event>,
    /// How many older events were overwritten since the trace was started.
    pub lost: u64,
}

/// Why a G was preempted: the detail of [`EventKind::Preempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PreemptReason {
    /// The slice of the preempted G is over.
    Slice,
    /// The world is to stop.
    WorldStop,
    /// An urgent G displaces the preempted G: its timer is due, its device is ready, or its blocking call has ended.
    Urgent,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time at which the event happened.
    pub when: Instant,
    /// What happened.
    pub kind: EventKind,
    /// The G that the event concerns, if any.
    pub goroutine: Option<GoroutineId>,
    /// More about the event; see [`EventKind`]. 56 bits are recorded.
    pub detail: u64,
}

/// The number of words of an event in memory.
pub(crate) const WORDS: usize = 3;
/// The number of bits below the kind in the word that contains the kind and the detail. The kind is the highest byte.
const KIND_SHIFT: u32 = 56;
/// How many bytes of a text are in the detail of one event.
pub(crate) const TEXT_BYTES: usize = KIND_SHIFT as usize / 8;

/// The bits of a word that contain the detail.
pub(crate) const DETAIL: u64 = (1 << KIND_SHIFT) - 1;

impl Event {
    /// The number of bytes of a [stored](Self::to_bytes) event.
    pub const BYTES: usize = WORDS * 8;

    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let goroutine = self.goroutine.map_or(0, GoroutineId::get);
        [self.when.as_nanos(), goroutine, (self.kind as u64) << KIND_SHIFT | self.detail & DETAIL]
    }

    pub(crate) fn from_words(words: [u64; WORDS]) -> Option<Self> {
        Some(Self {
            when: Instant::from_nanos(words[0]),
            kind: *EventKind::ALL.get((words[2] >> KIND_SHIFT) as usize)?,
            goroutine: (words[1] != 0).then_some(GoroutineId(words[1])),
            detail: words[2] & DETAIL,
        })
    }

    /// Converts the event to its stable binary form: three little-endian words of 64 bits. The first word is the time
    /// in nanoseconds and the second is the number of the G, or 0. The highest byte of the third word is the number of
    /// the kind, and the rest is the detail.
    ///
    /// ```
    /// use gmp_sched::goroutine::GoroutineId;
    /// use gmp_sched::time::Instant;
    /// use gmp_sched::trace::{Event, EventKind};
    ///
    /// let event = Event {
    ///     when: Instant::from_nanos(258),
    ///     kind: EventKind::Start,
    ///     goroutine: Some(GoroutineId::MAIN),
    ///     detail: 7,
    /// };
    /// let bytes = event.to_bytes();
    /// assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 2]);
    /// assert_eq!(Event::from_bytes(bytes), Some(event));
    /// ```
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.to_words()) {
            *part = word.to_le_bytes();
        }
        bytes
    }

    /// Converts [stored](Self::to_bytes) bytes back to the event. Returns `None` if the kind is unknown. See
    /// [`to_bytes`](Self::to_bytes) for an example.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let mut words = [0; WORDS];
        for (word, part) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*part);
        }
        Self::from_words(words)
    }
}
