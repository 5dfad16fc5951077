//! Tests of the watchdog, which must detect CPUs that have had interrupts or preemption off for too long.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::clock;
use kernel::percpu::PreemptGuard;
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use kernel::watchdog::{OffTimes, longest_off_times};

use crate::several::{go_each, join_all};
use crate::vectors;

/// Spins until the watchdog has reported one more CPU than in `before`.
#[inline(never)]
fn spins_until_it_is_found(before: &OffTimes) {
    while longest_off_times().lockups == before.lockups {
        spin_loop();
    }
}

/// Spins until the watchdog has noticed that a reported CPU has recovered.
fn spins_until_it_goes_on(before: &OffTimes) {
    while longest_off_times().recoveries == before.recoveries {
        spin_loop();
    }
}

guest_test!(
    interrupts_off_for_too_long_are_detected,
    smp = &[2, 8],
    isolated,
    texts = &[
        "error: kernel::watchdog: CPU ",
        "has had interrupts off for ",
        "interrupts off since qemu-tests/guest/src/masked.rs:",
        "interrupts_off_for_too_long_are_detected (qemu-tests/guest/src/masked.rs:",
        "has interrupts on again",
    ],
);
/// The only busy CPU is stuck, so a halted CPU must check it.
fn interrupts_off_for_too_long_are_detected() {
    let before = longest_off_times();
    assert_eq!(before.lockups, 0);
    let lock = InterruptMutex::new(());
    let held = lock.lock();
    spins_until_it_is_found(&before);
    drop(held);
    // The CPU has recovered. It stays busy, but it is not reported again.
    spins_until_it_goes_on(&before);
    let after = longest_off_times();
    assert_eq!(after.lockups, 1);
    assert!(after.interrupts_off >= Duration::from_secs(1), "{after:?}");
}

guest_test!(
    preemption_off_for_too_long_is_detected,
    smp = &[1, 2, 8],
    isolated,
    texts = &[
        "error: kernel::watchdog: CPU ",
        "has had preemption off for ",
        ", preempt count ",
        "preemption_off_for_too_long_is_detected (qemu-tests/guest/src/masked.rs:",
        "has preemption on again",
    ],
);
fn preemption_off_for_too_long_is_detected() {
    let before = longest_off_times();
    let pinned = PreemptGuard::new();
    spins_until_it_is_found(&before);
    drop(pinned);
    spins_until_it_goes_on(&before);
    let after = longest_off_times();
    assert_eq!(after.lockups, 1);
    assert!(after.preemption_off >= Duration::from_secs(1), "{after:?}");
}

guest_test!(
    busy_cpu_detects_a_stuck_one,
    isolated,
    texts = &["has had interrupts off for ", "busy_cpu_detects_a_stuck_one (qemu-tests/guest/src/masked.rs:"],
);
/// All CPUs are busy, and they check each other in the handlers of their ticks.
fn busy_cpu_detects_a_stuck_one() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    let before = longest_off_times();
    let hogs = go_each(1..procs(), move |_| {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        spins_until_it_is_found(&before);
    });
    while RUNNING.load(Ordering::SeqCst) < procs() - 1 {
        spin_loop();
    }
    let lock = InterruptMutex::new(());
    let held = lock.lock();
    spins_until_it_is_found(&before);
    drop(held);
    join_all(hogs);
}

guest_test!(
    cpu_that_never_releases_the_console_ends_the_machine,
    smp = &[2, 8],
    status = 101,
    texts = &["panic on CPU ", "has had interrupts off for ", "and the console is locked", "keeps_the_console"],
);
fn cpu_that_never_releases_the_console_ends_the_machine() {
    keeps_the_console();
}

#[inline(never)]
fn keeps_the_console() {
    kernel::internals::with_console_locked(|| {
        loop {
            spin_loop();
        }
    });
}

guest_test!(
    handlers_that_wait_for_the_console_detect_its_holder,
    smp = &[2, 8],
    status = 101,
    texts = &["panic on CPU ", "has had interrupts off for ", "and the console is locked"],
);
/// A CPU keeps the console's lock, and all others wait for this lock in an interrupt handler. So no timer interrupt
/// comes in which a CPU could check the others.
fn handlers_that_wait_for_the_console_detect_its_holder() {
    let vector = vectors::allocate(|_| println!("this is printed when the console is unlocked"));
    kernel::internals::with_console_locked(|| {
        vectors::send_to_others(vector);
        loop {
            spin_loop();
        }
    });
}

guest_test!(busy_machine_is_not_reported_as_stuck, smp = &[1, 8], isolated, seconds = 60);
/// Gs compute, yield, spawn and sleep for two seconds, twice the time after which the watchdog reports a stuck CPU. The
/// watchdog must report none.
fn busy_machine_is_not_reported_as_stuck() {
    let end = clock::now() + 2_000_000_000;
    let busy = move |how: usize| {
        while clock::now() < end {
            match how % 4 {
                0 => spin_for(Duration::from_millis(300)),
                1 => (0..10_000).for_each(|_| yield_now()),
                2 => assert!(go(|| 0).join().is_ok()),
                _ => sleep(Duration::from_micros(50)),
            }
        }
    };
    join_all(go_each(0..2 * procs(), busy));
    assert_eq!(longest_off_times().lockups, 0);
}

fn spin_for(duration: Duration) {
    let start = clock::now();
    while Duration::from_nanos(clock::now() - start) < duration {
        spin_loop();
    }
}
