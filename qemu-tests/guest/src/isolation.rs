//! Tests of `panic=isolate`: what a panic ends, what continues, and when a panic ends the machine nevertheless.

use alloc::collections::BTreeSet;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::JoinError;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::platform::Pinned;
use kernel::internals;
use kernel::internals::Storm;
use kernel::net::{self, NetError, TcpListener, TcpStream, UdpSocket, Usage};
use kernel::percpu::{self, PreemptGuard};
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

use crate::reports::waiting;
use crate::several::{go_each, join_all, spawn_each};
use crate::{provoke, vectors};

/// Returns the start and the end of the calling G's stack.
fn my_stack() -> (usize, usize) {
    let stack = Pinned::<Kernel>::new().goroutine().stack();
    (stack.start, stack.end)
}

/// The stacks of Gs that have died. They must never be reused.
pub(crate) struct DeadStacks(spin::Mutex<BTreeSet<(usize, usize)>>);

impl DeadStacks {
    pub(crate) const fn new() -> Self {
        Self(spin::Mutex::new(BTreeSet::new()))
    }

    /// Records the stack of the calling G, which is about to die.
    pub(crate) fn add_mine(&self) {
        let stack = my_stack();
        let _off = PreemptGuard::new();
        self.0.lock().insert(stack);
        // This spawns one more G, which normally runs next on this CPU, after the calling G has died. The new G must
        // not get the stack that was recorded.
        go(|| {}).detach();
    }

    /// Checks that `count` Gs have died and that new Gs run on other stacks.
    pub(crate) fn check(&self, count: usize) {
        /// All Gs wait here, so that they are alive at the same time. Otherwise consecutive Gs would share one stack.
        static ALIVE: Barrier = Barrier::new(100);
        let dead = core::mem::take(&mut *self.0.lock());
        assert_eq!(dead.len(), count, "a stack was used again");
        for _ in 0..10 {
            let live = || {
                ALIVE.wait();
                my_stack()
            };
            let stacks: BTreeSet<_> = join_all(spawn_each(0..100, |_| live)).into_iter().collect();
            assert_eq!(stacks.len(), 100, "they were not alive at once");
            assert!(stacks.is_disjoint(&dead), "a stack was used again");
        }
    }
}

fn joiner_gets_the_error() {
    let fails = go(|| if my_stack().0 != 0 { panic!("this is the reason") } else { 7 });
    let works = go(|| 8);
    assert_eq!(fails.join(), Err(JoinError::panicked()));
    assert_eq!(works.join(), Ok(8));
}
guest_test!(
    joiner_gets_the_error,
    smp = &[1, 2, 8],
    options = &["panic=isolate"],
    texts = &[
        "panic at qemu-tests/guest/src/isolation.rs:",
        "this is the reason",
        "[running] on CPU",
        // This is the backtrace's line for the closure. The name of the function is not compared, because the closure
        // may be inlined.
        "(qemu-tests/guest/src/isolation.rs:",
        "is dead and the others go on. What it held stays held; its stack of 64 KiB is not used again."
    ],
);

/// An exception ends the G that raises it, and the joiner of this G gets an error. Other Gs still run.
fn exception_ends_only_its_g() {
    for provoke in [provoke::null_read, provoke::invalid_opcode, provoke::divide_error, provoke::bad_address] {
        let fails = go(move || {
            provoke();
            1
        });
        assert_eq!(fails.join(), Err(JoinError::panicked()));
    }
    let handles = go_each(0..100, move |n| n);
    assert!((0..100).zip(handles).all(|(n, handle)| handle.join() == Ok(n)));
}
guest_test!(
    exception_ends_only_its_g,
    smp = &[1, 8],
    options = &["panic=isolate"],
    texts = &[
        "exception in goroutine ",
        ": page fault (#PF, vector 14): read at 0x0000000000000008",
        "[running] on CPU",
        "null_read (qemu-tests/guest/src/provoke.rs:",
        "is dead and the others go on.",
        ": invalid opcode",
        ": divide error",
        ": general protection fault",
    ],
);

