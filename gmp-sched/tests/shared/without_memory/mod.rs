//! What the operations of the library do if one of their allocations fails. On threads (`thread-tests/tests/no_memory.rs`)
//! and inside the machine (`qemu-tests/guest/src/without_memory.rs`), each operation is called with its first allocation
//! failing, then with its second, and so on, until it succeeds.
//!
//! The including file provides `platform`, as for the tests of `shared`, and the function `counted`, which calls its
//! argument and counts the allocations of that call. Only these allocations can fail. What an operation does before and
//! after that call belongs to the test.

mod waits;

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use gmp_sched::platform::{OutOfResources, Pinned};
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sync::TryGoError;

use super::counted;
use super::platform::{
    self, Builder, Context, ErrorGroup, Mutex, Pool, Pull, SingleFlight, ThisPlatform, Ticker, Timer, WaitGroup,
    channel, go, now, scope, try_go, yield_now,
};

/// An operation. If it does not do what it does with enough memory, it returns an error or panics.
pub(crate) type Operation = fn() -> Result<(), OutOfResources>;

/// What an operation does if one of its allocations fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shortage {
    /// It returns an error.
    IsAnError,
    /// It returns an error. But on threads, it needs a thread, and `std` may end the process.
    OfThreads,
    /// It ends the caller by a panic that says so, or returns an error.
    Panics,
    /// It allocates nothing, so no allocation can fail.
    IsImpossible,
}

use Shortage::{IsAnError, IsImpossible, OfThreads, Panics};

/// Each operation has a name, and is called by a G of a scheduler with one P.
pub(crate) const OPERATIONS: &[(&str, Shortage, Operation)] = &[
    ("try_go", IsAnError, spawn),
    ("try_go with many Gs", IsAnError, spawn_many),
    ("try_go with a name and a stack of its own", IsAnError, spawn_with_name),
    ("try_go in a scope", IsAnError, spawn_in_scope),
    ("try_go in a scope with errors", IsAnError, spawn_in_scope_with_errors),
    ("try_go in a wait group", IsAnError, spawn_in_wait_group),
    ("try_go in an error group", IsAnError, spawn_in_error_group),
    ("try_channel", IsAnError, || make_channel(0).and_then(|()| make_channel(1)).and_then(|()| make_channel(1_000))),
    ("timer", IsAnError, || {
        let timer = counted(|| Timer::try_new(MOMENT))?;
        timer.wait();
        Ok(())
    }),
    ("timer at an instant", IsAnError, || counted(|| Timer::try_at(now() + HOUR)).map(drop)),
    ("ticker", IsAnError, || {
        let ticker = counted(|| Ticker::try_new(MOMENT))?;
        ticker.wait();
        Ok(())
    }),
    ("try_after_func", IsAnError, delayed_function),
    ("done of a context", IsAnError, done_of_context),
    ("function of a context", IsAnError, function_of_context),
    ("functions of a context", IsAnError, functions_of_context),
    ("pool", IsAnError, || {
        let pool = counted(|| Pool::try_new(4, || 7))?;
        assert_eq!(*pool.get(), 7);
        Ok(())
    }),
    ("trace", IsAnError, || trace(|scheduler| scheduler.start_trace(100))),
    ("profile", IsAnError, || trace(|scheduler| scheduler.start_profile(1_000))),
    ("more Ps", OfThreads, more_procs),
    ("more Ps in a trace", OfThreads, || trace(|scheduler| scheduler.start_trace(10)).and_then(|()| more_procs())),
    ("try_blocking", OfThreads, || {
        let call = || counted(|| gmp_sched::syscall::try_blocking::<ThisPlatform, _>(|| 7));
        let result = platform::without_idle_machines(call)?;
        assert_eq!(result, 7);
        Ok(())
    }),
    ("try_lock_thread", OfThreads, || counted(platform::try_lock_thread).map(drop)),
    ("blocking", Panics, || {
        let call = || counted(|| gmp_sched::syscall::blocking::<ThisPlatform, _>(|| 7));
        assert_eq!(platform::without_idle_machines(call), 7);
        Ok(())
    }),
    ("go", Panics, || {
        assert_eq!(counted(|| go(|| 7)).join(), Ok(7));
        Ok(())
    }),
    ("go with a name and a stack of its own", Panics, || {
        assert_eq!(counted(|| Builder::new().name("n").stack_size(1 << 17).go(|| 7)).join(), Ok(7));
        Ok(())
    }),
    ("channel", Panics, || {
        let (sender, receiver) = counted(|| channel(3));
        sender.send(7).expect("there is a receiver");
        assert_eq!(receiver.recv(), Ok(7));
        Ok(())
    }),
    ("after", Panics, || {
        counted(|| platform::after(MOMENT)).wait();
        Ok(())
    }),
    ("after_func", Panics, || {
        assert!(counted(|| platform::after_func(HOUR, || ())).stop());
        Ok(())
    }),
    ("tree of contexts", Panics, tree_of_contexts),
    ("cause of a context", Panics, || {
        let (context, cancel) = Context::background().with_cancel();
        counted(|| cancel.cancel_with("a cause".to_string()));
        assert_eq!(context.cause().expect("it was cancelled").to_string(), "a cause");
        Ok(())
    }),
    ("error group", Panics, error_group),
    ("single flight", Panics, single_flight),
    ("coroutine", Panics, || {
        let mut pull: Pull<u32> = counted(|| platform::try_pull(|yielder| _ = yielder.yield_value(7)))?;
        assert_eq!(pull.next(), Some(7));
        Ok(())
    }),
    ("block_on", Panics, || {
        assert_eq!(counted(|| platform::block_on(async { 7 })), 7);
        Ok(())
    }),
    ("bubble", Panics, || {
        assert_eq!(counted(|| platform::synctest::test(|| 7)), 7);
        Ok(())
    }),
    ("list of Gs", Panics, || {
        let list = counted(|| format!("{}", scheduler().goroutine_list()));
        assert!(list.contains("goroutine 1 "), "{list}");
        Ok(())
    }),
    ("reading a trace", Panics, || {
        trace(|scheduler| scheduler.start_trace(100))?;
        assert!(!counted(|| scheduler().traces()).is_empty());
        Ok(())
    }),
    ("panic of a G", Panics, || {
        counted(|| {
            let ended = platform::PANICS_UNWIND.then(|| go(|| panic!("on purpose")).join());
            assert!(ended.is_none_or(|ended| ended.is_err()));
        });
        Ok(())
    }),
    ("waits for times", IsImpossible, waits::waits_for_times),
    ("waits for channels", IsImpossible, waits::waits_for_channels),
    ("select of many cases", IsImpossible, waits::select_of_many_cases),
    ("waits for locks", IsImpossible, waits::waits_for_locks),
    ("waits for Gs", IsImpossible, waits::waits_for_gs),
];

