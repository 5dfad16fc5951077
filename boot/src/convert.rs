//! Makes a timeline of a trace that is in a file: `cargo run -- timeline TRACE FILE`. A program on threads writes such
//! a file if the environment variable `GMP_TRACE` names it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use gmp_sched::trace::memory::MAGIC;
use timeline::Trace;
use timeline::memory::Reader;

use crate::{Error, recording, same_file};

/// If the command line begins with this word, `boot` makes a timeline of a trace.
pub const TIMELINE: &str = "timeline";

/// Reads the trace whose file is the first word, and writes the timeline to files that are named after the second word.
/// Returns a text that says what was written.
///
/// # Errors
///
/// [`Error::Usage`] if there are not two words, if the first file cannot be read or is no trace, or if the timeline
/// would replace the trace. [`Error::Output`] if the timeline cannot be written.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<String, Error> {
    let words: Vec<_> = words.collect();
    let [from, to] = &words[..] else {
        let expected = "`timeline` takes a trace and the beginning of the names of the files to write, as in: ";
        return Err(Error::Usage(format!("{expected}cargo run -- timeline TRACE FILE")));
    };
    recording::check_name(Path::new(to))?;
    let written = timeline::names(Path::new(to)).map(|name| ("the timeline", name));
    same_file::check(&written, &[("the trace", from.into())])?;
    let trace = read(Path::new(from))
        .map_err(|error| Error::Usage(format!("cannot read the trace {}: {error}", from.display())))?;
    let cannot = |error| Error::Output(format!("cannot write the timeline {}: {error}", to.display()));
    let [json, page] = timeline::write(&trace, Path::new(to)).map_err(cannot)?;
    let (events, lost) = (trace.events().len(), trace.lost());
    Ok(format!("trace: {events} events, {lost} lost, in {} and {}\n", json.display(), page.display()))
}

fn read(file: &Path) -> io::Result<Trace> {
    let mut reader = Reader::new(File::open(file)?);
    reader.poll().map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("it ends too early"),
        _ => error,
    })?;
    let traces = reader.into_traces();
    if traces.is_empty() {
        let magic = String::from_utf8_lossy(&MAGIC.to_le_bytes()).into_owned();
        return Err(io::Error::other(format!("it does not begin with {magic}")));
    }
    Ok(Trace::new(traces))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gmp_sched::goroutine::GoroutineId;
    use gmp_sched::time::Instant;
    use gmp_sched::trace::{Event, EventKind, Track, TrackTrace, memory};

    use super::*;

    #[test]
    fn file_with_a_trace_becomes_a_timeline_and_another_file_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = |name: &str| directory.path().join(name);
        let convert = |from: &str| run([place(from), place("run")].into_iter().map(OsString::from));
        let event = |when, kind| {
            let when = Instant::from_nanos(when);
            Event { when, kind, goroutine: Some(GoroutineId::MAIN), detail: 0 }
        };
        let events = vec![event(1000, EventKind::Start), event(2000, EventKind::End)];
        let traces = [TrackTrace { track: Track::Processor(0), events, lost: 3 }];
        fs::write(place("trace"), memory::image(&traces)).expect("written");
        let said = convert("trace").expect("a trace");
        assert!(said.starts_with("trace: 2 events, 3 lost, in "), "{said}");
        assert!(fs::read_to_string(place("run.json")).expect("a file").contains("\"G1 main\""));
        assert!(fs::metadata(place("run.html")).expect("a file").len() > 0);
        fs::write(place("other"), [0; 8]).expect("written");
        fs::write(place("empty"), []).expect("written");
        for (name, why) in
            [("other", "it does not begin with GMPTRAC2"), ("empty", "it ends too early"), ("none", "No such file")]
        {
            let error = convert(name).expect_err("no trace");
            assert!(matches!(&error, Error::Usage(text) if text.contains(why)), "{error}");
        }
        assert!(matches!(run([OsString::from("trace")].into_iter()), Err(Error::Usage(_))));
        fs::rename(place("trace"), place("run.json")).expect("renamed");
        let error = convert("run.json").expect_err("the timeline would replace the trace").to_string();
        assert!(error.starts_with("the timeline and the trace use the same file, "), "{error}");
    }
}
