//! The `main.rs` of a crate that the tests write outside of the workspace (see `outside.rs`). The program's first
//! argument chooses what the program does.
#![no_std]
#![no_main]

use core::arch::asm;
use core::fmt;
use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use kernel::disk::disks;
use kernel::gmp_sched::goroutine::WaitReason;
use kernel::internals::{mute_console, uses_virtio};
use kernel::percpu::PreemptGuard;
use kernel::platform::{channel, now, scheduler, span};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use kernel::watchdog::longest_off_times;

kernel::main!(main);

fn main(arguments: &[&str]) -> i32 {
    match arguments {
        ["status", status] => return status.parse().expect("a number"),
        ["arguments", arguments @ ..] => println!("{arguments:?}"),
        ["echo"] => echo(),
        ["clocked"] => clocked(),
        ["write-disk"] => write_disk(),
        ["clocked", "panic"] => {
            clocked();
            panic!("it was meant to panic at {}", kernel::clock::now());
        }
        ["stderr"] => println!("standard error is a terminal: {}", kernel::console::stderr_is_terminal()),
        ["panic"] => panic!("it was meant to panic"),
        ["report", cause] => {
            print!("before\nwithout an end");
            report(cause);
            println!(", as if nothing had been");
        }
        ["philosophers"] => philosophers(),
        ["long-message"] => panic!("{Endless}"),
        ["both"] => (0..1000).for_each(|number| {
            println!("out {number}");
            eprintln!("err {number}");
        }),
        ["deadlock"] => deadlock(),
        ["traced"] => traced(),
        ["contended"] => contended(),
        ["idle-then-busy"] => idle_then_busy(),
        ["pinned"] => pinned(),
        // SAFETY: the undefined instruction raises an exception, as intended. No code of the program runs after it.
        ["exception"] => unsafe { asm!("ud2") },
        ["reset"] => reset(),
        ["hang"] => hang(),
        ["sleep"] => {
            println!("sleeping");
            sleep(Duration::from_secs(1000));
        }
        ["errors-then-sleep"] => {
            (0..5000).for_each(|number| eprintln!("err {number}"));
            println!("sleeping");
            sleep(Duration::from_secs(1000));
        }
        ["print"] => loop {
            println!("one more line");
        },
        ["flood", then] => {
            flood();
            if *then == "panic" {
                panic!("it was meant to panic");
            }
            println!("that was all");
        }
        ["device"] => println!("{}", if uses_virtio() { "virtio" } else { "serial" }),
        ["mute", then] => {
            println!("before");
            mute_console();
            match *then {
                "flood" => flood(),
                "panic" => {
                    println!("in flight");
                    println!("waiting");
                    panic!("it was meant to panic");
                }
                _ => println!("in flight"),
            }
            println!("that was all");
        }
        ["print-and-exit"] => print_until_blocked(),
        ["prompt"] => prompt(),
        ["inspected"] => inspected(),
        ["stacks"] => stacks(),
        _ => println!("hello from outside"),
    }
    0
}

/// Prints the first three lines of the input, and then the number of its lines and bytes.
fn echo() {
    let (mut lines, mut bytes) = (0, 0);
    let mut line = String::new();
    while stdin().read_line(&mut line).expect("input") > 0 {
        lines += 1;
        bytes += line.len();
        if lines <= 3 {
            println!("[{}]", line.trim_end_matches('\n'));
        }
        line.clear();
    }
    println!("{lines} lines, {bytes} bytes");
}

/// Fills the first disk, and prints the error if there is one.
fn write_disk() {
    let disk = &disks()[0];
    let mut parts = (0..disk.len_bytes()).step_by(1 << 16);
    if let Some((offset, error)) = parts.find_map(|offset| Some((offset, disk.write_at(offset, &[1; 1 << 16]).err()?))) {
        println!("at {offset}: {error}");
    }
}

