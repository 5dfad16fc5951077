//! Runs programs in the simulator, and tests their events, the model and the JSON file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::park::{park, ready};
use gmp_sched::platform::Pinned;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::syscall::blocking;
use gmp_sched::trace::{EventKind, Track};
use serde_json::Value;
use timeline::cpus::{CpuSlice, CpuThread, InterruptSlice};
use timeline::model::{Activity, Arrow, ArrowKind, Model, Slice};
use timeline::{Cause, Entry, Trace, perfetto};

mod damaged;
mod examples;
#[path = "../shared/generated.rs"]
mod generated;
mod json;
mod pictures;
mod queues;

fn scheduler() -> &'static Scheduler<Sim> {
    Pinned::<Sim>::new().machine().scheduler()
}

/// Runs `program` in the simulator, and returns its trace.
fn traced(config: Config, program: impl FnOnce() + Send + 'static) -> Trace {
    let trace = Arc::new(Mutex::new(Trace::default()));
    let result = trace.clone();
    sim::run(config, move || {
        scheduler().start_trace(100_000).expect("memory");
        program();
        scheduler().stop_trace();
        *trace.lock().unwrap_or_else(PoisonError::into_inner) = Trace::new(scheduler().traces());
    })
    .expect("the program ends");
    let trace = result.lock().unwrap_or_else(PoisonError::into_inner);
    trace.clone()
}

/// A program whose Gs yield, sleep, block, make system calls, wait for devices and set marks. Main stops the world.
fn mixed_program() {
    let workers: Vec<_> = (0..20)
        .map(|number| {
            sim::go(move || {
                let _span = sim::span("work");
                sim::work(Duration::from_micros(20));
                match number % 6 {
                    0 => sim::yield_now(),
                    1 => sim::sleep(Duration::from_micros(100)),
                    2 => sim::block(Duration::from_micros(100)),
                    3 => sim::syscall(Duration::from_micros(50)),
                    4 => {
                        let signal: &'static Signal<Sim> = Box::leak(Box::new(Signal::new()));
                        sim::start_device(signal, Duration::from_micros(60));
                        signal.wait();
                    }
                    _ => sim::mark("nothing"),
                }
                sim::work(Duration::from_micros(10));
            })
        })
        .collect();
    drop(sim::stop_the_world());
    for worker in workers {
        worker.join().expect("no G panics");
    }
}

fn mixed_traces() -> impl Iterator<Item = Trace> {
    let of = |seed| {
        traced(Config { cpus: 4, processors: [1, 2, 4][seed as usize % 3], seed, ..Config::default() }, mixed_program)
    };
    (0..12).map(of)
}

/// A trace in which a P spawns more Gs than its ring has room for, and takes them from the global queue later.
fn trace_of_an_overflow() -> Trace {
    traced(Config { cpus: 1, processors: 1, ..Config::default() }, || {
        let all: Vec<_> = (0..400).map(|_| sim::go(|| ())).collect();
        all.into_iter().for_each(|one| one.join().expect("no G panics"));
    })
}

/// Traces in which Ps go out of use and come back while Gs are in system calls.
fn traces_of_changes_of_procs() -> impl Iterator<Item = Trace> {
    let of = |seed| {
        traced(Config { cpus: 4, processors: 4, seed, ..Config::default() }, || {
            let call = || (0..9).for_each(|_| sim::syscall(Duration::from_micros(10)));
            let callers: Vec<_> = (0..6).map(|_| sim::go(call)).collect();
            for procs in [1, 4, 2, 3, 1] {
                sim::sleep(Duration::from_micros(5));
                sim::set_procs(procs).expect("memory");
            }
            callers.into_iter().for_each(|caller| caller.join().expect("no G panics"));
        })
    };
    (0..12).map(of)
}

/// A G that returns from a system call may have lost its P: to sysmon, to a stop of the world, or to a change of the
/// number of Ps. In each case an event says that the P is no longer in the call, before the G runs again.
#[test]
fn no_p_is_in_the_system_call_of_a_g_that_runs_again_without_it() {
    let mut starts = 0;
    for trace in mixed_traces().chain(traces_of_changes_of_procs()) {
        let model = Model::of(&trace);
        for entry in trace.events().iter().filter(|entry| entry.kind == EventKind::Start) {
            let goroutine = entry.goroutine.expect("the G that runs");
            let in_call = |slice: &&Slice| {
                slice.activity == Activity::Syscall(goroutine) && slice.from < entry.when && entry.when < slice.to
            };
            assert_eq!(model.slices.iter().find(in_call), None, "the G runs again at {}", entry.when);
            starts += 1;
        }
    }
    assert!(starts > 100, "{starts} starts");
}

