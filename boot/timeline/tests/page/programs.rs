//! Programs whose traces the tests open as pages.

use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, go};
use gmp_sched::sim::{self, Config, Sim};
use timeline::Trace;

/// Returns the trace of a program on two Ps, in the simulator.
pub(crate) fn simulated() -> Trace {
    // With this seed, several Gs move between the Ps. The test of the path of a G needs more than five moves.
    let config = Config { cpus: 3, processors: 2, seed: 8, ..Config::default() };
    let (result, traces) = sim::run_traced(config, 100_000, || {
        let workers: Vec<_> = (0..30)
            .map(|number| {
                sim::go(move || {
                    let _span = sim::span("work");
                    sim::work(Duration::from_micros(20));
                    match number % 5 {
                        0 => sim::yield_now(),
                        1 => sim::sleep(Duration::from_micros(100)),
                        2 => sim::block(Duration::from_micros(100)),
                        3 => sim::syscall(Duration::from_micros(50)),
                        _ => {
                            let signal: &'static Signal<Sim> = Box::leak(Box::new(Signal::new()));
                            sim::start_device(signal, Duration::from_micros(60));
                            signal.wait();
                        }
                    }
                })
            })
            .collect();
        drop(sim::stop_the_world());
        workers.into_iter().for_each(|worker| worker.join().expect("no G panics"));
    });
    result.expect("the program ends");
    Trace::new(traces)
}

/// Returns the trace of a program on two Ps, on threads.
pub(crate) fn native() -> Trace {
    // SAFETY: no G uses a thread-local variable.
    let traces = unsafe { native::enter() }.run_with(2, |scheduler| {
        scheduler.start_trace(100_000).expect("memory");
        let (sender, receiver) = native::channel(2);
        let sending = native::Builder::new().name("producer").go(move || {
            for number in 0..500 {
                sender.send(number).expect("main receives");
                if number % 100 == 0 {
                    native::blocking(|| std::thread::sleep(Duration::from_micros(50)));
                }
            }
        });
        let yielding = go(|| (0..100).for_each(|_| native::yield_now()));
        assert_eq!(receiver.iter().count(), 500);
        sending.join().expect("no G panics");
        yielding.join().expect("no G panics");
        scheduler.stop_trace();
        scheduler.traces()
    });
    Trace::new(traces)
}
