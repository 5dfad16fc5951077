//! A report of what a running kernel is doing. The report shows where each CPU is, and the state of every M, P and G.
//! The program continues to run while the report is written.
//!
//! There are two ways to request the report. One is a key on the console,
//! [`INSPECT_KEY`](boot_protocol::input::INSPECT_KEY). The other is a non-maskable interrupt from outside (`nmi` in
//! QEMU's monitor, Ctrl-\ in `boot`), which also works if the program does not read the console.
//!
//! The handler of the non-maskable interrupt must not print, because it may have interrupted code that prints. So it
//! makes the CPU's timer fire, and the first CPU that takes a timer interrupt writes the report. A CPU with interrupts
//! off takes no timer interrupt. If no CPU has begun the report within half a second, all CPUs probably have interrupts
//! off, and a second request stops the kernel as an exception does.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arch::x86_64::timer;
use crate::cpu::local::cpu_local;
use crate::diagnostics::snapshot;
use crate::drivers::console::LineWriter;
use crate::sched::platform;

/// The time, in ns, in which some CPU should begin a requested report. No CPU should have interrupts off for so long.
/// If no CPU has begun the report when this time is over, the next request stops the kernel.
const PATIENCE: u64 = 500_000_000;

/// The number of requests so far. Each request sends an interrupt to every CPU, and the CPUs take it at different
/// times. A CPU's n-th interrupt belongs to request number n. If n exceeds the number of requests so far, this
/// interrupt is the first of a new request.
static QUESTIONS: AtomicU32 = AtomicU32::new(0);
cpu_local! {
    /// How many of the interrupts that request a report this CPU has taken.
    static SEEN: AtomicU32 = AtomicU32::new(0);
}

/// When the report was requested, in ns. Zero if no report is requested, or if a CPU has begun to write the requested
/// report.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Requests a report. Called in the handler of a non-maskable interrupt that no CPU has sent. Returns `false`, and
/// requests nothing, if a report was requested at least [`PATIENCE`] ago and no CPU has begun to write it. The caller
/// then stops the kernel.
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

/// Writes the report if [`ask`] has requested one. Called by the handler of the timer interrupt.
#[inline]
pub(crate) fn answer() {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked != 0 && ASKED.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        write("a non-maskable interrupt");
    }
}

/// Writes the report, line by line. Other output may come between the lines. This function does not wait for the
/// console, so lines for which the console has no room are lost. But it waits until all other CPUs have recorded their
/// state. If a CPU does not do this, the wait ends after some seconds. Callable from everywhere except the handler of a
/// non-maskable interrupt.
pub(crate) fn write(asked_by: &str) {
    // This cannot fail, because writing to the console returns no errors.
    let _ = write_to(&mut LineWriter::to_stderr(), asked_by);
}

fn write_to(out: &mut LineWriter, asked_by: &str) -> fmt::Result {
    let now = timer::now();
    writeln!(out, "-- asked by {asked_by} at {}.{:06} s:", now / 1_000_000_000, now / 1_000 % 1_000_000)?;
    snapshot::write_all(out)?;
    if let Some(scheduler) = platform::scheduler() {
        writeln!(out, "{}", scheduler.scheddetail_without_goroutines())?;
        writeln!(out, "{}", scheduler.goroutine_list())?;
    }
    writeln!(out, "-- the machine goes on")
}
