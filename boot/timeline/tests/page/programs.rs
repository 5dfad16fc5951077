//! Programs whose traces the tests open as pages.

use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, go};
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::EventKind;
use timeline::Trace;

/// Returns the trace of a program on two Ps, in the simulator.
pub(crate) fn simulated() -> Trace {
    // With this seed, several Gs move between the Ps. The test of the path of a G needs more than five moves.
    let config = Config { cpus: 3, processors: 2, seed: 1, ..Config::default() };
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

/// Returns the trace of a program in the simulator in which Gs go to a queue in other ways than by becoming runnable:
/// some are locked to their Ms, a P goes out of use, Gs of due timers alternate, and slices are not inherited.
pub(crate) fn moved() -> Trace {
    let config = Config { cpus: 2, processors: 2, seed: 3, ..Config::default() };
    let (result, traces) = sim::run_traced(config, 100_000, || {
        let workers: Vec<_> = (0..10_u64)
            .map(|number| {
                sim::go(move || {
                    let _locked = (number < 3).then(sim::lock_thread);
                    for round in 0..6 {
                        match (number + round) % 3 {
                            0 => sim::yield_now(),
                            1 => sim::sleep(Duration::from_micros(10 * number)),
                            _ => sim::work(Duration::from_millis(2)),
                        }
                    }
                })
            })
            .collect();
        sim::work(Duration::from_millis(3));
        sim::set_procs(1).expect("memory");
        // Each of these Gs readies the next one, and then computes until its slice is over. So the next one does not inherit
        // the slice.
        let channels: Vec<_> = (0..4).map(|_| sim::channel(1)).collect();
        let ring: Vec<_> = (0..4)
            .map(|number| {
                let (receiver, sender) = (channels[number].1.clone(), channels[(number + 1) % 4].0.clone());
                sim::go(move || {
                    for _ in 0..3 {
                        let _ = receiver.recv();
                        let _ = sender.send(());
                        sim::work(Duration::from_millis(12));
                    }
                })
            })
            .collect();
        sim::sleep(Duration::from_millis(100));
        let _ = channels[0].0.send(());
        workers.into_iter().chain(ring).for_each(|worker| worker.join().expect("no G panics"));
    });
    result.expect("the program ends");
    let trace = Trace::new(traces);
    for kind in [EventKind::LockThread, EventKind::UnlockThread, EventKind::Retire, EventKind::Kick] {
        assert!(trace.events().iter().any(|entry| entry.kind == kind), "no {kind:?}");
    }
    trace
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
