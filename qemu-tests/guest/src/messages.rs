//! Tests of panics whose message cannot be formatted. The machine must end nevertheless, with the status of the first
//! panic.

use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::platform::Kernel;
use kernel::prelude::*;
use kernel::sync::InterruptMutex;

/// A message that calls a function when it is formatted.
struct Message<F>(F);

impl<F: Fn()> fmt::Display for Message<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)();
        f.write_str("the message")
    }
}

/// Spawns a G that takes a lock and never releases it. Returns after the G has taken the lock. The G keeps another CPU
/// busy, on which it holds the lock.
fn hold_for_ever<G>(lock: impl FnOnce() -> G + Send + 'static) {
    static IS_HELD: AtomicBool = AtomicBool::new(false);
    go(move || {
        let _held = lock();
        IS_HELD.store(true, Ordering::Release);
        loop {
            spin_loop();
        }
    })
    .detach();
    while !IS_HELD.load(Ordering::Acquire) {
        spin_loop();
    }
}

fn message_that_locks_a_mutex_ends_the_machine() {
    static MUTEX: Mutex<()> = Mutex::new(());
    hold_for_ever(|| MUTEX.lock());
    panic!("{}", Message(|| drop(MUTEX.lock())));
}
guest_test!(
    message_that_locks_a_mutex_ends_the_machine,
    smp = &[2],
    status = 2,
    texts = &["panic at", "panic while panicking"]
);

fn message_that_sleeps_ends_the_machine() {
    panic!("{}", Message(|| sleep(Duration::from_millis(1))));
}
guest_test!(
    message_that_sleeps_ends_the_machine,
    smp = &[1, 2],
    status = 2,
    texts = &["panic at", "panic while panicking"]
);

/// The other CPU stops while it holds a lock of the kernel.
fn message_that_takes_a_lock_of_a_stopped_cpu_ends_the_machine() {
    static LOCK: InterruptMutex<()> = InterruptMutex::new(());
    hold_for_ever(|| LOCK.lock());
    panic!("{}", Message(|| drop(LOCK.lock())));
}
guest_test!(
    message_that_takes_a_lock_of_a_stopped_cpu_ends_the_machine,
    smp = &[2],
    status = 2,
    texts = &["panic at", "panic while panicking"]
);

/// The message waits as code of the scheduler waits for a spinlock that a stopped CPU holds.
fn message_that_waits_for_the_scheduler_ends_the_machine() {
    let wait = || {
        loop {
            <Kernel as gmp_sched::platform::Points>::relax();
        }
    };
    panic!("{}", Message(wait));
}
guest_test!(
    message_that_waits_for_the_scheduler_ends_the_machine,
    smp = &[1, 2],
    status = 2,
    texts = &["panic at", "panic while panicking"]
);

/// The report formats the message twice. The second time, the message panics at a location outside of the program,
/// which looks like a fault of the kernel.
fn message_that_panics_in_a_library_keeps_the_status() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let panic_second_time = || {
        let step = 1 - COUNT.fetch_add(1, Ordering::Relaxed);
        assert_eq!((0..1).step_by(step).count(), 1);
    };
    panic!("{}", Message(panic_second_time));
}
guest_test!(
    message_that_panics_in_a_library_keeps_the_status,
    smp = &[1, 2],
    status = 2,
    texts = &["the message", "goroutine 1 [running]", "panic while panicking"]
);