#[test]
fn scripted_program_has_exactly_the_expected_events() {
    let trace = traced(Config { cpus: 1, processors: 1, seed: 1, ..Config::default() }, || {
        let (sender, receiver) = sim::channel(0);
        let receiving = sim::go(move || receiver.recv());
        sender.send(7).expect("the other G receives");
        receiving.join().expect("no G panics").expect("a value");
        let other = sim::go(|| sim::mark("here"));
        sim::yield_now();
        other.join().expect("no G panics");
        sim::sleep(Duration::from_micros(100));
        drop(sim::stop_the_world());
    });
    let name = |index: usize| trace.goroutines()[index].id;
    let events: Vec<_> = trace
        .events()
        .iter()
        .map(|entry| {
            let goroutine = entry.goroutine.map_or(String::new(), |index| format!(" G{}", name(index)));
            let by = match entry.cause {
                Cause::Goroutine(by) => format!(" by G{}", name(by)),
                Cause::Timer => " by a timer".to_owned(),
                _ => String::new(),
            };
            let name = if entry.kind == EventKind::Interrupt { &trace.texts()[entry.detail as usize] } else { "" };
            format!("{:?}{goroutine}{by} {name}", entry.kind).trim_end().to_owned()
        })
        .collect();
    let expected = [
        "RunMachine",
        "Busy",
        "Start G1",
        // Main sends before there is a receiver.
        "Spawn G16 by G1",
        "Park G1",
        "Start G16",
        "Ready G1 by G16",
        "End G16",
        "Start G1",
        "Spawn G17 by G1",
        "Yield G1",
        "Start G17",
        "Mark G17",
        "End G17",
        "Start G1",
        "Park G1",
        "Spin",
        "Idle",
        "Halt",
        "Interrupt timer",
        "InterruptEnd",
        "RunMachine",
        "Busy",
        "Spin",
        "Timer",
        "Ready G1 by a timer",
        "Start G1",
        "WorldStop G1",
        "WorldStart G1",
    ];
    assert_eq!(events, expected, "{events:#?}");
}

#[test]
fn times_of_each_p_add_up_to_the_whole_trace() {
    for trace in mixed_traces() {
        let model = Model::of(&trace);
        for processor in 0..trace.processors() {
            let slices: Vec<_> = model.slices.iter().filter(|slice| slice.processor == processor).collect();
            assert!(slices.windows(2).all(|pair| pair[0].to == pair[1].from), "no gap and no overlap");
            let sum: u64 = slices.iter().map(|slice| slice.to - slice.from).sum();
            assert_eq!(sum, trace.duration());
        }
        // Each of the 20 Gs computes for 30 us. The simulation has four CPUs, so while a CPU computes, the clock
        // advances by a quarter of that time. A G may run for longer, because the other CPUs advance the clock, too.
        let of_children = |activity| matches!(activity, Activity::Run(index) if trace.goroutines()[index].id != 1);
        for goroutine in (0..trace.goroutines().len()).filter(|&index| of_children(Activity::Run(index))) {
            let own = model.slices.iter().filter(|slice| slice.activity == Activity::Run(goroutine));
            let ran: u64 = own.map(|slice| slice.to - slice.from).sum();
            let is_in_call = trace.events().iter().any(|entry| {
                entry.goroutine == Some(goroutine) && matches!(entry.kind, EventKind::SyscallEnter | EventKind::HandOff)
            });
            assert!(ran >= 30_000 / 4 || is_in_call, "{goroutine}: {ran}");
        }
    }
}

#[test]
fn no_g_runs_in_two_places_and_arrows_end_where_gs_begin_to_run() {
    for trace in mixed_traces() {
        let model = Model::of(&trace);
        let runs = || model.slices.iter().filter(|slice| matches!(slice.activity, Activity::Run(_)));
        for goroutine in 0..trace.goroutines().len() {
            let mut own: Vec<_> = runs().filter(|slice| slice.activity == Activity::Run(goroutine)).collect();
            own.sort_by_key(|slice| slice.from);
            assert!(own.windows(2).all(|pair| pair[0].to <= pair[1].from), "{own:?}");
        }
        assert!(!model.arrows.is_empty());
        for arrow in &model.arrows {
            assert!(runs().any(|slice| (slice.from, slice.processor) == arrow.to), "{arrow:?}");
            assert!(arrow.from.0 <= arrow.to.0, "{arrow:?}");
        }
        // The trace shows where each G was readied, except for main, which runs when the trace begins.
        for slice in runs().filter(|slice| slice.from > 0) {
            assert!(slice.readied.is_none_or(|readied| readied.track.is_some()), "{slice:?}");
        }
        for wait in &model.waits {
            assert!(wait.from <= wait.to, "{wait:?}");
        }
    }
}

