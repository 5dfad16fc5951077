//! Writes a trace as one HTML file that needs no network.
//!
//! The file contains the style, the scripts and the events. The scripts are in `page`. `state.js` replays the events.
//! `history.js` collects periods, waits and arrows, and `words.js` describes them. `timeline.js`, `overlays.js` and
//! `gaps.js` draw them, and `moment.js` draws the state at one moment. `summary.js` has the times of each function and
//! G, `tables.js` the table of waits and the histogram. `main.js` connects the other scripts. The events are columns of
//! little-endian numbers, as base64: see `columns`.

use std::io::{self, Write};

use gmp_sched::goroutine::WaitReason;
use gmp_sched::trace::{EventKind, Track};

use crate::colors::PALETTE;
use crate::perfetto::quoted;
use crate::{Cause, Trace};

const PAGE: &str = include_str!("page/page.html");
pub(crate) const STYLE: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 10] = [
    include_str!("page/state.js"),
    include_str!("page/history.js"),
    include_str!("page/words.js"),
    include_str!("page/gaps.js"),
    include_str!("page/timeline.js"),
    include_str!("page/overlays.js"),
    include_str!("page/moment.js"),
    include_str!("page/summary.js"),
    include_str!("page/tables.js"),
    include_str!("page/main.js"),
];

/// The value in the column of Gs for an event that has no G.
const NONE: u32 = u32::MAX;

/// Writes the page, with this title.
///
/// # Errors
///
/// The output cannot be written.
pub fn write(trace: &Trace, title: &str, out: &mut impl Write) -> io::Result<()> {
    let after = |rest: &'static str, mark: &str| rest.split_once(mark).expect("the page has this mark");
    let (before, rest) = after(PAGE, "@TITLE@");
    write!(out, "{before}{}", escaped(title))?;
    let (before, rest) = after(rest, "@STYLE@");
    write!(out, "{before}{STYLE}")?;
    let (before, rest) = after(rest, "@DATA@");
    write!(out, "{before}")?;
    data(trace, out)?;
    let (before, rest) = after(rest, "@SCRIPT@");
    write!(out, "{before}{}{rest}", SCRIPTS.concat())
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Writes the trace as a JavaScript object.
fn data(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let list = |texts: &mut dyn Iterator<Item = String>| texts.collect::<Vec<_>>().join(",");
    let kinds = list(&mut EventKind::ALL.iter().map(|kind| format!("\"{kind:?}\"")));
    let reasons =
        list(&mut (0..=WaitReason::Parked as u8).map(|number| quoted(&WaitReason::of_number(number).to_string())));
    let goroutines = list(&mut trace.goroutines().iter().map(|goroutine| {
        let creator = goroutine.creator.map_or(-1, |creator| creator as i64);
        let (label, function) = (quoted(&goroutine.label()), quoted(&goroutine.function));
        format!("[{},{label},{function},{creator}]", goroutine.id)
    }));
    let texts = list(&mut trace.texts().iter().map(|text| quoted(text)));
    write!(
        out,
        "{{start:{},processors:{},cpus:{},lost:{},violation:{},coroutine:{},palette:{PALETTE:?},\n\
         kinds:[{kinds}],reasons:[{reasons}],\ngoroutines:[{goroutines}],\ntexts:[{texts}],\n\
         count:{},columns:\"",
        trace.start(),
        trace.processors(),
        trace.cpus(),
        trace.lost(),
        trace.violation().map_or(-1, |(index, _)| index as i64),
        WaitReason::Coroutine as u8,
        trace.events().len()
    )?;
    base64(&columns(trace), out)?;
    write!(out, "\"}}")
}

/// Returns the events as five columns, one after the other. Each column has one value for each event: the time and the
/// detail (64-bit floating point), the index of the G (32 bits), the track (16 bits) and the kind (8 bits). For a
/// `Spawn` or a `Ready`, the detail is the cause: the index of another G, -1 if the cause is unknown, -2 for a timer,
/// or -3 for a device.
fn columns(trace: &Trace) -> Vec<u8> {
    let events = trace.events();
    let times = events.iter().flat_map(|entry| (entry.when as f64).to_le_bytes());
    let details = events.iter().flat_map(|entry| {
        let detail = match (entry.kind, entry.cause) {
            (EventKind::Spawn | EventKind::Ready, Cause::Goroutine(by)) => by as f64,
            (EventKind::Spawn | EventKind::Ready, Cause::Unknown) => -1.0,
            (EventKind::Spawn | EventKind::Ready, Cause::Timer) => -2.0,
            (EventKind::Spawn | EventKind::Ready, Cause::Device) => -3.0,
            // A `SyscallReturn` has a cause, too, but the kind of the event implies this cause. So its detail can stay
            // the number of the M.
            _ => entry.detail as f64,
        };
        detail.to_le_bytes()
    });
    let goroutines = events.iter().flat_map(|entry| {
        entry.goroutine.map_or(NONE, |goroutine| u32::try_from(goroutine).unwrap_or(NONE)).to_le_bytes()
    });
    let tracks = events.iter().flat_map(|entry| track_number(entry.track).to_le_bytes());
    let kinds = events.iter().map(|entry| entry.kind as u8);
    times.chain(details).chain(goroutines).chain(tracks).chain(kinds).collect()
}

/// Returns the number by which the page identifies a track: the number of a P, the number of a CPU plus 0x8000, or
/// 0xffff for callers without a P.
fn track_number(track: Track) -> u16 {
    match track {
        Track::Processor(number) => number as u16,
        Track::Cpu(number) => 0x8000 | number as u16,
        Track::Outside => 0xffff,
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        let mut digits: [u8; 4] = std::array::from_fn(|place| DIGITS[(word >> (18 - 6 * place)) as usize & 63]);
        digits[chunk.len() + 1..].fill(b'=');
        out.write_all(&digits)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_the_last_group() {
        for (text, expected) in [("", ""), ("M", "TQ=="), ("Ma", "TWE="), ("Man", "TWFu"), ("Many", "TWFueQ==")] {
            let mut out = Vec::new();
            base64(text.as_bytes(), &mut out).expect("memory");
            assert_eq!(out, expected.as_bytes());
        }
    }
}
