//! Why Gs wait, for reports.

use core::fmt;

macro_rules! wait_reasons {
    ($($(#[$doc:meta])* $name:ident = $($durable:ident)? $words:literal,)*) => {
        /// Why a G waits, in Go's words where Go has them. Go: `waitReason`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum WaitReason {
            $($(#[$doc])* $name,)*
        }

        impl WaitReason {
            const ALL: &[Self] = &[$(Self::$name,)*];
            /// The texts of the reasons in [`ALL`](Self::ALL), in the same order.
            pub(crate) const WORDS: &[&str] = &[$($words,)*];

            /// Whether a wait for this reason is durable if the G is in a bubble. Go: `isIdleInSynctest`.
            #[doc(alias = "isIdleInSynctest")]
            pub(crate) fn is_durable(self) -> bool {
                match self {
                    $(Self::$name => wait_reasons!(@is_durable $($durable)?),)*
                }
            }
        }
    };
    (@is_durable durable) => { true };
    (@is_durable) => { false };
}

// One line per reason. A reason is marked `durable` if a wait for it is durable in a bubble.
wait_reasons! {
    /// The G does not wait.
    None = "",
    /// Waits for another G to finish.
    Join = "join",
    /// Waits for another G of the same bubble to finish.
    JoinDurable = durable "join (durable)",
    /// Waits for a point in time.
    Sleep = durable "sleep",
    /// Waits for a device.
    IoWait = "IO wait",
    /// Waits for a value from a channel.
    ChanReceive = "chan receive",
    /// Waits until a channel accepts a value.
    ChanSend = "chan send",
    /// Waits for a value from a channel of the same bubble. Go: `waitReasonSynctestChanReceive`.
    ChanReceiveDurable = durable "chan receive (durable)",
    /// Waits until a channel of the same bubble accepts a value. Go: `waitReasonSynctestChanSend`.
    ChanSendDurable = durable "chan send (durable)",
    /// Waits forever for a value from a nil channel.
    ChanReceiveNil = durable "chan receive (nil chan)",
    /// Waits forever for a nil channel to accept a value.
    ChanSendNil = durable "chan send (nil chan)",
    /// Waits for one of the cases of a select.
    Select = "select",
    /// Waits for one of the cases of a select whose channels are all of the same bubble. Go:
    /// `waitReasonSynctestSelect`.
    SelectDurable = durable "select (durable)",
    /// Waits forever in a select without cases.
    SelectNoCases = durable "select (no cases)",
    /// Waits for a semaphore.
    SemAcquire = durable "semacquire",
    /// Waits for a mutex.
    MutexLock = "sync.Mutex.Lock",
    /// Waits for read access to a reader-writer lock that a writer holds or waits for.
    RwLockRead = "sync.RWMutex.RLock",
    /// Waits for write access to a reader-writer lock.
    RwLockWrite = "sync.RWMutex.Lock",
    /// Waits for a notification of a condition variable.
    CondvarWait = durable "sync.Cond.Wait",
    /// Waits for the end of a group of Gs.
    WaitGroupWait = "sync.WaitGroup.Wait",
    /// Waits for the end of a group of Gs of the same bubble. Go: `waitReasonSynctestWaitGroupWait`.
    WaitGroupWaitDurable = durable "sync.WaitGroup.Wait (durable)",
    /// Waits until another G has run the function of a `Once`.
    Once = "sync.Once",
    /// Waits until another G of the same bubble has run the function of a `Once`.
    OnceDurable = durable "sync.Once (durable)",
    /// Waits for the other Gs at a barrier.
    Barrier = durable "barrier",
    /// Waits for the children of a scope.
    Scope = durable "scope",
    /// Waits for the other G of a coroutine.
    Coroutine = "coroutine",
    /// Waits for the other G of a coroutine, which is in the same bubble. Go uses one reason for this wait and for
    /// [`Coroutine`](Self::Coroutine).
    CoroutineDurable = durable "coroutine (durable)",
    /// Waits for the end of a context.
    Context = durable "context",
    /// Waits for a future.
    Future = "future",
    /// Waits until all other Gs of its bubble wait durably. Go: `testing/synctest`.
    SynctestWait = durable "synctest.Wait",
    /// Waits until all Gs of a bubble have finished. Go: `testing/synctest`.
    SynctestRun = "synctest.Run",
    /// Waits until another G, which stops the world, has started the world again.
    StoppingTheWorld = "stopping the world",
    /// Waits until fewer threads are blocked in system calls: see `native::set_blocking_limit`.
    BlockingLimit = "blocking limit",
    /// Waits until there is memory to give back, and a P with nothing else to do. Go: `waitReasonGCScavengeWait`.
    ScavengeWait = "GC scavenge wait",
    /// Parked by the program, for a reason that the scheduler does not know.
    Parked = "parked",
}

impl WaitReason {
    /// Returns the reason to use instead of this one if only Gs and timers of the waiting G's bubble can end the wait.
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

    /// Returns the variant with the number `value`, or [`Parked`](Self::Parked) if there is none. Traces contain these
    /// numbers.
    #[must_use]
    pub fn of_number(value: u8) -> Self {
        Self::ALL.get(usize::from(value)).copied().unwrap_or(Self::Parked)
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

/// An object that a G waits for and that may be in a bubble.
pub(crate) trait Awaited {
    /// Whether only Gs and timers of the calling G's bubble can end the wait. Called only if the calling G is in a
    /// bubble.
    fn is_of_current_bubble(&self) -> bool;
}

impl<A: Awaited> Awaited for Option<&A> {
    /// Returns `false` if there is no object.
    fn is_of_current_bubble(&self) -> bool {
        self.is_some_and(A::is_of_current_bubble)
    }
}

/// What a G that parks waits for: the reason, which reports show, and the object, which matters only if the G is in a
/// bubble.
pub(crate) struct WaitFor<'a> {
    reason: WaitReason,
    on: Option<&'a dyn Awaited>,
}

impl<'a> WaitFor<'a> {
    /// A wait for an object that may be in a bubble.
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
    /// A wait for something that is never in a bubble, or a wait whose reason alone shows whether it is durable.
    #[inline(always)]
    fn from(reason: WaitReason) -> Self {
        Self { reason, on: None }
    }
}
