//! The panic of a call that is misused names the line of the call, not a line of the library.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once as Installed};
use std::time::Duration;

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{
    self, Barrier, Chan, Condvar, Context, ErrorGroup, Lazy, Mutex, Native, Once, OnceCell, ReadMostlyRwLock, Receiver,
    RwLock, Semaphore, Sender, SingleFlight, Ticker, Timer, WaitGroup, after, after_func, channel, go, goexit,
    lock_thread, pull, scope, set_procs, sleep, sleep_until, stop_the_world, synctest, try_go, try_scope, yield_now,
};
use gmp_sched::park::park;
use gmp_sched::select;
use gmp_sched::select::{Select, recv, send};
use gmp_sched::spawn::Builder;
use gmp_sched::time::Instant;
use thread_tests::THREADS;

/// The text of this file, in which the test finds the line of each call.
const SOURCE: &str = include_str!("callers.rs");

/// A name and a call, which are on one line of this file. The test recognises the line by the name.
type Misuse = (&'static str, fn());

/// Like [`Misuse`], but the call uses an object that was made in a bubble.
type Use = (&'static str, fn(&InBubble));

const SOON: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
static HELD: Mutex<u8> = Mutex::new(0);
static SHARED: RwLock<u8> = RwLock::new(0);
static SPREAD: ReadMostlyRwLock<u8> = ReadMostlyRwLock::new(0);
static RUNNING: Once = Once::new();
static FILLING: OnceCell<u8> = OnceCell::new();
static COMPUTING: Lazy<u8> = Lazy::new(compute);
static CHANGED: Condvar = Condvar::new();
static GROUP: WaitGroup = WaitGroup::new();
static PERMITS: Semaphore = Semaphore::new(1);
static FLIGHT: SingleFlight<u8, u8> = SingleFlight::new();
static GATE: Barrier = Barrier::new(2);

/// The functions that [`hold_everything`] starts wait for this group, so that they do not return.
static COMPUTED: WaitGroup = WaitGroup::new();

fn compute() -> u8 {
    COMPUTED.wait();
    0
}

/// Calls that have to wait, and calls that panic wherever waiting is not allowed. The test makes them outside of the
/// scheduler and in a system call.
#[rustfmt::skip]
const WAITS: &[Misuse] = &[
    ("chan send", || _ = Chan::new(0).send(1)),
    ("chan recv", || _ = Chan::<u8>::new(0).recv()),
    ("chan iter", || _ = Chan::<u8>::new(0).iter().next()),
    ("chan for", || for _ in &Chan::<u8>::new(0) {}),
    ("send_timeout", || _ = Chan::new(0).send_timeout(1, HOUR)),
    ("send_until", || _ = Chan::new(0).send_until(1, &Context::background())),
    ("recv_timeout", || _ = Chan::<u8>::new(0).recv_timeout(HOUR)),
    ("recv_until", || _ = Chan::<u8>::new(0).recv_until(Instant::NEVER)),
    ("sender", || _ = Sender::never().send(1)),
    ("receiver", || _ = Receiver::<u8>::never().recv()),
    ("receiver iter", || _ = Receiver::<u8>::never().into_iter().next()),
    ("select", || select! { recv(Receiver::<u8>::never()) => {} }),
    ("select of two", || select! { recv(Receiver::<u8>::never()) => {}, send(Sender::never(), 1) => {} }),
    ("select from an option", || select! { send_from(Sender::never(), Some(1)) => {}, send(Sender::never(), 1) => {} }),
    ("ordered select", || select! { ordered; recv(Receiver::<u8>::never()) => {}, send(Sender::never(), 1) => {} }),
    ("select timeout", || select! { recv(Receiver::<u8>::never()) => {}, timeout(HOUR) => {} }),
    ("select until", || select! { recv(Receiver::<u8>::never()) => {}, until(Instant::NEVER) => {} }),
    ("select only timeout", || native::select! { timeout(HOUR) => {} }),
    ("select nothing", || native::select! {}),
    ("list wait", || _ = Select::new(&mut [recv(&Receiver::<u8>::never()).case()]).wait()),
    ("list ordered", || _ = Select::new(&mut [recv(&Receiver::<u8>::never()).case()]).ordered().wait()),
    ("list wait_until", || _ = Select::new(&mut [send(&Sender::never(), 1).case()]).wait_until(Instant::NEVER)),
    ("list wait_timeout", || _ = Select::new(&mut [send(&Sender::never(), 1).case()]).wait_timeout(HOUR)),
    ("mutex lock", || drop(HELD.lock())),
    ("mutex try_lock_for", || drop(HELD.try_lock_for(HOUR))),
    ("mutex try_lock_until", || drop(HELD.try_lock_until(Instant::NEVER))),
    ("rwlock read", || drop(SHARED.read())),
    ("rwlock write", || drop(SHARED.write())),
    ("rwlock try_read_for", || drop(SHARED.try_read_for(HOUR))),
    ("rwlock try_write_for", || drop(SHARED.try_write_for(HOUR))),
    ("rwlock upgradable_read", || drop(SHARED.upgradable_read())),
    ("spread read", || drop(SPREAD.read())),
    ("spread write", || drop(SPREAD.write())),
    ("condvar wait", || CHANGED.wait(&mut Mutex::new(0).lock())),
    ("condvar wait_while", || CHANGED.wait_while(&mut Mutex::new(0).lock(), |_| true)),
    ("condvar wait_timeout", || _ = CHANGED.wait_timeout(&mut Mutex::new(0).lock(), HOUR)),
    ("wait group", || GROUP.wait()),
    ("semaphore", || drop(PERMITS.acquire(1))),
    ("semaphore acquire_timeout", || drop(PERMITS.acquire_timeout(1, HOUR))),
    ("barrier", || _ = GATE.wait()),
    ("once", || RUNNING.call_once(|| ())),
    ("once cell", || _ = FILLING.get_or_init(|| 1)),
    ("once cell set", || _ = FILLING.set(1)),
    ("lazy", || _ = *COMPUTING),
    ("lazy force", || _ = Lazy::force(&COMPUTING)),
    ("single flight", || _ = FLIGHT.call(1, || 1)),
    ("context wait", || _ = Context::background().wait()),
    ("context sleep", || _ = Context::background().sleep(HOUR)),
    ("context sleep_until", || _ = Context::background().sleep_until(Instant::NEVER)),
    ("sleep", || sleep(HOUR)),
    ("sleep_until", || sleep_until(Instant::NEVER)),
    ("yield_now", || yield_now()),
    ("park", || park::<Native>(WaitReason::Parked, |_, _| true)),
    ("scope", || scope(|_| ())),
    ("try_scope", || _ = try_scope(&Context::background(), |_| Err::<(), _>(()))),
    ("synctest", || synctest::test(|| ())),
    ("synctest wait", || synctest::wait()),
    ("synctest sleep", || synctest::sleep(HOUR)),
    ("stop_the_world", || drop(stop_the_world())),
    ("set_procs", || _ = set_procs(1)),
    ("lock_thread", || drop(lock_thread())),
];

/// Calls that need a G or its P.
#[rustfmt::skip]
const NEED_A_P: &[Misuse] = &[
    ("go", || go(|| ()).detach()),
    ("try_go", || try_go(|| ()).unwrap().detach()),
    ("builder", || Builder::<Native>::new().go(|| ()).detach()),
    ("builder try_go", || Builder::<Native>::new().try_go(|| ()).unwrap().detach()),
    ("wait group go", || Arc::new(WaitGroup::new()).go(|| ())),
    ("error group", || ErrorGroup::<u8>::new().go(|| Ok(()))),
    ("pull", || _ = pull::<u8, _>(|_| ()).next()),
    ("after", || drop(after(HOUR))),
    ("timer", || drop(Timer::new(HOUR))),
    ("timer try_at", || drop(Timer::try_at(Instant::NEVER))),
    ("ticker", || drop(Ticker::new(HOUR))),
    ("after_func", || _ = after_func(HOUR, || ())),
    ("context after_func", || drop(Context::background().after_func(|| ()))),
    ("goexit", || goexit()),
    ("context done", || drop(Context::background().with_timeout(HOUR).0.done())),
];

/// Calls that panic even in a G that is allowed to wait.
#[rustfmt::skip]
const BY_A_G: &[Misuse] = &[
    ("negative wait group", || WaitGroup::new().done()),
    ("semaphore of too many", || drop(Semaphore::new(u32::MAX))),
    ("semaphore released", || Semaphore::new(Semaphore::MAX).release(1)),
    ("ticker of nothing", || drop(Ticker::new(Duration::ZERO))),
    ("ticker reset", || Ticker::new(HOUR).reset(Duration::ZERO)),
    ("error group of none", || drop(ErrorGroup::<u8>::with_limit(0))),
    ("channel of too many", || drop(channel::<u8>(usize::MAX))),
    ("chan of too many", || drop(Chan::<u8>::new(usize::MAX))),
    ("recursive once", || RECURSIVE.call_once(|| RECURSIVE.call_once(|| ()))),
    ("recursive cell", || _ = OWN.get_or_init(|| *OWN.get_or_init(|| 1))),
    ("case twice", || { let s = Chan::new(1); let mut c = send(&s, 1); for _ in 0..2 { _ = Select::new(&mut [c.case()]).poll(); } }),
    ("scope whose child panics", || scope(|scope| drop(scope.go(|| panic!("of the child"))))),
    ("not in a bubble", || synctest::wait()),
    ("bubble in a bubble", || synctest::test(|| synctest::test(|| ()))),
    ("bubble that blocks", || _ = synctest::test(|| Chan::<u8>::new(0).recv())),
    ("stopped world", || { let _stopped = stop_the_world(); yield_now() }),
];

static RECURSIVE: Once = Once::new();
static OWN: OnceCell<u8> = OnceCell::new();

/// Calls by a G outside of a bubble that use objects made in the bubble.
#[rustfmt::skip]
const FROM_OUTSIDE: &[Use] = &[
    ("send into", |made| _ = made.chan.send(1)),
    ("try_send into", |made| _ = made.chan.try_send(1)),
    ("send_until into", |made| _ = made.chan.send_timeout(1, SOON)),
    ("recv from", |made| _ = made.chan.recv()),
    ("try_recv from", |made| _ = made.chan.try_recv()),
    ("recv_until from", |made| _ = made.chan.recv_timeout(SOON)),
    ("iter of", |made| _ = made.chan.iter().next()),
    ("select recv of", |made| select! { recv(made.chan) => {}, timeout(SOON) => {} }),
    ("select send of", |made| select! { send(made.chan, 1) => {}, timeout(SOON) => {} }),
    ("select option of", |made| select! { send_from(made.chan, Some(1)) => {}, timeout(SOON) => {} }),
    ("close of", |made| _ = made.chan.close()),
    ("timer wait", |made| _ = made.timer.wait()),
    ("timer try_wait", |made| _ = made.timer.try_wait()),
    ("timer select", |made| select! { recv(made.timer) => {} }),
    ("timer stop", |made| _ = made.timer.stop()),
    ("timer reset", |made| _ = made.timer.reset(SOON)),
    ("wait group of", |made| made.group.add(1)),
];

struct InBubble {
    chan: Chan<u8>,
    timer: Timer,
    group: WaitGroup,
}

thread_local! {
    /// File and line of the last panic on this thread. `place_of_panic` returns them and clears this variable.
    static LAST: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
}

/// Returns the file and line that the panic of `misuse` names, or `None` if `misuse` does not panic.
fn place_of_panic(misuse: impl FnOnce()) -> Option<(String, u32)> {
    static INSTALLED: Installed = Installed::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|location| (location.file().to_owned(), location.line()));
            LAST.set(place);
            before(info);
        }));
    });
    let ended = catch_unwind(AssertUnwindSafe(misuse));
    ended.err().and_then(|_| take_last())
}

