//! Tests that misuse the library. Each misuse must panic, and in these tests a panic ends the machine.

use gmp_sched::goroutine::{Status, WaitReason};
use gmp_sched::park::park;
use gmp_sched::platform::Pinned;
use kernel::percpu::PreemptGuard;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;

use crate::provoke;

/// A G must not wait for a mutex with preemption off: during the wait, no other G could run on this CPU, not even the
/// holder of the mutex. So the call of `lock` panics. This is the program's fault, so the status is 2.
fn locking_with_preemption_off() {
    static MUTEX: Mutex<()> = Mutex::new(());
    let _held = MUTEX.lock();
    let _pinned = PreemptGuard::new();
    drop(MUTEX.lock());
}
guest_test!(
    locking_with_preemption_off,
    status = 2,
    texts = &[
        "panic at",
        "misuse.rs",
        "a G blocks, yields or ends with preemption turned off",
        "goroutine 1 [running]",
        "locking_with_preemption_off"
    ]
);

/// Operations that do not wait are allowed with preemption off.
fn operations_without_waits_work_with_preemption_off() {
    let (mutex, lock, semaphore, changed) = (Mutex::new(0), RwLock::new(0), Semaphore::new(1), Condvar::new());
    static GROUP: WaitGroup = WaitGroup::new();
    GROUP.add(1);
    let waiting = go(|| GROUP.wait());
    yield_now();
    {
        let _pinned = PreemptGuard::new();
        *mutex.lock() += 1;
        drop(lock.read());
        *lock.write() += 2;
        drop(semaphore.acquire(1));
        assert_eq!(changed.notify_all(), 0);
        GROUP.done();
    }
    waiting.join().unwrap();
    assert_eq!((*mutex.lock(), *lock.read()), (1, 2));
}
guest_test!(operations_without_waits_work_with_preemption_off, smp = &[1, 2, 8]);

/// The library panics under a pin or a lock of the program. This is the program's fault, so the status is 2.
fn library_panics_with_preemption_off() {
    let _pinned = PreemptGuard::new();
    WaitGroup::new().done();
}
guest_test!(
    library_panics_with_preemption_off,
    status = 2,
    texts = &["panic at qemu-tests/guest/src/misuse.rs:", "sync: negative WaitGroup counter", "goroutine 1 [running]"]
);

fn library_panics_with_an_interrupt_mutex() {
    static LOCK: InterruptMutex<()> = InterruptMutex::new(());
    let _held = LOCK.lock();
    WaitGroup::new().done();
}
guest_test!(
    library_panics_with_an_interrupt_mutex,
    status = 2,
    texts = &["panic at qemu-tests/guest/src/misuse.rs:", "sync: negative WaitGroup counter", "goroutine 1 [running]"]
);

/// With isolation, a panic under a pin of the program still ends the machine, because the dead G would keep its pin.
fn isolated_library_panic_with_preemption_off_ends_the_machine() {
    let _ = go(library_panics_with_preemption_off).join();
}
guest_test!(
    isolated_library_panic_with_preemption_off_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["panic at qemu-tests/guest/src/misuse.rs:", "sync: negative WaitGroup counter"]
);

/// Parks the calling G with a commit that calls `mistake`. On one CPU, the commit runs on the stack of the next G if
/// `with_next` is set, and otherwise on g0. A mistake of a commit is the program's fault, so the status is 2.
fn park_with(with_next: bool, mistake: fn()) {
    if with_next {
        go(|| ()).detach();
    }
    park::<Kernel>(WaitReason::Parked, |_, _| {
        mistake();
        true
    });
}

/// Defines a test of a mistake in a commit that runs on g0, and one of the same mistake on the next G.
macro_rules! mistakes_in_a_commit {
    ($($on_g0:ident, $on_a_g:ident: $mistake:expr => $texts:expr;)*) => {$(
        fn $on_g0() {
            park_with(false, $mistake);
        }
        guest_test!($on_g0, smp = &[1], status = 2, texts = $texts);

        fn $on_a_g() {
            park_with(true, $mistake);
        }
        guest_test!($on_a_g, smp = &[1], status = 2, texts = $texts);
    )*};
}