/// Many Gs die of a panic or overflow their stacks, while many others compute and are preempted. Some of the dead Gs have
/// no joiner. The stacks of dead Gs are never reused, and Gs that are spawned later have stacks that work.
fn other_gs_continue() {
    static DEAD_STACKS: DeadStacks = DeadStacks::new();
    static LIVED: AtomicUsize = AtomicUsize::new(0);
    let compute =
        |n: u64| (0..20_000).fold(n, |sum, step| core::hint::black_box(sum.wrapping_mul(31).wrapping_add(step)));
    let before = scheduler().expect("it runs").counts();
    let gs_before = num_goroutine();
    let storm = Storm::begin(Duration::from_micros(20)..Duration::from_micros(200));
    let handles = go_each(0..120u64, move |n| {
        sleep(Duration::from_micros(n * 37 % 500));
        if n.is_multiple_of(2) {
            DEAD_STACKS.add_mine();
            if n.is_multiple_of(6) {
                provoke::stack_overflow();
            }
            panic!("number {n} dies");
        }
        LIVED.fetch_add(1, Ordering::Relaxed);
        compute(n)
    });
    for (n, handle) in (0..).zip(handles) {
        match n % 4 {
            0 => handle.detach(),
            2 if n % 6 == 0 => assert_eq!(handle.join(), Err(JoinError::StackOverflow)),
            2 => assert_eq!(handle.join(), Err(JoinError::panicked())),
            _ => assert_eq!(handle.join(), Ok(compute(n))),
        }
    }
    let abandoned = || scheduler().expect("it runs").counts().abandoned - before.abandoned;
    while abandoned() < 60 || num_goroutine() > gs_before {
        sleep(Duration::from_millis(1));
    }
    drop(storm);
    assert_eq!((abandoned(), LIVED.load(Ordering::Relaxed)), (60, 60));
    DEAD_STACKS.check(60);
    let digging = go_each(0..60, move |n| [n; 40 * 1024 / 8].iter().sum::<u64>());
    assert!(digging.into_iter().zip(0..).all(|(handle, n)| handle.join() == Ok(n * 5120)));
}
guest_test!(other_gs_continue, smp = &[1, 2, 8], options = &["panic=isolate"], seconds = 60);

/// When a G dies, its values are not dropped. This includes the captures of its closure, and its guards.
fn guards_of_a_dead_g_are_not_dropped() {
    static DROPPED: AtomicBool = AtomicBool::new(false);
    static LOCK: spin::Mutex<()> = spin::Mutex::new(());
    struct Owned;
    impl Drop for Owned {
        fn drop(&mut self) {
            DROPPED.store(true, Ordering::Relaxed);
        }
    }
    let owned = Owned;
    let dead = go(move || {
        let _owned = &owned;
        let _guard = LOCK.lock();
        assert!(internals::preempt_count() != 0, "dies with a lock");
    });
    assert_eq!(dead.join(), Err(JoinError::panicked()));
    assert!(LOCK.try_lock().is_none());
    assert!(!DROPPED.load(Ordering::Relaxed));
}
guest_test!(guards_of_a_dead_g_are_not_dropped, options = &["panic=isolate"]);

/// A G dies or exits while it runs the function of a `Once`, `Lazy` or `OnceCell`. Callers that wait for it panic,
/// and later callers panic, too. The function is not run a second time, because the locks that the dead G holds stay
/// locked.
fn once_whose_g_dies_is_poisoned() {
    static BY_PANIC: Once = Once::new();
    static BY_OVERFLOW: Lazy<()> = Lazy::new(provoke::stack_overflow);
    static BY_EXIT: OnceCell<u8> = OnceCell::new();
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static MAY_DIE: Semaphore = Semaphore::new(1);
    MAY_DIE.acquire(1).forget();
    let dies = go(|| {
        BY_PANIC.call_once(|| {
            BEGUN.store(true, Ordering::Relaxed);
            MAY_DIE.acquire(1).forget();
            panic!("the function dies");
        });
    });
    while !BEGUN.load(Ordering::Relaxed) {
        yield_now();
    }
    let waits = go(|| BY_PANIC.call_once(|| ()));
    (0..10).for_each(|_| yield_now());
    MAY_DIE.release(1);
    assert_eq!(dies.join(), Err(JoinError::panicked()));
    assert_eq!(waits.join(), Err(JoinError::panicked()));
    assert_eq!(go(|| BY_PANIC.call_once(|| ())).join(), Err(JoinError::panicked()));
    assert!(!BY_PANIC.is_done());

    assert_eq!(go(|| *BY_OVERFLOW).join(), Err(JoinError::StackOverflow));
    assert_eq!(go(|| *BY_OVERFLOW).join(), Err(JoinError::panicked()));
    assert_eq!(go(|| *BY_EXIT.get_or_init(|| goexit())).join(), Err(JoinError::Exited));
    assert_eq!(go(|| BY_EXIT.set(1)).join(), Err(JoinError::panicked()));
    assert_eq!(BY_EXIT.get(), None);
}
guest_test!(
    once_whose_g_dies_is_poisoned,
    smp = &[1, 2, 8],
    options = &["panic=isolate"],
    texts = &["the function dies", "sync: the goroutine that ran the function of this Once ended without finishing it"]
);

