//! Why Gs wait, for reports.

use core::fmt;

macro_rules! wait_reasons {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// Why a G waits, in Go's words where Go has them. Go: `waitReason`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum WaitReason {
            $($(#[$doc])* $name,)*
        }

        impl WaitReason {
            const ALL: &[Self] = &[$(Self::$name,)*];
            /// The text of each of [`ALL`](Self::ALL).
            pub(crate) const WORDS: &[&str] = &[$($words,)*];
        }
    };
}

wait_reasons! {
    /// The G does not wait.
    None = "",
    /// Another G has to finish.
    Join = "join",
    /// Another G of the same bubble has to finish.
    JoinDurable = "join (durable)",
    /// A point in time.
    Sleep = "sleep",
    /// A device.
    IoWait = "IO wait",
    /// A value to receive from a channel.
    ChanReceive = "chan receive",
    /// A receiver for a value to send.
    ChanSend = "chan send",
    /// A value to receive from a channel of the same bubble. Go: `waitReasonSynctestChanReceive`.
    ChanReceiveDurable = "chan receive (durable)",
    /// A receiver for a value to send to a channel of the same bubble. Go: `waitReasonSynctestChanSend`.
    ChanSendDurable = "chan send (durable)",
    /// A value to receive from a nil channel, which never has one.
    ChanReceiveNil = "chan receive (nil chan)",
    /// A receiver for a value to send to a nil channel, which never has one.
    ChanSendNil = "chan send (nil chan)",
    /// One of several channels.
    Select = "select",
    /// One of several channels, all of the same bubble. Go: `waitReasonSynctestSelect`.
    SelectDurable = "select (durable)",
    /// A select without cases, which waits forever.
    SelectNoCases = "select (no cases)",
    /// A semaphore.
    SemAcquire = "semacquire",
    /// A mutex.
    MutexLock = "sync.Mutex.Lock",
    /// Read access to a reader-writer lock, which writers hold or wait for.
    RwLockRead = "sync.RWMutex.RLock",
    /// Write access to a reader-writer lock.
    RwLockWrite = "sync.RWMutex.Lock",
    /// A notification of a condition variable.
    CondvarWait = "sync.Cond.Wait",
    /// The end of a group of Gs.
    WaitGroupWait = "sync.WaitGroup.Wait",
    /// The end of a group of Gs of the same bubble. Go: `waitReasonSynctestWaitGroupWait`.
    WaitGroupWaitDurable = "sync.WaitGroup.Wait (durable)",
    /// Another G that runs the function of a `Once`.
    Once = "sync.Once",
    /// Another G of the same bubble that runs the function of a `Once`.
    OnceDurable = "sync.Once (durable)",
    /// The other Gs at a barrier.
    Barrier = "barrier",
    /// The children of a scope.
    Scope = "scope",
    /// The other side of a coroutine.
    Coroutine = "coroutine",
    /// The other side of a coroutine, in the same bubble. Go has one reason for both.
    CoroutineDurable = "coroutine (durable)",
    /// The end of a context.
    Context = "context",
    /// A future.
    Future = "future",
    /// All other Gs of a bubble have to block. Go: `testing/synctest`.
    SynctestWait = "synctest.Wait",
    /// All Gs of a bubble have to finish. Go: `testing/synctest`.
    SynctestRun = "synctest.Run",
    /// The world has to stop, or another G that stops it has to start it again.
    StoppingTheWorld = "stopping the world",
    /// Parked by a program, for a reason of its own.
    Parked = "parked",
}

impl WaitReason {
    /// Whether a G in a bubble that waits for this reason waits durably. Go: `isIdleInSynctest`.
    #[doc(alias = "isIdleInSynctest")]
    pub(crate) fn is_durable(self) -> bool {
        match self {
            Self::JoinDurable
            | Self::Sleep
            | Self::ChanReceiveDurable
            | Self::ChanSendDurable
            | Self::ChanReceiveNil
            | Self::ChanSendNil
            | Self::SelectDurable
            | Self::SelectNoCases
            | Self::SemAcquire
            | Self::CondvarWait
            | Self::WaitGroupWaitDurable
            | Self::OnceDurable
            | Self::Barrier
            | Self::Scope
            | Self::CoroutineDurable
            | Self::Context
            | Self::SynctestWait => true,
            Self::None
            | Self::Join
            | Self::IoWait
            | Self::ChanReceive
            | Self::ChanSend
            | Self::Select
            | Self::MutexLock
            | Self::RwLockRead
            | Self::RwLockWrite
            | Self::WaitGroupWait
            | Self::Once
            | Self::Coroutine
            | Self::Future
            | Self::SynctestRun
            | Self::StoppingTheWorld
            | Self::Parked => false,
        }
    }

    /// The reason of the same wait if only Gs and timers of the waiting G's bubble can end it.
    pub(crate) fn within_bubble(self) -> Self {
        match self {
            Self::Join => Self::JoinDurable,
            Self::ChanReceive => Self::ChanReceiveDurable,
            Self::ChanSend => Self::ChanSendDurable,
            Self::Select => Self::SelectDurable,
            Self::WaitGroupWait => Self::WaitGroupWaitDurable,
            Self::Once => Self::OnceDurable,
            Self::Coroutine => Self::CoroutineDurable,
            other => other,
        }
    }

    pub(crate) fn from_u8(value: u8) -> Self {
        Self::ALL.get(usize::from(value)).copied().unwrap_or(Self::Parked)
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

/// What a G waits for, if it may belong to a bubble.
pub(crate) trait Awaited {
    /// Whether only Gs and timers of the calling G's bubble can end the wait. Called only if the G is in a bubble.
    fn is_of_current_bubble(&self) -> bool;
}

impl<A: Awaited> Awaited for Option<&A> {
    /// Nothing belongs to no bubble.
    fn is_of_current_bubble(&self) -> bool {
        self.is_some_and(A::is_of_current_bubble)
    }
}

/// What a park waits for: the reason, which reports show, and the object, which is asked only if the G is in a bubble.
pub(crate) struct WaitFor<'a> {
    reason: WaitReason,
    on: Option<&'a dyn Awaited>,
}

impl<'a> WaitFor<'a> {
    /// A wait for an object that may belong to a bubble.
    #[inline(always)]
    pub(crate) fn new(reason: WaitReason, on: &'a dyn Awaited) -> Self {
        Self { reason, on: Some(on) }
    }

    #[inline(always)]
    pub(crate) fn reason(&self) -> WaitReason {
        self.reason
    }

    /// The reason to record for a G in a bubble.
    #[cold]
    pub(crate) fn reason_in_bubble(&self) -> WaitReason {
        if self.on.is_some_and(Awaited::is_of_current_bubble) { self.reason.within_bubble() } else { self.reason }
    }
}

impl From<WaitReason> for WaitFor<'_> {
    /// A wait for something that belongs to no bubble, or whose reason alone determines whether the wait is durable.
    #[inline(always)]
    fn from(reason: WaitReason) -> Self {
        Self { reason, on: None }
    }
}
