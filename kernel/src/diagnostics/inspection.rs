//! Looking at a machine that runs: where its CPUs are, and what every M, P and G does, printed on the console while all goes
//! on.
//!
//! Somebody at the console asks by a key, [`INSPECT_KEY`](boot_protocol::console::INSPECT_KEY); somebody outside by a
//! non-maskable interrupt, which also gets through to a machine that does not read its console (`nmi` in QEMU's monitor,
//! Ctrl-\ in `boot`). That handler may not print, since it may have interrupted somebody who prints: it has the CPU's timer
//! fire, and the first CPU that takes an interrupt does it. If for a while none has, and the question comes again, every CPU
//! has interrupts off for good, and the machine ends as by an exception.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arch::x86_64::timer;
use crate::cpu::local::cpu_local;
use crate::diagnostics::snapshot;
use crate::drivers::console::LineWriter;
use crate::sched::platform;

/// How long a CPU has to answer, in ns: much longer than any has interrupts off.
const PATIENCE: u64 = 500_000_000;

/// Questions that have come. Each reaches every CPU, but not at the same time: who has seen fewer is late for an old one.
static QUESTIONS: AtomicU32 = AtomicU32::new(0);
cpu_local! {
    /// How many of them have reached this CPU.
    static SEEN: AtomicU32 = AtomicU32::new(0);
}

/// When a non-maskable interrupt asked, in ns, and was not answered; zero if none did.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// A non-maskable interrupt has come that nobody in here has sent: asks for an answer. Returns whether there is hope for
/// one. Called in the handler of that interrupt.
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

/// Answers a question that [`ask`] noted. Called by the timer's handler.
#[inline]
pub(crate) fn answer() {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked != 0 && ASKED.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        write("a non-maskable interrupt");
    }
}

/// Prints what there is to be seen: whole lines, which what others print may stand between. Does not wait; what the console
/// has no room for is lost. Callable from everywhere but the handler of a non-maskable interrupt.
pub(crate) fn write(asked_by: &str) {
    // The console has no errors.
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
