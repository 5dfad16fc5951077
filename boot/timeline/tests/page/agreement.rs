//! Tests that the page shows what the model says. The model replays the same events in Rust.

use std::collections::BTreeMap;

use gmp_sched::trace::Track;
use libtest_mimic::Failed;
use serde_json::{Value, json};
use timeline::cpus::CpuThread;
use timeline::model::{Activity, Arrow, ArrowKind, Model, Slice, Wait};
use timeline::queues::Queues;
use timeline::{Cause, Trace};

use crate::browser::Browser;
use crate::{page_of, programs};

/// Returns the number by which the page identifies a track.
pub(crate) fn number_of(track: Track) -> u32 {
    match track {
        Track::Processor(number) => number,
        Track::Cpu(number) => 0x8000 | number,
        Track::Outside => 0xffff,
    }
}

fn machine(number: Option<u64>) -> i64 {
    number.map_or(-1, |number| number as i64)
}

/// Asserts that both lists have the same elements, in any order.
fn assert_same(shown: &Value, expected: impl Iterator<Item = Value>, what: &str) {
    let sorted = |values: &mut dyn Iterator<Item = Value>| {
        let mut texts: Vec<_> = values.map(|value| value.to_string()).collect();
        texts.sort();
        texts
    };
    // JavaScript has only floating-point numbers. Those that are whole arrive here as integers.
    let shown = sorted(&mut shown.as_array().expect("a list").iter().cloned());
    let expected = sorted(&mut expected.into_iter());
    let missing: Vec<_> = expected.iter().filter(|text| shown.binary_search(text).is_err()).collect();
    let surplus: Vec<_> = shown.iter().filter(|text| expected.binary_search(text).is_err()).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "{what}: missing {missing:?}, surplus {surplus:?}");
    assert_eq!(shown.len(), expected.len(), "{what}");
}

fn kind_of(arrow: &Arrow) -> &'static str {
    match arrow.kind {
        ArrowKind::Ready => "ready",
        ArrowKind::Device => "device",
        ArrowKind::Steal => "steal",
        ArrowKind::HandOff => "handoff",
        ArrowKind::Timer => "timer",
    }
}

/// Returns the values that the page should show for this slice of the model, or `None` if the page should not show it.
fn shown_slice(slice: &Slice) -> Option<Value> {
    let (name, goroutine) = match slice.activity {
        Activity::Run(goroutine) => ("run", goroutine as i64),
        Activity::Syscall(goroutine) => ("syscall", goroutine as i64),
        Activity::Search => ("search", -1),
        Activity::Stopped => ("stopped", -1),
        Activity::Schedule | Activity::Idle => return None,
    };
    Some(json!([slice.processor, machine(slice.machine), name, goroutine, slice.from, slice.to]))
}

pub(crate) fn periods_and_arrows(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let mut kinds = BTreeMap::new();
    for trace in [programs::native(), programs::simulated()] {
        let (_directory, page) = page_of(&trace)?;
        let model = Model::of(&trace);
        browser.open(&page, &format!("theme={theme}"))?;
        let slices = browser.evaluate("probe.slices()")?;
        assert_same(&slices, model.slices.iter().filter_map(shown_slice), "periods of Ps");
        let arrows = model.arrows.iter().map(|arrow| {
            *kinds.entry(kind_of(arrow)).or_insert(0) += 1;
            let (from, track) = arrow.from;
            json!([kind_of(arrow), from, number_of(track), arrow.to.0, arrow.to.1, arrow.goroutine])
        });
        assert_same(&browser.evaluate("probe.arrows()")?, arrows, "arrows");
        // Each arrow ends where its G begins to run.
        for arrow in &model.arrows {
            let ends = |slice: &&Slice| {
                (slice.activity, slice.from, slice.processor)
                    == (Activity::Run(arrow.goroutine), arrow.to.0, arrow.to.1)
            };
            assert!(model.slices.iter().any(|slice| ends(&slice)), "{arrow:?}");
        }
        let blocked = model.blocked.iter();
        let blocked = blocked.map(|blocked| json!([blocked.machine, blocked.goroutine, blocked.from, blocked.to]));
        assert_same(&browser.evaluate("probe.blocked()")?, blocked, "blocked Ms");
        let threads = model.cpus.iter().map(|slice| {
            let thread = if let CpuThread::Machine(number) = slice.thread { number as i64 } else { -2 };
            json!([slice.cpu, thread, slice.from, slice.to])
        });
        assert_same(&browser.evaluate("probe.threads()")?, threads, "threads on CPUs");
        let interrupts = model.interrupts.iter();
        let interrupts = interrupts.map(|slice| json!([slice.cpu, trace.texts()[slice.name], slice.from, slice.to]));
        assert_same(&browser.evaluate("probe.interrupts()")?, interrupts, "interrupts");
        let outside = trace.events().iter().filter(|entry| entry.track == Track::Outside).count();
        assert_eq!(browser.evaluate("history_.outside.length")?, outside, "events of callers without a P");
        assert_eq!(browser.evaluate("element('violation').hidden")?, true, "no rule is violated");
    }
    assert_eq!(
        kinds.keys().copied().collect::<Vec<_>>(),
        ["device", "handoff", "ready", "steal", "timer"],
        "{kinds:?}"
    );
    Ok(())
}

