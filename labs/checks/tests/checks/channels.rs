//! Lab 7: channels are compared with a model, for all sequences of steps up to a length, the shortest first, and then in
//! random programs on several simulated CPUs.

use std::collections::HashMap;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gmp_sched::chan::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use gmp_sched::sim::{self, Config, Receiver, Sender, channel};
use lab_puzzles::channels::{End, Model, Step};
use lab_puzzles::trial::sequences;

use crate::machine::{of_cpus, run, try_run};
use crate::poller::Numbers;

/// How long an operation with a limit waits.
const LIMIT: Duration = Duration::from_micros(20);
/// How long after a step its effects are complete.
const QUIET: Duration = Duration::from_micros(50);

fn perform(step: Step, number: usize, sender: &Sender<usize>, receiver: &Receiver<usize>) -> End {
    match step {
        Step::Send => sender.send(number).map_or_else(|error| End::ClosedFor(error.into_inner()), |()| End::Sent),
        Step::Recv => receiver.recv().map_or(End::Closed, End::Received),
        Step::TrySend => match sender.try_send(number) {
            Ok(()) => End::Sent,
            Err(TrySendError::Full(value)) => End::Full(value),
            Err(TrySendError::Closed(value)) => End::ClosedFor(value),
        },
        Step::TryRecv => match receiver.try_recv() {
            Ok(value) => End::Received(value),
            Err(TryRecvError::Empty) => End::Empty,
            Err(TryRecvError::Closed) => End::Closed,
        },
        Step::SendTimeout => match sender.send_timeout(number, LIMIT) {
            Ok(()) => End::Sent,
            Err(SendTimeoutError::Closed(value)) => End::ClosedFor(value),
            Err(error) => End::Full(error.into_inner()),
        },
        Step::RecvTimeout => match receiver.recv_timeout(LIMIT) {
            Ok(value) => End::Received(value),
            Err(RecvTimeoutError::Closed) => End::Closed,
            Err(_) => End::Empty,
        },
        Step::Close => End::WasOpen(sender.close()),
    }
}

