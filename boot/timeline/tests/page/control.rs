//! Controls the page with keys and the pointer.

use std::path::Path;

use gmp_sched::trace::EventKind;
use libtest_mimic::Failed;
use serde_json::Value;
use timeline::Trace;
use timeline::model::{Activity, Model, Slice};

use crate::browser::Browser;
use crate::{page_of, programs};

pub(crate) fn real(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Returns the periods in which this G runs on a P or makes a system call, in the order of time.
fn slices_of(model: &Model, goroutine: usize) -> Vec<&Slice> {
    let is_own = |activity| matches!(activity, Activity::Run(own) | Activity::Syscall(own) if own == goroutine);
    let mut own: Vec<_> = model.slices.iter().filter(|slice| is_own(slice.activity)).collect();
    own.sort_by_key(|slice| slice.from);
    own
}

fn named(trace: &Trace, name: &str) -> usize {
    trace.goroutines().iter().position(|goroutine| goroutine.name == name).expect("a G with this name")
}

pub(crate) fn search(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::native();
    let (_directory, page) = page_of(&trace)?;
    let model = Model::of(&trace);
    browser.open(&page, &format!("theme={theme}"))?;
    let producer = named(&trace, "producer");
    let other = (0..trace.goroutines().len()).find(|&index| trace.goroutines()[index].name.is_empty()).expect("a G");
    let (id, function) = (trace.goroutines()[other].id, &trace.goroutines()[other].function);
    let part = function.split("::").find(|part| part.starts_with("programs")).expect("a module of this test");
    // The number alone, the number with the letter, and a part of the name in capitals. A part of the function is
    // searched for below.
    let cases = [(id.to_string(), other), (format!("g{id}"), other), ("PRODU".to_owned(), producer)];
    for (text, goroutine) in cases {
        browser.press("/")?;
        browser.write(&text)?;
        let hits = browser.evaluate("[...document.querySelectorAll('#hits li')].map((hit) => hit.textContent)")?;
        let label = trace.goroutines()[goroutine].label();
        assert!(hits[0].as_str().is_some_and(|hit| hit.starts_with(&label)), "{text}: {hits}");
        browser.press("Enter")?;
        let shown = browser.evaluate("probe.shown()")?;
        assert_eq!(shown["chosen"], goroutine, "{text}");
        assert_eq!(shown["cursor"], slices_of(&model, goroutine)[0].from, "{text}");
        assert_eq!(browser.evaluate("element('hits').hidden")?, true);
    }
    browser.press("/")?;
    browser.write(part)?;
    let hits = browser.evaluate("[...document.querySelectorAll('#hits li')].map((hit) => Number(hit.dataset.g))")?;
    let expected = trace.goroutines().iter().enumerate();
    let expected: Vec<_> = expected.filter(|(_, g)| g.function.contains(part)).map(|(index, _)| index).collect();
    assert!(expected.contains(&other) && expected.contains(&producer));
    assert_eq!(hits, Value::from(expected), "Gs whose function contains {part}");
    // Keys select another hit.
    for key in ["ArrowUp", "ArrowDown"] {
        browser.press(key)?;
    }
    assert_eq!(
        browser.evaluate("[...document.querySelectorAll('#hits .selected')].map((hit) => Number(hit.dataset.g))")?,
        Value::from(vec![hits[1].clone()])
    );
    browser.press("Enter")?;
    assert_eq!(browser.evaluate("probe.shown()")?["chosen"], hits[1]);
    browser.press("/")?;
    browser.write("2")?;
    // Outside of the field, this key would show the tab `summary`.
    assert_eq!(browser.evaluate("probe.shown()")?["tab"], "moment");
    browser.press("Escape")?;
    assert_eq!(
        browser.evaluate("[element('hits').hidden, document.activeElement.id]")?,
        Value::from([true.into(), Value::from("timeline")])
    );
    Ok(())
}

/// Checks the text at the pointer. The pointer is over the first period of each combination of what the G did before,
/// how it was readied, and whether it has migrated.
pub(crate) fn hover(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::simulated();
    let (_directory, page) = page_of(&trace)?;
    let model = Model::of(&trace);
    browser.open(&page, &format!("theme={theme}"))?;
    let mut seen = Vec::new();
    for slice in &model.slices {
        let (Activity::Run(goroutine), Some(readied)) = (slice.activity, slice.readied) else { continue };
        let wait = model.waits.iter().find(|wait| (wait.goroutine, wait.to) == (goroutine, readied.at));
        let cause = readied.cause.map(|cause| format!("{cause:?}")).unwrap_or_default();
        let (reason, cause) = (wait.map(|wait| wait.reason), cause.split('(').next().unwrap_or_default());
        let kind = (format!("{reason:?} {cause}"), slice.migrated_from.is_some());
        if seen.contains(&kind) || slice.to - slice.from < 20 {
            continue;
        }
        seen.push(kind);
        let (from, to, row) = (slice.from, slice.to, slice.processor);
        browser.evaluate(&format!("timeline.show({from}, {to})"))?;
        let at = browser.evaluate(&format!("probe.point({row}, {})", from.midpoint(to)))?;
        browser.point(real(&at[0]), real(&at[1]))?;
        let text = browser.evaluate("element('tip').hidden ? '' : element('tip').textContent")?;
        let text = text.as_str().expect("a text").to_owned();
        let mut expected = vec![
            format!("{} ran ", trace.goroutines()[goroutine].label()),
            format!("on P{row}, M{}", slice.machine.expect("an M")),
            format!("runnable for {}", in_words(browser, from - readied.at)?),
        ];
        if let Some(wait) = wait {
            expected.push(format!("it waited {}: {}", in_words(browser, wait.to - wait.from)?, wait.reason));
        } else {
            assert!(!text.contains("it waited"), "{text}");
        }
        let by = match readied.cause {
            Some(timeline::Cause::Goroutine(by)) => trace.goroutines()[by].label(),
            Some(timeline::Cause::Timer) => "a timer".to_owned(),
            Some(timeline::Cause::Device) => "a device".to_owned(),
            Some(timeline::Cause::Return) => "its return from a call".to_owned(),
            Some(timeline::Cause::Unknown) => "a thread that is not an M".to_owned(),
            None => "nobody: it gave way".to_owned(),
        };
        expected.push(format!("readied by {by}"));
        match slice.migrated_from {
            Some(from) => expected.push(format!("migrated from P{from}\n")),
            None => assert!(!text.contains("migrated"), "{text}"),
        }
        for part in expected {
            assert!(text.contains(&part), "no “{part}” in: {text}");
        }
        // A click chooses the G and this moment.
        browser.click(real(&at[0]), real(&at[1]))?;
        let shown = browser.evaluate("probe.shown()")?;
        let events = trace.events().iter().filter(|entry| entry.when as f64 <= real(&shown["cursor"])).count();
        assert_eq!((&shown["chosen"], &shown["position"]), (&goroutine.into(), &events.into()));
        assert!(real(&shown["cursor"]) <= from.midpoint(to) as f64 + 1.0);
    }
    assert!(seen.len() >= 6 && seen.iter().any(|&(_, has_migrated)| has_migrated), "{seen:?}");
    Ok(())
}

fn in_words(browser: &mut Browser, nanoseconds: u64) -> Result<String, Failed> {
    Ok(browser.evaluate(&format!("duration({nanoseconds})"))?.as_str().expect("a text").to_owned())
}

/// A line leads from each period of the chosen G to its next one. Other Gs lose their colors.
pub(crate) fn path(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::simulated();
    let (_directory, page) = page_of(&trace)?;
    let model = Model::of(&trace);
    browser.open(&page, &format!("theme={theme}"))?;
    let colorful = |color: &Value| {
        let parts = [0, 1, 2].map(|part| color[part].as_i64().expect("a color"));
        parts.iter().max().unwrap_or(&0) - parts.iter().min().unwrap_or(&0) > 60
    };
    let (mut waits, mut moves, mut others) = (0, 0, 0);
    for goroutine in 0..trace.goroutines().len() {
        for pair in slices_of(&model, goroutine).windows(2) {
            let [before, after] = pair else { continue };
            if after.from - before.to < 100 || after.to - after.from < 100 {
                continue;
            }
            browser.evaluate(&format!("choose({goroutine}); timeline.show({}, {})", before.from, after.to))?;
            let waited = model
                .waits
                .iter()
                .any(|wait| wait.goroutine == goroutine && (before.to..=after.from).contains(&wait.to));
            let dash = if waited { 7 } else { 2 };
            let line = format!(
                "probe.lines().some(([fromX, fromY, toX, toY, dash]) => Math.abs(fromX - timeline.x({})) < 1 && \
                 Math.abs(toX - timeline.x({})) < 1 && fromY === timeline.y({}) + timeline.row / 2 && \
                 toY === timeline.y({}) + timeline.row / 2 && dash === {dash})",
                before.to, after.from, before.processor, after.processor
            );
            assert_eq!(browser.evaluate(&line)?, true, "from {before:?} to {after:?}");
            waits += u32::from(waited);
            moves += u32::from(before.processor != after.processor);
            let middle = after.from.midpoint(after.to);
            let own = browser.evaluate(&format!("probe.pixel({}, {middle})", after.processor))?;
            assert!(colorful(&own), "the chosen G has color {own}");
            let runs_then = |slice: &&Slice| {
                slice.processor != after.processor && (slice.from + 50..slice.to.saturating_sub(50)).contains(&middle)
            };
            if let Some(other) = model.slices.iter().find(runs_then)
                && let Activity::Run(_) = other.activity
            {
                let color = browser.evaluate(&format!("probe.pixel({}, {middle})", other.processor))?;
                assert!(!colorful(&color), "another G has color {color}");
                others += 1;
            }
        }
    }
    assert!(waits > 5 && moves > 5 && others > 5, "{waits} waits, {moves} moves, {others} others");
    browser.press("Escape")?;
    assert_eq!(browser.evaluate("probe.shown()")?["chosen"], -1);
    Ok(())
}

pub(crate) fn keys(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let trace = programs::simulated();
    let (_directory, page) = page_of(&trace)?;
    let model = Model::of(&trace);
    browser.open(&page, &format!("theme={theme}"))?;
    let (count, duration) = (trace.events().len(), trace.duration() as f64);
    let view = |browser: &mut Browser| -> Result<(f64, f64), Failed> {
        let shown = browser.evaluate("probe.shown()")?;
        Ok((real(&shown["from"]), real(&shown["to"])))
    };
    assert_eq!(view(browser)?, (0.0, duration), "the whole trace comes first");
    let close = |left: f64, right: f64| (left - right).abs() < duration / 1e6;
    for (key, expected) in [
        ("w", (0.15, 0.85)),
        ("d", (0.255, 0.955)),
        ("a", (0.15, 0.85)),
        ("+", (0.255, 0.745)),
        ("-", (0.15, 0.85)),
        ("s", (0.0, 1.0)),
        ("w", (0.15, 0.85)),
        ("f", (0.0, 1.0)),
    ] {
        browser.press(key)?;
        let (from, to) = view(browser)?;
        assert!(close(from, expected.0 * duration) && close(to, expected.1 * duration), "{key}: {from} {to}");
    }
    // The page opens at the first steal. Steps end at both ends of the trace.
    let steal = trace.events().iter().position(|entry| entry.kind == EventKind::Steal).expect("a steal");
    assert_eq!(browser.evaluate("position")?, steal + 1);
    browser.evaluate("goTo(1)")?;
    for _ in 0..2 {
        browser.press("ArrowLeft")?;
        assert_eq!(browser.evaluate("position")?, 0);
    }
    for (to, expected) in [(-5, 0), (count as i64 + 5, count), (7, 7)] {
        browser.evaluate(&format!("goTo({to})"))?;
        assert_eq!(browser.evaluate("position")?, expected);
    }
    browser.evaluate(&format!("goTo({count})"))?;
    browser.press("ArrowRight")?;
    assert_eq!(browser.evaluate("position")?, count);
    assert_eq!(browser.evaluate("timeline.cursor")?, trace.duration());
    // The moment is in view, also after a jump.
    browser.evaluate("timeline.show(0, 100); goTo(0)")?;
    browser.evaluate(&format!("goTo({})", count / 2))?;
    let (from, to) = view(browser)?;
    assert!((from..=to).contains(&(trace.events()[count / 2 - 1].when as f64)));
    // The keys lead from slice to slice of main.
    let main = named(&trace, "main");
    let begins: Vec<_> = slices_of(&model, main).iter().map(|slice| slice.from).collect();
    browser.evaluate(&format!("choose({main}); goTo(0)"))?;
    let after: Vec<_> = begins.iter().filter(|&&begin| begin > 0).collect();
    assert!(after.len() > 3);
    for begin in &after {
        browser.press("n")?;
        assert_eq!(browser.evaluate("timeline.cursor")?, **begin);
    }
    for begin in after.iter().rev().skip(1) {
        browser.press("p")?;
        assert_eq!(browser.evaluate("timeline.cursor")?, **begin);
    }
    for (key, tab) in [("2", "summary"), ("3", "waits"), ("4", "latency"), ("1", "moment")] {
        browser.press(key)?;
        let visible =
            "[...document.querySelectorAll('section')].filter((one) => !one.hidden).map((one) => one.id).join()";
        assert_eq!(browser.evaluate(visible)?, tab);
    }
    browser.press("?")?;
    assert_eq!(browser.evaluate("element('keys').open")?, true);
    browser.press("n")?;
    browser.press("Escape")?;
    assert_eq!(browser.evaluate("element('keys').open")?, false);
    rows_are_ms(browser, &model)?;
    playing(browser)?;
    address(browser, &page, theme)
}

/// With Ms as rows, each period is on the row of its M.
fn rows_are_ms(browser: &mut Browser, model: &Model) -> Result<(), Failed> {
    browser.press("m")?;
    assert_eq!(browser.evaluate("element('rows').textContent")?, "Ms");
    let slice = model.slices.iter().filter(|slice| matches!(slice.activity, Activity::Run(_)));
    for slice in slice.filter(|slice| slice.to - slice.from > 100).step_by(5).take(10) {
        let machine = slice.machine.expect("an M");
        browser.evaluate(&format!("timeline.show({}, {})", slice.from, slice.to))?;
        let at = browser.evaluate(&format!("probe.point({machine}, {})", slice.from.midpoint(slice.to)))?;
        browser.point(real(&at[0]), real(&at[1]))?;
        let text = browser.evaluate("element('tip').textContent")?;
        let place = format!("on P{}, M{machine}", slice.processor);
        assert!(text.as_str().is_some_and(|text| text.contains(&place)), "{place}: {text}");
    }
    browser.press("m")?;
    assert_eq!(browser.evaluate("element('rows').textContent")?, "Ps");
    Ok(())
}

/// Waits until this condition is true in the page.
pub(crate) fn wait_for(browser: &mut Browser, condition: &str) -> Result<(), Failed> {
    let wait = "new Promise((done) => { const ask = () => (CONDITION ? done() : setTimeout(ask, 20)); ask(); })";
    browser.evaluate(&wait.replace("CONDITION", condition)).map(drop)
}

fn playing(browser: &mut Browser) -> Result<(), Failed> {
    browser.evaluate("goTo(10)")?;
    browser.press(" ")?;
    wait_for(browser, "position >= 12")?;
    browser.press(" ")?;
    assert_eq!(
        browser.evaluate("[playing, element('play').textContent]")?,
        Value::from([0.into(), Value::from("play")])
    );
    // The speed is chosen by keys, also while events are played.
    for (keys, speed) in [("<<<", "1"), (">>", "5"), (">>>>>>", "50")] {
        browser.write(keys)?;
        assert_eq!(browser.evaluate("element('speed').value")?, speed);
    }
    browser.evaluate(
        "{ goTo(10); const { setInterval } = window; window.setInterval = (action, pause) => { \
        window.pause = pause; return setInterval(action, pause); }; }",
    )?;
    browser.press(" ")?;
    assert_eq!(browser.evaluate("pause")?, 20);
    browser.press("<")?;
    assert_eq!(browser.evaluate("pause")?, 40);
    wait_for(browser, "position >= 12")?;
    browser.press(" ")?;
    // Playing ends at the last event.
    browser.evaluate("goTo(EVENTS.count - 1)")?;
    browser.press(" ")?;
    wait_for(browser, "position === EVENTS.count && playing === 0")
}

/// A page that is opened at the address of another page shows the same as that page. So does a page that is open already
/// when its address changes.
fn address(browser: &mut Browser, page: &Path, theme: &str) -> Result<(), Failed> {
    browser.evaluate("choose(3); timeline.show(1000, 90000); goTo(50); showTab('latency'); showRows(true)")?;
    browser.press("t")?;
    let other = if theme == "light" { "dark" } else { "light" };
    let shown = browser.evaluate("probe.shown()")?;
    assert_eq!(shown["theme"], other);
    wait_for(browser, &format!("location.hash.includes('theme={other}')"))?;
    let fragment = browser.evaluate("location.hash.slice(1)")?;
    browser.open(page, fragment.as_str().expect("a text"))?;
    assert_eq!(browser.evaluate("probe.shown()")?, shown);
    browser.open(page, &format!("theme={other}"))?;
    let fresh = browser.evaluate("probe.shown()")?;
    for (fragment, expected) in [(&fragment, &shown), (&format!("theme={other}").into(), &fresh)] {
        browser.evaluate(&format!(
            "play(true); new Promise((done) => {{ addEventListener('hashchange', done, {{ once: true }}); location.hash = {fragment}; }}).then(() => null)"
        ))?;
        assert_eq!(browser.evaluate("probe.shown()")?, *expected, "after a change of the address");
        assert_eq!(browser.evaluate("playing")?, 0);
    }
    Ok(())
}

/// Saves pictures in `target/tmp`, for people to look at. Text must have the contrast that WCAG 2 demands, be large
/// enough, and not be cut off.
pub(crate) fn appearance(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    for (name, trace) in [("native", programs::native()), ("simulated", programs::simulated())] {
        let (_directory, page) = page_of(&trace)?;
        browser.open(&page, &format!("theme={theme}"))?;
        let middle = trace.duration() / 2;
        let chosen = "choose(DATA.goroutines.findIndex(([id]) => id === 1))";
        let views = [
            ("all", "choose(-1)".to_owned()),
            (
                "part",
                format!(
                    "timeline.show({middle}, {}); goTo(countUpTo(EVENTS.when, {middle}))",
                    middle + trace.duration() / 25
                ),
            ),
            ("path", format!("{chosen}; timeline.show({}, {middle})", middle - trace.duration() / 20)),
            ("waits", "showTab('waits')".to_owned()),
            ("latency", "showTab('latency')".to_owned()),
        ];
        for (view, action) in views {
            browser.evaluate(&action)?;
            assert_eq!(
                browser.evaluate("document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight")?,
                true,
                "the {view} of {name} fits"
            );
            let file = format!("{}/timeline-{theme}-{name}-{view}.png", env!("CARGO_TARGET_TMPDIR"));
            browser.photograph(Path::new(&file))?;
        }
    }
    for (text, back) in [
        ("--front", "--back"),
        ("--dim", "--back"),
        ("--dim", "--panel"),
        ("--front", "--idle"),
        ("--accent", "--back"),
    ] {
        let contrast = real(&browser.evaluate(&format!("probe.contrast('{text}', '{back}')"))?);
        assert!(contrast >= 4.5, "{text} on {back}: {contrast}");
    }
    browser.evaluate("showTab('moment')")?;
    assert_eq!(browser.evaluate("probe.small(15)")?, Value::from(Vec::<f64>::new()), "small text");
    assert_eq!(browser.evaluate("probe.cutOff()")?, Value::from(Vec::<f64>::new()), "text that is cut off");
    browser.evaluate("showTab('latency')")?;
    assert_eq!(browser.evaluate("probe.small(15)")?, Value::from(Vec::<f64>::new()), "small text");
    assert_eq!(browser.evaluate("probe.cutOff()")?, Value::from(Vec::<f64>::new()), "text that is cut off");
    assert!(real(&browser.evaluate("FONT")?) >= 16.0);
    Ok(())
}
