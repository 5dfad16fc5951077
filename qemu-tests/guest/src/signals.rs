//! Tests in which Gs wait for devices. IPIs simulate the interrupts of these devices.

use core::hint;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::Platform;
use kernel::internals::Vector;
use kernel::percpu::CpuId;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

use crate::vectors;
use spin::Once;

/// Returns the signal of a simulated device, and a vector. An interrupt of this vector on any CPU raises the signal.
fn device() -> (&'static Signal<Kernel>, Vector) {
    static SIGNAL: Once<(&'static Signal<Kernel>, Vector)> = Once::new();
    fn raise(_: usize) {
        if let (Some((signal, _)), Some(scheduler)) = (SIGNAL.get(), scheduler()) {
            signal.raise(scheduler);
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
    let hogs: Vec<_> = (0..num_cpu())
        .map(|_| {
            go(|| {
                while !ENOUGH.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        })
        .collect();
    wait_for_interrupts_on_all_cpus(100);
    ENOUGH.store(true, Ordering::Relaxed);
    for hog in hogs {
        hog.join().unwrap();
    }
}
guest_test!(interrupt_readies_a_g_while_all_cpus_compute, smp = &[1, 2, 8]);

fn deadline_ends_the_wait_for_a_silent_device() {
    let (signal, _) = device();
    let deadline = Kernel::now() + Duration::from_millis(3);
    assert!(!signal.wait_until(deadline));
    assert!(Kernel::now() >= deadline);
}
guest_test!(deadline_ends_the_wait_for_a_silent_device);