/// Shows the first part of the trace, in which there are few enough periods that all arrows are drawn.
pub(crate) fn drawn_arrows(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::simulated();
    let (_directory, page) = page_of(&trace)?;
    let model = Model::of(&trace);
    browser.open(&page, &format!("theme={theme}"))?;
    let end = trace.duration() / 3;
    browser.evaluate(&format!("timeline.show(0, {end})"))?;
    let geometry = browser.evaluate(
        "({ first: timeline.firstCpu, outside: timeline.outsideRow, left: LEFT, width: timeline.width, \
          rows: timeline.rows.map((row, number) => timeline.y(number) + timeline.row * (number < timeline.firstCpu ? ANCHOR : INTERRUPT_ANCHOR)) })",
    )?;
    let real = |value: &Value| value.as_f64().expect("a number");
    let (left, width) = (real(&geometry["left"]), real(&geometry["width"]));
    let x = |when: u64| left + when as f64 / end as f64 * (width - left);
    let y = |track: Track| {
        let row = match track {
            Track::Processor(number) => u64::from(number),
            Track::Cpu(number) => geometry["first"].as_u64().expect("a row") + u64::from(number),
            Track::Outside => geometry["outside"].as_u64().expect("a row"),
        };
        real(&geometry["rows"][row as usize])
    };
    let rounded = |values: [f64; 4]| json!(values.map(|value| value.round() as i64));
    let shown = browser.evaluate("probe.drawn('arrow').map((values) => values.slice(0, 4))")?;
    let shown = shown.as_array().expect("a list").iter();
    let shown: Vec<_> = shown.map(|arrow| rounded(std::array::from_fn(|index| real(&arrow[index])))).collect();
    let expected = model.arrows.iter().filter(|arrow| arrow.to.0 <= end);
    let expected: Vec<_> = expected
        .map(|arrow| {
            let (from, to) = (arrow.from, (arrow.to.0, Track::Processor(arrow.to.1)));
            rounded([x(from.0), y(from.1), x(to.0), y(to.1)])
        })
        .collect();
    assert!(expected.len() > 20, "{}", expected.len());
    assert_same(&Value::from(shown), expected.into_iter(), "drawn arrows");
    Ok(())
}

/// Returns the number by which the page identifies what made a G runnable.
fn number_of_cause(cause: Cause) -> i64 {
    match cause {
        Cause::Goroutine(by) => by as i64,
        Cause::Unknown => -1,
        Cause::Timer => -2,
        Cause::Device => -3,
        Cause::Return => -5,
    }
}

/// Returns how long Gs were runnable before they ran: the duration, the G, the beginning, and the P.
fn latencies(model: &Model) -> impl Iterator<Item = (u64, usize, u64, u32)> {
    model.slices.iter().filter_map(|slice| {
        let (Activity::Run(goroutine), Some(readied)) = (slice.activity, slice.readied) else { return None };
        Some((slice.from - readied.at, goroutine, readied.at, slice.processor))
    })
}

/// Returns, for each G that ever ran on a P, for how long it ran there within a period of time. The result may be 0.
fn ran_meanwhile(model: &Model, processor: u32, from: u64, to: u64) -> BTreeMap<usize, u64> {
    let mut sums = BTreeMap::new();
    for slice in model.slices.iter().filter(|slice| slice.processor == processor) {
        if let Activity::Run(goroutine) | Activity::Syscall(goroutine) = slice.activity {
            *sums.entry(goroutine).or_insert(0) += slice.to.min(to).saturating_sub(slice.from.max(from));
        }
    }
    sums
}

