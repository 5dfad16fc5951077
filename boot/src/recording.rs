//! Records the trace of the scheduler while a machine runs.
//!
//! The kernel writes the events into [shared memory](crate::shared_memory). Each P and each CPU gets a part of it. With
//! eight Ps, the part of a P has room for 546,000 events. A thread of the host copies the events out of the memory every few
//! milliseconds, before the machine overwrites them. Events that are overwritten before they are copied are counted as
//! lost.

use core::fmt;
use core::time::Duration;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use gmp_sched::trace::TrackTrace;
use timeline::Trace;
use timeline::memory::Reader;

use crate::Error;
use crate::shared_memory::SharedMemory;

/// The kernel option that makes the kernel record a trace.
pub const OPTION: &str = "trace=memory";

/// How often the events are copied.
const INTERVAL: Duration = Duration::from_millis(2);

/// A recording that is under way.
#[derive(Debug)]
pub struct Recording {
    file: PathBuf,
    memory: SharedMemory,
    stop: Sender<()>,
    copying: JoinHandle<io::Result<Vec<TrackTrace>>>,
}

/// What was recorded. `Display` describes it in one line.
#[derive(Debug)]
pub struct Recorded {
    files: [PathBuf; 2],
    events: usize,
    lost: u64,
}

impl fmt::Display for Recorded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [json, page] = self.files.each_ref().map(|file| file.display());
        write!(formatter, "trace: {} events, {} lost, in {json} and {page}", self.events, self.lost)
    }
}

impl Recording {
    /// Makes the memory, and starts to copy events from it. The trace will be written to files whose names begin with
    /// `file`. This function makes them as empty files, so that a wrong name is found before the program runs.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if a file cannot be made. [`Error::Qemu`] if there is no file for the memory.
    pub fn start(file: &Path) -> Result<Self, Error> {
        for name in timeline::names(file) {
            File::create(&name)
                .map_err(|error| Error::Output(format!("cannot write the trace to {}: {error}", name.display())))?;
        }
        let cannot = |error: io::Error| Error::Qemu(format!("cannot read the memory of the trace: {error}"));
        let memory = SharedMemory::new()?;
        let mut reader = Reader::new(memory.reader().map_err(cannot)?);
        let (stop, stopped) = mpsc::channel();
        let copying = thread::spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                reader.poll()?;
            }
            reader.poll()?;
            Ok(reader.into_traces())
        });
        Ok(Self { file: file.to_owned(), memory, stop, copying })
    }

    /// The memory into which the machine writes the events.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Writes the files. Called when the machine has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if a file cannot be written, or if the machine has recorded nothing.
    pub fn finish(self) -> Result<Recorded, Error> {
        // The thread that copies the events ends when the sender of its channel is dropped.
        drop(self.stop);
        let cannot = |error: io::Error| Error::Output(format!("cannot write the trace: {error}"));
        let traces = self.copying.join().map_err(|_| io::Error::other("the thread that copies it has panicked"));
        let traces = traces.and_then(|traces| traces).map_err(cannot)?;
        if traces.is_empty() {
            return Err(Error::Output("no trace: the machine has ended before its scheduler started".into()));
        }
        let trace = Trace::new(traces);
        let files = timeline::write(&trace, &self.file).map_err(cannot)?;
        Ok(Recorded { files, events: trace.events().len(), lost: trace.lost() })
    }
}
