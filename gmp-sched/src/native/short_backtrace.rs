//! The part of a backtrace that concerns the program.
//!
//! As in the messages of `std`, a backtrace begins after the last call whose name contains
//! `__rust_end_short_backtrace`, and ends before the first call after it whose name contains
//! `__rust_begin_short_backtrace`. What is left out are the calls that report, and the calls by which a G begins.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use std::env;

/// The names of calls after `__rust_end_short_backtrace` that belong to a panic.
const PANIC: [&str; 3] = ["core::panicking::", "__rustc::rust_begin_unwind", "rust_begin_unwind"];

/// The longest cycle of calls that is found.
const LONGEST_CYCLE: usize = 16;
/// A cycle is shown once if it occurs at least this many times in succession.
const REPEATS: usize = 3;
/// How many calls are shown at each end of a backtrace. Go: `tracebackInnerFrames`, `tracebackOuterFrames`.
const SHOWN: usize = 50;

/// A call: the name of the function, and the lines of text that follow.
struct Call<'a> {
    name: &'a str,
    place: &'a str,
}

/// Shortens a backtrace that [`std::backtrace::Backtrace`] displays: leaves out the calls of the scheduler before the
/// program's first call, and the calls that report a panic or an exception. Calls that repeat, such as those of an
/// infinite recursion, are shown once. Each line of the result ends with a line break.
///
/// If the environment variable `RUST_BACKTRACE` is `full`, returns the whole text. Callable from any thread; does not
/// block.
///
/// ```
/// use gmp_sched::native;
/// use std::backtrace::Backtrace;
///
/// let called = unsafe { native::enter() }.run(1, || {
///     native::go(|| native::short_backtrace(&Backtrace::force_capture().to_string())).join().unwrap()
/// });
/// assert!(!called.contains("context::start"), "{called}");
/// ```
#[must_use]
pub fn short_backtrace(backtrace: &str) -> String {
    if env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full") {
        backtrace.into()
    } else {
        shorten(backtrace, 0)
    }
}

/// Shortens a backtrace, and leaves out `skipped` more calls at its beginning.
pub(super) fn shorten(backtrace: &str, skipped: usize) -> String {
    let calls = parse(backtrace);
    let end = calls.iter().rposition(|call| call.name.contains("__rust_end_short_backtrace"));
    let calls = &calls[end.map_or(0, |end| end + 1)..];
    let begin = calls.iter().position(|call| call.name.contains("__rust_begin_short_backtrace"));
    let calls = &calls[..begin.unwrap_or(calls.len())];
    let of_panic = calls.iter().take_while(|call| PANIC.iter().any(|name| call.name.starts_with(name))).count();
    show(&calls[(of_panic + skipped).min(calls.len())..])
}

/// Splits the text of a backtrace into its calls. The first line of a call begins with the number of the call.
fn parse(backtrace: &str) -> Vec<Call<'_>> {
    let name_of = |line: &str| {
        let (number, _) = line.trim_start().split_once(": ")?;
        number.parse::<usize>().ok().map(|_| line.len() - line.trim_start().len() + number.len() + 2)
    };
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut start = 0;
    for line in backtrace.split_inclusive('\n') {
        let end = start + line.len();
        if let Some(name) = name_of(line) {
            calls.push(Call { name: line[name..].trim_end(), place: &backtrace[end..end] });
        } else if let Some(last) = calls.last_mut() {
            last.place = &backtrace[start - last.place.len()..end];
        }
        start = end;
    }
    calls
}

/// Returns the length of the cycle with which `calls` begin, and how many times it occurs in succession. Of several
/// cycles, returns the one that covers the most calls. Does not allocate.
pub(super) fn cycle<C>(calls: &[C], is_same: impl Fn(&C, &C) -> bool) -> Option<(usize, usize)> {
    let longest = LONGEST_CYCLE.min(calls.len() / REPEATS);
    let repeats = |length: usize| {
        1 + calls.iter().zip(&calls[length..]).take_while(|(call, other)| is_same(call, other)).count() / length
    };
    let cycles = (1..=longest).rev().map(|length| (length, repeats(length)));
    cycles.filter(|&(_, repeats)| repeats >= REPEATS).max_by_key(|(length, repeats)| length * repeats)
}