/// The steps as the report of a failure shows them, with the values that they send.
fn shown(steps: &[Step]) -> String {
    let steps = steps.iter().enumerate().map(|(number, step)| match step {
        Step::Send | Step::TrySend | Step::SendTimeout => format!("{step:?}({number})"),
        _ => format!("{step:?}"),
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// How operations ended, or `waits`, as the report of a failure shows it.
fn shown_ends(ends: &[Option<End>]) -> String {
    let ends = ends.iter().map(|end| end.map_or("waits".to_string(), |end| format!("{end:?}")));
    ends.collect::<Vec<_>>().join(", ")
}

/// Takes the steps on a new channel and on a new model, in the calling run. Panics if they differ. Writes the steps that
/// have been taken to `taken`.
fn compare(capacity: usize, steps: &[Step], taken: &Mutex<String>) {
    let (sender, receiver) = channel::<usize>(capacity);
    let mut model = Model::new(capacity, None);
    let ends = Arc::new(Mutex::new(vec![None; steps.len()]));
    for (number, &step) in steps.iter().enumerate() {
        *taken.lock().expect("no panic") = format!("a channel of {capacity}: {}", shown(&steps[..=number]));
        model.take(step);
        let (its_sender, its_receiver, ended) = (sender.clone(), receiver.clone(), ends.clone());
        let act = move || {
            let end = perform(step, number, &its_sender, &its_receiver);
            ended.lock().expect("no panic")[number] = Some(end);
        };
        if matches!(step, Step::TrySend | Step::TryRecv | Step::Close) {
            act();
        } else {
            sim::go(act).detach();
        }
        sim::sleep(QUIET);
        let given = ends.lock().expect("no panic")[..=number].to_vec();
        assert!(
            given == model.ends,
            "the steps give     {}\nthey should give   {}",
            shown_ends(&given),
            shown_ends(&model.ends)
        );
        let (length, expected) = (receiver.len(), model.buffer.len());
        assert!(length == expected, "then {length} values are in the buffer\nit should be {expected}");
    }
    // Ends the Gs that still wait.
    sender.close();
    sim::sleep(QUIET);
}

/// Reports a panic as the usual hook does, and also the steps before it. A hook runs before the unwinding, which may end the
/// process.
fn report(steps: &Mutex<String>, panic: &PanicHookInfo<'_>) {
    let steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
    let place = panic.location().expect("panics have a place");
    let reason = panic.payload_as_str().unwrap_or_default();
    eprintln!("\nthread 'steps' panicked at {place}:\n{steps}\n{reason}\nnote: run with `RUST_BACKTRACE=1`");
}

/// Compares channel and model for all sequences of at most `longest` steps of those in `kinds`.
fn compare_all(capacities: &[usize], kinds: &'static [Step], longest: u32) {
    for &capacity in capacities {
        for length in 1..=longest {
            let taken = Arc::new(Mutex::new(String::new()));
            let [reported, last] = [taken.clone(), taken.clone()];
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |panic| report(&reported, panic)));
            let ran = try_run(Config { step_limit: 5_000_000, ..of_cpus(1, 0) }, move || {
                for steps in sequences(kinds, length..=length) {
                    compare(capacity, &steps, &taken);
                }
            });
            panic::set_hook(usual);
            if let Err(failure) = ran {
                panic!("{}\n{}", last.lock().unwrap_or_else(PoisonError::into_inner), failure.message);
            }
        }
    }
}

#[test]
fn buffer_is_a_fifo_of_its_capacity() {
    compare_all(&[1, 2, 3], &[Step::TrySend, Step::TryRecv], 10);
}

#[test]
fn values_move_from_g_to_g_in_order() {
    compare_all(&[0], &[Step::Send, Step::Recv], 9);
}

#[test]
fn those_who_wait_for_a_buffer_are_served_in_order() {
    compare_all(&[1, 2], &[Step::Send, Step::Recv], 9);
}

#[test]
fn close_ends_all_waits_and_keeps_the_buffer() {
    compare_all(&[0, 1, 2], &[Step::Close, Step::Recv, Step::TrySend], 6);
    compare_all(&[0, 1], &[Step::Close, Step::Send, Step::TryRecv], 6);
}

#[test]
fn wait_that_has_ended_leaves_nothing_behind() {
    compare_all(&[0, 1], &[Step::RecvTimeout, Step::TrySend, Step::TryRecv], 5);
    compare_all(&[0, 1], &[Step::SendTimeout, Step::TryRecv, Step::TrySend], 5);
}

/// A value that counts how many of its kind exist.
struct Counted {
    sender: usize,
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Computes for some time, yields, or does nothing, as `path` says.
fn dawdle(path: usize) {
    match path % 5 {
        0 => sim::work(Duration::from_micros(path as u64 / 5 % 40)),
        1 => sim::yield_now(),
        _ => {}
    }
}

/// Three senders send `EACH` values each, three receivers receive, until the channel is closed. Each value is received
/// once, or comes back to its sender, and each receiver gets the values of a sender in their order. In every second
/// program the channel is closed early, while the others send and receive. A failure names the program.
fn exchange(program: &str, capacity: usize, seed: usize) {
    const EACH: usize = 25;
    let (sender, receiver) = channel::<Counted>(capacity);
    let alive = Arc::new(AtomicUsize::new(0));
    let receivers: Vec<_> = (0..3)
        .map(|index| {
            let receiver = receiver.clone();
            sim::go(move || {
                let mut got: Vec<(usize, usize)> = Vec::new();
                for value in receiver.iter() {
                    got.push((value.sender, value.number));
                    dawdle(seed / 3 + index + 7 * got.len());
                }
                got
            })
        })
        .collect();
    let senders: Vec<_> = (0..3)
        .map(|index| {
            let (sender, alive) = (sender.clone(), alive.clone());
            sim::go(move || {
                for number in 0..EACH {
                    alive.fetch_add(1, Ordering::Relaxed);
                    dawdle(seed + 3 * index + 11 * number);
                    if sender.send(Counted { sender: index, number, alive: alive.clone() }).is_err() {
                        return number;
                    }
                }
                EACH
            })
        })
        .collect();
    if seed % 2 == 1 {
        sim::sleep(Duration::from_micros(seed as u64 % 97));
        sender.close();
    }
    drop((sender, receiver));
    let sent: Vec<usize> = senders.into_iter().map(|g| g.join().expect("no panic")).collect();
    let mut seen: HashMap<(usize, usize), usize> = HashMap::new();
    for got in receivers.into_iter().map(|g| g.join().expect("no panic")) {
        for index in 0..3 {
            let numbers: Vec<usize> =
                got.iter().filter(|(from, _)| *from == index).map(|(_, number)| *number).collect();
            assert!(
                numbers.is_sorted(),
                "{program}: a receiver gets the values of one sender in the order {numbers:?}"
            );
        }
        got.into_iter().for_each(|value| *seen.entry(value).or_default() += 1);
    }
    for (index, &count) in sent.iter().enumerate() {
        for number in 0..EACH {
            let (times, expected) = (seen.remove(&(index, number)).unwrap_or(0), usize::from(number < count));
            assert!(
                times == expected,
                "{program}: a sender has sent its first {count} values, and value {number} was received {times} times"
            );
        }
    }
    let alive = alive.load(Ordering::Relaxed);
    assert!(alive == 0, "{program}: {alive} values are left, or {} were dropped twice", alive.wrapping_neg());
}

#[test]
fn each_value_is_received_once_in_random_programs() {
    for seed in 0..240 {
        let (cpus, capacity) = ([1, 2, 4][seed % 3], seed / 3 % 4);
        let program = format!("a channel of {capacity}, {cpus} CPUs, seed {seed}");
        run(of_cpus(cpus, seed as u64), move || exchange(&program, capacity, 31 * seed));
    }
}

/// Two senders and two receivers whose limits are over at about the time at which a partner comes, so either may be first. Each
/// value is received once, or comes back to its sender.
fn exchange_with_limits(program: &str, capacity: usize, seed: usize) {
    const EACH: usize = 30;
    let (sender, receiver) = channel::<usize>(capacity);
    let nanos = |numbers: &mut Numbers, below| Duration::from_nanos(numbers.below(below));
    let received: Arc<Mutex<Vec<usize>>> = Arc::default();
    let receives = |index: usize| {
        let (receiver, received, mut numbers) =
            (receiver.clone(), received.clone(), Numbers((7 * seed + index) as u64));
        sim::go(move || {
            for _ in 0..EACH {
                sim::work(nanos(&mut numbers, 2_000));
                let value = receiver.recv_timeout(nanos(&mut numbers, 6_000));
                received.lock().expect("no panic").extend(value);
            }
        })
    };
    let sends = |index: usize| {
        let (sender, mut numbers) = (sender.clone(), Numbers((11 * seed + index) as u64));
        sim::go(move || {
            let mut send = |value: &usize| {
                sim::work(nanos(&mut numbers, 2_000));
                sender.send_timeout(*value, nanos(&mut numbers, 6_000)).is_ok()
            };
            (index * EACH..(index + 1) * EACH).filter(&mut send).collect::<Vec<_>>()
        })
    };
    let (receives, sends) = ([0, 1].map(receives), [0, 1].map(sends));
    let sent = sends.map(|g| g.join().expect("no panic")).concat();
    receives.into_iter().for_each(|g| g.join().expect("no panic"));
    let mut received = received.lock().expect("no panic").clone();
    received.extend(core::iter::from_fn(|| receiver.try_recv().ok()));
    for value in 0..2 * EACH {
        let [was_sent, times] = [&sent, &received].map(|all| all.iter().filter(|other| **other == value).count());
        let what = ["came back to its sender", "was sent"][was_sent];
        assert!(times == was_sent, "{program}: value {value} {what}, and was received {times} times");
    }
}

#[test]
fn limit_and_partner_agree_who_was_first() {
    for seed in 0..120 {
        let (cpus, capacity) = ([1, 2, 4][seed % 3], seed / 3 % 2);
        let program = format!("a channel of {capacity}, {cpus} CPUs, seed {seed}");
        run(of_cpus(cpus, seed as u64), move || exchange_with_limits(&program, capacity, seed));
    }
}

/// The sieve of prime numbers: for each prime there is a G, which passes on the numbers that the prime does not divide.
#[test]
fn sieve_finds_the_primes() {
    for seed in 0..5 {
        run(of_cpus(2, seed), || {
            let (first, mut numbers) = channel(0);
            sim::go(move || (2..).take_while(|number: &u32| first.send(*number).is_ok()).for_each(drop)).detach();
            let mut primes = Vec::new();
            for _ in 0..25 {
                let prime = numbers.recv().expect("there are more");
                primes.push(prime);
                let (pass, passed) = channel(0);
                let given = core::mem::replace(&mut numbers, passed);
                let filter = move || {
                    let rest = given.iter().filter(|number| number % prime != 0);
                    rest.take_while(|number| pass.send(*number).is_ok()).for_each(drop);
                };
                sim::go(filter).detach();
            }
            assert!(primes.last() == Some(&97), "the first 25 primes: {primes:?}");
        });
    }
}
