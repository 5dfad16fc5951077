//! The page of a run that violated a rule.

use std::time::Duration;

use gmp_sched::sim::{self, Config};
use gmp_sched::trace::EventKind;
use libtest_mimic::Failed;
use timeline::Trace;

use crate::browser::Browser;
use crate::page_of;

/// The program of this run violates a rule of its own. The page first shows this violation, and how many older events
/// are lost. When the page shows another moment, the key `v` makes it show the violation again.
pub(crate) fn is_shown_first(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let (result, traces) = sim::run_traced(Config { seed: 5, ..Config::default() }, 60, || {
        let others: Vec<_> = (0..20).map(|_| sim::go(|| sim::work(Duration::from_micros(30)))).collect();
        sim::sleep(Duration::from_micros(200));
        sim::mark("about to fail");
        let value = others.len();
        assert_eq!(value, 0, "a rule of the program");
    });
    let failure = result.expect_err("a rule is violated");
    let trace = Trace::new(traces);
    let (_directory, page) = page_of(&trace)?;
    browser.open(&page, &format!("theme={theme}"))?;
    assert!(trace.lost() > 0, "the rings are small");
    let facts = browser.evaluate("element('facts').textContent")?;
    let lost = format!(", {} events lost", trace.lost());
    assert!(facts.as_str().is_some_and(|facts| facts.ends_with(&lost)), "{facts}");
    let text = browser.evaluate("element('violation').textContent")?;
    assert_eq!(text, format!("Violated rule: {}", failure.message));
    let is_in_view = "timeline.from <= EVENTS.when[DATA.violation] && EVENTS.when[DATA.violation] <= timeline.to";
    for _ in 0..2 {
        assert_eq!(browser.evaluate(is_in_view)?, true);
        let shown = browser.evaluate("element('event').textContent")?;
        let (event, count) = (shown.as_str().expect("a text"), trace.events().len());
        assert!(event.starts_with(&format!("{count} of {count}, ")) && event.contains("violates a rule"), "{event}");
        browser.evaluate("goTo(0)")?;
        browser.press("v")?;
    }
    // The last event of the same G before the violation is the mark, which precedes the assertion that fails.
    let count = trace.events().len();
    let main = trace.events()[count - 1].goroutine;
    let before = trace.events()[..count - 1].iter().rfind(|entry| entry.goroutine == main).expect("an event");
    assert_eq!((before.kind, &trace.texts()[before.detail as usize][..]), (EventKind::Mark, "about to fail"));
    Ok(())
}
