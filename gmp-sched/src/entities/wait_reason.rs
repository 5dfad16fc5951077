//! Why Gs wait, as lists of Gs show it.

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
            /// What each of [`ALL`](Self::ALL) is called.
            pub(crate) const WORDS: &[&str] = &[$($words,)*];
        }
    };
}

wait_reasons! {
    /// It does not wait.
    None = "",
    /// For another G to finish.
    Join = "join",
    /// The same, in a bubble: for another G of it.
    JoinDurable = "join (durable)",
    /// For a point in time.
    Sleep = "sleep",
    /// For a device.
    IoWait = "IO wait",
    /// For a value to receive.
    ChanReceive = "chan receive",
    /// For somebody to take a value.
    ChanSend = "chan send",
    /// For a value to receive, in a bubble, from a channel of that. Go: `waitReasonSynctestChanReceive`.
    ChanReceiveDurable = "chan receive (durable)",
    /// For somebody to take a value, in a bubble, from a channel of that. Go: `waitReasonSynctestChanSend`.
    ChanSendDurable = "chan send (durable)",
    /// For a value of a channel that never has one.
    ChanReceiveNil = "chan receive (nil chan)",
    /// For somebody to take a value from a channel of which nobody ever does.
    ChanSendNil = "chan send (nil chan)",
    /// For one of several channels.
    Select = "select",
    /// For one of several channels, in a bubble, all of which are of that. Go: `waitReasonSynctestSelect`.
    SelectDurable = "select (durable)",
    /// For nothing at all, forever.
    SelectNoCases = "select (no cases)",
    /// For a semaphore.
    SemAcquire = "semacquire",
    /// For a mutex.
    MutexLock = "sync.Mutex.Lock",
    /// For the writers of a reader-writer lock to leave.
    RwLockRead = "sync.RWMutex.RLock",
    /// For the readers and the writer of a reader-writer lock to leave.
    RwLockWrite = "sync.RWMutex.Lock",
    /// For a condition to be signalled.
    CondvarWait = "sync.Cond.Wait",
    /// For a group of Gs to finish.
    WaitGroupWait = "sync.WaitGroup.Wait",
    /// For a group of Gs to finish, in a bubble, which is that of the group. Go: `waitReasonSynctestWaitGroupWait`.
    WaitGroupWaitDurable = "sync.WaitGroup.Wait (durable)",
    /// For somebody else to finish what is done once.
    Once = "sync.Once",
    /// The same, in a bubble: for another G of it.
    OnceDurable = "sync.Once (durable)",
    /// For the others at a barrier.
    Barrier = "barrier",
    /// For the children of a scope.
    Scope = "scope",
    /// For the other side of a coroutine.
    Coroutine = "coroutine",
    /// The same, in a bubble: for one of that. Go has one reason for both.
    CoroutineDurable = "coroutine (durable)",
    /// For a context to be done.
    Context = "context",
    /// For a future.
    Future = "future",
    /// For all Gs of a bubble to block. Go: `testing/synctest`.
    SynctestWait = "synctest.Wait",
    /// For all Gs of a bubble to finish. Go: `testing/synctest`.
    SynctestRun = "synctest.Run",
    /// For the world to stop, or for whoever has stopped it.
    StoppingTheWorld = "stopping the world",
    /// Parked by a program for reasons of its own.
    Parked = "parked",
}

impl WaitReason {
    /// Whether a G of a bubble that waits for this counts as one that only the bubble can wake. Go: `isIdleInSynctest`.
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

    /// The reason of the same wait if only the bubble of the G that waits can end it.
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

/// What a park waits for. Lists of Gs show the reason. For a G in a bubble it matters also where the wait is, that is, whether
/// only Gs and timers of that bubble can end it; this is asked of no other G.
pub(crate) struct WaitFor<'a> {
    reason: WaitReason,
    is_within_bubble: &'a dyn Fn() -> bool,
}

impl<'a> WaitFor<'a> {
    /// A wait for what may be of the G's bubble or not.
    #[inline(always)]
    pub(crate) fn new(reason: WaitReason, is_within_bubble: &'a dyn Fn() -> bool) -> Self {
        Self { reason, is_within_bubble }
    }

    #[inline(always)]
    pub(crate) fn reason(&self) -> WaitReason {
        self.reason
    }

    /// The reason of a G in a bubble.
    #[cold]
    pub(crate) fn reason_in_bubble(&self) -> WaitReason {
        if (self.is_within_bubble)() { self.reason.within_bubble() } else { self.reason }
    }
}

impl From<WaitReason> for WaitFor<'_> {
    /// A wait for what is of no bubble, or whose reason alone says whether the wait is durable.
    #[inline(always)]
    fn from(reason: WaitReason) -> Self {
        Self { reason, is_within_bubble: &|| false }
    }
}