/// Not inlined, because the G may continue on another thread after `misuse`, and the compiler may keep the address of a
/// thread-local variable within one function.
#[inline(never)]
fn take_last() -> Option<(String, u32)> {
    LAST.take()
}

/// Runs `misuse`. Adds `name` to `wrong` unless `misuse` panics and the panic names the line of the call.
fn check(name: &str, misuse: impl FnOnce(), wrong: &mut Vec<String>) {
    let place = place_of_panic(misuse);
    let is_its_line = place.as_ref().is_some_and(|(file, line)| {
        let text = SOURCE.lines().nth(*line as usize - 1).unwrap_or_default();
        file.ends_with("misuse/callers.rs") && text.contains(&format!("(\"{name}\", |"))
    });
    if !is_its_line {
        wrong.push(format!("{name}: {place:?}"));
    }
}

/// Makes the calls of [`WAITS`] that use statics wait forever: holds all locks and permits, and keeps all one-time
/// functions running.
fn hold_everything() {
    std::mem::forget((HELD.lock(), SHARED.write(), SPREAD.write()));
    PERMITS.acquire(1).forget();
    GROUP.add(1);
    COMPUTED.add(1);
    go(|| RUNNING.call_once(|| COMPUTED.wait())).detach();
    go(|| FILLING.get_or_init(compute)).detach();
    go(|| *COMPUTING).detach();
    go(|| FLIGHT.call(1, compute)).detach();
    (0..10).for_each(|_| yield_now());
}

fn check_all(misuses: &[Misuse]) {
    let mut wrong = Vec::new();
    for &(name, misuse) in misuses {
        check(name, misuse, &mut wrong);
    }
    assert!(wrong.is_empty(), "not at the line of the call:\n{}", wrong.join("\n"));
}

#[test]
fn call_that_may_not_wait_is_named_by_its_line() {
    THREADS.run(1, || {
        hold_everything();
        native::blocking(|| check_all(WAITS));
    });
    check_all(WAITS);
    check_all(NEED_A_P);
}

#[test]
fn misuse_by_a_goroutine_is_named_by_its_line() {
    THREADS.run(1, || check_all(BY_A_G));
}

#[test]
fn use_from_outside_of_a_bubble_is_named_by_its_line() {
    THREADS.run(1, || {
        let made = synctest::test(|| {
            let made = InBubble { chan: Chan::new(1), timer: Timer::new(HOUR), group: WaitGroup::new() };
            made.group.add(1);
            made
        });
        let mut wrong = Vec::new();
        for &(name, misuse) in FROM_OUTSIDE {
            check(name, || misuse(&made), &mut wrong);
        }
        assert!(wrong.is_empty(), "not at the line of the call:\n{}", wrong.join("\n"));
    });
}
