//! The answers to the exam questions in `labs/exam-questions.md`, each computed by a run.

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, JoinHandle, Mutex as Lock, Semaphore, channel};

use crate::machine::{compute, of_cpus, order, run, try_run};
use crate::stealing::thefts;

const PAGE: &str = include_str!("../../../exam-questions.md");

/// The name of a question, and the run that answers it.
type Question = (&'static str, fn() -> String);

const QUESTIONS: [Question; 20] = [
    ("three-spawns", || letters(&["A", "B", "C"], |_, _| ())),
    ("two-steps", || letters(&["A", "B"], |name, log| twice(name, log, sim::yield_now))),
    ("yields-between-spawns", yields_between_spawns),
    ("grandchildren", grandchildren),
    ("overflow", || order(300).iter().position(|number| *number < 128).map_or(0, |place| place + 1).to_string()),
    ("last-of-a-burst", || order(200).last().copied().unwrap_or_default().to_string()),
    ("sleepers", || letters(&["3", "1", "2"], |name, _| sim::sleep(ms(name.parse().expect("a number"))))),
    ("ten-sleeps", || about(elapsed(1, 10, || sim::sleep(ms(5))), &[5, 10, 50])),
    ("ten-blocking-calls", || about(elapsed(1, 10, || sim::block(ms(5))), &[5, 10, 50])),
    ("ten-loops", || about(elapsed(1, 10, || sim::work(ms(5))), &[5, 10, 50])),
    ("loops-on-two-cpus", || about(elapsed(2, 4, || sim::work(ms(20))), &[20, 40, 80])),
    ("ms-of-sleepers", || machines(|| sim::sleep(ms(5))).to_string()),
    ("ms-of-blocking-calls", || machines(|| sim::block(ms(5))).to_string()),
    ("preemptions-of-short-loops", || preemptions(ms(4)).to_string()),
    ("preemptions-of-long-loops", || if preemptions(ms(50)) >= 4 { "yes" } else { "no" }.to_string()),
    ("one-theft", || thefts(2, 0, 1).to_string()),
    ("buffer", buffer),
    ("closed", closed),
    ("no-sender", || {
        end(|| {
            let (_sender, receiver) = channel::<u32>(0);
            assert!(receiver.recv().is_err());
        })
    }),
    ("two-locks", two_locks),
];

#[test]
fn answers_on_the_page_are_those_of_the_runs() {
    let marked: Vec<(&str, &str)> = PAGE
        .lines()
        .filter_map(|line| {
            let (text, name) = line.strip_suffix(" -->")?.split_once(" <!-- run: ")?;
            Some((name, text.rsplit("**").nth(1).expect("an answer in bold")))
        })
        .collect();
    let computed: Vec<(&str, String)> = QUESTIONS.iter().map(|(name, answer)| (*name, answer())).collect();
    let computed: Vec<(&str, &str)> = computed.iter().map(|(name, answer)| (*name, answer.as_str())).collect();
    assert_eq!(marked, computed);
}

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, entry: impl Display) {
    log.lock().expect("no panic").push(entry.to_string());
}

fn joined(log: &Log) -> String {
    log.lock().expect("no panic").join(" ")
}

fn join(gs: Vec<JoinHandle<()>>) {
    gs.into_iter().for_each(|g| g.join().expect("no panic"));
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The one of `choices` that is nearest to `time`, in milliseconds.
fn about(time: Duration, choices: &[u64]) -> String {
    let nearest = choices.iter().min_by_key(|choice| time.abs_diff(ms(**choice)));
    nearest.expect("there are choices").to_string()
}

/// Runs `main` on one P, and returns what it noted.
fn noted(main: impl FnOnce(&Log) + Send + 'static) -> String {
    let log = Log::default();
    let inner = log.clone();
    run(of_cpus(1, 0), move || main(&inner));
    joined(&log)
}

/// Main spawns a G for each of `names` and waits for them. Each calls `body` and then notes its name.
fn letters(names: &'static [&'static str], body: fn(&str, &Log)) -> String {
    noted(move |log| {
        let spawn = |name: &&'static str| {
            let (name, log) = (*name, log.clone());
            sim::go(move || {
                body(name, &log);
                note(&log, name);
            })
        };
        join(names.iter().map(spawn).collect());
    })
}

/// Notes the first of two steps, and then lets others run.
fn twice(name: &str, log: &Log, between: fn()) {
    note(log, name);
    between();
}

fn yields_between_spawns() -> String {
    noted(|log| {
        let mut gs = Vec::new();
        for name in ["A", "B", "C"] {
            let log = log.clone();
            gs.push(sim::go(move || note(&log, name)));
            sim::yield_now();
        }
        note(log, "main");
        join(gs);
    })
}

fn grandchildren() -> String {
    noted(|log| {
        let spawn = |name: &'static str, children: &'static [&'static str]| {
            let log = log.clone();
            sim::go(move || {
                note(&log, name);
                let child = |name: &&'static str| {
                    let (name, log) = (*name, log.clone());
                    sim::go(move || note(&log, name))
                };
                join(children.iter().map(child).collect());
            })
        };
        join(vec![spawn("A", &["C", "D"]), spawn("B", &[])]);
    })
}

/// How long `count` Gs that each call `body` take on `cpus` CPUs.
fn elapsed(cpus: usize, count: usize, body: fn()) -> Duration {
    run(of_cpus(cpus, 0), move || join((0..count).map(|_| sim::go(body)).collect())).elapsed
}

/// How many Ms there are at the end if ten Gs on one P call `body` at the same time.
fn machines(body: fn()) -> usize {
    run(of_cpus(1, 0), move || join((0..10).map(|_| sim::go(body)).collect())).machines
}

/// How many preemptions there are while two Gs compute on one P, for `each` of time.
fn preemptions(each: Duration) -> u64 {
    run(of_cpus(1, 0), move || compute(2, each)).counts.preemptions
}

/// Three Gs send on a channel with room for two, before main receives.
fn buffer() -> String {
    noted(|log| {
        let (sender, receiver) = channel(2);
        for name in ["A", "B", "C"] {
            let sender = sender.clone();
            sim::go(move || sender.send(name).expect("main receives")).detach();
        }
        sim::sleep(ms(1));
        (0..3).for_each(|_| note(log, receiver.recv().expect("three are sent")));
    })
}

fn closed() -> String {
    noted(|log| {
        let (sender, receiver) = channel(4);
        [1, 2].into_iter().for_each(|value| sender.send(value).expect("there is room"));
        sender.close();
        (0..3).for_each(|_| note(log, receiver.recv().map_or_else(|_| "error".to_string(), |value| value.to_string())));
    })
}

/// How a run of `main` on one P ends.
fn end(main: impl FnOnce() + Send + 'static) -> String {
    match try_run(of_cpus(1, 0), main) {
        Ok(_) => "it ends".to_string(),
        Err(failure) if failure.message.contains("deadlock") => "deadlock".to_string(),
        Err(failure) => failure.message,
    }
}

/// Two Gs take two locks in opposite orders. Each lets the other G run before it takes its second lock.
fn two_locks() -> String {
    end(|| {
        let locks = Arc::new([Lock::new(()), Lock::new(())]);
        let both = Arc::new(Semaphore::new(2));
        let spawn = |first: usize, second: usize| {
            let (locks, both) = (locks.clone(), both.clone());
            sim::go(move || {
                let _permit = both.acquire(1);
                let _one = locks[first].lock();
                sim::yield_now();
                let _other = locks[second].lock();
            })
        };
        join(vec![spawn(0, 1), spawn(1, 0)]);
    })
}