const MOMENT: Duration = Duration::from_micros(10);
const HOUR: Duration = Duration::from_secs(3600);

fn scheduler() -> &'static Scheduler<ThisPlatform> {
    Pinned::<ThisPlatform>::new().machine().scheduler()
}

fn spawn() -> Result<(), OutOfResources> {
    assert_eq!(counted(|| try_go(|| 7))?.join(), Ok(7));
    Ok(())
}

/// The global queue has room for 64 Gs at first. Each later array is twice as large.
fn spawn_many() -> Result<(), OutOfResources> {
    let (sender, receiver) = channel::<()>(0);
    let spawn = || {
        let receiver = receiver.clone();
        try_go(move || receiver.recv())
    };
    let mut gs: Vec<_> = (0..60).map(|_| spawn().expect("memory")).collect();
    gs.reserve(8);
    let spawned = (0..8).try_for_each(|_| counted(spawn).map(|g| gs.push(g)));
    drop(sender);
    gs.into_iter().for_each(|g| assert!(g.join().expect("no panic").is_err()));
    spawned
}

fn spawn_with_name() -> Result<(), OutOfResources> {
    let named = counted(|| Builder::new().name("named").stack_size(1 << 17).try_go(|| 7))?;
    assert_eq!(named.join(), Ok(7));
    Ok(())
}

fn spawn_in_scope() -> Result<(), OutOfResources> {
    let number = 7;
    scope(|scope| {
        let spawned = counted(|| scope.try_go(|| number + 1))?;
        assert_eq!(spawned.join(), Ok(8));
        Ok(())
    })
}

fn spawn_in_scope_with_errors() -> Result<(), OutOfResources> {
    platform::try_scope(&Context::background(), |scope| counted(|| scope.try_go(|| Ok(()))))
}

fn spawn_in_wait_group() -> Result<(), OutOfResources> {
    let group = Arc::new(WaitGroup::new());
    let spawned = counted(|| group.try_go(|| ()));
    group.wait();
    spawned
}

fn spawn_in_error_group() -> Result<(), OutOfResources> {
    let group = ErrorGroup::<()>::with_limit(1);
    let spawned = counted(|| group.try_go(|| Ok(())));
    assert_eq!(group.wait(), Ok(()));
    spawned.map_err(|error| match error {
        TryGoError::OutOfResources(error) => error,
        TryGoError::LimitReached(_) => panic!("no G of the group was spawned before"),
    })
}

