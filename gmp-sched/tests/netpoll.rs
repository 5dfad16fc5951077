//! Devices of the operating system for which an idle M waits at a netpoll. A process has only one netpoll, so these tests
//! have a process of their own.
#![cfg(not(gmp_loom))]

use std::hint;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, Native, Netpoll};

/// A netpoll whose devices are ready when a thread says so. Each of them is returned by one wait.
struct Devices {
    state: Mutex<State>,
    changed: Condvar,
    /// What the last wait has returned.
    found: Mutex<Vec<&'static Signal<Native>>>,
}

struct State {
    ready: Vec<&'static Signal<Native>>,
    is_woken: bool,
}

static DEVICES: Devices = Devices {
    state: Mutex::new(State { ready: Vec::new(), is_woken: false }),
    changed: Condvar::new(),
    found: Mutex::new(Vec::new()),
};

impl Devices {
    fn becomes_ready(&self, signal: &'static Signal<Native>) {
        self.state.lock().unwrap().ready.push(signal);
        self.changed.notify_all();
    }
}

impl Netpoll for Devices {
    fn wait(&self, limit: Option<Duration>) {
        let limit = limit.unwrap_or(Duration::from_secs(1_000));
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = |state: &mut State| state.ready.is_empty() && !state.is_woken;
        let (mut state, _) = self.changed.wait_timeout_while(state, limit, nothing).unwrap();
        state.is_woken = false;
        let mut found = self.found.try_lock().expect("only one thread polls");
        assert!(found.is_empty(), "ready devices are forgotten");
        *found = mem::take(&mut state.ready);
    }

    fn announce(&self) {
        let mut found = self.found.try_lock().expect("only one thread polls");
        found.drain(..).for_each(Signal::raise);
    }

    fn wake(&self) {
        self.state.lock().unwrap().is_woken = true;
        self.changed.notify_all();
    }
}

fn signals(count: usize) -> Vec<&'static Signal<Native>> {
    native::set_netpoll(&DEVICES);
    (0..count).map(|_| &*Box::leak(Box::new(Signal::new()))).collect()
}

fn run(processors: usize, test: impl FnOnce() + Send + 'static) {
    // SAFETY: no G uses a thread-local variable.
    unsafe { native::enter() }.run(processors, test);
}

/// Computes until `done` is true, and calls the scheduler only by `between`.
fn until(done: impl Fn() -> bool, between: impl Fn()) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(100), "nobody polls");
        between();
    }
}

/// Gs wait for their devices again and again, while other Gs come and go, sleep, and hand values to each other, so that Ms
/// become idle and are woken for other reasons. Two schedulers use the netpoll.
#[test]
fn no_ready_device_is_lost() {
    const ROUNDS: usize = 200;
    let of_scheduler = |processors| {
        thread::spawn(move || {
            run(processors, move || {
                let waiting: Vec<_> = signals(20)
                    .into_iter()
                    .map(|signal| {
                        native::go(move || {
                            for round in 0..ROUNDS {
                                let device = move || DEVICES.becomes_ready(signal);
                                let late = move || {
                                    native::sleep(Duration::from_micros(50));
                                    device();
                                };
                                match round % 3 {
                                    0 => device(),
                                    1 => native::go(device).detach(),
                                    _ => native::go(late).detach(),
                                }
                                signal.wait();
                            }
                        })
                    })
                    .collect();
                waiting.into_iter().for_each(|waits| waits.join().unwrap());
            });
        })
    };
    for scheduler in [1, 2, 4].map(of_scheduler) {
        scheduler.join().unwrap();
    }
}

/// The M that has polled runs a G that computes. Another P is idle.
#[test]
fn idle_m_polls_when_the_m_that_has_polled_computes() {
    run(2, || {
        let signals = signals(2);
        let done = &*Box::leak(Box::new(AtomicUsize::new(0)));
        let (first, second) = (signals[0], signals[1]);
        let other = native::go(move || {
            second.wait();
            done.store(1, Ordering::Relaxed);
        });
        let computes = native::go(move || {
            first.wait();
            DEVICES.becomes_ready(second);
            until(|| done.load(Ordering::Relaxed) != 0, hint::spin_loop);
        });
        native::sleep(Duration::from_millis(1));
        DEVICES.becomes_ready(first);
        computes.join().unwrap();
        other.join().unwrap();
    });
}

/// The only P always has something to run, so its M never polls.
#[test]
fn sysmon_polls_when_every_p_is_busy() {
    run(1, || {
        let signal = signals(1)[0];
        let done = &*Box::leak(Box::new(AtomicUsize::new(0)));
        let waits = native::go(move || {
            signal.wait();
            done.store(1, Ordering::Relaxed);
        });
        native::yield_now();
        DEVICES.becomes_ready(signal);
        until(|| done.load(Ordering::Relaxed) != 0, native::yield_now);
        waits.join().unwrap();
    });
}
