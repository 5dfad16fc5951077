//! Profiles of a program: where its Gs wait and for how long, which locks are contended, and what runs when the timer
//! interrupts a CPU.
//!
//! 1. The scheduler records the events and their call stacks (see [`gmp_sched::trace`], "Profiles").
//! 2. [`Profile`] sums them up by call stack.
//! 3. [`symbols`] finds the functions of each address, including those that were inlined.
//! 4. [`write()`] writes each of the three profiles in three forms: as folded stacks, as a flame graph, and for
//!    `go tool pprof`.
//!
//! ```
//! use gmp_sched::native::{self, go};
//! use profile::symbols::Symbols;
//! use profile::Profile;
//!
//! let traces = unsafe { native::enter() }.run_with(2, |scheduler| {
//!     scheduler.start_profile(10_000).unwrap();
//!     go(|| native::sleep(core::time::Duration::from_micros(1))).join().unwrap();
//!     scheduler.stop_trace();
//!     scheduler.traces()
//! });
//! let directory = tempfile::tempdir().unwrap();
//! let written = profile::write(&Profile::new(&traces), &Symbols::of_this_program(), "example", directory.path()).unwrap();
//! println!("{written}");
//! let folded = std::fs::read_to_string(directory.path().join("block.folded")).unwrap();
//! assert!(folded.contains("[sleep]"), "{folded}");
//! ```
#![deny(unsafe_code)]

mod encode;
mod events;
mod folded;
mod frames;
pub mod pprof;
mod samples;

use core::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

pub use samples::{Profile, Sample, Stack};
pub use symbols;

use crate::encode::Values;
use crate::frames::Inner;
use symbols::Symbols;

/// One of the three profiles, and how it is written.
struct Kind {
    /// The name of the profile, which is also the beginning of the names of its files.
    name: &'static str,
    title: &'static str,
    /// What one counted event is called in messages.
    event: &'static str,
    inner: Inner,
    values: Values,
    samples: fn(&Profile) -> &[Sample],
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "block",
        title: "Where Gs wait",
        event: "wait",
        inner: Inner::WithoutScheduler,
        values: Values { count: "contentions", time: "delay" },
        samples: |profile| &profile.block,
    },
    Kind {
        name: "mutex",
        title: "Unlocks for which Gs wait",
        event: "contended unlock",
        inner: Inner::WithoutScheduler,
        values: Values { count: "contentions", time: "delay" },
        samples: |profile| &profile.mutex,
    },
    Kind {
        name: "cpu",
        title: "What runs",
        event: "timer interrupt",
        inner: Inner::All,
        values: Values { count: "samples", time: "cpu" },
        samples: |profile| &profile.cpu,
    },
];

/// What [`write()`] has written. `Display` writes one line for each profile. If some waits had not ended, one line says
/// so. The last line contains the number of lost events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    directory: PathBuf,
    /// The number of events and their time, in the order block, mutex, cpu.
    sums: [(u64, u64); 3],
    has_cpus: bool,
    waiting: u64,
    lost: u64,
}

impl fmt::Display for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.directory.display();
        let no_sample = match self.has_cpus {
            true => "no timer interrupt came while a CPU was busy",
            false => "threads have no timer interrupts",
        };
        let empty = ["no wait of a G has ended", "no unlock has ended the wait of a G", no_sample];
        for ((kind, (count, nanoseconds)), empty) in KINDS.iter().zip(self.sums).zip(empty) {
            let (name, millis) = (kind.name, nanoseconds as f64 / 1e6);
            match count {
                0 => writeln!(formatter, "profile: {name}: {empty}")?,
                _ => {
                    let events = counted(count, kind.event);
                    writeln!(formatter, "profile: {name}: {events}, {millis:.3} ms, in {directory}/{name}.svg")?;
                }
            }
        }
        if self.waiting > 0 {
            let waits = counted(self.waiting, "wait");
            writeln!(formatter, "profile: {waits} had not ended when the recording ended: left out")?;
        }
        write!(formatter, "profile: {} events lost; for `go tool pprof`: {directory}/NAME.pb.gz", self.lost)
    }
}

fn counted(count: u64, event: &str) -> String {
    format!("{count} {event}{}", if count == 1 { "" } else { "s" })
}

/// Returns the names of the files that [`write()`] writes, without their directory.
pub fn names() -> impl Iterator<Item = String> {
    KINDS.iter().flat_map(|kind| ["folded", "svg", "pb.gz"].map(|extension| format!("{}.{extension}", kind.name)))
}

/// Writes the profiles to files in `directory`. Makes this directory if it does not exist. Each of the profiles
/// `block`, `mutex` and `cpu` is written to three files, with the extensions `.folded`, `.svg` and `.pb.gz`. `program`
/// is the name of the program, for titles.
///
/// # Errors
///
/// The directory cannot be made, or a file cannot be written.
pub fn write(profile: &Profile, symbols: &Symbols, program: &str, directory: &Path) -> io::Result<Written> {
    fs::create_dir_all(directory)?;
    for kind in &KINDS {
        let samples = (kind.samples)(profile);
        let file =
            |extension: &str| File::create(directory.join(format!("{}.{extension}", kind.name))).map(BufWriter::new);
        let lines = folded::lines(samples, kind.inner, symbols);
        let mut text = file("folded")?;
        lines.iter().try_for_each(|line| writeln!(text, "{line}"))?;
        text.flush()?;
        let mut picture = file("svg")?;
        folded::write_flame_graph(&format!("{}: {program}", kind.title), &lines, &mut picture)?;
        picture.flush()?;
        let mut pprof = encode::encode(samples, kind.inner, kind.values, symbols, program);
        pprof.duration_nanos = i64::try_from(profile.duration).unwrap_or(i64::MAX);
        pprof.write(file("pb.gz")?)?;
    }
    let sum = |kind: &Kind| {
        let samples = (kind.samples)(profile).iter();
        samples.fold((0, 0), |(count, time), sample| (count + sample.count, time + sample.nanoseconds))
    };
    let sums = KINDS.each_ref().map(sum);
    let Profile { cpus, waiting, lost, .. } = *profile;
    Ok(Written { directory: directory.to_owned(), sums, has_cpus: cpus > 0, waiting, lost })
}