pub(crate) fn waits_and_latencies(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    for trace in [programs::native(), programs::simulated()] {
        let (_directory, page) = page_of(&trace)?;
        let model = Model::of(&trace);
        browser.open(&page, &format!("theme={theme}"))?;
        browser.press("3")?;
        let parked = model.waits.iter().map(|Wait { goroutine, from, to, reason, cause }| {
            json!([to - from, goroutine, reason.to_string(), from, number_of_cause(*cause), -1])
        });
        let queued = latencies(&model).map(|(duration, g, from, p)| json!([duration, g, "run queue", from, -1, p]));
        let mut all: Vec<_> = parked.chain(queued).collect();
        all.sort_by_key(|wait| std::cmp::Reverse(wait[0].as_u64()));
        let waits = browser.evaluate("probe.waits()")?;
        let waits = waits.as_array().expect("a list");
        let durations = |waits: &[Value]| waits.iter().take(60).map(|wait| wait[0].as_u64()).collect::<Vec<_>>();
        assert_eq!(durations(waits), durations(&all), "the longest waits, longest first");
        assert!(waits.len() > 20, "{}", waits.len());
        let table = browser.evaluate("probe.table()")?;
        for (number, wait) in waits.iter().enumerate() {
            assert!(all.contains(wait), "{wait} is no wait of the model");
            let row = &table[number];
            let word = |index: usize| row[index].as_str().unwrap_or_default();
            let goroutine = wait[1].as_u64().expect("a G") as usize;
            let (duration, from) = (wait[0].as_u64().expect("a time"), wait[3].as_u64().expect("a time"));
            assert_eq!(row[0], browser.evaluate(&format!("duration({duration})"))?);
            assert_eq!((&row[1], &row[2]), (&trace.goroutines()[goroutine].label().into(), &wait[2]));
            match (wait[4].as_i64(), wait[5].as_u64()) {
                (Some(by), None) if by >= 0 => assert_eq!(row[4], trace.goroutines()[by as usize].label()),
                (Some(by), None) => {
                    let words =
                        BTreeMap::from([(-1, "unknown"), (-2, "a timer"), (-3, "a device"), (-5, "its return")]);
                    assert!(word(4).starts_with(words[&by]), "{row}");
                }
                (_, Some(processor)) => {
                    let sums = ran_meanwhile(&model, processor as u32, from, from + duration);
                    let most = sums.values().max().copied().unwrap_or_default();
                    let names = sums.iter().filter(|(_, time)| **time == most);
                    let mut names =
                        names.map(|(&goroutine, _)| format!("{} ran ", trace.goroutines()[goroutine].label()));
                    assert!(word(4).contains("ran no G") || names.any(|name| word(4).starts_with(&name)), "{row}");
                }
                _ => panic!("{wait}"),
            }
        }
        // Each key shows another wait: the G of the wait, its period, and the state at the end of this period.
        for (key, number) in [("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)] {
            browser.press(key)?;
            assert_eq!(
                browser.evaluate("probe.cells(document.querySelector('#waits .selected'))")?,
                table[number],
                "the selected row"
            );
            let shown = browser.evaluate("probe.shown()")?;
            let from = waits[number][3].as_f64().expect("a time");
            let to = from + waits[number][0].as_f64().expect("a time");
            assert_eq!((&shown["chosen"], shown["cursor"].as_f64()), (&waits[number][1], Some(to)));
            assert!(shown["from"].as_f64() <= Some(from) && shown["to"].as_f64() >= Some(to), "{shown}");
        }
        browser.press("4")?;
        histogram_agrees(browser, &model)?;
    }
    Ok(())
}

/// Asserts that the histogram counts each run of the model that begins after a time on a run queue.
fn histogram_agrees(browser: &mut Browser, model: &Model) -> Result<(), Failed> {
    let mut buckets = BTreeMap::new();
    for (duration, ..) in latencies(model) {
        *buckets.entry(duration.max(1).ilog2()).or_insert(0) += 1;
    }
    let total: u64 = buckets.values().sum();
    let expected: Vec<_> = buckets.iter().map(|(power, count)| json!([power, count])).collect();
    assert_eq!(browser.evaluate("[...latencies(history_).buckets]")?, Value::from(expected), "buckets");
    let text = browser.evaluate("document.querySelector('#latency p').textContent")?;
    assert!(text.as_str().is_some_and(|text| text.contains(&format!(": {total} times."))), "{text}");
    let drawn = "[...document.querySelectorAll('#latency svg text:not(.dim)')].map((text) => Number(text.textContent))";
    let drawn = browser.evaluate(drawn)?;
    let drawn: Vec<_> = drawn.as_array().expect("numbers").iter().filter_map(Value::as_u64).collect();
    assert_eq!(drawn.iter().sum::<u64>(), total, "the bars' numbers");
    let counts: Vec<_> = drawn.into_iter().filter(|&count| count > 0).collect();
    assert_eq!(counts, buckets.into_values().collect::<Vec<_>>());
    Ok(())
}

/// Returns the queues as the page does.
pub(crate) fn queues_of(queues: &Queues, events: usize) -> Value {
    let number = |goroutine: Option<usize>| goroutine.map_or(-1, |goroutine| goroutine as i64);
    let local = &queues.processors;
    json!({
        "events": events,
        "next": local.iter().map(|local| number(local.next)).collect::<Vec<_>>(),
        "rings": local.iter().map(|local| &local.ring).collect::<Vec<_>>(),
        "global": queues.global,
        "locked": queues.locked,
        "runs": local.iter().map(|local| number(local.runs)).collect::<Vec<_>>(),
    })
}

/// Compares about 50 moments, and then the pictures of some moments that keys step through.
pub(crate) fn moments(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    for trace in [programs::native(), programs::simulated(), programs::moved()] {
        let (_directory, page) = page_of(&trace)?;
        browser.open(&page, &format!("theme={theme}"))?;
        let count = trace.events().len();
        let every = (count / 50).max(1);
        let moments = browser.evaluate(&format!("probe.moments({every})"))?;
        let moments = moments.as_array().expect("moments");
        assert!(moments.len() > 40);
        let mut queues = Queues::new(&trace);
        for (number, moment) in moments.iter().enumerate() {
            assert_eq!(moment[0], queues_of(&queues, number * every));
            assert_eq!(moment[1], true, "a jump leads to the same state as stepping to {}", moment[0]);
            trace.events().iter().skip(number * every).take(every).for_each(|entry| queues.apply(entry));
        }
        let middle = count / 2;
        browser.evaluate(&format!("goTo({middle})"))?;
        let steps = (middle + 1..=middle + 40).map(|to| (to, "ArrowRight"));
        for (to, key) in steps.chain((middle - 40..middle + 40).rev().map(|to| (to, "ArrowLeft"))) {
            browser.press(key)?;
            assert_eq!(browser.evaluate("position")?, to);
            picture_agrees(browser, &trace, to)?;
        }
    }
    Ok(())
}

/// Asserts that the picture shows the queues after this number of events. Of long queues, it shows the first Gs.
fn picture_agrees(browser: &mut Browser, trace: &Trace, events: usize) -> Result<(), Failed> {
    let mut queues = Queues::new(trace);
    trace.events()[..events].iter().for_each(|entry| queues.apply(entry));
    let places =
        (0..queues.processors.len()).flat_map(|p| [format!("P{p}"), format!("runnext {p}"), format!("ring {p}")]);
    let places: Vec<_> = places.chain(["global run queue".to_owned()]).collect();
    let shown = browser.evaluate(&format!("{places:?}.map(probe.picture)"))?;
    let local = queues.processors.iter();
    let mut expected: Vec<Vec<usize>> = local
        .flat_map(|local| {
            [local.runs.into_iter().collect(), local.next.into_iter().collect(), local.ring.clone().into()]
        })
        .collect();
    expected.push(queues.global.into());
    for ((place, shown), expected) in places.iter().zip(shown.as_array().expect("lists")).zip(&mut expected) {
        let list = shown.as_array().expect("Gs");
        assert!(list.len() == expected.len() || list.len() >= 4, "{place} after {events}: {shown}, {expected:?}");
        expected.truncate(list.len());
        assert_eq!(*shown, json!(expected), "{place} after {events} events");
    }
    Ok(())
}
