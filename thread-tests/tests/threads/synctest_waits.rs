//! Which waits in a bubble are durable. The tests cover the table in `synctest`, except for system calls and stops of
//! the world.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::panics::panic_of;
use gmp_sched::device_signals::Signal;
use gmp_sched::goroutine::{Status, WaitReason};
use gmp_sched::native::{
    self, Barrier, Condvar, Context, ErrorGroup, Mutex, Native, Once, Receiver, RwLock, Semaphore, Sender,
    SingleFlight, Ticker, Timer, WaitGroup, channel, go, now, pull, scope, sleep, synctest, yield_now,
};
use gmp_sched::park::{park, ready};
use gmp_sched::scheduler::Scheduler;
use gmp_sched::select;
use gmp_sched::select::Select;
use thread_tests::THREADS;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the wait reason of the G with this id. The G must be waiting.
fn reason(scheduler: &'static Scheduler<Native>, id: u64) -> String {
    let found = scheduler.goroutines().find(|goroutine| goroutine.id().get() == id).unwrap();
    assert_eq!(found.status(), Status::Waiting);
    found.wait_reason().to_string()
}

/// Readies the G whose address `parked` contains.
fn wake_parked(parked: &AtomicUsize) {
    // SAFETY: the commit of the G's park has stored the address of the G in `parked`, and Gs are never freed.
    let waiting = unsafe { &*std::ptr::with_exposed_provenance(parked.load(Ordering::Acquire)) };
    // SAFETY: the commit of the G's park has made the G known by storing the address, and afterwards uses only statics.
    // No other code readies the G.
    unsafe { ready::<Native>(waiting) };
}

/// In a bubble, a G calls `wait` on an object made there and has the wait reason `shown`. The wait is durable, so the
/// clock advances. Then main calls `end`.
#[track_caller]
fn durable<T: Send + Sync + 'static>(shown: &'static str, make: fn() -> T, wait: fn(&T), end: fn(&T)) {
    for processors in [1, 2, 4] {
        THREADS.run_with(processors, move |scheduler| {
            synctest::test(move || {
                let (start, what) = (now(), Arc::new(make()));
                let waits = what.clone();
                let waiter = go(move || wait(&waits));
                synctest::wait();
                assert_eq!(reason(scheduler, waiter.id().get()), shown);
                sleep(HOUR);
                assert_eq!(now() - start, HOUR);
                end(&what);
                waiter.join().unwrap();
            });
        });
    }
}

