//! Where the windows are: stretches of code in which a panic would break an invariant. `refinements::windows` ends the
//! program if a panic comes there, and says what would break.

/// The windows. Each of them has a row in the table of `refinements::windows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A G has the status Waiting, but has not left its M.
    Park,
    /// An M has recorded that its next G runs, but has not switched to it.
    Switch,
    /// The commit of the G that has left runs.
    Commit,
    /// A G is in the wait queue of a lock, but is not parked.
    WaitQueue,
    /// A G is in the wait queue of a channel, but is not parked.
    ChannelQueue,
    /// A G is in the wait queues of the channels of a select, but is not parked.
    SelectQueues,
    /// A G has reserved a device signal, but is not parked.
    Signal,
    /// A wait for a condition variable has unlocked the mutex, and has not locked it again.
    Relock,
    /// A waiter has been removed from its queue, and its G is not runnable.
    Wakeup,
    /// A timer has been removed from its P, and its action has not run.
    DueTimer,
    /// A G that ends has published its result, and has not left its M.
    End,
    /// The two sides of a coroutine know each other, and the switch has not happened.
    #[cfg_attr(
        not(any(feature = "extras", all(test, feature = "std"))),
        expect(dead_code, reason = "only coroutines have this window")
    )]
    Coroutine,
    /// A G has given up its P, and the guard of the system call does not exist.
    SyscallEntry,
    /// The guard of a system call is dropped, and the G has no P.
    SyscallExit,
    /// The Ps are stopped, and the value that starts them again does not exist.
    WorldStop,
    /// The value that starts the Ps again is being dropped, and they have not been started.
    WorldStart,
}