/// Uses 6000 stacks at the same time, so at least as many frames of memory, and writes 1000 times to each stack.
fn stacks() {
    let using: Vec<_> = (0..6000)
        .map(|_| {
            go(|| {
                yield_now();
                let mut word = 0;
                (0..1000).for_each(|n| *hint::black_box(&mut word) = n);
            })
        })
        .collect();
    using.into_iter().for_each(|handle| handle.join().expect("no panic"));
}

/// Prints when each line of the input comes. After each line, reads a part of each disk, and prints when its content
/// has come. Meanwhile another G sleeps again and again.
fn clocked() {
    let other = || {
        loop {
            sleep(Duration::from_micros(700));
        }
    };
    go(other).detach();
    for line in stdin().lines() {
        let time = kernel::clock::now();
        debugger_stops_at_a_line(time);
        println!("{time} [{}] {}", line.expect("input"), kernel::random());
        for disk in disks() {
            let mut content = [0; 16];
            disk.read_at(100, &mut content).expect("the disk is longer");
            println!("{} {}", kernel::clock::now(), content.escape_ascii());
        }
    }
    println!("{} end", kernel::clock::now());
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugger_stops_at_a_line(time: u64) {
    hint::black_box(time);
}

/// Eight Gs print more than the machine, QEMU, `boot` and their pipes can buffer. Meanwhile another G counts.
fn flood() {
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    go(|| {
        loop {
            sleep(Duration::from_millis(1));
            ROUNDS.fetch_add(1, Ordering::Relaxed);
        }
    })
    .detach();
    let print = |g| (0..2000).for_each(|number| println!("<{g} {number} {}>", ".".repeat(50)));
    let printers: Vec<_> = (0..8).map(|g| go(move || print(g))).collect();
    printers.into_iter().for_each(|printer| printer.join().expect("it does not panic"));
    println!("{} rounds", ROUNDS.load(Ordering::Relaxed));
}

/// Returns when the console has accepted no line for two seconds. Another G prints lines all the time, and the test
/// does not read them.
fn print_until_blocked() {
    static PRINTED: AtomicU64 = AtomicU64::new(0);
    go(|| {
        loop {
            println!("one more line");
            PRINTED.fetch_add(1, Ordering::Relaxed);
        }
    })
    .detach();
    let mut before = 0;
    while PRINTED.load(Ordering::Relaxed) != before || before == 0 {
        before = PRINTED.load(Ordering::Relaxed);
        sleep(Duration::from_secs(2));
    }
}

/// Prints a prompt without a newline, reads a name, and prints a greeting.
fn prompt() {
    print!("name? ");
    let mut name = String::new();
    stdin().read_line(&mut name).expect("input");
    print!("hello, {name}");
}

/// Calls `debugger_stops_here`, at which the test has a breakpoint. At that time one G sleeps, and another G has not
/// begun.
fn inspected() {
    set_procs(1).expect("one is not too many");
    let sleeper = go(nap);
    let is_asleep = || {
        let mut all = scheduler().expect("it runs").goroutines();
        all.any(|goroutine| goroutine.id() == sleeper.id() && goroutine.wait_reason() == WaitReason::Sleep)
    };
    while !is_asleep() {
        yield_now();
    }
    // There is only one P, and the main G keeps it, so the second G does not begin.
    let _keeps_its_p = PreemptGuard::new();
    let _next = go(nap);
    debugger_stops_here();
}

#[inline(never)]
fn nap() {
    sleep(Duration::from_secs(1000));
    println!("that was long");
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugger_stops_here() {
    println!("not seen");
}

/// Makes the kernel print the report that `cause` names.
fn report(cause: &str) {
    match cause {
        "panic" => panic!("it was meant to panic"),
        "deadlock" => {
            let (_sender, receiver) = channel::<()>(0);
            receiver.recv().expect("it never comes");
        }
        "overflow" => println!("{}", deeper(0)),
        // SAFETY: the undefined instruction raises an exception, as intended. No code of the program runs after it.
        "exception" => unsafe { asm!("ud2") },
        "watchdog" => pinned(),
        "isolated" => assert!(go(|| panic!("it was meant to panic")).join().is_err()),
        _ => {}
    }
}

/// A text without an end.
struct Endless;

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            f.write_str("and so on, ")?;
        }
    }
}

