//! What the user requests.

use core::iter;
use core::time::Duration;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use boot::build::Options;
use boot::qemu::{Access, Configuration, Net};
use boot::recording;
use boot::same_file::Named;

/// What the user requests by the command line.
#[derive(Debug)]
pub(crate) enum Request {
    /// List the programs.
    List,
    /// Make the crate of a new program, in this folder.
    New(PathBuf),
    /// Boot a program.
    Boot(Box<Order>),
}

/// A program to boot, and the options for building and running it.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) program: OsString,
    pub(crate) binary: Option<String>,
    pub(crate) arguments: Vec<String>,
    pub(crate) options: Options,
    pub(crate) configuration: Configuration,
    /// The file to which the disk image is written. If it is set, nothing is booted.
    pub(crate) image: Option<PathBuf>,
    /// The beginning of the names of the files to which the trace is written.
    pub(crate) trace: Option<PathBuf>,
    /// The directory to which the profiles are written.
    pub(crate) profile: Option<PathBuf>,
    /// The file to which the input is recorded.
    pub(crate) record_input: Option<PathBuf>,
    /// The file from which the input comes.
    pub(crate) input_script: Option<PathBuf>,
    /// The time, by the machine's clock, of the event at which gdb stops.
    pub(crate) until: Option<Duration>,
    /// Whether to show the live view.
    pub(crate) top: bool,
    pub(crate) limit: Option<Duration>,
    pub(crate) dry_run: bool,
}

impl Order {
    /// Whether the machine has a network.
    pub(crate) fn has_network(&self) -> bool {
        self.configuration.net != Net::None
    }

    /// Returns the files that the run writes.
    pub(crate) fn written_files(&self) -> Vec<Named> {
        let Configuration { capture, .. } = &self.configuration;
        let ones = [("--record-input", &self.record_input), ("--image", &self.image), ("--pcap", capture)];
        let ones = ones.into_iter().filter_map(|(option, name)| Some((option, name.clone()?)));
        let traces = self.trace.as_deref().into_iter().flat_map(recording::timeline_files);
        let profiles = self.profile.as_deref().into_iter().flat_map(recording::profile_files);
        let (traces, profiles) = (iter::repeat("--trace").zip(traces), iter::repeat("--profile").zip(profiles));
        ones.chain(traces).chain(profiles).chain(self.disks().filter(|_| self.writes_disks())).collect()
    }

    /// Returns the other files that the command line and the standard streams name, to which no result may be written.
    pub(crate) fn other_files(&self) -> Vec<Named> {
        let streams =
            [("standard input", "/dev/stdin"), ("standard output", "/dev/stdout"), ("standard error", "/dev/stderr")];
        let program = Path::new(&self.program);
        let program = program.is_file().then(|| ("the program", program.to_owned()));
        let script = self.input_script.clone().map(|name| ("--input-script", name));
        let streams = streams.into_iter().map(|(stream, name)| (stream, name.into()));
        streams.chain(program).chain(script).chain(self.disks().filter(|_| !self.writes_disks())).collect()
    }

    fn disks(&self) -> impl Iterator<Item = Named> {
        self.configuration.disks.iter().map(|disk| ("--disk", disk.path.clone()))
    }

    /// Whether the files that are disks may change.
    fn writes_disks(&self) -> bool {
        !self.configuration.icount && self.configuration.disks.iter().any(|disk| disk.access == Access::ReadWrite)
    }

    /// Returns how many memories the machine shares with the host, apart from disks.
    pub(crate) fn memories(&self) -> usize {
        let has_input = self.record_input.is_some() || self.input_script.is_some();
        let is_recorded = self.trace.is_some() || self.profile.is_some();
        [has_input, is_recorded, self.top].into_iter().filter(|&is_there| is_there).count()
    }
}
