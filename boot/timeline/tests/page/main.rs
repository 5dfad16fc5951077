//! Tests the page in a browser without a window. If Chromium is not found, the tests are ignored. The environment
//! variable `GMP_CHROMIUM` can name another browser.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, go};
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::{EventKind, Track};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};
use timeline::Trace;
use timeline::model::{Activity, Model};

mod queues;
use queues::Queues;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];

fn browser() -> Option<OsString> {
    let in_path = |name: &&str| -> Option<PathBuf> {
        env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    env::var_os("GMP_CHROMIUM").or_else(|| NAMES.iter().find_map(in_path).map(PathBuf::into_os_string))
}

fn main() -> ExitCode {
    let trial = |name: String, test: fn(&OsString, &str) -> Result<(), Failed>, theme: &'static str| {
        Trial::ignorable_test(name, move || match browser() {
            Some(browser) => test(&browser, theme).map(|()| Completion::Completed),
            None => Ok(Completion::ignored_with("there is no Chromium")),
        })
    };
    let trials = ["light", "dark"].into_iter().flat_map(|theme| {
        [
            trial(format!("page_shows_what_the_model_says_in_{theme}"), page_agrees, theme),
            trial(format!("page_begins_with_the_violated_rule_in_{theme}"), page_shows_violation, theme),
        ]
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Returns the trace of a program on two Ps, in the simulator.
fn simulated() -> Trace {
    let config = Config { cpus: 3, processors: 2, seed: 3, ..Config::default() };
    let (result, traces) = sim::run_traced(config, 100_000, || {
        let workers: Vec<_> = (0..30)
            .map(|number| {
                sim::go(move || {
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

/// Returns the trace of a program on two Ps, on threads.
fn traced() -> Trace {
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

fn page_agrees(browser: &OsString, theme: &str) -> Result<(), Failed> {
    for trace in [traced(), simulated()] {
        page_agrees_with(browser, theme, &trace)?;
    }
    Ok(())
}

fn page_agrees_with(browser: &OsString, theme: &str, trace: &Trace) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let [_, page] = timeline::write(trace, &directory.path().join("run"))?;
    let shown = checked(browser, &page, &format!("check=main&theme={theme}&event=200"))?;
    let model = Model::of(trace);
    let is_run = |activity| matches!(activity, Activity::Run(_));
    // One P may have run all Gs. The page then shows the other P without a slice.
    let mut runs = vec![0u64; trace.processors() as usize];
    for slice in model.slices.iter().filter(|slice| is_run(slice.activity)) {
        runs[slice.processor as usize] += 1;
    }
    assert_eq!(shown["perProcessor"], Value::from(runs), "slices");
    assert_eq!(shown["arrows"], Value::from(model.arrows.len()), "arrows");
    assert_eq!(shown["wrongArrows"], 0, "arrows end where Gs run");
    assert_eq!(shown["differences"], 0, "stepping leads to the same states");
    assert_eq!(shown["found"][0], "G1 main", "search");
    assert_eq!(shown["violation"], Value::Null, "no rule is violated");
    let per_cpu = |cpus: &mut dyn Iterator<Item = u32>| {
        let mut counts = vec![0u64; trace.cpus() as usize];
        cpus.for_each(|cpu| counts[cpu as usize] += 1);
        Value::from(counts)
    };
    assert_eq!(shown["perCpu"], per_cpu(&mut model.cpus.iter().map(|slice| slice.cpu)), "threads on CPUs");
    assert_eq!(shown["interrupts"], per_cpu(&mut model.interrupts.iter().map(|slice| slice.cpu)), "interrupts");
    let outside = trace.events().iter().filter(|entry| entry.track == Track::Outside).count();
    assert_eq!(shown["outside"], outside, "events of callers without a P");
    stepping_agrees(trace, &shown["moments"]);
    assert!(shown["pictures"].as_u64() > Some(0), "the picture of a moment has Gs");
    let waits = checked(browser, &page, &format!("check=&theme={theme}&tab=waits"))?;
    assert!(waits["rows"].as_u64() > Some(0), "the table of waits has rows");
    Ok(())
}

/// Asserts that the queues that the page shows at some moments are those of the model at the same moments.
fn stepping_agrees(trace: &Trace, moments: &Value) {
    let mut queues = Queues::new(trace);
    let mut applied = 0;
    let number = |goroutine: Option<usize>| goroutine.map_or(-1, |goroutine| goroutine as i64);
    let moments = moments.as_array().expect("moments");
    assert!(moments.len() > 40);
    for moment in moments {
        let events = moment["events"].as_u64().expect("a number") as usize;
        trace.events()[applied..events].iter().for_each(|entry| queues.apply(entry));
        applied = events;
        let local = &queues.processors;
        let expected = json!({
            "events": events,
            "next": local.iter().map(|local| number(local.next)).collect::<Vec<_>>(),
            "rings": local.iter().map(|local| &local.ring).collect::<Vec<_>>(),
            "global": queues.global,
            "runs": local.iter().map(|local| number(local.runs)).collect::<Vec<_>>(),
        });
        assert_eq!(*moment, expected, "after {events} events");
    }
}

/// The program of this run violates a rule of its own. The page first shows this violation, and how many older events
/// are lost.
fn page_shows_violation(browser: &OsString, theme: &str) -> Result<(), Failed> {
    let (result, traces) = sim::run_traced(Config { seed: 5, ..Config::default() }, 40, || {
        let others: Vec<_> = (0..20).map(|_| sim::go(|| sim::work(Duration::from_micros(30)))).collect();
        sim::sleep(Duration::from_micros(200));
        sim::mark("about to fail");
        let value = others.len();
        assert_eq!(value, 0, "a rule of the program");
    });
    let failure = result.expect_err("a rule is violated");
    let trace = Trace::new(traces);
    let directory = tempfile::tempdir()?;
    let [_, page] = timeline::write(&trace, &directory.path().join("run"))?;
    let shown = checked(browser, &page, &format!("check=&theme={theme}"))?;
    assert!(trace.lost() > 0, "the rings are small");
    let lost = format!(", {} events lost", trace.lost());
    assert!(shown["facts"].as_str().is_some_and(|facts| facts.ends_with(&lost)), "{shown}");
    let violation = &shown["violation"];
    assert_eq!(violation["text"], format!("Violated rule: {}", failure.message));
    assert_eq!(violation["isInView"], true);
    let event = violation["shownEvent"].as_str().expect("a text");
    let count = trace.events().len();
    assert!(event.starts_with(&format!("{count} of {count}, ")) && event.contains("violates a rule"), "{event}");
    // The last event of the same G before the violation is the mark, which precedes the assertion that fails.
    let main = trace.events()[count - 1].goroutine;
    let before = trace.events()[..count - 1].iter().rfind(|entry| entry.goroutine == main).expect("an event");
    assert_eq!((before.kind, &trace.texts()[before.detail as usize][..]), (EventKind::Mark, "about to fail"));
    Ok(())
}

/// Opens the page at this fragment of its address. Returns the result of the function `check` of `main.js`.
fn checked(browser: &OsString, page: &Path, fragment: &str) -> Result<Value, Failed> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}#{fragment}", page.display()))
        .stderr(Stdio::null())
        .output()?;
    let page = String::from_utf8(output.stdout)?;
    let (_, rest) = page.split_once("<pre id=\"checked\">").ok_or("the page has not finished its check")?;
    let (json, _) = rest.split_once("</pre>").ok_or("the check has an end")?;
    Ok(serde_json::from_str(json)?)
}
