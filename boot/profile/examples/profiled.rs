//! Profiles a program on threads of the host: `cargo run -p profile --example profiled -- DIR` writes profiles to the
//! directory `DIR`. They show where the Gs of the program wait, and which locks are contended. There are no interrupts
//! on threads, so there is no profile of the CPUs.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gmp_sched::native::{self, Mutex, WaitGroup, channel, go, sleep, yield_now};
use profile::Profile;
use profile::symbols::Symbols;

fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "profiles".into());
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let traces = threads.run_with(2, |scheduler| {
        scheduler.start_profile(1_000_000).expect("memory for a profile");
        program();
        scheduler.stop_trace();
        scheduler.traces()
    });
    let profile = Profile::new(&traces);
    println!("{}", profile::write(&profile, &Symbols::of_this_program(), "native", Path::new(&directory))?);
    Ok(())
}

static TOTAL: Mutex<u64> = Mutex::new(0);

/// Workers take numbers from a channel, and add up the squares of the numbers under a lock. Another G repeatedly holds
/// the lock for a long time.
fn program() {
    let (sender, receiver) = channel(4);
    let workers = Arc::new(WaitGroup::new());
    for _ in 0..3 {
        let receiver = receiver.clone();
        workers.go(move || receiver.iter().for_each(add));
    }
    let reporter = go(|| (0..10).for_each(|_| report()));
    while !TOTAL.is_locked() {
        yield_now();
    }
    (0..1000).for_each(|number| sender.send(number).expect("the workers receive"));
    drop(sender);
    workers.wait();
    reporter.join().expect("no G panics");
}

fn add(number: u64) {
    *TOTAL.lock() += number * number;
}

/// Reads the sum, and holds the lock for longer than needed.
fn report() {
    let total = TOTAL.lock();
    sleep(Duration::from_millis(1));
    drop(total);
}