const BY_COMMIT: &str = "called by the commit of a park: only a G may do this";
const LEFT: &str = "the commit of a park left a pin, a lock or a section behind in which no G may wait";
const PANIC: &str = "panic in the commit of the park of goroutine ";

static HELD: InterruptMutex<()> = InterruptMutex::new(());

mistakes_in_a_commit! {
    commit_on_g0_panics, commit_on_a_g_panics: || panic!("a commit that is wrong") => &["a commit that is wrong", PANIC];
    commit_on_g0_yields, commit_on_a_g_yields: yield_now => &[BY_COMMIT, PANIC];
    commit_on_g0_spawns, commit_on_a_g_spawns: || go(|| ()).detach() => &[BY_COMMIT, PANIC];
    commit_on_g0_parks, commit_on_a_g_parks: || park_with(false, || ()) => &[BY_COMMIT, PANIC];
    commit_on_g0_leaves_preemption_off, commit_on_a_g_leaves_preemption_off:
        || core::mem::forget(PreemptGuard::new()) => &[LEFT, PANIC];
    commit_on_g0_leaves_an_interrupt_mutex, commit_on_a_g_leaves_an_interrupt_mutex:
        || core::mem::forget(HELD.lock()) => &[LEFT, PANIC];
    commit_on_g0_overflows, commit_on_a_g_overflows:
        provoke::stack_overflow => &["exception in the commit of the park of goroutine ", "stack overflow"];
}

fn too_many_dones() {
    WaitGroup::new().done();
}
guest_test!(too_many_dones, status = 2, texts = &["panic at", "misuse.rs", "sync: negative WaitGroup counter"]);

/// A G in a system call has no P, so [`Pinned::processor`] panics. The caller is pinned at this time, but the panic is
/// still the program's fault.
fn a_system_call_asks_for_its_p() {
    gmp_sched::syscall::syscall::<Kernel, _>(|| {
        let _ = Pinned::<Kernel>::new().processor();
    });
}
guest_test!(
    a_system_call_asks_for_its_p,
    status = 2,
    texts = &["panic at", "an M without a P may not do this: it is in a system call", "goroutine 1 [syscall"]
);

/// Whether the G of this handle waits.
fn is_waiting(of: &JoinHandle<()>) -> bool {
    let mut all = scheduler().expect("it runs").goroutines();
    all.any(|goroutine| goroutine.id() == of.id() && goroutine.status() == Status::Waiting)
}

/// All Gs wait for locks, a condition variable, a barrier, a semaphore or a `WaitGroup`, so there is a deadlock. The
/// report shows what each G waits for.
fn deadlock_on_a_lock_is_reported() {
    static MUTEX: Mutex<()> = Mutex::new(());
    static LOCK: RwLock<()> = RwLock::new(());
    static SEMAPHORE: Semaphore = Semaphore::new(1);
    static CHANGED: Condvar = Condvar::new();
    static GROUP: WaitGroup = WaitGroup::new();
    static PLACE: Barrier = Barrier::new(2);
    let (_mutex, _reader, _permit) = (MUTEX.lock(), LOCK.read(), SEMAPHORE.acquire(1));
    GROUP.add(1);
    let bodies: [fn(); 7] = [
        || drop(MUTEX.lock()),
        || drop(LOCK.write()),
        || drop(LOCK.read()),
        || {
            static OTHER: Mutex<()> = Mutex::new(());
            CHANGED.wait(&mut OTHER.lock());
        },
        || _ = PLACE.wait(),
        || drop(SEMAPHORE.acquire(1)),
        || GROUP.wait(),
    ];
    for body in bodies {
        let waiter = go(body);
        // Readers wait only if a writer waits already, so each G has to wait before the next one is spawned.
        while !is_waiting(&waiter) {
            yield_now();
        }
        waiter.detach();
    }
    GROUP.wait();
}
guest_test!(
    deadlock_on_a_lock_is_reported,
    isolated,
    smp = &[1],
    status = 2,
    texts = &[
        "all goroutines are asleep - deadlock!",
        "[sync.WaitGroup.Wait,",
        "[semacquire,",
        "[barrier,",
        "[sync.Cond.Wait,",
        "[sync.RWMutex.RLock,",
        "[sync.RWMutex.Lock,",
        "[sync.Mutex.Lock,"
    ]
);