#[test]
fn arrows_of_devices_begin_at_their_interrupts() {
    let mut arrows = 0;
    for trace in mixed_traces() {
        let model = Model::of(&trace);
        for arrow in model.arrows.iter().filter(|arrow| arrow.kind == ArrowKind::Device) {
            let Track::Cpu(cpu) = arrow.from.1 else { panic!("{arrow:?}") };
            let handles = |slice: &&InterruptSlice| (slice.from..=slice.to).contains(&arrow.from.0);
            let interrupt =
                model.interrupts.iter().filter(|slice| slice.cpu == cpu).find(handles).expect("an interrupt");
            assert_eq!(trace.texts()[interrupt.name], "device");
            arrows += 1;
        }
    }
    assert!(arrows > 10, "{arrows}");
}

#[test]
fn cpu_runs_the_m_whose_p_runs_a_g() {
    let mut checked = 0;
    for trace in mixed_traces() {
        let model = Model::of(&trace);
        for cpu in 0..trace.cpus() {
            let mut own: Vec<_> = model.cpus.iter().filter(|slice| slice.cpu == cpu).collect();
            own.sort_by_key(|slice| slice.from);
            assert!(own.windows(2).all(|pair| pair[0].to <= pair[1].from), "{own:?}");
        }
        // While a P runs a G, its M runs on a CPU at least once. A CPU may have begun to run the M before the trace
        // began. The trace says nothing about that CPU until it switches to another thread. So only periods in which
        // the threads of all CPUs are known are checked.
        for slice in model.slices.iter().filter(|slice| matches!(slice.activity, Activity::Run(_))) {
            let Some(machine) = slice.machine else { continue };
            let on_cpu = |other: &&CpuSlice| {
                other.thread == CpuThread::Machine(machine) && other.from <= slice.to && slice.from <= other.to
            };
            let is_known = |cpu| model.cpus.iter().any(|other| other.cpu == cpu && other.from <= slice.to);
            if (0..trace.cpus()).all(is_known) {
                assert!(model.cpus.iter().any(|other| on_cpu(&other)), "{slice:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Main makes a blocking call, which hands its P off. A G is readied during the call, and main becomes runnable after
/// the call. In both cases, main holds no P.
#[test]
fn callers_without_a_p_leave_events_and_arrows() {
    let mut outside = BTreeMap::new();
    for seed in 0..40 {
        let config = Config { cpus: 2, processors: 1, seed, ..Config::default() };
        let trace = traced(config, || {
            let (sender, receiver) = sim::channel(0);
            let waiting = sim::go(move || receiver.recv());
            sim::yield_now();
            // The call hands off the only P. The G `hog` then runs on this P for longer than the call takes. So there
            // is no free P when the call ends.
            let hog = sim::go(|| sim::work(Duration::from_micros(300)));
            blocking::<Sim, _>(|| {
                sim::work(Duration::from_micros(50));
                sender.try_send(1)
            })
            .ok();
            waiting.join().expect("no G panics").ok();
            hog.join().expect("no G panics");
        });
        let model = Model::of(&trace);
        // An `UrgentPut` event has no arrow, because it only says to which queue a G goes after a call.
        let is_shown = |entry: &&Entry| entry.track == Track::Outside && entry.kind != EventKind::UrgentPut;
        for entry in trace.events().iter().filter(is_shown) {
            *outside.entry(format!("{:?}", entry.kind)).or_insert(0) += 1;
            let starts = |arrow: &&Arrow| arrow.from == (entry.when, Track::Outside) && arrow.kind == ArrowKind::Ready;
            assert!(model.arrows.iter().any(|arrow| starts(&arrow)), "seed {seed}: {entry:?} has no arrow");
        }
    }
    assert!(outside.contains_key("Ready") && outside.contains_key("SyscallReturn"), "{outside:?}");
}

#[test]
fn failed_run_is_marked_at_the_event_that_violates_the_rule() {
    for seed in 0..12 {
        let config = Config { cpus: 2, processors: 2, seed, ..Config::default() };
        let (result, traces) = sim::run_traced(config, 10_000, move || {
            let found = Arc::new(Mutex::new(None));
            let shared = found.clone();
            let waiter = sim::go(move || {
                park::<Sim>(WaitReason::Parked, move |_, me| {
                    *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(me);
                    true
                });
            });
            let waiter_found = loop {
                let taken = found.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(taken) = taken {
                    break taken;
                }
                sim::yield_now();
            };
            // The fault of this program is a wake-up that readies its G twice.
            for wake in ["first", "second"] {
                sim::mark(wake);
                // SAFETY: none. The second call violates the contract, which the scheduler detects.
                unsafe { ready(waiter_found) };
            }
            waiter.join().expect("no G panics");
        });
        let failure = result.expect_err("a rule is violated");
        let trace = Trace::new(traces);
        let (index, rule) = trace.violation().expect("a mark");
        assert_eq!(rule, failure.message);
        assert!(rule.starts_with("readied a G that does not wait") || rule.contains("assertion"), "{rule}");
        assert_eq!(index, trace.events().len() - 1, "the mark is the last event");
        let main = trace.events()[index].goroutine;
        let own: Vec<_> = trace.events().iter().filter(|entry| entry.goroutine == main).collect();
        let before = own[own.len() - 2];
        assert_eq!(
            (before.kind, &trace.texts()[before.detail as usize][..]),
            (EventKind::Mark, "second"),
            "seed {seed}"
        );
        let mut json = Vec::new();
        perfetto::write(&trace, &mut json).expect("memory");
        let file: Value = serde_json::from_slice(&json).expect("JSON");
        let mark = file["traceEvents"].as_array().expect("events").iter().find(|event| event["ph"] == "i");
        let mark = mark.expect("the mark is in the JSON file");
        assert_eq!((&mark["name"], mark["ts"].as_f64()), (&rule.into(), Some(trace.duration() as f64 / 1000.0)));
    }
}

#[test]
fn each_stolen_g_has_an_arrow_from_the_steal() {
    let (mut steals, mut batches) = (0, 0);
    for trace in mixed_traces() {
        let model = Model::of(&trace);
        let stealing = |arrow: &&Arrow| arrow.kind == ArrowKind::Steal;
        for entry in trace.events().iter().filter(|entry| entry.kind == EventKind::Steal) {
            let (victim, count) = (entry.detail as u32, (entry.detail >> 32) as usize);
            let own = model.arrows.iter().filter(stealing);
            let own: Vec<_> = own.filter(|arrow| arrow.from == (entry.when, Track::Processor(victim))).collect();
            // The thief runs the G that the event names. Another P may steal the others again.
            let thief = entry.processor().expect("a P");
            let is_next = |arrow: &&Arrow| Some(arrow.goroutine) == entry.goroutine && arrow.to.1 == thief;
            assert!(own.iter().any(is_next), "{entry:?}: {own:?}");
            assert!(own.len() <= count, "{entry:?}: {own:?}");
            steals += 1;
            batches += usize::from(count > 1 && own.len() == count);
        }
        let begins = |arrow: &&Arrow| {
            trace.events().iter().any(|entry| {
                entry.kind == EventKind::Steal && (entry.when, Track::Processor(entry.detail as u32)) == arrow.from
            })
        };
        assert!(model.arrows.iter().filter(stealing).all(|arrow| begins(&arrow)));
    }
    assert!(steals > 10 && batches > 3, "{steals} steals, {batches} of several Gs");
}

#[test]
fn arrows_of_timers_begin_where_the_timer_is_due() {
    let mut arrows = 0;
    for trace in mixed_traces() {
        let timers =
            trace.events().iter().filter(|entry| entry.kind == EventKind::Ready && entry.cause == Cause::Timer);
        let mut readied: Vec<_> = timers.map(|entry| (entry.when, entry.track)).collect();
        for arrow in Model::of(&trace).arrows.iter().filter(|arrow| arrow.kind == ArrowKind::Timer) {
            let index = readied.iter().position(|&from| from == arrow.from).expect("a timer has readied the G");
            readied.remove(index);
            arrows += 1;
        }
        assert!(readied.is_empty(), "timers without an arrow: {readied:?}");
    }
    assert!(arrows > 10, "{arrows}");
}
