//! While the world is stopped, the G that stopped it must not block, yield or make a system call. Each attempt panics
//! before it has changed anything, and the G can start the world afterwards. The G may spawn and ready other Gs.
#![deny(unsafe_code)]

use std::time::Duration;

use crate::panics::panic_of;
use crate::waits::until_waiting;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{self, Barrier, Mutex, Native, channel, go};
use gmp_sched::platform::Pinned;
use gmp_sched::preempt::give_way;
use thread_tests::THREADS;

/// Calls `misuse` while the world is stopped, and returns the message of its panic.
fn refused(misuse: impl FnOnce()) -> String {
    let world = native::stop_the_world();
    let message = panic_of(misuse);
    drop(world);
    message
}

const REFUSAL: &str = "the world is stopped, by the caller itself: it may not block, yield, end or make a system call";

#[test]
fn stopper_that_blocks_or_yields_panics() {
    for procs in [1, 3] {
        THREADS.run(procs, || {
            let (sender, receiver) = channel::<u32>(0);
            assert_eq!(refused(native::yield_now), REFUSAL);
            assert_eq!(refused(|| native::sleep(Duration::from_millis(1))), REFUSAL);
            assert_eq!(refused(|| _ = receiver.recv()), REFUSAL);
            assert_eq!(refused(|| _ = sender.send(1)), REFUSAL);
            assert_eq!(refused(|| _ = receiver.recv_timeout(Duration::from_millis(1))), REFUSAL);
            assert_eq!(refused(|| _ = gmp_sched::select! { recv(receiver) -> value => value.is_ok() }), REFUSAL);
            assert_eq!(refused(|| native::syscall(|| ())), REFUSAL);
            assert_eq!(refused(|| _ = native::try_blocking(|| ())), REFUSAL);
            assert_eq!(refused(|| drop(native::stop_the_world())), REFUSAL);
            assert_eq!(refused(|| drop(give_way(Pinned::<Native>::new()))), REFUSAL);
            assert_eq!(refused(|| _ = native::set_procs(2)), REFUSAL);
            // No misuse has left a waiter in the channel's queues.
            assert!(sender.try_send(1).is_err() && receiver.try_recv().is_err());

            let (mutex, barrier) = (Mutex::new(0), Barrier::new(2));
            let guard = mutex.lock();
            assert_eq!(refused(|| drop(mutex.lock())), REFUSAL);
            assert_eq!(refused(|| _ = barrier.wait()), REFUSAL);
            drop(guard);
            *mutex.lock() += 1;

            let joined = go(|| 7);
            assert_eq!(refused(|| _ = go(|| ()).join()), REFUSAL);
            assert_eq!(joined.join(), Ok(7));
        });
    }
}

#[test]
fn stopper_may_spawn_and_ready() {
    for procs in [1, 3] {
        THREADS.run(procs, || {
            let (sender, receiver) = channel(0);
            let waits = go(move || receiver.recv());
            until_waiting(1, WaitReason::ChanReceive);
            let world = native::stop_the_world();
            sender.send(3).unwrap();
            let spawned = go(|| 4);
            drop(world);
            assert_eq!((waits.join().unwrap(), spawned.join()), (Ok(3), Ok(4)));
        });
    }
}
