//! Calls from foreign threads, that is, from threads that are not Ms. A call that readies a G works on any thread. If a
//! foreign thread makes a call that only a G may make, the call panics before it has changed anything.
#![deny(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::panics::panic_of;
use crate::several::join_all;
use crate::waits::until_waiting;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{
    self, Barrier, Condvar, Context, Mutex, OnceCell, Pool, ReadMostlyRwLock, RwLock, Semaphore, Ticker, Timer,
    WaitGroup, channel, go,
};
use thread_tests::THREADS;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `call` on a foreign thread.
fn outside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    native::blocking(|| thread::spawn(call).join().expect("it does not panic"))
}

/// Runs `wake` on a foreign thread when `count` Gs wait for `reason`.
fn wake<T: Send + 'static>(count: usize, reason: WaitReason, wake: impl FnOnce() -> T + Send + 'static) -> T {
    until_waiting(count, reason);
    outside(wake)
}

/// Runs `misuse` on a foreign thread and returns the message with which it panics.
fn refused_outside(misuse: impl FnOnce() + Send + 'static) -> String {
    outside(|| panic_of(misuse))
}

fn in_scheduler(test: impl Fn() + Send + Sync + Copy + 'static) {
    for procs in [1, 3] {
        THREADS.run(procs, test);
    }
}

#[test]
fn foreign_thread_closes_a_channel_and_drops_its_last_handle() {
    in_scheduler(|| {
        let (sender, receiver) = channel::<u8>(0);
        let closer = sender.clone();
        let waits = go(move || receiver.recv().is_err());
        assert!(wake(1, WaitReason::ChanReceive, move || closer.close()));
        assert!(waits.join().unwrap());

        let (sender, receiver) = channel::<u8>(0);
        let waits = go(move || receiver.recv().is_err());
        wake(1, WaitReason::ChanReceive, move || drop(sender));
        assert!(waits.join().unwrap());

        let (sender, receiver) = channel::<u8>(0);
        let waits = go(move || sender.send(1).is_err());
        wake(1, WaitReason::ChanSend, move || drop(receiver));
        assert!(waits.join().unwrap());
    });
}

#[test]
fn foreign_thread_ends_a_select() {
    in_scheduler(|| {
        let (first, second) = (channel::<u32>(0), channel::<u32>(0));
        let (sender, unused) = (first.0, second.0);
        let waits = go(move || {
            gmp_sched::select! {
                recv(first.1) -> value => value.unwrap(),
                recv(second.1) -> value => value.unwrap(),
            }
        });
        wake(1, WaitReason::Select, move || sender.send(9).unwrap());
        assert_eq!(waits.join(), Ok(9));
        drop(unused);
    });
}

#[test]
fn foreign_thread_unlocks_locks_with_waiters() {
    in_scheduler(|| {
        let mutex: &'static Mutex<u32> = Box::leak(Box::new(Mutex::new(0)));
        let guard = mutex.lock();
        let waits = go(|| *mutex.lock() += 1);
        wake(1, WaitReason::MutexLock, move || drop(guard));
        waits.join().unwrap();
        assert_eq!(*mutex.lock(), 1);

        let lock: &'static RwLock<u32> = Box::leak(Box::new(RwLock::new(0)));
        let guard = lock.write();
        let waits = [go(|| *lock.read()), go(|| *lock.read())];
        wake(2, WaitReason::RwLockRead, move || drop(guard));
        waits.into_iter().for_each(|waits| assert_eq!(waits.join(), Ok(0)));
        let guard = lock.read();
        let waits = go(|| *lock.write() += 1);
        wake(1, WaitReason::RwLockWrite, move || drop(guard));
        waits.join().unwrap();

        let lock: &'static ReadMostlyRwLock<u32> = Box::leak(Box::new(ReadMostlyRwLock::new(0)));
        let guard = lock.read();
        let waits = go(|| *lock.write() += 1);
        wake(1, WaitReason::RwLockWrite, move || drop(guard));
        waits.join().unwrap();
    });
}

#[test]
fn foreign_thread_notifies_and_counts_down() {
    in_scheduler(|| {
        let shared: &'static (Mutex<bool>, Condvar) = Box::leak(Box::default());
        let waits = [(); 3].map(|()| go(|| shared.1.wait_while(&mut shared.0.lock(), |done| !*done)));
        wake(3, WaitReason::CondvarWait, || {
            *shared.0.lock() = true;
            assert!(shared.1.notify_one());
            assert_eq!(shared.1.notify_all(), 2);
        });
        join_all(waits);

        let group: &'static WaitGroup = Box::leak(Box::default());
        group.add(1);
        let waits = [(); 2].map(|()| go(|| group.wait()));
        wake(2, WaitReason::WaitGroupWait, || group.done());
        join_all(waits);

        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(2)));
        let permit = semaphore.acquire(2);
        let waits = go(|| semaphore.acquire(1).forget());
        wake(1, WaitReason::SemAcquire, move || drop(permit));
        waits.join().unwrap();
        outside(|| semaphore.release(1));
        assert_eq!(semaphore.available(), 2);
    });
}

#[test]
fn foreign_thread_runs_a_once_with_waiters() {
    in_scheduler(|| {
        let cell: &'static OnceCell<u32> = Box::leak(Box::new(OnceCell::new()));
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel();
        let first = thread::spawn(move || {
            *cell.get_or_init(|| {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
                5
            })
        });
        native::blocking(|| has_begun.recv().unwrap());
        let waits = go(|| *cell.get_or_init(|| unreachable!()));
        wake(1, WaitReason::Once, move || {
            go_on.send(()).unwrap();
            assert_eq!(first.join().unwrap(), 5);
        });
        assert_eq!(waits.join(), Ok(5));
    });
}

