//! The page of a trace with a million events: how much memory it takes, and how much of the trace a frame and a step
//! read. The numbers are counts, so they are the same on a busy machine.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use gmp_sched::trace::{Event, EventKind, Track, TrackTrace};
use libtest_mimic::Failed;
use timeline::{Trace, page};

use crate::browser::Browser;

const EVENTS: usize = 1_000_000;
const PROCESSORS: usize = 8;
/// The name of all spans, as the number of a text.
const TEXT: u64 = 9;

/// How many bytes all arrays of the page may take.
const MOST_BYTES: u64 = 200_000_000;
/// The number of columns of pixels of the window in which reads are counted.
const COLUMNS: u32 = 100;
/// How many elements of arrays a frame may read for each column of pixels in each row.
const READS_PER_PIXEL: f64 = 96.0;

/// What a P does in a generated trace.
#[derive(Clone, Default)]
struct Local {
    runs: Option<u64>,
    /// The Gs that this P has parked, the longest-parked first.
    parked: VecDeque<u64>,
    now: u64,
}

/// Generates events that a scheduler could have recorded.
struct Generator {
    tracks: Vec<TrackTrace>,
    count: usize,
    random: u64,
    /// The next G of the global queue, and the number after the last one.
    fresh: std::ops::Range<u64>,
}

impl Generator {
    fn new(goroutines: u64) -> Self {
        let tracks = (0..PROCESSORS as u32).flat_map(|number| [Track::Processor(number), Track::Cpu(number)]);
        let tracks = tracks.chain([Track::Outside]).map(|track| TrackTrace { track, events: Vec::new(), lost: 0 });
        Self { tracks: tracks.collect(), count: 0, random: 1, fresh: 16..16 + goroutines }
    }

    fn add(&mut self, track: usize, when: u64, kind: EventKind, goroutine: u64, detail: u64) {
        let mut bytes = [0; Event::BYTES];
        let words = [when, goroutine, (kind as u64) << 56 | detail];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        self.tracks[track].events.push(Event::from_bytes(bytes).expect("a known kind"));
        self.count += 1;
    }

    /// Returns a number below `limit` that looks random.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % limit
    }

    /// Adds what one P does next. A G ends after it has parked, in the mean, `parks` times.
    fn step(&mut self, p: usize, local: &mut Local, window: usize, parks: u64) {
        let track = 2 * p;
        local.now += 50 + self.below(1000);
        let Some(current) = local.runs else {
            match self.fresh.next() {
                Some(goroutine) => {
                    self.add(track, local.now, EventKind::GlobalTake, goroutine, 1);
                    self.start(track, local, goroutine);
                }
                None => match local.parked.pop_front() {
                    Some(goroutine) => {
                        self.add(track, local.now, EventKind::Ready, goroutine, 0);
                        self.start(track, local, goroutine);
                    }
                    None => self.add(track, local.now, EventKind::Spin, 0, 0),
                },
            }
            return;
        };
        match self.below(40) {
            0 => {
                self.add(track, local.now, EventKind::SpanBegin, current, TEXT);
                local.now += 30;
                self.add(track, local.now, EventKind::SpanEnd, current, TEXT);
            }
            1 => {
                self.add(track + 1, local.now, EventKind::Interrupt, 0, TEXT);
                self.add(track + 1, local.now + 20, EventKind::InterruptEnd, 0, 0);
                let machine = self.below(20);
                self.add(track + 1, local.now + 20, EventKind::RunMachine, 0, machine);
            }
            2 if p == 0 => {
                self.add(track, local.now, EventKind::WorldStop, current, 0);
                self.add(track, local.now + 10, EventKind::WorldStart, current, 0);
            }
            _ => {}
        }
        local.now += 20;
        if parks > 0 && self.below(parks + 1) == 0 {
            self.add(track, local.now, EventKind::End, current, 0);
            local.runs = None;
            return;
        }
        let next = if local.parked.len() >= window { local.parked.pop_front() } else { None };
        if let Some(next) = next {
            self.add(track, local.now, EventKind::Ready, next, current);
        }
        self.add(track, local.now + 10, EventKind::Park, current, 5);
        local.parked.push_back(current);
        local.runs = None;
        local.now += 40;
        if let Some(next) = next {
            self.start(track, local, next);
        }
    }

    fn start(&mut self, track: usize, local: &mut Local, goroutine: u64) {
        self.add(track, local.now, EventKind::Start, goroutine, 30);
        local.runs = Some(goroutine);
    }
}

/// Makes a trace with this number of Gs, which all wait in the global queue first. P0 parks only one G at a time,
/// so two Gs run very often.
fn generated(goroutines: u64, parks: u64) -> Trace {
    let mut generator = Generator::new(goroutines);
    for goroutine in generator.fresh.clone() {
        generator.add(2 * PROCESSORS, goroutine, EventKind::Spawn, goroutine, 0);
    }
    let mut locals = vec![Local { now: 16 + goroutines, ..Local::default() }; PROCESSORS];
    for p in 0..PROCESSORS {
        generator.add(2 * p, 16 + goroutines, EventKind::TextBegin, 0, TEXT);
        generator.add(2 * p, 16 + goroutines, EventKind::TextBytes, 0, u64::from_le_bytes(*b"work\0\0\0\0"));
        generator.add(2 * p, 16 + goroutines, EventKind::Busy, 0, p as u64);
    }
    let window = |p| if p == 0 { 1 } else { goroutines as usize / PROCESSORS };
    while generator.count < EVENTS + 2 * PROCESSORS {
        for (p, local) in locals.iter_mut().enumerate() {
            generator.step(p, local, window(p), parks);
        }
    }
    Trace::new(generator.tracks)
}

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
    let checkpoints = number(browser, "history_.checkpointBytes()")?;
    let (interval, periods) = (number(browser, "history_.interval")?, number(browser, "history_.count")?);
    println!(
        "{goroutines} Gs: loaded in {load:.0} ms, {bytes} bytes, {checkpoints} in checkpoints, every {interval} events"
    );
    assert!(checkpoints <= number(browser, "CHECKPOINT_BYTES")?);
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
    let mut slowest: f64 = 0.0;
    let mut most: f64 = 0.0;
    // The times are those of a whole window. What a frame reads is counted in a narrow window, in which reads for each
    // column of pixels do not hide reads for each event.
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
                    slowest = slowest.max(frame["time"].as_f64().ok_or("no time")?);
                    continue;
                }
                let reads = frame["reads"].as_f64().ok_or("no count")? / rows / f64::from(COLUMNS);
                let what = format!("Ms: {is_by_machine}, G: {chosen}, 1/{share} of {periods} periods, {own} of the G");
                assert!(reads < READS_PER_PIXEL, "{reads} reads for each pixel, {what}");
                most = most.max(reads);
            }
        }
    }
    println!("slowest frame {slowest:.1} ms, at most {most:.1} reads for each pixel");
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