/// Ends in a deadlock. Two Gs wait for each other's lock, many Gs wait for a message, and the main G waits for the
/// first two Gs.
fn philosophers() {
    static FORKS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
    static HAVE_ONE: Barrier = Barrier::new(2);
    let (_sender, never) = channel::<()>(0);
    for _ in 0..1500 {
        let never = never.clone();
        go(move || never.recv()).detach();
    }
    let dine = |place: usize| {
        move || {
            let _left = FORKS[place].lock();
            HAVE_ONE.wait();
            let _right = FORKS[1 - place].lock();
        }
    };
    let named = |name| Builder::new().name(name);
    for philosopher in [named("philosopher 0").go(dine(0)), named("philosopher 1").go(dine(1))] {
        philosopher.join().expect("it never returns");
    }
}

/// Recurses until the stack overflows.
fn deeper(depth: u64) -> u64 {
    if hint::black_box(depth) == u64::MAX { 0 } else { deeper(depth + 1) + 1 }
}

/// Takes a lock that the calling G holds already.
fn deadlock() {
    let lock = InterruptMutex::new(());
    let _held = lock.lock();
    let _never = lock.lock();
}

/// Turns preemption off until another CPU has detected and reported this.
fn pinned() {
    let _pinned = PreemptGuard::new();
    while longest_off_times().lockups == 0 {
        hint::spin_loop();
    }
}

#[inline(never)]
fn hang() {
    println!("hanging");
    loop {
        hint::spin_loop();
    }
}

/// Empties the interrupt descriptor table and raises an exception. The result is a triple fault, which resets the
/// machine.
fn reset() {
    let none = [0u8; 10];
    // SAFETY: the machine resets, as intended, so no code runs after this.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) &raw const none) };
}

/// All CPUs are idle for 100 ms, and then busy for 100 ms.
fn idle_then_busy() {
    let phase = Duration::from_millis(100);
    sleep(phase);
    let end = now() + phase;
    let hogs: Vec<_> = (0..2 * procs()).map(|_| go(move || while now() < end {})).collect();
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

/// A lock for which one G waits while another G holds it and computes.
static CONTENDED: Mutex<u64> = Mutex::new(0);

fn contended() {
    let holder = go(hold_long);
    while !CONTENDED.is_locked() {
        yield_now();
    }
    let waiter = go(wait_for_holder);
    waiter.join().expect("the waiter does not panic");
    holder.join().expect("the holder does not panic");
    println!("{}", *CONTENDED.lock());
}

#[inline(never)]
fn hold_long() {
    let mut value = CONTENDED.lock();
    *value = compute_long(*value);
    drop(value);
    // Because of this call, the unlock is not the last call in this function. Otherwise the unlock could be a tail
    // call, and this function would not be on the call stack of the unlock.
    hint::black_box(&CONTENDED);
}

#[inline(never)]
fn wait_for_holder() {
    *CONTENDED.lock() += 1;
    hint::black_box(&CONTENDED);
}

/// Computes for 100 ms.
#[inline(never)]
fn compute_long(mut value: u64) -> u64 {
    let end = now() + Duration::from_millis(100);
    while now() < end {
        value = hint::black_box(value + 1);
    }
    value
}

/// Runs a G with a name. Meanwhile, main computes. Main then prints how many nanoseconds the computation took, and how
/// many nanoseconds this whole function took.
fn traced() {
    let began = now();
    let worker = Builder::new().name("worker").go(|| sleep(Duration::from_millis(1)));
    let start = now();
    let span = span("a span");
    while now() - start < Duration::from_millis(5) {}
    drop(span);
    let computed = now() - start;
    worker.join().expect("the worker does not panic");
    println!("{} {}", computed.as_nanos(), (now() - began).as_nanos());
}
