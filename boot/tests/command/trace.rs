//! Tests of `--trace`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::child::Running;
use crate::outside::{boot_outside, finish, only_machine, status, text};

#[test]
fn trace_shows_for_how_long_main_computed_and_what_each_p_did() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run");
    let option = format!("--trace={}", file.display());
    let output = finish(boot_outside(&["--icount", "--smp=2", &option], &["traced"]));
    let printed = text(&output.stderr);
    assert_eq!(status(&output), Some(0), "{printed}");
    assert!(printed.contains(" 0 lost, in "), "{printed}");
    let json = fs::read(file.with_extension("json")).expect("the JSON file");
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    let events = || json["traceEvents"].as_array().expect("events").iter();
    for name in ["G1 main", "a span"] {
        assert!(events().any(|event| event["name"] == name), "{name} is not in {json}");
    }
    assert!(
        events().any(|event| event["args"]["name"].as_str().is_some_and(|name| name.ends_with(" worker"))),
        "{json}"
    );
    // In the file, the CPUs are the tracks of process 4.
    for cpu in 0..2 {
        for category in ["thread", "interrupt"] {
            let is_there = |event: &Value| event["pid"] == 4 && event["tid"] == cpu && event["cat"] == category;
            assert!(events().any(is_there), "no {category} on CPU {cpu} in {json}");
        }
    }
    assert!(events().any(|event| event["cat"] == "interrupt" && event["name"] == "timer"), "{json}");
    let micros = |event: &Value, field: &str| event[field].as_f64().expect("microseconds");
    let bound = |phase| events().find(|event| event["ph"] == phase && event["name"] == "a span").expect("a span");
    let (begin, end) = (micros(bound("b"), "ts"), micros(bound("e"), "ts"));
    // In the file, the Ps are the tracks of process 1. Of the slices of main, only the parts within the span are
    // counted.
    let runs = events().filter(|event| event["cat"] == "run" && event["pid"] == 1 && event["name"] == "G1 main");
    let within = |run: &Value| (micros(run, "ts") + micros(run, "dur")).min(end) - micros(run, "ts").max(begin);
    let ran: f64 = runs.map(|run| within(run).max(0.0)).sum();
    let printed = text(&output.stdout);
    let numbers: Vec<f64> = printed.split_whitespace().map(|number| number.parse().expect("nanoseconds")).collect();
    let [computed, elapsed] = numbers[..] else { panic!("{printed}") };
    assert!((ran * 1000.0 - computed).abs() < computed / 100.0, "main ran {ran} us, and computed {computed} ns");
    // All times of each P, with those in which it was idle, add up to the time that the program has measured. Before and
    // after, the kernel starts main and ends the program.
    for processor in ["ns of P0", "ns of P1"] {
        let times = json["otherData"][processor].as_object().expect("times of the P");
        let sum: f64 = times.values().map(|time| time.as_f64().expect("nanoseconds")).sum();
        assert!((sum - elapsed).abs() < elapsed / 100.0, "{processor}: {times:?}, and the program ran {elapsed} ns");
    }
    let page = fs::read_to_string(file.with_extension("html")).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("worker"));
}

#[test]
fn trace_that_cannot_be_written_is_an_error() {
    let output = finish(boot_outside(&["--trace=/no/such/folder/run"], &["arguments"]));
    assert_eq!(status(&output), Some(74), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot write the trace"), "{}", text(&output.stderr));
}

#[test]
fn interrupted_run_writes_its_trace_and_one_that_does_not_start_keeps_the_earlier_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    let option = format!("--trace={}", directory.path().join("run").display());
    let json = directory.path().join("run.json");
    fs::write(&json, "an earlier trace").expect("written");
    let mut without_qemu = boot_outside(&["--smp=2", &option], &["sleep"]);
    without_qemu.env("PATH", directory.path());
    let output = finish(without_qemu);
    assert_eq!(status(&output), Some(104), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&json).expect("the earlier file"), "an earlier trace");
    assert_eq!(directory.path().read_dir().expect("a directory").count(), 1, "the page is not left as an empty file");

    let _machine = only_machine();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        fs::write(&json, "an earlier trace").expect("written");
        let mut child = Running::start(boot_outside(&["--smp=2", &option], &["sleep"]));
        child.read_until("sleeping\n");
        child.signal(signal);
        let output = child.finish();
        let printed = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{printed}");
        assert!(printed.contains("boot: trace: ") && !printed.contains("QEMU was ended"), "{printed}");
        assert!(fs::read_to_string(&json).expect("the JSON file").contains("\"G1 main\""));
    }
}
