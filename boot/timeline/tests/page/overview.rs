//! What the page says in sums and in words: the summary, the explanation of an event, marks on the axis, and short gaps.

use std::collections::BTreeMap;
use std::time::Duration;

use gmp_sched::sim::{self, Config};
use gmp_sched::trace::EventKind;
use libtest_mimic::Failed;
use serde_json::Value;
use timeline::Trace;
use timeline::model::{Activity, Model};

use crate::browser::Browser;
use crate::control::real;
use crate::{page_of, programs};

/// The summary of each G has the sums of the model. The table of functions has the sums of their Gs.
pub(crate) fn summary(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::simulated();
    let (_directory, page) = page_of(&trace)?;
    let model = Model::of(&trace);
    browser.open(&page, &format!("theme={theme}"))?;
    let (mut run, mut waited) = (BTreeMap::new(), BTreeMap::new());
    for slice in &model.slices {
        if let Activity::Run(goroutine) = slice.activity {
            *run.entry(goroutine).or_insert(0) += slice.to - slice.from;
        }
    }
    for wait in &model.waits {
        *waited.entry((wait.goroutine, wait.reason.to_string())).or_insert(0) += wait.to - wait.from;
    }
    assert!(waited.len() > 10, "many Gs wait");
    browser.evaluate("window.all = timesOfGoroutines(history_); null")?;
    for goroutine in 0..trace.goroutines().len() {
        let shown = browser.evaluate(&format!("all[{goroutine}].run"))?;
        assert_eq!(real(&shown) as u64, run.get(&goroutine).copied().unwrap_or(0), "G number {goroutine} ran");
    }
    for ((goroutine, reason), time) in waited {
        let shown = format!("all[{goroutine}].reasons.get(DATA.reasons.indexOf('{reason}'))");
        assert_eq!(real(&browser.evaluate(&shown)?) as u64, time, "G number {goroutine} waited for {reason}");
    }
    browser.press("2")?;
    let rows = "[...document.querySelectorAll('#summary tbody tr')].map(probe.cells)";
    let functions = browser.evaluate(rows)?;
    let gs = functions.as_array().expect("rows").iter().map(|row| row[1].as_str().expect("a number").parse::<usize>());
    assert_eq!(gs.map(|number| number.expect("a number")).sum::<usize>(), trace.goroutines().len());
    // A row of the other table chooses its G.
    browser.evaluate("document.querySelector('#summary [data-by=goroutine]').click()")?;
    assert_eq!(browser.evaluate(rows)?.as_array().map(Vec::len), Some(trace.goroutines().len()));
    browser.evaluate("document.querySelector('#summary tr[data-g=\"2\"]').click()")?;
    assert_eq!(browser.evaluate("probe.shown()")?["chosen"], 2);
    Ok(())
}

/// The words for an event contain what the queues were before and after it.
pub(crate) fn explanation(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::simulated();
    let (_directory, page) = page_of(&trace)?;
    browser.open(&page, &format!("theme={theme}"))?;
    let mut seen = BTreeMap::new();
    for (index, entry) in trace.events().iter().enumerate() {
        let name = entry.goroutine.map(|goroutine| trace.goroutines()[goroutine].label()).unwrap_or_default();
        let before = |browser: &mut Browser, what: &str| -> Result<Value, Failed> {
            browser.evaluate(&format!("(() => {{ const state = history_.stateAt({index}); return {what}; }})()"))
        };
        let expected = match entry.kind {
            EventKind::Steal => {
                let victim = entry.detail as u32;
                let queued = format!("state.rings[{victim}].length + (state.next[{victim}] >= 0 ? 1 : 0)");
                let queued = real(&before(browser, &queued)?);
                format!("steals {} of the {queued} Gs of P{victim}; {name} runs next", entry.detail >> 32)
            }
            EventKind::Ready | EventKind::Spawn => {
                let place = browser.evaluate(&format!(
                    "(() => {{ const state = history_.stateAt({}), g = EVENTS.goroutine[{index}]; \
                     return state.place[g] === NEXT ? `${{label(g)}}; it goes to runnext of P${{state.queueOf[g]}}` : label(g); }})()",
                    index + 1
                ))?;
                place.as_str().expect("a text").rsplit_once("; ").map_or(String::new(), |(_, goes)| goes.to_owned())
            }
            EventKind::Start => format!("runs {name}, which was runnable for "),
            _ => continue,
        };
        let shown = browser.evaluate(&format!("explain({index}, history_)"))?;
        assert!(shown.as_str().is_some_and(|shown| shown.contains(&expected)), "{shown}: no {expected}");
        *seen.entry(format!("{:?}", entry.kind)).or_insert(0) += 1;
    }
    assert!(seen.len() == 4, "{seen:?}");
    Ok(())
}

/// A program that sleeps most of the time, with a mark at each of its phases.
fn sleepy() -> Trace {
    let (result, traces) = sim::run_traced(Config { cpus: 1, processors: 1, ..Config::default() }, 10_000, || {
        for phase in ["first phase", "second phase", "third phase"] {
            sim::mark(phase);
            sim::work(Duration::from_micros(50));
            sim::sleep(Duration::from_secs(1));
        }
    });
    result.expect("the program ends");
    Trace::new(traces)
}

/// With short gaps, the periods are as wide as their share of the busy time, and each point still shows its time.
pub(crate) fn gaps(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = sleepy();
    let (_directory, page) = page_of(&trace)?;
    browser.open(&page, &format!("theme={theme}"))?;
    let widest =
        "Math.max(...timeline.rows[0].list.map((n) => timeline.x(history_.to[n]) - timeline.x(history_.from[n])))";
    assert!(real(&browser.evaluate(widest)?) < 1.0, "a period of 50 us is narrower than a pixel");
    browser.press("g")?;
    assert!(real(&browser.evaluate(widest)?) > 200.0, "it is wide if gaps are short");
    assert_eq!(browser.evaluate("probe.shown()")?["from"], 0);
    let is_inverse =
        "[...EVENTS.when].every((when) => Math.abs(timeline.when(timeline.x(when)) - when) <= 1e-6 * DURATION)";
    assert_eq!(browser.evaluate(is_inverse)?, true);
    browser.press("g")?;
    assert!(real(&browser.evaluate(widest)?) < 1.0);
    Ok(())
}

/// Each mark has its text on the axis, if there is room.
pub(crate) fn marks(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = sleepy();
    let (_directory, page) = page_of(&trace)?;
    browser.open(&page, &format!("theme={theme}"))?;
    let texts = browser.evaluate("probe.texts()")?;
    for phase in ["first phase", "second phase", "third phase"] {
        assert!(texts.as_array().is_some_and(|texts| texts.iter().any(|text| text == phase)), "{phase}: {texts}");
    }
    Ok(())
}
