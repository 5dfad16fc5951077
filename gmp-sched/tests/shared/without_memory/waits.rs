//! Waits, which allocate nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use gmp_sched::platform::OutOfResources;
use gmp_sched::select::{Select, recv, send};

use super::super::counted;
use super::super::platform::{
    Barrier, Condvar, Context, Mutex, Once, RwLock, Semaphore, Ticker, Timer, WaitGroup, channel, go, sleep, yield_now,
};
use super::{HOUR, MOMENT};

pub(super) fn waits_for_times() -> Result<(), OutOfResources> {
    let (ticker, timer) = (Ticker::try_new(MOMENT)?, Timer::try_new(HOUR)?);
    counted(|| {
        sleep(MOMENT);
        ticker.wait();
        timer.reset(MOMENT);
        timer.wait();
        yield_now();
    });
    Ok(())
}

pub(super) fn waits_for_channels() -> Result<(), OutOfResources> {
    for capacity in [0, 1, 8] {
        let ((sender, receiver), (answer, answers)) = (channel(capacity), channel(capacity));
        let echo = go(move || receiver.iter().for_each(|number| answer.send(number).expect("there is a receiver")));
        counted(|| {
            for number in 0..20 {
                sender.send(number).expect("there is a receiver");
                assert_eq!(answers.recv(), Ok(number));
            }
            assert!(answers.recv_timeout(MOMENT).is_err());
            sender.close();
            assert!(answers.recv().is_err());
        });
        echo.join().expect("no panic");
    }
    Ok(())
}

pub(super) fn select_of_many_cases() -> Result<(), OutOfResources> {
    let channels: Vec<_> = (0..100).map(|_| channel::<usize>(0)).collect();
    let sender = channels[77].0.clone();
    let sending = go(move || sender.send(7));
    let mut received: Vec<_> = channels.iter().skip(1).map(|(_, receiver)| recv(receiver)).collect();
    let mut sent = send(&channels[0].0, 1);
    let mut cases: Vec<_> = received.iter_mut().map(|received| received.case()).chain([sent.case()]).collect();
    assert_eq!(counted(|| Select::new(&mut cases).wait()), 76);
    counted(|| {
        let mut cases = [recv(&channels[1].1), recv(&channels[2].1)];
        let [one, other] = &mut cases;
        assert!(Select::new(&mut [one.case(), other.case()]).wait_timeout(MOMENT).is_none());
    });
    sending.join().expect("no panic").expect("there is a receiver");
    Ok(())
}

pub(super) fn waits_for_locks() -> Result<(), OutOfResources> {
    let shared = Arc::new((Mutex::new(0), Condvar::new(), RwLock::new(0), Semaphore::new(1), Once::new()));
    let other = {
        let shared = shared.clone();
        go(move || {
            let (mutex, condvar, lock, semaphore, once) = &*shared;
            let (permit, written) = (semaphore.acquire(1), lock.write());
            yield_now();
            drop((permit, written));
            once.call_once(yield_now);
            *mutex.lock() = 1;
            condvar.notify_all();
        })
    };
    yield_now();
    let (mutex, condvar, lock, semaphore, once) = &*shared;
    counted(|| {
        assert_eq!(*lock.read(), 0);
        drop(semaphore.acquire(1));
        once.call_once(|| ());
        let mut number = mutex.lock();
        while *number == 0 {
            condvar.wait(&mut number);
        }
        drop(number);
    });
    other.join().expect("no panic");
    Ok(())
}

pub(super) fn waits_for_gs() -> Result<(), OutOfResources> {
    let (group, barrier) = (Arc::new(WaitGroup::new()), Arc::new(Barrier::new(2)));
    let handles: Vec<_> = (0..4).map(|number| go(move || number)).collect();
    group.go(yield_now);
    let meeting = {
        let barrier = barrier.clone();
        go(move || barrier.wait().is_leader())
    };
    let (context, cancel) = Context::background().with_cancel();
    let cancelling = go(move || cancel.cancel());
    counted(|| {
        barrier.wait();
        group.wait();
        context.wait();
        assert_eq!(handles.into_iter().map(|handle| handle.join().expect("no panic")).sum::<i32>(), 6);
    });
    meeting.join().expect("no panic");
    cancelling.join().expect("no panic");
    Ok(())
}
