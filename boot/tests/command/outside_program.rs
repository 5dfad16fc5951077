//! The program of the crate outside of the workspace. Its first argument chooses what it does.
#![no_std]
#![no_main]

use core::arch::asm;
use core::fmt;
use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use kernel::console::{read_line, write};
use kernel::percpu::PreemptGuard;
use kernel::platform::channel;
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use kernel::watchdog::longest_windows;

kernel::main!(main);

fn main(arguments: &[&str]) -> i32 {
    match arguments {
        ["status", status] => return status.parse().expect("a number"),
        ["arguments", arguments @ ..] => println!("{arguments:?}"),
        ["echo"] => echo(),
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
        ["bytes"] => (0..100).for_each(|_| assert!(write(&Vec::from_iter(0..=u8::MAX)))),
        ["deadlock"] => deadlock(),
        ["pinned"] => pinned(),
        // SAFETY: the undefined instruction raises an exception, as intended. No code of the program runs after it.
        ["exception"] => unsafe { asm!("ud2") },
        ["reset"] => reset(),
        ["hang"] => hang(),
        ["sleep"] => {
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
        ["print-and-exit"] => {
            go(|| {
                loop {
                    println!("one more line");
                }
            })
            .detach();
            sleep(Duration::from_secs(2));
        }
        ["prompt"] => prompt(),
        ["times"] => times(),
        ["inspected"] => inspected(),
        _ => println!("hello from outside"),
    }
    0
}

/// Prints the first three lines of the input, and then the number of its lines and bytes.
fn echo() {
    let (mut lines, mut bytes) = (0, 0);
    while let Some(line) = read_line().expect("input") {
        lines += 1;
        bytes += line.len() + 1;
        if lines <= 3 {
            println!("[{line}]");
        }
    }
    println!("{lines} lines, {bytes} bytes");
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

/// Prints a prompt without a newline.
fn prompt() {
    print!("name? ");
    if let Some(name) = read_line().expect("input") {
        println!("hello, {name}");
    }
}

/// Prints the times at which many Gs wake after short sleeps. Several Gs wake at about the same time. The times are the
/// same in each run only if QEMU counts instructions. Some sleeps are shorter than the time for which an idle CPU
/// polls, and others are longer.
fn times() {
    for round in 0..60u64 {
        let unit = [1, 1, 1, 1, 100, 1000][(round % 6) as usize];
        let sleeper = |number: u64| {
            go(move || {
                sleep(Duration::from_micros((number * 37 % 101 + round % 7) * unit));
                kernel::clock::now()
            })
        };
        let sleepers: Vec<_> = (0..20).map(sleeper).collect();
        let times: Vec<_> = sleepers.into_iter().map(|sleeper| sleeper.join().expect("it does not panic")).collect();
        println!("{times:?}");
    }
}

/// Calls `debugger_stops_here`, at which the test has a breakpoint. At that time one G sleeps, and another G has not
/// begun.
fn inspected() {
    // There is only one P. The first G begins when the main G sleeps. The main G does not wait again, so the second G
    // does not begin.
    set_procs(1).expect("one is not too many");
    let _sleeper = go(nap);
    sleep(Duration::from_millis(200));
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

/// Ends in a deadlock. Two Gs wait for each other's lock, many Gs wait for a message, and the main G waits for the first
/// two Gs.
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
    while longest_windows().lockups == 0 {
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