/// After a G has misused a semaphore or a condition variable and died, other Gs can still use both.
fn misuse_ends_only_its_g() {
    static SEMAPHORE: Semaphore = Semaphore::new(1);
    static CHANGED: Condvar = Condvar::new();
    static MUTEX: Mutex<bool> = Mutex::new(false);
    SEMAPHORE.acquire(1).forget();
    let acquires = go(|| SEMAPHORE.acquire(1).forget());
    static IS_ASKED: AtomicBool = AtomicBool::new(false);
    let is_unchanged = |changed: &mut bool| {
        IS_ASKED.store(true, Ordering::Relaxed);
        !*changed
    };
    let waits = go(move || CHANGED.wait_while(&mut MUTEX.lock(), is_unchanged));
    while !IS_ASKED.load(Ordering::Relaxed) {
        yield_now();
    }
    // The waiter unlocks the mutex only after it has been queued. So the waiter is queued when main gets the mutex
    // here.
    drop(MUTEX.lock());
    assert_eq!(go(|| SEMAPHORE.release(2)).join(), Err(JoinError::panicked()));
    let with_another_mutex = || {
        static OTHER: Mutex<()> = Mutex::new(());
        CHANGED.wait(&mut OTHER.lock());
    };
    assert_eq!(go(with_another_mutex).join(), Err(JoinError::panicked()));
    SEMAPHORE.release(1);
    acquires.join().unwrap();
    *MUTEX.lock() = true;
    assert!(CHANGED.notify_one());
    waits.join().unwrap();
}
guest_test!(
    misuse_ends_only_its_g,
    smp = &[1, 2, 8],
    options = &["panic=isolate"],
    texts = &["semaphore: released more than held", "sync: Gs wait for one Condvar with two mutexes"]
);

fn death_of_main_ends_the_machine() {
    panic!("main dies");
}
guest_test!(
    death_of_main_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["main dies", "goroutine 1 [running]"]
);

fn death_with_preemption_off_ends_the_machine() {
    let _ = go(|| {
        let _off = PreemptGuard::new();
        panic!("preemption is off");
    })
    .join();
}
guest_test!(
    death_with_preemption_off_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["panic at", "preemption is off"]
);

fn panic_in_a_handler_ends_the_machine() {
    let vector = vectors::allocate(|_| panic!("a handler dies"));
    let _ = go(move || {
        vectors::send(percpu::CpuId::BOOT, vector);
        loop {
            core::hint::spin_loop();
        }
    })
    .join();
}
guest_test!(
    panic_in_a_handler_ends_the_machine,
    smp = &[1, 8],
    options = &["panic=isolate"],
    status = 101,
    texts = &["panic on CPU 0", "a handler dies"]
);

fn panic_in_a_commit_ends_the_program() {
    let _ = go(|| gmp_sched::park::park::<Kernel>(WaitReason::Parked, |_, _| panic!("a commit dies"))).join();
}
guest_test!(
    panic_in_a_commit_ends_the_program,
    options = &["panic=isolate"],
    status = 2,
    texts = &["panic in the commit of the park of goroutine", "a commit dies"]
);

fn panic_in_a_system_call_ends_the_machine() {
    let _ = go(|| {
        gmp_sched::syscall::syscall::<Kernel, ()>(|| panic!("a system call dies"));
    })
    .join();
}
guest_test!(
    panic_in_a_system_call_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["a system call dies"]
);

fn second_panic_ends_the_machine() {
    struct Dies;
    impl fmt::Display for Dies {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("the message dies")
        }
    }
    let _ = go(|| panic!("{Dies}")).join();
}
guest_test!(
    second_panic_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["panic at", "the message dies"]
);

fn panic_without_the_option_ends_the_machine() {
    let dies = go(|| {
        // The report says that main waits for this G. On a second CPU, this G may run before main waits.
        while waiting(WaitReason::Join) == 0 {
            yield_now();
        }
        panic!("as in Go")
    });
    let _ = dies.join();
}
guest_test!(panic_without_the_option_ends_the_machine, status = 2, texts = &["as in Go", "goroutine 1 [join"]);

/// A G that dies does not drop what it holds. Nevertheless its connections end, and its ports are free again.
fn dead_gs_leave_no_sockets() {
    for round in 0..20 {
        let server = go(|| {
            let listener = TcpListener::bind("127.0.0.1:7").unwrap();
            let _datagrams = UdpSocket::bind("127.0.0.1:7").unwrap();
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(stream.read(&mut [0; 9]), Ok(4));
            provoke::null_read();
        });
        let end = now() + Duration::from_secs(10);
        let near = loop {
            match TcpStream::connect("127.0.0.1:7") {
                Ok(near) => break near,
                Err(error) => assert!(now() < end, "round {round}: {error}"),
            }
            sleep(Duration::from_millis(1));
        };
        near.write_all(b"data").unwrap();
        assert_eq!(near.read(&mut [0; 9]), Err(NetError::ConnectionReset));
        assert_eq!(server.join(), Err(JoinError::panicked()));
        drop(near);
        while net::usage() != Usage::default() {
            assert!(now() < end, "round {round}: {:?}", net::usage());
            sleep(Duration::from_millis(1));
        }
    }
}
guest_test!(dead_gs_leave_no_sockets, smp = &[1, 8], options = &["panic=isolate"]);
