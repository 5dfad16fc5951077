//! The page of a trace with more rows than fit into the window.

use std::path::Path;

use gmp_sched::trace::{Event, EventKind, Track, TrackTrace};
use libtest_mimic::Failed;
use timeline::Trace;

use crate::browser::Browser;
use crate::control::{real, wait_for};
use crate::page_of;

const MACHINES: u64 = 300;
const PROCESSORS: u64 = 4;
/// The number of names of spans. Each name has a G that opens a span with this name.
const NAMES: u64 = 40;
/// For how long each M runs a G. The Ms run one after the other.
const PERIOD: u64 = 1000;

/// Makes an event from the words of its binary form.
fn event(when: u64, kind: EventKind, goroutine: u64, detail: u64) -> Event {
    let mut bytes = [0; Event::BYTES];
    for (part, word) in bytes.chunks_exact_mut(8).zip([when, goroutine, (kind as u64) << 56 | detail]) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    Event::from_bytes(bytes).expect("a known kind")
}

/// Returns the trace of a program in which each M runs a G once.
fn many_rows() -> Trace {
    let track = |number| TrackTrace { track: Track::Processor(number as u32), events: Vec::new(), lost: 0 };
    let mut tracks: Vec<_> = (0..PROCESSORS).map(track).collect();
    for name in 0..NAMES {
        let mut bytes = [0; 8];
        bytes[..7].copy_from_slice(format!("span {name:02}").as_bytes());
        tracks[0].events.push(event(0, EventKind::TextBegin, 0, name + 1));
        tracks[0].events.push(event(0, EventKind::TextBytes, 0, u64::from_le_bytes(bytes)));
    }
    for machine in 0..MACHINES {
        let (begin, end) = (machine * PERIOD, machine * PERIOD + PERIOD - 1);
        let (goroutine, text) = (16 + machine % NAMES, machine % NAMES + 1);
        tracks[(machine % PROCESSORS) as usize].events.extend([
            event(begin, EventKind::Busy, 0, machine),
            event(begin, EventKind::Start, goroutine, 0),
            event(begin, EventKind::SpanBegin, goroutine, text),
            event(end, EventKind::SpanEnd, goroutine, text),
            event(end, EventKind::Park, goroutine, 5),
            event(end, EventKind::Idle, 0, machine),
        ]);
    }
    Trace::new(tracks)
}

fn photograph(browser: &mut Browser, theme: &str, view: &str) -> Result<(), Failed> {
    let file = format!("{}/timeline-{theme}-rows-{view}.png", env!("CARGO_TARGET_TMPDIR"));
    browser.photograph(Path::new(&file))
}

/// Scrolls down as far as possible, and waits until the next frame is drawn.
const TO_THE_END: &str = "timeline.view.scrollTop = 1e9; \
     new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";

pub(crate) fn are_scrolled(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let (_directory, page) = page_of(&many_rows())?;
    browser.open(&page, &format!("theme={theme}"))?;
    let fits =
        "document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight";
    assert_eq!(browser.evaluate(fits)?, true);
    assert!(real(&browser.evaluate("timeline.row")?) >= 12.0, "the rows of Ps are high enough for names");
    photograph(browser, theme, "spans")?;
    // The name and the spans of the last row can be seen after scrolling.
    browser.evaluate(TO_THE_END)?;
    photograph(browser, theme, "last-spans")?;
    let last = "(() => { \
            const y = timeline.y(timeline.rows.length) + 4 + SPAN_ROW * (timeline.spans.length - 1); \
            const names = probe.texts(); \
            return [names.includes('span 00'), names.includes('span 39'), y + SPAN_ROW <= timeline.height]; \
        })()";
    assert_eq!(browser.evaluate(last)?, serde_json::json!([false, true, true]));
    pointer_is_over_the_row_that_is_drawn_there(browser, theme)?;
    keys_and_pointer_scroll(browser)
}

fn pointer_is_over_the_row_that_is_drawn_there(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    browser.press("m")?;
    browser.evaluate(TO_THE_END)?;
    assert!(real(&browser.evaluate("timeline.row")?) >= 12.0, "the rows of Ms are high enough for names");
    let machine = MACHINES - 1;
    browser.evaluate(&format!("timeline.show({}, {})", machine * PERIOD - 5 * PERIOD, MACHINES * PERIOD))?;
    // The window shows only spans, which are below the Ms. So it is scrolled to the last M.
    browser.evaluate(&format!("timeline.revealRow(history_.ofMachine.of({machine})[0])"))?;
    photograph(browser, theme, "ms")?;
    let at = browser.evaluate(&format!("probe.point({machine}, {})", machine * PERIOD + PERIOD / 2))?;
    browser.point(real(&at[0]), real(&at[1]))?;
    let text = browser.evaluate("element('tip').hidden ? '' : element('tip').textContent")?;
    assert!(text.as_str().is_some_and(|text| text.contains(&format!("M{machine}"))), "{text}");
    browser.click(real(&at[0]), real(&at[1]))?;
    let id = browser.evaluate("DATA.goroutines[timeline.chosen]?.[0]")?;
    assert_eq!(id, 16 + machine % NAMES, "the G of the period is chosen");
    // At a point of the ruler there is no period: rows that are scrolled out of view are not found there.
    assert_eq!(browser.evaluate("timeline.sliceAt(timeline.x(timeline.cursor), timeline.top - 1)")?, -1);
    // The period of the G before this one is on a row far above, which is shown.
    let above = format!("timeline.y({})", machine - NAMES);
    let is_shown = format!("{above} >= timeline.top && {above} + timeline.row <= timeline.height");
    assert_eq!(browser.evaluate(&is_shown)?, false);
    browser.write("pp")?;
    wait_for(browser, &is_shown)?;
    browser.press("m")
}

/// The wheel over the names, the key for a page, and the pointer scroll the rows. None of them changes the time.
fn keys_and_pointer_scroll(browser: &mut Browser) -> Result<(), Failed> {
    browser.evaluate("timeline.show(0, DURATION); timeline.view.scrollTop = 0")?;
    let view = browser.evaluate("probe.view()")?;
    let (left, middle) = (real(&view["left"]), real(&view["top"]) + 200.0);
    browser.wheel(left + 20.0, middle, 100.0)?;
    wait_for(browser, "timeline.view.scrollTop > 0 && timeline.scroll === timeline.view.scrollTop")?;
    browser.click(left + 20.0, middle)?;
    browser.evaluate("timeline.view.scrollTop = 0")?;
    browser.press("PageDown")?;
    wait_for(browser, "timeline.view.scrollTop > 100")?;
    browser.press("PageUp")?;
    wait_for(browser, "timeline.view.scrollTop === 0 && timeline.scroll === 0")?;
    browser.drag((left + 400.0, middle), (left + 400.0, middle - 60.0))?;
    wait_for(browser, "timeline.view.scrollTop === 60")?;
    assert_eq!(browser.evaluate("[timeline.from, timeline.to - DURATION]")?, serde_json::json!([0, 0]));
    Ok(())
}
