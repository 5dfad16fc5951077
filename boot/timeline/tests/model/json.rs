//! Tests the JSON file.

use std::collections::{BTreeMap, BTreeSet};

use gmp_sched::trace::EventKind;
use serde_json::Value;
use timeline::queues::{Local, Queues};
use timeline::{Trace, perfetto};

use crate::generated::{EVENTS, generated};
use crate::{mixed_traces, trace_of_an_overflow, traces_of_changes_of_procs};

/// Returns the JSON file of a trace, parsed.
fn json_of(trace: &Trace) -> Value {
    let mut json = Vec::new();
    perfetto::write(trace, &mut json).expect("memory");
    serde_json::from_slice(&json).expect("JSON")
}

#[test]
fn json_has_the_fields_that_viewers_need() {
    let mut phases = BTreeMap::new();
    let traces: Vec<_> = mixed_traces().chain([trace_of_an_overflow()]).collect();
    for trace in &traces {
        let file = json_of(trace);
        assert_eq!(file["otherData"]["lost events"], 0);
        for processor in 0..trace.processors() {
            let times = file["otherData"][format!("ns of P{processor}")].as_object().expect("times");
            assert_eq!(times.values().map(|time| time.as_u64().expect("ns")).sum::<u64>(), trace.duration());
        }
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
    let names: Vec<_> = traces.iter().flat_map(|trace| trace.texts().to_vec()).collect();
    for name in ["timer", "IPI", "device"] {
        assert!(names.iter().any(|text| text == name), "no interrupt {name}");
    }
    let kinds = |trace: &Trace| trace.events().iter().map(|entry| entry.kind).collect::<Vec<_>>();
    let seen: Vec<_> = traces.iter().flat_map(kinds).collect();
    for kind in [EventKind::Steal, EventKind::HandOff, EventKind::SyscallEnter, EventKind::Stop, EventKind::GlobalTake]
    {
        assert!(seen.contains(&kind), "no {kind:?}");
    }
}

/// A G has migrated if the P on which it begins to run is not the P on which it ran last.
#[test]
fn json_tells_from_which_p_each_g_migrated() {
    let mut migrations = 0;
    for trace in mixed_traces() {
        let file = json_of(&trace);
        let events = file["traceEvents"].as_array().expect("events").iter();
        let on_processors = events.filter(|event| event["pid"] == 1 && event["ph"] == "X");
        let mut shown: Vec<_> = on_processors
            .filter_map(|event| {
                let from =
                    event["args"]["migrated from"].as_str()?.strip_prefix('P')?.parse::<u32>().expect("a number");
                let to = event["tid"].as_u64().expect("a P") as u32;
                Some((event["name"].as_str().expect("a G").to_owned(), from, to))
            })
            .collect();
        let (mut last, mut expected) = (BTreeMap::new(), Vec::new());
        for entry in trace.events() {
            let (Some(processor), Some(goroutine)) = (entry.processor(), entry.goroutine) else { continue };
            let runs = match entry.kind {
                EventKind::Start | EventKind::SyscallExit => goroutine,
                EventKind::Switch => entry.detail as usize,
                _ => continue,
            };
            let from = last.insert(runs, processor).filter(|&from| from != processor);
            expected.extend(from.map(|from| (trace.goroutines()[runs].label(), from, processor)));
        }
        shown.sort();
        expected.sort();
        assert_eq!(shown, expected);
        migrations += expected.len();
    }
    assert!(migrations > 10, "{migrations} migrations");
}

/// Viewers draw only slices that nest. The only slices that contain others are those of threads on CPUs, which contain
/// the slices of interrupts.
#[test]
fn slices_of_each_track_nest_and_those_of_ps_and_ms_do_not_overlap() {
    let mut nested = 0;
    for trace in mixed_traces().chain(traces_of_changes_of_procs()) {
        let file = json_of(&trace);
        let mut tracks = BTreeMap::new();
        for event in file["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X") {
            let nanoseconds = |name: &str| (event[name].as_f64().expect("a time") * 1000.0).round() as u64;
            let (from, took) = (nanoseconds("ts"), nanoseconds("dur"));
            let track = (event["pid"].as_u64(), event["tid"].as_u64());
            tracks.entry(track).or_insert_with(Vec::new).push((from, from + took, &event["cat"]));
        }
        for ((process, _), mut slices) in tracks {
            slices.sort_by_key(|&(from, to, _)| (from, std::cmp::Reverse(to)));
            let mut open: Vec<u64> = Vec::new();
            for (from, to, category) in slices {
                open.retain(|&end| end > from);
                assert!(
                    open.iter().all(|&end| to <= end),
                    "{category} from {from} to {to} overlaps one until {open:?}"
                );
                // A slice without a length overlaps none.
                let may_nest = category == "interrupt" || from == to;
                assert!(open.is_empty() || may_nest, "{process:?}: {category} from {from} to {to}, until {open:?}");
                nested += usize::from(!open.is_empty());
                open.push(to);
            }
        }
    }
    assert!(nested > 0, "no interrupt interrupts a thread");
}

/// After each change, the counters of the JSON file are the lengths of the replayed queues and the number of Ms that
/// search.
#[test]
fn counters_are_the_lengths_of_the_queues_and_the_spinning_ms() {
    let mut seen = BTreeSet::new();
    for trace in mixed_traces() {
        let file = json_of(&trace);
        let mut shown: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
        for event in file["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "C") {
            let when = (event["ts"].as_f64().expect("a time") * 1000.0).round() as u64;
            let name = event["name"].as_str().expect("a name").to_owned();
            shown.entry(name).or_default().insert(when, event["args"]["count"].as_u64().expect("a number"));
        }
        let at = |name: &str, when: u64| {
            let values = shown.get(name).and_then(|values| values.range(..=when).next_back());
            values.map_or(0, |(_, &value)| value as usize)
        };
        let (mut queues, mut searches) = (Queues::new(&trace), vec![false; trace.processors() as usize]);
        for simultaneous in trace.events().chunk_by(|left, right| left.when == right.when) {
            for entry in simultaneous {
                queues.apply(entry);
                let Some(on) = entry.processor() else { continue };
                match entry.kind {
                    EventKind::Spin => searches[on as usize] = true,
                    EventKind::Start | EventKind::Idle | EventKind::Busy | EventKind::Stop | EventKind::Retire => {
                        searches[on as usize] = false;
                    }
                    _ => {}
                }
            }
            // Of the changes within a very short interval, the file only has the last one. So the others are skipped.
            let (when, interval) = (simultaneous[0].when, trace.duration() / 20_000 + 1);
            let is_last =
                trace.events().iter().all(|entry| entry.when <= when || entry.when / interval > when / interval);
            if !is_last {
                continue;
            }
            let length = |local: &Local| local.ring.len() + usize::from(local.next.is_some());
            for (number, local) in queues.processors.iter().enumerate() {
                assert_eq!(at(&format!("queue of P{number}"), when), length(local), "P{number} at {when}");
            }
            assert_eq!(at("global queue", when), queues.global.len(), "at {when}");
            assert_eq!(at("spinning Ms", when), searches.iter().filter(|&&one| one).count(), "at {when}");
        }
        let busy = shown.into_iter().filter(|(_, values)| values.values().any(|&value| value > 0));
        seen.extend(busy.map(|(name, _)| name));
    }
    for name in ["queue of P0", "queue of P3", "global queue", "spinning Ms", "running Gs", "runnable Gs", "idle Ps"] {
        assert!(seen.contains(name), "{name} is always 0");
    }
}

/// The file of a long trace is complete, and does not grow faster than the trace: it has a bounded number of values of
/// each counter. The file has each of its events on a line of its own. The test counts the phases of all lines, but
/// parses only some lines, because parsing all of them takes minutes without optimisation.
#[test]
fn json_of_a_million_events_is_bounded() {
    const MOST_BYTES_FOR_EACH_EVENT: usize = 600;
    const MOST_VALUES_OF_A_COUNTER: usize = 20_001;
    let trace = generated(1000, 0);
    let mut json = Vec::new();
    perfetto::write(&trace, &mut json).expect("memory");
    assert!(json.len() / EVENTS <= MOST_BYTES_FOR_EACH_EVENT, "{} bytes", json.len());
    let mut lines = std::str::from_utf8(&json).expect("UTF-8").lines();
    let first = lines.next().expect("a line");
    serde_json::from_str::<Value>(&format!("{first}]}}")).expect("JSON");
    let (mut phases, mut counters) = (BTreeMap::new(), BTreeMap::new());
    for (index, line) in lines.by_ref().take_while(|&line| line != "]}").enumerate() {
        let phase = line.strip_prefix("{\"ph\":\"").and_then(|rest| rest.chars().next()).expect("a phase");
        *phases.entry(phase).or_insert(0) += 1;
        if phase == 'C' {
            *counters.entry(line.split(',').nth(1).expect("a name")).or_insert(0) += 1;
        }
        if index.is_multiple_of(97) {
            serde_json::from_str::<Value>(line.strip_suffix(',').unwrap_or(line)).expect("JSON");
        }
    }
    assert_eq!(lines.next(), None, "nothing follows the end");
    let starts = trace.events().iter().filter(|entry| entry.kind == EventKind::Start).count();
    assert!(phases[&'X'] >= starts, "a slice for each start: {phases:?}");
    assert_eq!(phases[&'s'], phases[&'f']);
    assert!(counters.values().all(|&values| values <= MOST_VALUES_OF_A_COUNTER), "{counters:?}");
}
