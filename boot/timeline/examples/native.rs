//! Records a program on threads of the host, and writes its timeline: `cargo run -p timeline --example native -- run`
//! writes `run.json` and `run.html`.

use std::io;
use std::path::Path;
use std::time::Duration;

use gmp_sched::native::{self, Builder, Mutex, channel, go};
use timeline::Trace;

fn main() -> io::Result<()> {
    let file = std::env::args_os().nth(1).unwrap_or_else(|| "run".into());
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let traces = threads.run_with(2, |scheduler| {
        scheduler.start_trace(1_000_000).expect("memory for a trace");
        program();
        scheduler.stop_trace();
        scheduler.traces()
    });
    for name in timeline::write(&Trace::new(traces), Path::new(&file))? {
        println!("{}", name.display());
    }
    Ok(())
}

/// A producer and workers that pass numbers on, a lock, sleeps, and a call that blocks its thread.
fn program() {
    let (to_workers, numbers) = channel(4);
    let (results, sums) = channel(0);
    let total = std::sync::Arc::new(Mutex::new(0));
    for worker in 0..4 {
        let (numbers, results, total) = (numbers.clone(), results.clone(), total.clone());
        let builder = Builder::new().name(["ada", "bea", "cid", "dan"][worker]);
        let worker = builder.go(move || {
            while let Ok(number) = numbers.recv() {
                let span = native::span("compute");
                let sum = (0..number * 1000).fold(0u64, |sum: u64, n: u64| sum ^ n.wrapping_mul(sum | 1));
                drop(span);
                *total.lock() ^= sum;
                results.send(sum).expect("main receives");
            }
        });
        worker.detach();
    }
    drop((numbers, results));
    let blocked = go(|| native::blocking(|| std::thread::sleep(Duration::from_millis(1))));
    let producer = Builder::new().name("producer").go(move || {
        for number in 0..200u64 {
            to_workers.send(number).expect("the workers receive");
            if number % 50 == 0 {
                native::mark("fifty more");
                native::sleep(Duration::from_micros(200));
            }
        }
    });
    assert_eq!(sums.iter().count(), 200);
    producer.join().expect("no G panics");
    blocked.join().expect("no G panics");
}
