//! Policies of programs: the two of the crate, one that decides at random, and one by which each G chooses its P. The
//! simulator checks for each of them that no G is lost, that no P is idle while a G waits, that each P runs the first G
//! of its queue, and that no G waits longer than the policy promises. The models below check what each policy is for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::policy::{
    Begun, Cause, EarliestDeadline, GoroutineId, Place, Policy, PriorityAging, ProcessorId, ProcessorState, Ready,
    Theft,
};
use gmp_sched::sim::{self, Config, PolicyModel, Sim};

use crate::anything::anything;
use crate::explore::{Random, explore_on};
use crate::hogs::Hogs;
use crate::several::join_all;

/// A G of a random program: performs random operations, spawns Gs with random parameters that do the same, and waits
/// for them.
fn act(seed: u64, depth: u64, parameter: fn(&mut Random) -> u64) {
    let mut random = Random::new(seed);
    let (sender, receiver) = sim::channel(2);
    let children: Vec<_> = (0..if depth > 0 { 4 } else { 0 })
        .map(|child| {
            let sender = sender.clone();
            sim::Builder::new().parameter(parameter(&mut random)).go(move || {
                act(seed * 7 + child + 1, depth - 1, parameter);
                sender.send(child).unwrap();
            })
        })
        .collect();
    for _ in 0..6 {
        anything(&mut random);
        if random.below(6) == 0 {
            sim::set_parameter(parameter(&mut random));
        }
        if random.below(40) == 0 {
            sim::work(Duration::from_millis(random.below(30)));
        }
        if random.below(40) == 0 {
            drop(sim::stop_the_world());
        }
    }
    drop(sender);
    assert_eq!(receiver.iter().count(), children.len());
    join_all(children);
}

fn explore(policy: &'static dyn Policy, model: Option<fn() -> Box<dyn PolicyModel>>, program: fn(u64)) {
    explore_on(Config { policy: Some(policy), policy_model: model, ..Config::default() }, program);
}

/// The model of [`PriorityAging`]: a G of a higher priority begins first, where each step of waiting counts as one
/// priority.
#[derive(Default)]
struct Priorities(BTreeMap<GoroutineId, Ready>);

impl Priorities {
    fn model() -> Box<dyn PolicyModel> {
        Box::<Self>::default()
    }
}

impl PolicyModel for Priorities {
    fn waits(&mut self, ready: &Ready) {
        if ready.cause != Cause::Displaced {
            self.0.insert(ready.goroutine, *ready);
        }
    }

    fn begins(&mut self, begun: &Begun, others: &[GoroutineId]) -> Result<(), String> {
        let importance = |goroutine: &GoroutineId| {
            let waits = self.0[goroutine];
            let waited = (begun.now - waits.now).as_nanos();
            u128::from(waits.parameter.min(PriorityAging::HIGHEST)) * PriorityAging::STEP.as_nanos() + waited
        };
        match others.iter().find(|&other| importance(other) > importance(&begun.goroutine)) {
            Some(other) => Err(format!("goroutine {} begins before {:?}", begun.goroutine, self.0[other])),
            None => Ok(()),
        }
    }
}

/// The model of [`EarliestDeadline`]: no G begins while one with an earlier deadline waits.
#[derive(Default)]
struct Deadlines(BTreeMap<GoroutineId, Option<Duration>>);

impl Deadlines {
    fn model() -> Box<dyn PolicyModel> {
        Box::<Self>::default()
    }
}

impl PolicyModel for Deadlines {
    fn waits(&mut self, ready: &Ready) {
        let is_release = matches!(ready.cause, Cause::Spawned | Cause::Readied | Cause::Event);
        if is_release || ready.cause == Cause::Yielded {
            let has_deadline = is_release && ready.parameter != 0;
            let deadline = Duration::from_nanos(ready.now.as_nanos()) + Duration::from_nanos(ready.parameter);
            self.0.insert(ready.goroutine, has_deadline.then_some(deadline));
        }
    }

    fn begins(&mut self, begun: &Begun, others: &[GoroutineId]) -> Result<(), String> {
        let deadline = |goroutine: &GoroutineId| self.0[goroutine].unwrap_or(Duration::MAX);
        match others.iter().find(|&other| deadline(other) < deadline(&begun.goroutine)) {
            Some(other) => Err(format!("goroutine {} begins before {:?}", begun.goroutine, self.0[other])),
            None => Ok(()),
        }
    }
}

#[test]
fn higher_priorities_run_first_and_waiting_counts() {
    explore(&PriorityAging, Some(Priorities::model), |seed| act(seed + 1, 2, |random| random.below(10)));
}

#[test]
fn earlier_deadlines_run_first() {
    explore(&EarliestDeadline, Some(Deadlines::model), |seed| {
        act(seed + 1, 2, |random| random.below(3) * random.below(20_000_000));
    });
}

/// A policy that decides at random, and often asks for what is not there.
#[derive(Debug)]
struct Chaos(AtomicU64);

