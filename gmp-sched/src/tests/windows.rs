//! A panic is injected at both ends of each window (see `refinements::windows`). It must end the run there.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use crate::entities::window::At;
use crate::library::device_signals::Signal;
use crate::refinements::windows::injected::{ALL, Edge, panic_at, was_reached};
use crate::sim::{self, Chan, Condvar, Config, Mutex, Sim};

const SHORT: Duration = Duration::from_micros(50);

/// A program that reaches both ends of every window.
fn program() {
    // The main G holds the lock when the other G tries to take it.
    let lock = Arc::new(Mutex::new(false));
    let held = lock.lock();
    let waiter = {
        let lock = lock.clone();
        sim::go(move || drop(lock.lock()))
    };
    sim::sleep(SHORT);
    drop(held);
    waiter.join().unwrap();

    let changed = Arc::new(Condvar::new());
    let waiter = {
        let (lock, changed) = (lock.clone(), changed.clone());
        sim::go(move || changed.wait_while(&mut lock.lock(), |is_set| !*is_set))
    };
    sim::sleep(SHORT);
    *lock.lock() = true;
    changed.notify_all();
    waiter.join().unwrap();

    let (first, second) = (Arc::new(Chan::new(0)), Arc::new(Chan::new(0)));
    let receiver = {
        let (first, second) = (first.clone(), second.clone());
        sim::go(move || {
            first.recv().unwrap();
            crate::select! { recv(first) => {}, recv(second) => {} }
        })
    };
    sim::sleep(SHORT);
    first.send(()).unwrap();
    sim::sleep(SHORT);
    second.send(()).unwrap();
    receiver.join().unwrap();

    let signal: &'static Signal<Sim> = alloc::boxed::Box::leak(alloc::boxed::Box::default());
    sim::start_device(signal, SHORT);
    signal.wait();

    sim::syscall(SHORT);
    drop(sim::stop_the_world());
    #[cfg(feature = "extras")]
    assert_eq!(sim::pull(|yielder| _ = yielder.yield_value(7)).next(), Some(7));
}

/// Runs the program on a thread of its own, because the run may end while that thread unwinds.
fn run(fault: Option<(At, Edge)>) -> (Result<(), String>, [bool; 2 * ALL.len()]) {
    let run = move || {
        if let Some((at, edge)) = fault {
            panic_at(at, edge);
        }
        let result = sim::run(Config::default(), program).map(|_| ()).map_err(|failure| failure.message);
        let mut ends = ALL.iter().flat_map(|&at| [Edge::Begin, Edge::End].map(|edge| was_reached(at, edge)));
        (result, core::array::from_fn(|_| ends.next().expect("two for each window")))
    };
    thread::spawn(run).join().expect("`sim::run` returns")
}

#[test]
fn panic_at_either_end_of_a_window_ends_the_program_there() {
    let (result, reached) = run(None);
    assert_eq!(result, Ok(()));
    for (at, reached) in ALL.iter().zip(reached.as_chunks::<2>().0) {
        let is_left_out = *at == At::Coroutine && cfg!(not(feature = "extras"));
        assert!(*reached == [true; 2] || is_left_out, "the program does not reach {at:?}: {reached:?}");
    }
    for at in ALL.into_iter().filter(|at| *at != At::Coroutine || cfg!(feature = "extras")) {
        for edge in [Edge::Begin, Edge::End] {
            let (result, _) = run(Some((at, edge)));
            let message = result.expect_err("a panic was injected");
            let expected = alloc::format!("fatal error: a panic in the window {at:?} of the scheduler");
            assert!(message.starts_with(&expected), "{at:?}, {edge:?}: {message}");
        }
    }
}

#[test]
fn table_has_a_row_for_each_window() {
    let table = include_str!("../refinements/windows.md");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let names: alloc::vec::Vec<_> = ALL.iter().map(|at| alloc::format!("{at:?}")).collect();
    assert_eq!(rows.collect::<alloc::vec::Vec<_>>(), names);
}
