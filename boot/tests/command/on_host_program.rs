//! A program that runs on the host. Its first argument chooses what it does.
#![no_std]
#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]

use core::hint::black_box;

use kernel::console::try_read;
use kernel::gmp_sched::syscall;
use kernel::percpu::PreemptGuard;
use kernel::platform::Kernel;
use kernel::prelude::*;
use kernel::sync::InterruptMutex;

kernel::main!(main);

fn main(arguments: &[&str]) {
    match arguments {
        ["read-one-line"] => {
            stdin().read_line(&mut String::new()).expect("another M");
            sleep(Duration::from_secs(1));
            println!("has worked");
            sleep(Duration::from_secs(1000));
        }
        ["count-input"] => count_input(),
        ["panic", place] => {
            let place = place.to_string();
            let end = go(move || panic_in(&place)).join();
            println!("{end:?}");
        }
        other => println!("what is {other:?}?"),
    }
}

fn panic_in(place: &str) {
    static LOCK: InterruptMutex<()> = InterruptMutex::new(());
    match place {
        "guard" => {
            let _off = PreemptGuard::new();
            panic!("as it should");
        }
        "interrupt-mutex" => {
            let _held = LOCK.lock();
            panic!("as it should");
        }
        "system-call" => syscall::syscall::<Kernel, _>(|| panic!("as it should")),
        "overflow" => recurse(0),
        _ => panic!("as it should"),
    }
}

fn recurse(depth: u64) {
    let frame = black_box([depth; 16]);
    if depth != u64::MAX {
        recurse(depth + 1);
    }
    black_box(frame);
}

/// Prints the number of bytes of the input and their sum.
fn count_input() {
    // The first call starts to read the input. Meanwhile as much arrives as is kept.
    let mut first = try_read();
    sleep(Duration::from_millis(100));
    let (mut count, mut sum) = (0, 0);
    loop {
        match first.take().or_else(try_read) {
            Some(byte) => (count, sum) = (count + 1, sum + u64::from(byte)),
            None => yield_now(),
        }
        if count == 1_000_000 {
            return println!("{count} bytes, sum {sum}");
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use kernel::disk::{interrupt, wait_for_interrupt};
    use kernel::prelude::*;

    /// Two Gs interrupt and wait in turn. Only one of them waits at a time.
    fn ping_pong() {
        const ROUNDS: usize = 1000;
        let (to_waiter, waits) = channel(0);
        let waiter = go(move || {
            (0..ROUNDS).for_each(|round| {
                to_waiter.send(round).expect("a receiver");
                wait_for_interrupt();
            });
        });
        for round in 0..ROUNDS {
            assert_eq!(waits.recv(), Ok(round));
            interrupt();
        }
        assert_eq!(waiter.join(), Ok(()));
    }

    // The test harness runs these two tests at the same time.
    #[test]
    fn interrupts_of_one_run_go_to_its_own_waiter() {
        kernel::run!(ping_pong);
    }

    #[test]
    fn interrupts_of_another_run_go_to_its_own_waiter() {
        kernel::run!(ping_pong);
    }

    #[test]
    fn interrupt_of_an_earlier_run_is_forgotten() {
        kernel::run!(interrupt);
        kernel::run!(|| {
            static STEPS: AtomicUsize = AtomicUsize::new(0);
            let waiter = go(|| {
                wait_for_interrupt();
                STEPS.load(Ordering::Relaxed)
            });
            sleep(Duration::from_millis(20));
            STEPS.store(1, Ordering::Relaxed);
            interrupt();
            assert_eq!(waiter.join(), Ok(1), "it did not wait for the interrupt of this run");
        });
    }
}
