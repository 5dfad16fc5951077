//! Tests in which Gs wait for devices. IPIs simulate the interrupts of these devices.

use core::hint;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::Platform;
use kernel::clock;
use kernel::internals::Vector;
use kernel::percpu::CpuId;
use kernel::platform::Kernel;
use kernel::prelude::*;

use crate::several::{go_each, join_all};
use crate::vectors;
use spin::Once;

/// Returns the signal of a simulated device, and a vector. An interrupt of this vector on any CPU raises the signal.
fn device() -> (&'static Signal<Kernel>, Vector) {
    static SIGNAL: Once<(&'static Signal<Kernel>, Vector)> = Once::new();
    fn raise(_: usize) {
        if let Some((signal, _)) = SIGNAL.get() {
            signal.raise();
        }
    }
    *SIGNAL.call_once(|| (Box::leak(Box::default()), vectors::allocate(raise)))
}

fn wait_for_interrupts_on_all_cpus(rounds: usize) {
    let (signal, vector) = device();
    for round in 0..rounds {
        vectors::send(CpuId::new(round % num_cpu()), vector);
        signal.wait();
    }
}

fn interrupt_readies_a_g() {
    wait_for_interrupts_on_all_cpus(400);
}
guest_test!(interrupt_readies_a_g, smp = &[1, 2, 8]);

fn interrupt_readies_a_g_while_all_cpus_compute() {
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    let hogs = go_each(0..num_cpu(), move |_| {
        while !ENOUGH.load(Ordering::Relaxed) {
            hint::spin_loop();
        }
    });
    wait_for_interrupts_on_all_cpus(100);
    ENOUGH.store(true, Ordering::Relaxed);
    join_all(hogs);
}
guest_test!(interrupt_readies_a_g_while_all_cpus_compute, smp = &[1, 2, 8]);

/// Two hogs and main compute on the only P. Nevertheless the G whose device has interrupted runs within a millisecond.
/// The clock of this test counts instructions.
fn g_whose_device_is_ready_runs_within_a_millisecond_beside_hogs() {
    const ROUNDS: usize = 30;
    static RAISED_AT: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let (signal, vector) = device();
    let hogs = go_each(0..2, move |_| {
        while SEEN.load(Ordering::Relaxed) < ROUNDS {
            hint::spin_loop();
        }
    });
    let waiter = go(move || {
        let wait = |_| {
            signal.wait();
            let late = clock::now() - RAISED_AT.load(Ordering::Relaxed);
            SEEN.fetch_add(1, Ordering::Relaxed);
            late
        };
        (0..ROUNDS).map(wait).max()
    });
    // Lets the waiter begin to wait. From then on main is a hog, too, and interrupts its own CPU.
    sleep(Duration::from_millis(1));
    for round in 0..ROUNDS {
        let end = clock::now() + 1_000_000;
        while clock::now() < end {
            hint::spin_loop();
        }
        RAISED_AT.store(clock::now(), Ordering::Relaxed);
        vectors::send(CpuId::new(0), vector);
        while SEEN.load(Ordering::Relaxed) <= round {
            hint::spin_loop();
        }
    }
    let latest = waiter.join().unwrap().expect("there are rounds");
    assert!(latest < 1_000_000, "the G ran only {latest} ns after the interrupt");
    join_all(hogs);
}
guest_test!(g_whose_device_is_ready_runs_within_a_millisecond_beside_hogs, smp = &[1], icount);

fn deadline_ends_the_wait_for_a_silent_device() {
    let (signal, _) = device();
    let deadline = Kernel::now() + Duration::from_millis(3);
    assert!(!signal.wait_until(deadline));
    assert!(Kernel::now() >= deadline);
}
guest_test!(deadline_ends_the_wait_for_a_silent_device);
