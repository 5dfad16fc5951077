//! Records the trace of the scheduler while a machine runs, for the timeline (`--trace`) and for profiles
//! (`--profile`).
//!
//! The kernel writes the events into [shared memory](crate::shared_memory). Each P and each CPU gets a part of this
//! memory. With eight Ps on eight CPUs, the part of a P has room for about 546,000 events. A thread of the host copies
//! the events out of the memory every few milliseconds. If the machine overwrites events before they are copied, these
//! events are counted as lost.

use core::fmt;
use core::time::Duration;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use boot_protocol::observed_memory::Purpose;
use gmp_sched::trace::TrackTrace;
use gmp_sched::trace::memory::UNTIL;
use object::{Object as _, ObjectSymbol as _};
use timeline::Trace;
use timeline::memory::Reader;

use crate::Error;
use crate::profiler::{self, Profiler};
use crate::reserved::Reserved;
use crate::shared_memory::SharedMemory;

/// Returns the kernel option that makes the kernel record what is needed for a timeline, for profiles, or for both.
/// Returns `None` if neither is requested.
#[must_use]
pub fn option(timeline: bool, profiles: bool) -> Option<&'static str> {
    match (timeline, profiles) {
        (_, true) => Some("trace=profile"),
        (true, false) => Some("trace=memory"),
        (false, false) => None,
    }
}

/// Returns the address of the kernel's function `gmp_sched::record::trace_until::reached`. The kernel calls this
/// function when it records the event that was requested from [`Recording::start`]. So a debugger that has a breakpoint
/// at this address stops at that event. (gdb knows the function by name only if the program has all debug information.)
///
/// # Errors
///
/// [`Error::Output`] if the program's file cannot be read or has no symbols.
pub fn address_of_reached(elf: &Path) -> Result<u64, Error> {
    let cannot =
        |why: &dyn fmt::Display| Error::Output(format!("cannot find where --until stops {}: {why}", elf.display()));
    let bytes = fs::read(elf).map_err(|error| cannot(&error))?;
    let file = object::File::parse(&*bytes).map_err(|error| cannot(&error))?;
    // The compiler has several ways to mangle a name. In all of them, the symbol contains the names of the module and
    // of the function, and each name comes after its length.
    let is_reached = |name: &str| name.contains("11trace_until7reached");
    let found = file.symbols().find(|symbol| symbol.name().is_ok_and(is_reached));
    found.map(|symbol| symbol.address()).ok_or_else(|| cannot(&"it has no symbols"))
}

/// Checks that files can be named after `timeline`.
///
/// # Errors
///
/// [`Error::Usage`] if `timeline` does not end with the name of a file, for example if it is `..` or `/`.
pub fn check_name(timeline: &Path) -> Result<(), Error> {
    let what = || format!("the files of a timeline cannot be named after the folder `{}`", timeline.display());
    timeline.file_name().map(drop).ok_or_else(|| Error::Usage(what()))
}

/// Returns the names of the files to which a timeline is written. They begin with `timeline`.
pub fn timeline_files(timeline: &Path) -> impl Iterator<Item = PathBuf> {
    timeline::names(timeline).into_iter()
}

/// Returns the names of the files in `directory` to which the profiles are written.
pub fn profile_files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    profiler::names().map(|name| directory.join(name))
}

/// The interval at which the events are copied.
const INTERVAL: Duration = Duration::from_millis(2);

/// A recording that is under way.
#[derive(Debug)]
pub struct Recording {
    timeline: Option<PathBuf>,
    /// The directory of the profiles, and what writes them.
    profiles: Option<(PathBuf, Profiler)>,
    until: Option<u64>,
    files: Reserved,
    memory: SharedMemory,
    stop: Sender<()>,
    copying: JoinHandle<io::Result<Vec<TrackTrace>>>,
}

/// What was recorded. `Display` describes it, without a newline at the end.
#[derive(Debug)]
pub struct Recorded {
    timeline: Option<Timeline>,
    /// The lines that say which profiles were written.
    profiles: Option<String>,
    /// The time of the requested event, if no event with this time was recorded.
    missed: Option<u64>,
}

/// The timeline that was written.
#[derive(Debug)]
struct Timeline {
    files: [PathBuf; 2],
    events: usize,
    lost: u64,
}

impl fmt::Display for Recorded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeline = self.timeline.as_ref().map(|Timeline { files, events, lost }| {
            let [json, page] = files.each_ref().map(|file| file.display());
            format!("trace: {events} events, {lost} lost, in {json} and {page}")
        });
        let missed = self.missed.map(|time| {
            let advice = "give the exact time that the page shows, and the options of the run that it shows";
            format!("until: no event at {time} ns was recorded: {advice}")
        });
        let lines: Vec<String> = timeline.into_iter().chain(self.profiles.clone()).chain(missed).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

