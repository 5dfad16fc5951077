//! Turns a trace of the scheduler ([`gmp_sched::trace`]) into files that show it.
//!
//! 1. [`Trace`] merges the events of all tracks into one list, and collects the names and functions of the Gs. There is
//!    a track for each P, one for each CPU, and one for callers without a P.
//! 2. The file `replay` replays the events. The result is a [`model`]: when each G ran, why it waited, and who readied
//!    it. [`queues`] replays the run queues.
//! 3. [`perfetto`] writes the result as JSON for Perfetto (<https://ui.perfetto.dev>) and chrome://tracing.
//! 4. [`page`] writes the trace as one HTML file, which needs no network.
//! 5. [`picture`] draws a part of the trace as SVG, for slides.
//!
//! [`memory`] reads a trace from memory that another program shares. [`write()`] writes the JSON file and the page:
//!
//! ```
//! use gmp_sched::native::{self, go};
//! use timeline::Trace;
//!
//! let traces = unsafe { native::enter() }.run_with(2, |scheduler| {
//!     scheduler.start_trace(10_000).unwrap();
//!     go(|| ()).join().unwrap();
//!     scheduler.stop_trace();
//!     scheduler.traces()
//! });
//! let trace = Trace::new(traces);
//! assert!(trace.goroutines().iter().any(|goroutine| goroutine.label() == "G1 main"));
//!
//! let directory = tempfile::tempdir().unwrap();
//! let files = timeline::write(&trace, &directory.path().join("run")).unwrap();
//! assert!(files[0].ends_with("run.json") && files[1].ends_with("run.html"));
//! ```
#![deny(unsafe_code)]

mod arrows;
mod colors;
pub mod cpus;
pub mod memory;
pub mod model;
pub mod page;
pub mod perfetto;
pub mod picture;
pub mod queues;
mod replay;
mod trace;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

pub use trace::{Cause, Entry, Goroutine, Trace};

/// Writes `trace` to two files, whose names are that of `file` followed by `.json` and `.html`. If the name ends with
/// one of these extensions already, the extension is replaced. Returns the names.
///
/// # Errors
///
/// A file cannot be written.
pub fn write(trace: &Trace, file: &Path) -> io::Result<[PathBuf; 2]> {
    let names = names(file);
    let mut json = BufWriter::new(File::create(&names[0])?);
    perfetto::write(trace, &mut json)?;
    json.flush()?;
    let mut page = BufWriter::new(File::create(&names[1])?);
    page::write(trace, &title(file), &mut page)?;
    page.flush()?;
    Ok(names)
}

/// Returns the names of the files that [`write()`] writes.
pub fn names(file: &Path) -> [PathBuf; 2] {
    // The components do not have the slash with which the path may end.
    let file: PathBuf = file.components().collect();
    let has_extension = file.extension().is_some_and(|extension| extension == "json" || extension == "html");
    let stem = if has_extension { file.with_extension("") } else { file };
    ["json", "html"].map(|extension| {
        let mut name = stem.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    })
}

fn title(file: &Path) -> String {
    names(file)[0].file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_named_after_the_given_one() {
        for given in ["a/run", "a/run.json", "a/run.html", "a/run/"] {
            assert_eq!(names(given.as_ref()), ["a/run.json", "a/run.html"].map(PathBuf::from));
        }
        assert_eq!(names("v1.2".as_ref())[0], Path::new("v1.2.json"));
        assert_eq!(title("a/v1.2".as_ref()), "v1.2");
    }
}