/// Displays the calls, and each cycle only once.
fn show(mut calls: &[Call<'_>]) -> String {
    /// A call, or how many times the calls before it occur.
    enum Part<'a> {
        Call(&'a Call<'a>),
        Cycle(usize, usize),
    }
    let mut parts = Vec::new();
    while let Some(first) = calls.first() {
        // The lines at which a function calls the next one may differ.
        match cycle(calls, |call, other| call.name == other.name) {
            Some((length, repeats)) => {
                parts.extend(calls[..length].iter().map(Part::Call));
                parts.push(Part::Cycle(length, repeats));
                calls = &calls[length * repeats..];
            }
            None => {
                parts.push(Part::Call(first));
                calls = &calls[1..];
            }
        }
    }
    let (mut text, count) = (String::new(), parts.len());
    for (index, part) in parts.iter().enumerate() {
        // Writing to a `String` cannot fail.
        let _ = match part {
            _ if count > 2 * SHOWN && index == SHOWN => writeln!(text, "      ... {} calls ...", count - 2 * SHOWN),
            _ if count > 2 * SHOWN && (SHOWN..count - SHOWN).contains(&index) => Ok(()),
            Part::Call(call) => write!(text, "{index:4}: {}\n{}", call.name, call.place),
            Part::Cycle(1, repeats) => writeln!(text, "      ... this call occurs {repeats} times in succession ..."),
            Part::Cycle(length, repeats) => {
                writeln!(text, "      ... these {length} calls occur {repeats} times in succession ...")
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    /// The text of a backtrace with these calls.
    fn backtrace<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
        let lines = names.into_iter().enumerate().map(|(number, name)| match name.split_once('@') {
            Some((name, place)) => format!("{number:4}: {name}\n             at {place}\n"),
            None => format!("{number:4}: {name}\n"),
        });
        lines.collect()
    }

    #[test]
    fn calls_between_the_markers_remain() {
        let calls = [
            "std::backtrace::Backtrace::create",
            "std::sys::backtrace::__rust_end_short_backtrace@std.rs:1:2",
            "__rustc::rust_begin_unwind",
            "core::panicking::panic_fmt@core.rs:3:4",
            "program::inner@src/main.rs:5:6",
            "program::outer",
            "gmp_sched::lifecycle::closure::__rust_begin_short_backtrace@closure.rs:7:8",
            "gmp_sched::context::start",
        ];
        let expected = backtrace(["program::inner@src/main.rs:5:6", "program::outer"]);
        assert_eq!(shorten(&backtrace(calls), 0), expected);
        assert_eq!(shorten(&backtrace(calls), 1), "   0: program::outer\n");
        assert_eq!(shorten(&backtrace(calls), 9), "");
        assert_eq!(shorten("disabled backtrace", 0), "");
    }

    #[test]
    fn repeated_calls_are_shown_once() {
        let mutual = ["a@x:1:1", "b"].repeat(100);
        let calls = ["leaf"].into_iter().chain(mutual).chain(["c@y:2:2", "c@y:3:3", "c", "c", "main"]);
        let shown = shorten(&backtrace(calls), 0);
        let lines: Vec<_> = shown.lines().map(str::trim_start).collect();
        assert_eq!(
            lines,
            [
                "0: leaf",
                "1: a",
                "at x:1:1",
                "2: b",
                "... these 2 calls occur 100 times in succession ...",
                "4: c",
                "at y:2:2",
                "... this call occurs 4 times in succession ...",
                "6: main",
            ]
        );
    }

    #[test]
    fn calls_in_the_middle_of_many_are_counted() {
        let names: Vec<_> = (0..1000).map(|number| format!("f{number}")).collect();
        let of_first = |count: usize| backtrace(names[..count].iter().map(String::as_str));
        assert_eq!(shorten(&of_first(2 * SHOWN), 0), of_first(2 * SHOWN));
        let shown = shorten(&of_first(names.len()), 0);
        assert_eq!(shown.lines().count(), 101);
        assert!(shown.starts_with("   0: f0\n") && shown.ends_with(" 999: f999\n"), "{shown}");
        assert!(shown.contains("  49: f49\n      ... 900 calls ...\n 950: f950\n"), "{shown}");
    }
}