impl Chaos {
    fn begin(&self, seed: u64) {
        self.0.store(seed, Ordering::Relaxed);
    }

    fn random(&self) -> u64 {
        let number = self.0.load(Ordering::Relaxed).wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        self.0.store(number, Ordering::Relaxed);
        number >> 33
    }
}

impl Policy for Chaos {
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        // A run must not depend on the runs before it, because its seed must repeat it.
        if ready.goroutine == GoroutineId::MAIN && ready.cause == Cause::Spawned {
            self.begin(0);
        }
        let ids: Vec<ProcessorId> = processors.map(|state| state.id).collect();
        let other = ids[self.random() as usize % ids.len()];
        let processor = if self.random().is_multiple_of(2) { ready.processor } else { other };
        Place { rank: self.random() % 4, processor }
    }

    fn preempts(&self, _: u64, _: u64) -> bool {
        self.random().is_multiple_of(4)
    }

    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        let victim = victims.nth(self.random() as usize % 2)?;
        Some(Theft { from: victim.id, count: self.random() as usize % 4 })
    }
}

static CHAOS: Chaos = Chaos(AtomicU64::new(1));

#[test]
fn no_g_is_lost_whatever_the_policy_decides() {
    explore(&CHAOS, None, |seed| {
        CHAOS.begin(seed);
        act(seed + 1, 2, |random| random.below(3));
    });
}

/// Places each G on the P whose number is its parameter.
#[derive(Debug)]
struct Partition;

impl Policy for Partition {
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let ids: Vec<ProcessorId> = processors.map(|state| state.id).collect();
        Place { rank: 0, processor: ids[ready.parameter as usize % ids.len()] }
    }

    fn preempts(&self, _: u64, _: u64) -> bool {
        false
    }

    fn steal(&self, _: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        None
    }
}

/// A G that the policy places on an idle P runs there: an M is woken for this P, and not for any other one. (Sometimes an M
/// that has not gone idle yet after the last round takes the G, because no G waits while a P is idle.)
#[test]
fn g_that_is_placed_on_an_idle_p_runs_there() {
    let elsewhere = Arc::new(AtomicU64::new(0));
    for seed in 0..20 {
        let elsewhere = elsewhere.clone();
        let config = Config { cpus: 4, processors: 4, seed, policy: Some(&Partition), ..Config::default() };
        let report = sim::run(config, move || {
            // In short steps, so that the other CPUs become idle or run the G meanwhile.
            let pass_time = || (0..50).for_each(|_| sim::work(Duration::from_micros(2)));
            for chosen in [1, 2, 3, 2, 1] {
                pass_time();
                let runs = sim::Builder::new().parameter(chosen).go(|| Pinned::<Sim>::new().processor().id().get());
                pass_time();
                elsewhere.fetch_add(u64::from(u64::from(runs.join().unwrap()) != chosen), Ordering::Relaxed);
            }
        });
        report.unwrap();
    }
    let elsewhere = elsewhere.load(Ordering::Relaxed);
    assert!(elsewhere <= 40, "{elsewhere} of 100 Gs run on another P than the one on which they were placed");
}

/// A hog of the lowest priority runs in time, although Gs of the highest priority always wait.
#[test]
fn no_g_starves_beside_higher_priorities() {
    explore(&PriorityAging, Some(Priorities::model), |_| {
        let low = sim::go(|| sim::work(Duration::from_millis(1)));
        sim::set_parameter(PriorityAging::HIGHEST);
        let busy: Vec<_> = (0..2 * sim::config().processors)
            .map(|_| sim::Builder::new().parameter(PriorityAging::HIGHEST).go(|| sim::work(Duration::from_millis(600))))
            .collect();
        low.join().unwrap();
        join_all(busy);
    });
}

/// Returns the time within which a G of the highest priority receives nine of ten messages from twenty hogs.
fn delay_of_messages(policy: Option<&'static dyn Policy>) -> Duration {
    let delays = Arc::new(Mutex::new(Vec::new()));
    let config = Config { cpus: 1, processors: 1, seed: 1, policy, ..Config::default() };
    let result = delays.clone();
    let report = sim::run(config, move || {
        let (sender, receiver) = sim::channel::<Duration>(100);
        let server = sim::Builder::new().parameter(PriorityAging::HIGHEST).go(move || {
            receiver.iter().for_each(|sent| delays.lock().unwrap().push(sim::elapsed() - sent));
        });
        for _ in 0..20 {
            let sender = sender.clone();
            let hog = move || {
                for _ in 0..20 {
                    sim::work(Duration::from_millis(3));
                    sender.send(sim::elapsed()).unwrap();
                }
            };
            sim::go(hog).detach();
        }
        drop(sender);
        server.join().unwrap();
    });
    report.unwrap();
    let mut delays = result.lock().unwrap().clone();
    delays.sort_unstable();
    delays[delays.len() * 9 / 10]
}

