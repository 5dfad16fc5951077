//! A program that runs on the host. Its first argument chooses what it does.
#![no_std]
#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]

use core::hint::black_box;

use kernel::console::{Input, try_read};
use kernel::gmp_sched::syscall;
use kernel::net::{TcpListener, TcpStream};
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
        ["echo"] => {
            let mut line = String::new();
            stdin().read_line(&mut line).expect("another M");
            print!("{line}");
        }
        ["streams"] => {
            let mut line = String::new();
            stdin().read_line(&mut line).expect("an end");
            println!("{line:?}");
            eprintln!("an error");
        }
        ["connect"] => connect(),
        ["panic", place] => {
            let place = place.to_string();
            let end = go(move || panic_in(&place)).join();
            println!("{end:?}");
        }
        other => println!("what is {other:?}?"),
    }
}

/// Connects to itself until the process may have no more sockets, and then once more without them.
fn connect() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let connect = || TcpStream::connect(listener.local_addr()).and_then(|near| Ok([near, listener.accept()?.0]));
    let mut streams = Vec::new();
    let error = loop {
        match connect() {
            Ok(pair) => streams.push(pair),
            Err(error) => break error,
        }
    };
    drop(streams);
    println!("{error:?}, then {:?}", connect().map(drop));
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
    // The first call makes the kernel read input. During the sleep, the kernel reads as much input as it keeps.
    let mut first = try_read();
    sleep(Duration::from_millis(100));
    let (mut count, mut sum) = (0, 0);
    loop {
        match first.take().or_else(try_read) {
            Some(Input::Byte(byte)) => (count, sum) = (count + 1, sum + u64::from(byte)),
            _ => yield_now(),
        }
        if count == 1_000_000 {
            return println!("{count} bytes, sum {sum}");
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use kernel::disk::{Disk, delay, disks, interrupt, wait_for_interrupt};
    use kernel::percpu::PreemptGuard;
    use kernel::platform::{Context, Limit};
    use kernel::prelude::*;
    use kernel::sync::{InterruptMutex, PreemptMutex};
    use kernel::{fill_random, fill_random_until, pit, random, random_until};

    /// The disk that the environment variable `GMP_DISKS` names.
    fn disk() -> &'static Disk {
        disks().first().expect("a disk")
    }

    fn with_interrupt_mutex_held(body: fn()) {
        static LOCK: InterruptMutex<()> = InterruptMutex::new(());
        let _held = LOCK.lock();
        body();
    }

    fn with_preempt_mutex_held(body: fn()) {
        static LOCK: PreemptMutex<()> = PreemptMutex::new(());
        let _held = LOCK.lock();
        body();
    }

    fn pinned(body: fn()) {
        let _pinned = PreemptGuard::new();
        body();
    }

    /// Defines a test that performs `$act` in each of three contexts in which a G must not block. Each time, the act
    /// must panic, and the message must name the context.
    macro_rules! refused {
        ($name:ident: $act:expr) => {
            mod $name {
                use super::*;

                fn act() {
                    let _ = $act;
                }

                #[test]
                #[should_panic(expected = "a G blocks, yields or ends with an `InterruptMutex` held since src/main.rs:")]
                fn with_interrupt_mutex_held_is_refused() {
                    kernel::run!(|| with_interrupt_mutex_held(act));
                }

                #[test]
                #[should_panic(expected = "a G blocks, yields or ends with preemption turned off since src/main.rs:")]
                fn with_preempt_mutex_held_is_refused() {
                    kernel::run!(|| with_preempt_mutex_held(act));
                }

                #[test]
                #[should_panic(expected = "a G blocks, yields or ends with preemption turned off since src/main.rs:")]
                fn pinned_is_refused() {
                    kernel::run!(|| pinned(act));
                }
            }
        };
    }

    refused!(random_number: random());
    refused!(random_number_until: random_until(Limit::NONE));
    refused!(random_bytes: fill_random(&mut []));
    refused!(random_bytes_until: fill_random_until(&mut [], Limit::NONE));
    refused!(read: disk().read_at(0, &mut [0]));
    refused!(read_of_nothing: disk().read_at(0, &mut []));
    refused!(read_out_of_range: disk().read_at(u64::MAX, &mut []));
    refused!(write: disk().write_at(0, &[0]));
    refused!(write_of_nothing: disk().write_at(0, &[]));
    refused!(discard_of_nothing: disk().blocking().discard(0, 0));
    refused!(flush: disk().asynchronous().flush());
    refused!(flush_when_the_limit_is_over: {
        let (context, cancel) = Context::background().with_cancel();
        cancel.cancel();
        disk().blocking().flush_until(&context)
    });
    refused!(delay_of_nothing: delay(Duration::ZERO));
    refused!(poll_of_nothing: pit::wait(Duration::ZERO));
    refused!(interrupt_that_has_come: {
        interrupt();
        wait_for_interrupt();
    });

    #[test]
    #[should_panic(expected = "a G waits for itself: at src/main.rs:")]
    fn lock_that_the_caller_holds_is_refused() {
        static LOCK: InterruptMutex<()> = InterruptMutex::new(());
        kernel::run!(|| {
            let _held = LOCK.lock();
            drop(LOCK.lock());
        });
    }

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