impl Recording {
    /// Makes the memory, and starts to copy events from it. The timeline will be written to files whose names begin
    /// with `timeline`, and the profiles to files in the directory `profiles`. This function makes the directory, and
    /// checks that the files can be written, so that a wrong name is found before the program runs. If the files exist,
    /// their content is kept until [`finish`](Self::finish) writes them. Returns `None` if neither a timeline nor
    /// profiles are requested.
    ///
    /// When the kernel records an event whose time, by the machine's clock, is `until`, the kernel calls the function
    /// whose address [`address_of_reached`] returns.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if a file or the directory cannot be made. [`Error::Qemu`] if the file for the memory cannot
    /// be made. [`Error::Build`] if the command that writes profiles does not build.
    pub fn start(
        timeline: Option<&Path>,
        profiles: Option<&Path>,
        until: Option<Duration>,
    ) -> Result<Option<Self>, Error> {
        if timeline.is_none() && profiles.is_none() {
            return Ok(None);
        }
        let mut files = Reserved::default();
        let mut reserve = |name: &Path, what: &str| {
            let error = |error| Error::Output(format!("cannot write the {what} to {}: {error}", name.display()));
            files.add(name).map_err(error)
        };
        for name in timeline.into_iter().flat_map(timeline_files) {
            reserve(&name, "trace")?;
        }
        if let Some(directory) = profiles {
            fs::create_dir_all(directory).map_err(|error| {
                Error::Output(format!("cannot make the directory {} for the profiles: {error}", directory.display()))
            })?;
            profile_files(directory).try_for_each(|name| reserve(&name, "profile"))?;
        }
        let profiles = profiles.map(|directory| Ok((directory.to_owned(), Profiler::build()?))).transpose()?;
        let cannot = |error: io::Error| Error::Qemu(format!("cannot read the memory of the trace: {error}"));
        let memory = SharedMemory::new(Purpose::Trace)?;
        let file = memory.reader().map_err(cannot)?;
        // A time of more than 584 years does not fit into 64 bits, and is never reached.
        let until = until.map(|until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        file.write_all_at(&(!until.unwrap_or(u64::MAX)).to_le_bytes(), (UNTIL * size_of::<u64>()) as u64)
            .map_err(cannot)?;
        let mut reader = Reader::new(file);
        let (stop, stopped) = mpsc::channel();
        let copying = thread::spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                reader.poll()?;
            }
            reader.poll()?;
            Ok(reader.into_traces())
        });
        let timeline = timeline.map(Path::to_owned);
        Ok(Some(Self { timeline, profiles, until, files, memory, stop, copying }))
    }

    /// Returns the memory into which the machine writes the events.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Writes the files. Called when the machine has ended. `elf` is the program, and `title` its name.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if a file cannot be written, or if the machine has recorded nothing.
    pub fn finish(mut self, elf: &Path, title: &str) -> Result<Recorded, Error> {
        // The thread that copies the events ends when the sender of its channel is dropped.
        drop(self.stop);
        let cannot = |what: &str, file: &Path| {
            let what = format!("cannot write the {what} to {}", file.display());
            move |error: io::Error| Error::Output(format!("{what}: {error}"))
        };
        let traces = self.copying.join().map_err(|_| io::Error::other("the thread that copies it has panicked"));
        let traces = traces.flatten().map_err(|error| Error::Output(format!("cannot read the trace: {error}")))?;
        if traces.is_empty() {
            return Err(Error::Output("no trace: the machine has ended before its scheduler started".into()));
        }
        let is_recorded =
            |time| traces.iter().flat_map(|trace| &trace.events).any(|event| event.when.as_nanos() == time);
        let missed = self.until.filter(|&time| !is_recorded(time));
        let profiles = self
            .profiles
            .map(|(to, profiler)| profiler.write(&traces, elf, title, &to).map_err(cannot("profiles", &to)));
        let timeline = self.timeline.map(|file| {
            let trace = Trace::new(traces);
            let files = timeline::write(&trace, &file).map_err(cannot("trace", &file))?;
            Ok(Timeline { files, events: trace.events().len(), lost: trace.lost() })
        });
        let recorded = Recorded { timeline: timeline.transpose()?, profiles: profiles.transpose()?, missed };
        self.files.keep();
        Ok(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_that_was_not_recorded_is_named() {
        let timeline = Timeline { files: ["a.json".into(), "a.html".into()], events: 5, lost: 0 };
        let recorded = Recorded { timeline: Some(timeline), profiles: None, missed: Some(7) }.to_string();
        let lines: Vec<&str> = recorded.lines().collect();
        assert_eq!(lines[0], "trace: 5 events, 0 lost, in a.json and a.html");
        assert!(lines[1].starts_with("until: no event at 7 ns was recorded: "), "{recorded}");
    }
}