#[test]
fn priorities_deliver_messages_beside_hogs_sooner_than_the_default() {
    let (default, priorities) = (delay_of_messages(None), delay_of_messages(Some(&PriorityAging)));
    println!("nine of ten messages beside 20 hogs: {default:?} by default, {priorities:?} with priorities");
    assert!(default > 100 * priorities, "{default:?} {priorities:?}");
}

/// Returns how many of the deadlines of periodic Gs are missed. Each of them works for a part of its period, and has to
/// be done at the end of the period. Together they need 85% of the only P.
fn missed_deadlines(policy: Option<&'static dyn Policy>) -> u64 {
    /// The period and the work of each G, in ms.
    const TASKS: [(u64, u64); 3] = [(10, 4), (40, 10), (80, 16)];
    let missed = Arc::new(AtomicU64::new(0));
    let config = Config { cpus: 1, processors: 1, seed: 1, policy, ..Config::default() };
    let result = missed.clone();
    let report = sim::run(config, move || {
        let tasks: Vec<_> = (TASKS.into_iter().enumerate())
            .map(|(index, (period, work))| {
                let missed = missed.clone();
                let period = Duration::from_millis(period);
                sim::Builder::new().parameter(period.as_nanos() as u64).go(move || {
                    let mut release = sim::elapsed() + Duration::from_millis(index as u64);
                    for _ in 0..800 / period.as_millis() {
                        sim::sleep(release.saturating_sub(sim::elapsed()));
                        sim::work(Duration::from_millis(work));
                        release += period;
                        missed.fetch_add(u64::from(sim::elapsed() > release), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        join_all(tasks);
    });
    report.unwrap();
    result.load(Ordering::Relaxed)
}

#[test]
fn earliest_deadline_meets_deadlines_that_the_default_misses() {
    let (default, earliest) = (missed_deadlines(None), missed_deadlines(Some(&EarliestDeadline)));
    println!("missed of 110 deadlines: {default} by default, {earliest} with the earliest deadline first");
    assert!(default > 0 && earliest == 0, "{default} {earliest}");
}

/// A G of a higher priority does not wait until the running G leaves.
#[test]
fn readied_g_of_a_higher_priority_preempts_the_g_that_readies_it() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let config = Config { cpus: 1, processors: 1, policy: Some(&PriorityAging), ..Config::default() };
    let report = sim::run(config, move || {
        let urgent = order.clone();
        let urgent = sim::Builder::new().parameter(1).go(move || urgent.lock().unwrap().push("urgent"));
        order.lock().unwrap().push("main");
        urgent.join().unwrap();
    });
    report.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["urgent", "main"]);
}

/// The joiner of a G that ends waits behind a G that became runnable before it. By Go's rules it runs at once.
#[test]
fn joiner_waits_for_its_turn() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let config = Config { cpus: 1, processors: 1, policy: Some(&PriorityAging), ..Config::default() };
    let report = sim::run(config, move || {
        let first = order.clone();
        let joined = sim::go(move || sim::go(move || first.lock().unwrap().push("first")).detach());
        joined.join().unwrap();
        order.lock().unwrap().push("joiner");
    });
    report.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["first", "joiner"]);
}

/// A policy does not rule over locked Gs, and the number of Ps may change while Gs wait in their queues.
#[test]
fn locked_gs_and_changes_of_the_number_of_ps_work_with_a_policy() {
    explore_on(Config { policy: Some(&CHAOS), procs_limit: 8, ..Config::default() }, |seed| {
        // Only every fourth seed is run, because each run has many steps.
        if seed % 4 != 2 {
            return;
        }
        CHAOS.begin(seed);
        let hogs = Hogs::start(3, Duration::from_micros(50));
        let locked = sim::go(|| {
            let _locked = sim::lock_thread();
            let machine = sim::machine();
            for _ in 0..20 {
                sim::yield_now();
                sim::sleep(Duration::from_micros(20));
                assert_eq!(sim::machine(), machine);
            }
        });
        let mut random = Random::new(seed);
        for _ in 0..5 {
            sim::set_procs(1 + random.below(8) as usize).unwrap();
            anything(&mut random);
        }
        locked.join().unwrap();
        hogs.stop();
    });
}

/// A coroutine switches through the queue, so that the policy sees that another G runs.
#[test]
fn coroutines_work_with_a_policy() {
    explore(&PriorityAging, Some(Priorities::model), |_| {
        let numbers = sim::pull(|yielder| {
            for number in 0..20 {
                let _ = yielder.yield_value(number);
            }
        });
        assert!(numbers.eq(0..20));
    });
}

/// A new G gets the slot of one that has ended, but not its parameter.
#[test]
fn new_g_has_no_parameter_of_an_old_one() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let config = Config { cpus: 1, processors: 1, policy: Some(&PriorityAging), ..Config::default() };
    let report = sim::run(config, move || {
        sim::Builder::new().parameter(1).go(|| ()).join().unwrap();
        let later = order.clone();
        let later = sim::go(move || later.lock().unwrap().push("later"));
        order.lock().unwrap().push("main");
        later.join().unwrap();
    });
    report.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["main", "later"]);
}
