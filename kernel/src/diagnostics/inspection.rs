//! Inspection of a running kernel: a report of where each CPU is, and of the state of every M, P and G, while all of them
//! continue.
//!
//! The report is requested by a key on the console, [`INSPECT_KEY`](boot_protocol::console::INSPECT_KEY), or by a
//! non-maskable interrupt from outside (`nmi` in QEMU's monitor, Ctrl-\ in `boot`), which also works if the program does
//! not read the console. The handler of that interrupt must not print, since it may have interrupted code that prints. So
//! it makes the CPU's timer fire, and the first CPU that takes a timer interrupt writes the report. If a second request
//! comes and no CPU has written the report for half a second, every CPU must have interrupts off. The kernel then stops as
//! for an exception.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arch::x86_64::timer;
use crate::cpu::local::cpu_local;
use crate::diagnostics::snapshot;
use crate::drivers::console::LineWriter;
use crate::sched::platform;

/// How long to wait for the report before a second request stops the kernel, in ns. No CPU should have interrupts off for so
/// long.
const PATIENCE: u64 = 500_000_000;

/// Number of requests. Each request interrupts every CPU, but not at the same time. If a CPU has counted fewer requests,
/// its interrupt belongs to an old request.
static QUESTIONS: AtomicU32 = AtomicU32::new(0);
cpu_local! {
    /// How many requests this CPU has counted.
    static SEEN: AtomicU32 = AtomicU32::new(0);
}

/// When a report was requested that has not been written yet, in ns; zero if there is no such request.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Requests a report. Called in the handler of a non-maskable interrupt that no CPU has sent. Returns `false` if an earlier
/// request has not been served in time.
pub(crate) fn ask() -> bool {
    let now = timer::now().max(1);
    let seen = SEEN.here().fetch_add(1, Ordering::Relaxed) + 1;
    let is_new = QUESTIONS.fetch_max(seen, Ordering::Relaxed) < seen;
    if !is_new && ASKED.load(Ordering::Relaxed) == 0 {
        return true;
    }
    let has_hope = match ASKED.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(asked) => now.saturating_sub(asked) < PATIENCE,
    };
    if has_hope {
        timer::fire_soon();
    }
    has_hope
}

/// Writes the report if [`ask`] has requested one. Called by the timer's handler.
#[inline]
pub(crate) fn answer() {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked != 0 && ASKED.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        write("a non-maskable interrupt");
    }
}

/// Writes the report, line by line; other output may come between the lines. Does not wait: lines for which the console has no
/// room are lost. Callable from everywhere but the handler of a non-maskable interrupt.
pub(crate) fn write(asked_by: &str) {
    // Writing to the console returns no errors.
    let _ = write_to(&mut LineWriter::new(), asked_by);
}

fn write_to(out: &mut LineWriter, asked_by: &str) -> fmt::Result {
    let now = timer::now();
    writeln!(out, "-- asked by {asked_by} at {}.{:06} s:", now / 1_000_000_000, now / 1_000 % 1_000_000)?;
    snapshot::write_all(out)?;
    if let Some(scheduler) = platform::scheduler() {
        writeln!(out, "{}", scheduler.scheddetail())?;
    }
    writeln!(out, "-- the machine goes on")
}
