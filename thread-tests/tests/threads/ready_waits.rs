//! On threads nothing interrupts a G. But its slice also ends at a wait that is over at once. So a G that does nothing but
//! such waits does not keep the only P.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gmp_sched::native::{
    Barrier, Chan, Context, Mutex, RwLock, Semaphore, Ticker, WaitGroup, block_on, go, scope, set_procs, sleep,
    stop_the_world,
};
use gmp_sched::select;
use gmp_sched::select::{Select, recv};
use thread_tests::THREADS;

/// A name, and a function that returns a wait that is over at once, however often it is called.
type Wait = (&'static str, fn() -> Box<dyn FnMut()>);

/// Returns a channel that is closed, so that each receive is over at once.
fn closed() -> Chan<u8> {
    let chan = Chan::new(0);
    chan.close();
    chan
}

const WAITS: &[Wait] = &[
    ("tick", || {
        let ticker = Ticker::new(Duration::from_nanos(1));
        Box::new(move || _ = ticker.wait())
    }),
    ("stop of the world", || Box::new(|| drop(stop_the_world()))),
    ("change of the number of Ps", || Box::new(|| assert_eq!(set_procs(1), Ok(1)))),
    ("receive", || {
        let chan = closed();
        Box::new(move || assert!(chan.recv().is_err()))
    }),
    ("receive with a limit", || {
        let chan = closed();
        Box::new(move || assert!(chan.recv_timeout(Duration::from_secs(3600)).is_err()))
    }),
    ("send and receive", || {
        let chan = Chan::new(1);
        Box::new(move || {
            chan.send(7).unwrap();
            assert_eq!(chan.try_recv(), Ok(7));
        })
    }),
    ("select", || {
        let (one, other) = (closed(), closed());
        Box::new(move || select! { recv(one) => {}, recv(other) => {} })
    }),
    ("ordered select", || {
        let (one, other) = (closed(), closed());
        Box::new(move || select! { ordered; recv(one) => {}, recv(other) => {} })
    }),
    ("list of cases", || {
        let chan = closed();
        Box::new(move || assert_eq!(Select::new(&mut [recv(&chan).case()]).wait(), 0))
    }),
    ("mutex", || {
        let mutex = Mutex::new(());
        Box::new(move || drop(mutex.lock()))
    }),
    ("read lock", || {
        let lock = RwLock::new(());
        Box::new(move || drop(lock.read()))
    }),
    ("write lock", || {
        let lock = RwLock::new(());
        Box::new(move || drop(lock.write()))
    }),
    ("semaphore", || {
        let semaphore = Semaphore::new(1);
        Box::new(move || drop(semaphore.acquire(1)))
    }),
    ("wait group", || {
        let group = WaitGroup::new();
        Box::new(move || group.wait())
    }),
    ("barrier", || {
        let barrier = Barrier::new(1);
        Box::new(move || assert!(barrier.wait().is_leader()))
    }),
    ("context", || {
        let (context, cancel) = Context::background().with_cancel();
        cancel.cancel();
        Box::new(move || _ = context.wait())
    }),
    ("sleep of 0", || Box::new(|| sleep(Duration::ZERO))),
    ("scope", || Box::new(|| scope(|_| ()))),
    ("future", || Box::new(|| block_on(std::future::ready(())))),
];

#[test]
fn g_whose_waits_are_over_at_once_does_not_keep_the_only_p() {
    for (name, make) in WAITS {
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            THREADS.run(1, move || {
                let is_over = Arc::new(AtomicBool::new(false));
                let seen = is_over.clone();
                let hog = go(move || {
                    let mut wait = make();
                    while !seen.load(Ordering::Relaxed) {
                        wait();
                    }
                });
                sleep(Duration::from_millis(1));
                is_over.store(true, Ordering::Relaxed);
                hog.join().unwrap();
            });
            ended.send(()).unwrap();
        });
        let result = has_ended.recv_timeout(Duration::from_secs(300));
        assert!(result.is_ok(), "{name}: main sleeps for ever");
    }
}
