//! Prints the state of the scheduler periodically, in the format of Go's `schedtrace` and `scheddetail`. The kernel
//! options of the same names turn this on.
//!
//! In Go, sysmon prints. Here, a separate kernel thread prints, for two reasons. The thread of sysmon does not run
//! while no M is in a system call. And a thread that prints has to wait if the console is slow, but sysmon must not
//! wait. The thread that prints is no M and needs no P. If all CPUs halt, the deadline of this thread wakes one of
//! them. If all CPUs are busy, this thread preempts the G that runs on one of them. Without the option `schedtrace`
//! this thread does not exist.

use core::fmt::{self, Write};
use core::time::Duration;

use gmp_sched::schedtrace::{Printer, Schedtrace};
use spin::Once;

use crate::drivers::console::{self, LineWriter};
use crate::sched::startup::Observer;
use crate::sched::{kthread, platform};

/// How long to wait if the console has no room.
const WAIT: Duration = Duration::from_millis(10);
/// After this many lines, other threads of the CPU may run.
const BATCH: u32 = 64;

static SETTINGS: Once<Schedtrace> = Once::new();

/// Stores `settings`, which the thread reads, and returns the function that the thread runs.
pub(crate) fn configure(settings: Schedtrace) -> Observer {
    SETTINGS.call_once(|| settings);
    run
}

fn run(_: usize) -> ! {
    let scheduler = platform::scheduler().expect("the thread starts after the scheduler");
    let settings = *SETTINGS.get().expect("the settings are stored before the thread is made");
    let mut printer = Printer::new(scheduler, settings);
    loop {
        if let Some(text) = printer.text_if_due() {
            // This cannot fail, because writing to the console returns no errors.
            let _ = writeln!(PacedWriter::new(), "{text}");
        }
        kthread::park(Some(printer.next()));
    }
}

/// Prints lines to standard error as fast as the console sends them. Parks for a moment after each batch of lines, so
/// that other threads can run. While the calling thread prints, no other thread can preempt it, because it is pinned.
struct PacedWriter {
    lines: LineWriter,
    /// The number of lines in the current batch.
    count: u32,
}

impl PacedWriter {
    fn new() -> Self {
        Self { lines: LineWriter::to_stderr(), count: 0 }
    }

    fn end_line(&mut self) {
        self.count += 1;
        if self.count == BATCH {
            self.count = 0;
            kthread::park(Some(kthread::now()));
        }
        while !console::has_room_for_unwaited() {
            kthread::park(Some(kthread::now() + WAIT));
        }
    }
}

impl Write for PacedWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            self.lines.write_str(line)?;
            if line.ends_with('\n') {
                self.end_line();
            }
        }
        Ok(())
    }
}
