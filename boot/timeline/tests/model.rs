//! Runs programs in the simulator, and tests their events, the model and the JSON file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::EventKind;
use serde_json::Value;
use timeline::model::{Activity, Model};
use timeline::{Cause, Trace, perfetto};

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
        *trace.lock().unwrap_or_else(PoisonError::into_inner) = Trace::of_processors(scheduler().traces());
    })
    .expect("the program ends");
    let trace = result.lock().unwrap_or_else(PoisonError::into_inner);
    trace.clone()
}

/// A program in which everything happens that a trace shows.
fn mixed_program() {
    let workers: Vec<_> = (0..20)
        .map(|number| {
            sim::go(move || {
                let _span = sim::span("work");
                sim::work(Duration::from_micros(20));
                match number % 5 {
                    0 => sim::yield_now(),
                    1 => sim::sleep(Duration::from_micros(100)),
                    2 => sim::block(Duration::from_micros(100)),
                    3 => sim::syscall(Duration::from_micros(50)),
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
            format!("{:?}{goroutine}{by}", entry.kind)
        })
        .collect();
    let expected = [
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
        for wait in &model.waits {
            assert!(wait.from <= wait.to, "{wait:?}");
        }
    }
}

#[test]
fn json_has_the_fields_that_viewers_need() {
    let mut phases = BTreeMap::new();
    for trace in mixed_traces() {
        let mut json = Vec::new();
        perfetto::write(&trace, &mut json).expect("memory");
        let file: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(file["otherData"]["lost events"], 0);
        let events = file["traceEvents"].as_array().expect("events");
        let mut arrows = BTreeMap::new();
        for event in events {
            let phase = event["ph"].as_str().expect("a phase");
            *phases.entry(phase.to_owned()).or_insert(0) += 1;
            assert!(event["name"].is_string() && event["pid"].is_u64(), "{event}");
            if phase != "M" {
                assert!(
                    event["ts"].as_f64().is_some_and(|ts| (0.0..=trace.duration() as f64).contains(&ts)),
                    "{event}"
                );
            }
            match phase {
                "X" => assert!(event["tid"].is_u64() && event["dur"].as_f64() >= Some(0.0), "{event}"),
                "C" => assert!(event["args"]["count"].is_u64(), "{event}"),
                "M" => assert!(event["args"]["name"].is_string(), "{event}"),
                "s" => assert!(arrows.insert(event["id"].as_u64(), event).is_none(), "{event}"),
                "f" => {
                    let begin = arrows.remove(&event["id"].as_u64()).expect("the arrow has begun");
                    assert_eq!((&begin["name"], &event["bp"]), (&event["name"], &"e".into()));
                }
                "b" | "e" | "n" => assert!(event["id"].is_u64() && event["cat"].is_string(), "{event}"),
                _ => panic!("{event}"),
            }
        }
        assert!(arrows.is_empty(), "arrows without an end: {arrows:?}");
    }
    assert_eq!(phases.keys().collect::<Vec<_>>(), ["C", "M", "X", "b", "e", "f", "n", "s"]);
    let kinds = |trace: &Trace| trace.events().iter().map(|entry| entry.kind).collect::<Vec<_>>();
    let seen: Vec<_> = mixed_traces().flat_map(|trace| kinds(&trace)).collect();
    for kind in [EventKind::Steal, EventKind::HandOff, EventKind::SyscallEnter, EventKind::Stop, EventKind::GlobalTake]
    {
        assert!(seen.contains(&kind), "no {kind:?}");
    }
}
