//! The page of a trace with a million events: how much memory it takes, and how much of the trace a frame and a step
//! read. The numbers are counts, so they are the same on a busy machine.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use libtest_mimic::Failed;
use timeline::page;

use crate::browser::Browser;
use crate::generated::{EVENTS, generated};

/// How many bytes all arrays of the page may take.
const MOST_BYTES: u64 = 200_000_000;
/// The number of columns of pixels of the window in which reads are counted.
const COLUMNS: u32 = 100;
/// How many elements of arrays a frame may read for each column of pixels in each row.
const READS_PER_PIXEL: f64 = 96.0;

/// Opens the page of this trace, and measures it. Prints the times, which no assertion depends on.
fn is_bounded(browser: &mut Browser, theme: &str, goroutines: u64, parks: u64) -> Result<(), Failed> {
    let trace = generated(goroutines, parks);
    assert!(trace.events().len() >= EVENTS && trace.goroutines().len() as u64 >= goroutines * 9 / 10);
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("run.html");
    let mut out = BufWriter::new(File::create(&file)?);
    page::write(&trace, "run", &mut out)?;
    out.flush()?;
    browser.open(&file, &format!("theme={theme}"))?;
    let number = |browser: &mut Browser, expression: &str| -> Result<f64, Failed> {
        Ok(browser.evaluate(expression)?.as_f64().ok_or(format!("{expression} is no number"))?)
    };
    let load = number(browser, "performance.getEntriesByType('navigation')[0].loadEventEnd")?;
    let bytes = number(browser, "probe.bytes()")?;
    let checkpoints = number(browser, "history_.checkpoints.reduce((sum, state) => sum + state.bytes(), 0)")?;
    let (interval, periods) = (number(browser, "history_.interval")?, number(browser, "history_.count")?);
    println!(
        "{goroutines} Gs: loaded in {load:.0} ms, {bytes} bytes, {checkpoints} in checkpoints, every {interval} events"
    );
    assert!(checkpoints <= number(browser, "CHECKPOINT_BYTES")?);
    assert_eq!(checkpoints, number(browser, "history_.checkpointBytes")?);
    // A new checkpoint does not need the sizes of all earlier ones.
    assert!(number(browser, "probe.sizes(500)")? <= 4.0 * 500.0);
    assert!(bytes <= MOST_BYTES as f64, "{bytes}");
    // A jump replays the events since the last checkpoint, and a step forward replays one.
    let middle = EVENTS / 2 + 77;
    assert!(number(browser, &format!("probe.steps(() => goTo({middle}))"))? <= interval);
    assert!(number(browser, &format!("probe.steps(() => goTo({}))", middle - 1))? <= interval);
    assert_eq!(number(browser, &format!("probe.steps(() => goTo({middle}))"))?, 1.0);
    assert!(interval <= EVENTS as f64 / 16.0);
    let busiest = "[...DATA.goroutines.keys()].reduce((most, g) => (history_.ofGoroutine.of(g).length > history_.ofGoroutine.of(most).length ? g : most), 0)";
    let busiest = number(browser, busiest)?;
    let own = number(browser, &format!("history_.ofGoroutine.of({busiest}).length"))?;
    // The first frame of each view includes the time in which the browser compiles the code. A frame of a view that is
    // drawn again does not.
    let (mut first, mut again): (f64, f64) = (0.0, 0.0);
    let mut most: f64 = 0.0;
    // The times are measured in a whole window. The reads of a frame are counted in a narrow window. In a wide window,
    // the reads for its many columns of pixels would be so many that reads for each event would not be noticed.
    let narrow = format!("timeline.width = LEFT + {COLUMNS}; probe.count()");
    for prepare in ["", &narrow] {
        for (is_by_machine, chosen) in [(false, -1.0), (false, busiest), (true, -1.0), (true, busiest)] {
            browser.evaluate(&format!("showRows({is_by_machine}); timeline.chosen = {chosen}"))?;
            browser.evaluate(&format!("{prepare}; timeline.drawNow()"))?;
            let rows = number(browser, "timeline.rows.length + timeline.spans.length + 2")?;
            for share in [1, 2, 20, 1000, 100_000] {
                let view = format!("timeline.show(DURATION / 3, DURATION / 3 + DURATION / {share})");
                let frame = browser.evaluate(&format!("{view}; probe.frame()"))?;
                if prepare.is_empty() {
                    first = first.max(frame["time"].as_f64().ok_or("no time")?);
                    again = again.max(number(browser, "probe.frame().time")?);
                    continue;
                }
                let reads = frame["reads"].as_f64().ok_or("no count")? / rows / f64::from(COLUMNS);
                let what = format!("Ms: {is_by_machine}, G: {chosen}, 1/{share} of {periods} periods, {own} of the G");
                assert!(reads < READS_PER_PIXEL, "{reads} reads for each pixel, {what}");
                most = most.max(reads);
            }
        }
    }
    println!("slowest frame {again:.1} ms, {first:.1} ms when first drawn, at most {most:.1} reads for each pixel");
    // The longest waits are selected while the page is loaded.
    assert_eq!(number(browser, "history_.longest.list.length")?, number(browser, "LONGEST")?);
    Ok(())
}

pub(crate) fn events_of_a_thousand_gs(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    is_bounded(browser, theme, 1000, 0)
}

pub(crate) fn events_of_many_gs(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    is_bounded(browser, theme, 110_000, 2)
}
