//! The list of Gs shows the line of code at which each of them waits.

use std::future;
use std::mem;
use std::time::Duration;

use crate::THREADS;
use gmp_sched::goroutine::Status;
use gmp_sched::native::{
    self, Barrier, Builder, Chan, Condvar, Context, Mutex, Once, Receiver, RwLock, Semaphore, Ticker, WaitGroup,
};

const LONG: Duration = Duration::from_secs(1000);

/// A function that waits for ever, and the line of code at which it waits.
struct Wait {
    line: u32,
    wait: fn(),
}

macro_rules! wait {
    ($wait:expr) => {
        Wait {
            line: line!(),
            wait: || {
                let _ended = $wait;
            },
        }
    };
}

fn never() -> Receiver<()> {
    Receiver::never()
}

/// Returns a mutex that is locked for ever.
fn mutex() -> &'static Mutex<()> {
    let mutex = Box::leak(Box::new(Mutex::new(())));
    mem::forget(mutex.lock());
    mutex
}

/// Returns a lock that is locked for writing for ever.
fn rw_lock() -> &'static RwLock<()> {
    let lock = Box::leak(Box::new(RwLock::new(())));
    mem::forget(lock.write());
    lock
}

/// Returns a lock that is locked for reading for ever.
fn read_lock() -> &'static RwLock<()> {
    let lock = Box::leak(Box::new(RwLock::new(())));
    mem::forget(lock.read());
    lock
}

/// A semaphore without a free permit.
fn semaphore() -> &'static Semaphore {
    let semaphore = Box::leak(Box::new(Semaphore::new(1)));
    mem::forget(semaphore.acquire(1));
    semaphore
}

/// A `Once` whose function another G is running.
fn once() -> &'static Once {
    let once: &Once = Box::leak(Box::new(Once::new()));
    native::go(|| once.call_once(for_ever)).detach();
    native::yield_now();
    once
}

/// Returns a wait group whose count never becomes zero.
fn group() -> WaitGroup {
    let group = WaitGroup::new();
    group.add(1);
    group
}

fn for_ever() {
    native::sleep(LONG);
}

fn nothing() {
    native::select! {}
}

#[test]
fn list_shows_the_line_at_which_each_goroutine_waits() {
    let nothing = Wait { line: line!() - 5, wait: nothing };
    let waits = [
        nothing,
        wait!(never().recv()),
        wait!(native::channel::<()>(0).0.send(())),
        wait!(Chan::<()>::new(0).recv()),
        wait!(Chan::<()>::new(0).iter().next()),
        wait!(native::channel::<()>(0).1.recv_timeout(LONG)),
        wait!(native::select! { recv(never()) -> _ => (), recv(never()) -> _ => () }),
        wait!(native::select! { timeout(LONG) => () }),
        wait!(native::sleep(LONG)),
        wait!(mutex().lock()),
        wait!(mutex().try_lock_for(LONG)),
        wait!(rw_lock().read()),
        wait!(rw_lock().write()),
        wait!(read_lock().write()),
        wait!(Ticker::new(LONG).wait()),
        wait!(semaphore().acquire(1)),
        wait!(once().call_once(|| ())),
        wait!(Barrier::new(2).wait()),
        wait!(Condvar::new().wait(&mut Mutex::new(()).lock())),
        wait!(Context::background().wait()),
        wait!(group().wait()),
        wait!(native::go(for_ever).join()),
        wait!(native::scope(|scope| drop(scope.go(for_ever)))),
        wait!(native::block_on(future::pending::<()>())),
    ];
    // Each wait has a scheduler of its own. When the main G of the scheduler ends, the waiting G is abandoned.
    for Wait { line, wait } in waits {
        let list = THREADS.run_with(1, move |scheduler| {
            let waits = Builder::new().name("waits").go(wait);
            // The G does not wait before it reaches the line under test, but it may yield.
            let is_waiting = || {
                let mut all = scheduler.goroutines();
                all.any(|goroutine| goroutine.id() == waits.id() && goroutine.status() == Status::Waiting)
            };
            while !is_waiting() {
                native::yield_now();
            }
            scheduler.goroutine_list().to_string()
        });
        let place = list.lines().skip_while(|shown| !shown.contains(" (waits) [")).nth(1);
        assert_eq!(place, Some(format!("  in {}:{line}", file!()).as_str()), "{list}");
    }
}