#[test]
fn foreign_thread_cancels_a_context() {
    in_scheduler(|| {
        static RAN: AtomicU32 = AtomicU32::new(0);
        RAN.store(0, Ordering::Relaxed);
        let (context, cancel) = Context::background().with_cancel();
        let (child, keep) = context.with_cancel();
        let function = child.after_func(|| _ = RAN.fetch_add(1, Ordering::Relaxed));
        let done = child.done();
        let waits = [go(move || done.recv().is_err()), go(move || child.sleep(HOUR).is_err())];
        until_waiting(1, WaitReason::ChanReceive);
        wake(1, WaitReason::Context, move || drop(cancel));
        waits.into_iter().for_each(|waits| assert_eq!(waits.join(), Ok(true)));
        assert!(!outside(move || function.stop()));
        while RAN.load(Ordering::Relaxed) == 0 {
            native::yield_now();
        }
        drop(keep);
    });
}

#[test]
fn foreign_thread_drops_handles_and_stops_functions() {
    in_scheduler(|| {
        let finished = go(|| String::from("a result"));
        let (sender, receiver) = channel::<()>(0);
        let unfinished = go(move || receiver.recv());
        while !finished.is_finished() {
            native::yield_now();
        }
        let (timer, ticker) = (Timer::new(HOUR), Ticker::new(HOUR));
        let later = native::after_func(HOUR, || unreachable!());
        let result = outside(move || {
            drop((unfinished, timer, ticker));
            assert!(later.stop() && !later.stop());
            catch_unwind(AssertUnwindSafe(|| finished.join().unwrap())).unwrap()
        });
        assert_eq!(result, "a result");
        drop(sender);
        // New Gs and timers reuse the slots that were released on the foreign thread.
        for _ in 0..200 {
            assert_eq!(go(|| 1).join(), Ok(1));
            assert!(Timer::new(HOUR).stop());
        }
    });
}

#[test]
fn foreign_thread_readies_a_locked_g() {
    in_scheduler(|| {
        let (sender, receiver) = channel(0);
        let waits = go(move || {
            let _locked = native::lock_thread();
            let here = thread::current().id();
            (0..10).for_each(|n| {
                assert_eq!(receiver.recv(), Ok(n));
                assert_eq!(thread::current().id(), here);
            });
        });
        outside(move || (0..10).for_each(|n| while sender.try_send(n).is_err() {}));
        waits.join().unwrap();
    });
}

#[test]
fn foreign_thread_uses_a_pool() {
    in_scheduler(|| {
        let pool: Arc<Pool<u32>> = Arc::new(Pool::new(1, || 3));
        let lent = pool.clone();
        outside(move || *lent.get() = 4);
        assert_eq!(pool.get().max(3), 4);
    });
}

/// A call that needs a G panics on a foreign thread and changes nothing.
#[test]
fn foreign_thread_that_would_have_to_wait_panics() {
    const REFUSAL: &str = "called outside the scheduler: only a G may do this";
    in_scheduler(|| {
        let (sender, receiver) = channel::<u32>(0);
        let (lent_sender, lent_receiver) = (sender.clone(), receiver.clone());
        assert_eq!(refused_outside(move || _ = lent_receiver.recv()), REFUSAL);
        assert_eq!(refused_outside(move || _ = lent_sender.send(1)), REFUSAL);
        // No waiter is left in the queues, and the channel's lock is free.
        assert!(receiver.try_recv().is_err() && sender.try_send(1).is_err());

        let mutex: &'static Mutex<u32> = Box::leak(Box::new(Mutex::new(0)));
        let guard = mutex.lock();
        assert_eq!(refused_outside(|| drop(mutex.lock())), REFUSAL);
        drop(guard);
        assert!(mutex.try_lock().is_some());

        let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
        assert_eq!(refused_outside(|| _ = barrier.wait()), REFUSAL);
        let waits = go(|| barrier.wait());
        native::yield_now();
        assert!(barrier.wait() != waits.join().unwrap());

        let timer = Arc::new(Timer::new(Duration::from_millis(20)));
        let lent = timer.clone();
        assert_eq!(refused_outside(move || _ = lent.reset(HOUR)), REFUSAL);
        timer.wait();

        let (ran, has_run) = channel(1);
        let later = Arc::new(native::after_func(Duration::from_millis(20), move || ran.send(()).unwrap()));
        let lent = later.clone();
        assert_eq!(refused_outside(move || _ = lent.reset(HOUR)), REFUSAL);
        assert_eq!(has_run.recv(), Ok(()));
        assert_eq!(refused_outside(|| go(|| ()).detach()), REFUSAL);
    });
}

/// A G in a system call has no P, so the rules for foreign threads hold for it, too.
#[test]
fn g_in_a_system_call_readies_others_and_must_not_wait() {
    const REFUSAL: &str = "an M without a P may not do this: it is in a system call";
    fn refused(misuse: impl FnOnce()) -> String {
        native::syscall(|| panic_of(misuse))
    }
    in_scheduler(|| {
        let (sender, receiver) = channel(0);
        let waits = go(move || receiver.recv());
        until_waiting(1, WaitReason::ChanReceive);
        native::blocking(|| sender.send(1).unwrap());
        assert_eq!(waits.join().unwrap(), Ok(1));

        let timer = Timer::new(Duration::from_millis(5));
        assert_eq!(refused(|| _ = timer.reset(HOUR)), REFUSAL);
        timer.wait();
        assert_eq!(refused(|| native::sleep(HOUR)), REFUSAL);
        assert_eq!(refused(|| native::syscall(|| ())), REFUSAL);
        assert_eq!(refused(|| go(|| ()).detach()), REFUSAL);
        let later = native::after_func(HOUR, || unreachable!());
        assert!(native::syscall(|| later.stop()));
    });
}