/// In a bubble, a G calls `wait` on an object made outside and has the wait reason `shown`. The wait is not durable, so
/// the clock does not advance until a G outside calls `end`. There is one P, so that it is certain which Gs have run.
#[track_caller]
fn not_durable<T: Send + Sync + 'static>(shown: &'static str, make: fn() -> T, wait: fn(&T), end: fn(&T)) {
    THREADS.run_with(1, move |scheduler| {
        let what = Arc::new(make());
        let (waiting, moved_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let bubble = {
            let (waits, waiting, moved_on) = (what.clone(), waiting.clone(), moved_on.clone());
            go(move || {
                synctest::test(move || {
                    let start = now();
                    let waiter = go(move || wait(&waits));
                    waiting.store(waiter.id().get(), Ordering::Relaxed);
                    synctest::wait();
                    moved_on.store(true, Ordering::Relaxed);
                    assert_eq!(now(), start);
                    waiter.join().unwrap();
                });
            })
        };
        (0..100).for_each(|_| yield_now());
        assert_eq!(reason(scheduler, waiting.load(Ordering::Relaxed)), shown);
        assert!(!moved_on.load(Ordering::Relaxed));
        end(&what);
        bubble.join().unwrap();
        assert!(moved_on.load(Ordering::Relaxed));
    });
}

type Channel = (Sender<u8>, Receiver<u8>);

fn rendezvous() -> Channel {
    channel(0)
}

fn receive(channel: &Channel) {
    assert_eq!(channel.1.recv(), Ok(1));
}

fn send(channel: &Channel) {
    channel.0.send(1).unwrap();
}

#[test]
fn channel_of_the_bubble_is_durable() {
    durable("chan receive (durable)", rendezvous, receive, send);
    durable("chan send (durable)", rendezvous, send, receive);
    let with_timeout = |channel: &Channel| assert_eq!(channel.1.recv_timeout(HOUR * 2), Ok(1));
    durable("chan receive (durable)", rendezvous, with_timeout, send);
}

#[test]
fn channel_from_outside_is_not_durable() {
    not_durable("chan receive", rendezvous, receive, send);
    not_durable("chan send", rendezvous, send, receive);
    let with_timeout = |channel: &Channel| assert_eq!(channel.1.recv_timeout(HOUR), Ok(1));
    not_durable("chan receive", rendezvous, with_timeout, send);
    // A close ends the wait as a send does.
    let closed = |channel: &Channel| assert!(channel.1.recv().is_err());
    not_durable("chan receive", rendezvous, closed, |channel| assert!(channel.0.close()));
}

#[test]
fn never_channel_is_durable() {
    fn message(body: fn()) -> (String, String) {
        THREADS.run_with(1, move |scheduler| {
            static WAITING: AtomicU64 = AtomicU64::new(0);
            let body = move || {
                let waiter = go(body);
                WAITING.store(waiter.id().get(), Ordering::Relaxed);
                waiter.join().unwrap();
            };
            let message = panic_of(|| synctest::test(body));
            (reason(scheduler, WAITING.load(Ordering::Relaxed)), message)
        })
    }
    let deadlock = |reason: &str| (reason.to_string(), "deadlock: all goroutines in bubble are blocked".to_string());
    assert_eq!(message(|| _ = Receiver::<u8>::never().recv()), deadlock("chan receive (nil chan)"));
    assert_eq!(message(|| _ = Sender::never().send(1)), deadlock("chan send (nil chan)"));
    assert_eq!(message(|| _ = Select::<Native>::new(&mut []).wait()), deadlock("select (no cases)"));
}

/// The two channels of a select.
type Two = (Channel, Receiver<u8>);

fn select_one(two: &Two) {
    select! {
        recv(two.0.1) -> value => assert_eq!(value, Ok(1)),
        recv(two.1) => unreachable!("nobody sends"),
    }
}

fn end_select(two: &Two) {
    send(&two.0);
}

#[test]
fn select_on_channels_of_the_bubble_is_durable() {
    let make = || {
        let (sender, receiver) = channel(0);
        // If the sender were dropped, the channel would be closed, and the select could choose to receive from it.
        std::mem::forget(sender);
        (rendezvous(), receiver)
    };
    durable("select (durable)", make, select_one, end_select);
    durable("select (durable)", || (rendezvous(), Receiver::never()), select_one, end_select);
    let with_timer = |channel: &Channel| {
        let timer = Timer::new(HOUR * 2);
        select! {
            recv(channel.1) -> value => assert_eq!(value, Ok(1)),
            recv(timer) => unreachable!("it is not that late"),
        }
    };
    durable("select (durable)", rendezvous, with_timer, send);
    let with_timeout = |channel: &Channel| {
        let mut nothing = None;
        select! {
            recv(channel.1) -> value => assert_eq!(value, Ok(1)),
            send_from(channel.0, nothing) => unreachable!("there is nothing to send"),
            timeout(HOUR * 2) => unreachable!("it is not that late"),
        }
    };
    durable("select (durable)", rendezvous, with_timeout, send);
}

#[test]
fn select_with_a_channel_from_outside_is_not_durable() {
    let mixed = |outside: &Channel| {
        let (_sender, inside) = channel::<u8>(0);
        select! {
            recv(inside) => unreachable!("nobody sends"),
            recv(outside.1) -> value => assert_eq!(value, Ok(1)),
        }
    };
    not_durable("select", rendezvous, mixed, send);
    let with_timeout = |outside: &Channel| {
        select! {
            recv(outside.1) -> value => assert_eq!(value, Ok(1)),
            timeout(HOUR) => unreachable!("the clock does not advance"),
        }
    };
    not_durable("select", rendezvous, with_timeout, send);
}

#[test]
fn sleeps_and_timers_of_the_bubble_are_durable() {
    durable("sleep", || (), |()| sleep(HOUR * 2), |()| sleep(HOUR));
    durable("chan receive (durable)", || Timer::new(HOUR * 2), |timer| _ = timer.wait(), |_| sleep(HOUR));
    durable("chan receive (durable)", || Ticker::new(HOUR * 2), |ticker| _ = ticker.wait(), |_| sleep(HOUR));
}

/// A timer uses the clock of the bubble in which it was made, or the real clock if it was made outside. A timer made
/// outside uses the real clock even if its slot was used in a bubble before.
#[test]
fn timer_from_outside_is_not_durable() {
    THREADS.run(1, || synctest::test(|| drop((Timer::new(HOUR), Timer::new(HOUR)))));
    let forever = || Timer::new(HOUR * 24 * 365);
    let fire = |timer: &Timer| assert!(timer.reset(Duration::ZERO));
    not_durable("chan receive", forever, |timer| _ = timer.wait(), fire);
    let select = |timer: &Timer| select! { recv(timer) => {} };
    not_durable("select", forever, select, fire);
    THREADS.run(2, || {
        let (early, timer) = (Timer::new(Duration::from_millis(2)), Arc::new(Timer::new(HOUR)));
        synctest::test(move || {
            let start = now();
            let sleeper = go(|| sleep(HOUR));
            early.wait();
            // A G of the bubble waits for the timer. Setting the timer in the bubble during this wait does not move the
            // timer into the bubble.
            let waits = timer.clone();
            let waiter = go(move || (waits.wait(), now()));
            (0..10).for_each(|_| yield_now());
            assert!(timer.reset(Duration::from_millis(2)));
            assert_eq!((waiter.join().unwrap().1, now()), (start, start));
            sleeper.join().unwrap();
            assert_eq!(now() - start, HOUR);
        });
    });
}

#[test]
fn gs_of_the_bubble_are_durable() {
    let join = |channel: &Channel| {
        let receiver = channel.1.clone();
        go(move || receiver.recv()).join().unwrap().unwrap();
    };
    durable("join (durable)", rendezvous, join, send);
    let scoped = |channel: &Channel| scope(|scope| drop(scope.go(|| receive(channel))));
    durable("scope", rendezvous, scoped, send);
    let coroutine = |channel: &Channel| {
        let receiver = channel.1.clone();
        assert!(pull(move |yielder| _ = yielder.yield_value(receiver.recv())).eq([Ok(1)]));
    };
    durable("coroutine (durable)", rendezvous, coroutine, send);
    durable("context", Context::background, |_| _ = Context::background().sleep(HOUR * 2), |_| sleep(HOUR));
}

#[test]
fn g_from_outside_is_not_durable() {
    let make = || {
        let (sender, receiver) = rendezvous();
        (sender, Mutex::new(Some(go(move || receiver.recv().unwrap()))))
    };
    not_durable(
        "join",
        make,
        |(_, handle)| assert_eq!(handle.lock().take().unwrap().join(), Ok(1)),
        |(sender, _)| {
            sender.send(1).unwrap();
        },
    );
}

#[test]
fn condvars_barriers_and_semaphores_are_durable() {
    type Condition = (Mutex<bool>, Condvar);
    let wait = |condition: &Condition| condition.1.wait_while(&mut condition.0.lock(), |is_there| !*is_there);
    let end = |condition: &Condition| {
        *condition.0.lock() = true;
        assert!(condition.1.notify_one());
    };
    durable("sync.Cond.Wait", || (Mutex::new(false), Condvar::new()), wait, end);
    durable("barrier", || Barrier::new(2), |barrier| _ = barrier.wait(), |barrier| assert!(barrier.wait().is_leader()));
    let empty = || {
        let permits = Semaphore::new(1);
        permits.acquire(1).forget();
        permits
    };
    durable("semacquire", empty, |permits| permits.acquire(1).forget(), |permits| permits.release(1));
    // The second call of `go` has to wait until the first G, which sleeps, releases its permit.
    let limited = |(): &()| {
        let group = ErrorGroup::<()>::with_limit(1);
        let body = || {
            sleep(HOUR * 2);
            Ok(())
        };
        (0..2).for_each(|_| group.go(body));
        group.wait().unwrap();
    };
    durable("semacquire", || (), limited, |()| ());
}

#[test]
fn wait_group_of_the_bubble_is_durable() {
    let make = || {
        let group = WaitGroup::new();
        group.add(1);
        group
    };
    durable("sync.WaitGroup.Wait (durable)", make, WaitGroup::wait, WaitGroup::done);
    durable("sync.WaitGroup.Wait (durable)", make, |group| assert!(group.wait_timeout(HOUR * 2)), WaitGroup::done);
    not_durable("sync.WaitGroup.Wait", make, WaitGroup::wait, WaitGroup::done);
    type Other = (Arc<WaitGroup>, Sender<u8>);
    let in_another = || -> Other {
        let (group, (sender, receiver)) = (Arc::new(WaitGroup::new()), rendezvous());
        let counts = group.clone();
        go(move || synctest::test(move || counts.go(move || _ = receiver.recv()))).detach();
        (0..10).for_each(|_| yield_now());
        (group, sender)
    };
    not_durable("sync.WaitGroup.Wait", in_another, |other| other.0.wait(), |other| other.1.send(1).unwrap());
}

/// A flag that a G sets when it has begun.
struct Begun(AtomicBool);

impl Begun {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    fn tell(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn wait(&self) {
        while !self.0.load(Ordering::Acquire) {
            yield_now();
        }
    }
}

/// A wait for a `Once` is durable if a G of the bubble runs the function of the `Once`.
#[test]
fn once_run_in_the_bubble_is_durable() {
    type Step = (Arc<Once>, Channel);
    fn begin(step: &Step) {
        let (once, receiver) = (step.0.clone(), step.1.1.clone());
        let has_begun = Begun::new();
        let begins = has_begun.clone();
        let body = move || {
            begins.tell();
            assert_eq!(receiver.recv(), Ok(1));
        };
        go(move || once.call_once(body)).detach();
        has_begun.wait();
    }
    fn wait(step: &Step) {
        step.0.call_once(|| unreachable!("somebody else does it"));
    }
    let begun = || {
        let step = (Arc::new(Once::new()), rendezvous());
        begin(&step);
        step
    };
    durable("sync.Once (durable)", begun, wait, |step| send(&step.1));
    not_durable("sync.Once", begun, wait, |step| send(&step.1));
    let fetching = || {
        let calls = Arc::new(SingleFlight::new());
        let first = calls.clone();
        let has_begun = Begun::new();
        let begins = has_begun.clone();
        let seven = move || {
            begins.tell();
            sleep(HOUR * 2);
            7
        };
        go(move || assert_eq!(first.call(0, seven).value, 7)).detach();
        has_begun.wait();
        calls
    };
    let fetch = |calls: &Arc<SingleFlight<u8, u8>>| {
        assert_eq!(calls.call(0, || unreachable!("somebody else fetches")).value, 7);
    };
    durable("sync.Once (durable)", fetching, fetch, |_| sleep(HOUR));
}

#[test]
fn locks_futures_and_devices_are_not_durable() {
    struct Locks {
        mutex: Mutex<()>,
        read_write: RwLock<()>,
        end: Channel,
    }
    let locked = || {
        let locks = Arc::new(Locks { mutex: Mutex::new(()), read_write: RwLock::new(()), end: rendezvous() });
        let held = locks.clone();
        go(move || {
            let _both = (held.mutex.lock(), held.read_write.write());
            receive(&held.end);
        })
        .detach();
        yield_now();
        locks
    };
    let unlock = |locks: &Arc<Locks>| send(&locks.end);
    not_durable("sync.Mutex.Lock", locked, |locks| drop(locks.mutex.lock()), unlock);
    not_durable("sync.RWMutex.RLock", locked, |locks| drop(locks.read_write.read()), unlock);
    not_durable("sync.RWMutex.Lock", locked, |locks| drop(locks.read_write.write()), unlock);
    type Future = Mutex<(bool, Option<Waker>)>;
    let poll = |future: &Future| {
        native::block_on(poll_fn(|context| {
            let mut state = future.lock();
            state.1 = Some(context.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        }));
    };
    let complete = |future: &Future| {
        let mut state = future.lock();
        state.0 = true;
        state.1.take().unwrap().wake();
    };
    not_durable("future", || Mutex::new((false, None)), poll, complete);
    let device = || -> &'static Signal<Native> { Box::leak(Box::default()) };
    not_durable("IO wait", device, |device| device.wait(), |device| device.raise());
    static PARKED: AtomicUsize = AtomicUsize::new(0);
    let wait = |(): &()| {
        park::<Native>(WaitReason::Parked, |_, me| {
            PARKED.store(std::ptr::from_ref(me).expose_provenance(), Ordering::Release);
            true
        });
    };
    not_durable("parked", || (), wait, |()| wake_parked(&PARKED));
}

/// A G is readied before the commit of its park has returned. It continues on another M and uses its stack again.
/// Nevertheless, the commit counts the wait correctly.
#[test]
fn durable_wait_that_ends_before_it_is_counted() {
    static PARKED: AtomicUsize = AtomicUsize::new(0);
    static RUNS: AtomicBool = AtomicBool::new(false);
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    #[inline(never)]
    fn use_stack() {
        std::hint::black_box([0u8; 8192]);
    }
    THREADS.run(2, || {
        synctest::test(|| {
            let start = now();
            // This P is busy with main and then with the commit of main's park, so the new G runs on the other P.
            go(|| {
                RUNS.store(true, Ordering::Relaxed);
                while PARKED.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                wake_parked(&PARKED);
            })
            .detach();
            while !RUNS.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            park::<Native>(WaitReason::CondvarWait, |_, me| {
                PARKED.store(std::ptr::from_ref(me).expose_provenance(), Ordering::Release);
                while !GOES_ON.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                true
            });
            use_stack();
            GOES_ON.store(true, Ordering::Release);
            sleep(HOUR);
            assert_eq!(now() - start, HOUR);
        });
    });
}