fn make_channel(capacity: usize) -> Result<(), OutOfResources> {
    let (sender, receiver) = counted(|| gmp_sched::chan::try_channel::<_, ThisPlatform>(capacity))?;
    let sending = go(move || (0..9).for_each(|number| sender.send(number).expect("there is a receiver")));
    assert_eq!(receiver.iter().sum::<u32>(), 36);
    sending.join().expect("no panic");
    Ok(())
}

fn delayed_function() -> Result<(), OutOfResources> {
    let (sender, receiver) = channel(1);
    let delayed = counted(|| platform::try_after_func(MOMENT, move || sender.send(7).expect("there is a receiver")))?;
    assert_eq!(receiver.recv(), Ok(7));
    assert!(!delayed.stop());
    Ok(())
}

fn done_of_context() -> Result<(), OutOfResources> {
    let (context, cancel) = Context::background().with_timeout(HOUR);
    let done = counted(|| context.try_done())?;
    cancel.cancel();
    assert!(done.recv().is_err());
    Ok(())
}

fn function_of_context() -> Result<(), OutOfResources> {
    let (context, cancel) = Context::background().with_timeout(HOUR);
    let (sender, receiver) = channel(1);
    let function = counted(|| context.try_after_func(move || sender.send(7).expect("there is a receiver")))?;
    cancel.cancel();
    assert_eq!(receiver.recv(), Ok(7));
    assert!(!function.stop());
    Ok(())
}

/// The table of hooks grows.
fn functions_of_context() -> Result<(), OutOfResources> {
    let (context, cancel) = Context::background().with_cancel();
    let (sender, receiver) = channel(9);
    let function = |number| {
        let sender = sender.clone();
        counted(|| context.try_after_func(move || sender.send(number).expect("there is a receiver")))
    };
    let functions: Vec<_> = (0..9).map_while(|number| function(number).ok()).collect();
    drop(sender);
    cancel.cancel();
    assert_eq!(receiver.iter().count(), functions.len(), "each function has run once");
    if functions.len() == 9 { Ok(()) } else { Err(OutOfResources) }
}

fn trace(start: fn(&'static Scheduler<ThisPlatform>) -> Result<(), OutOfResources>) -> Result<(), OutOfResources> {
    let started = counted(|| start(scheduler()));
    assert_eq!(scheduler().is_tracing(), started.is_ok());
    go(yield_now).join().expect("no panic");
    scheduler().stop_trace();
    started
}

fn more_procs() -> Result<(), OutOfResources> {
    let before = platform::procs();
    let changed = counted(|| platform::set_procs(before + 2));
    assert_eq!(platform::procs(), before + if changed.is_ok() { 2 } else { 0 });
    platform::set_procs(before).expect("it needs no memory");
    changed.map(|_| ()).map_err(|_| OutOfResources)
}

fn tree_of_contexts() -> Result<(), OutOfResources> {
    let (root, cancel) = Context::background().with_cancel();
    let (leaf, _cancel_leaf) = counted(|| {
        let (other, _cancel_other) = root.with_timeout(HOUR);
        other.with_value(7u32).with_cancel()
    });
    assert_eq!(leaf.value(), Some(&7u32));
    cancel.cancel();
    assert!(leaf.err().is_some());
    Ok(())
}

fn error_group() -> Result<(), OutOfResources> {
    let context = Context::background();
    let (group, context) = counted(|| {
        let (group, context) = ErrorGroup::with_limit(2).with_context(&context);
        let group = group.on_cancel(|| ());
        group.go(|| Err("failed"));
        (group, context)
    });
    assert_eq!(group.wait(), Err("failed"));
    assert!(context.err().is_some());
    Ok(())
}

fn single_flight() -> Result<(), OutOfResources> {
    let flights = SingleFlight::new();
    assert_eq!(counted(|| flights.call(1, || 7)).value, 7);
    assert_eq!(flights.call(1, || 8).value, 8);
    Ok(())
}

/// Runs a program with the operations that may have failed before. This time, no allocation may fail.
pub(crate) fn check_that_the_scheduler_works() {
    let (sender, receiver) = channel(2);
    let (timer, mutex) = (Timer::try_new(MOMENT).expect("memory"), Arc::new(Mutex::new(0)));
    let senders: Vec<_> = (1..=20)
        .map(|number| {
            let (sender, mutex) = (sender.clone(), mutex.clone());
            go(move || {
                yield_now();
                *mutex.lock() += number;
                sender.send(number).expect("there is a receiver");
            })
        })
        .collect();
    drop(sender);
    assert_eq!(receiver.iter().sum::<u32>(), 210);
    senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
    timer.wait();
    assert_eq!(*mutex.lock(), 210);
}
