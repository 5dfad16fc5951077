//! Prints a note if a G blocks its thread, and its P with it, by a call that was not announced to the scheduler.
//!
//! A thread that waits in the operating system does not run, so its count of context switches stays the same. The check
//! reads this count from the system twice. A thread that computes for long, or waits only for a CPU, is not noted.

use alloc::vec::Vec;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{Read as _, Write as _};

use super::overflow::Buffered;
use super::panic_hook::{Named, is_error_output_writable};
use super::{Native, exception};
use crate::base::instant::Instant;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// How long a G runs before the state of its thread is read for the first time.
const LONG: Duration = Duration::from_millis(10);
/// How long a thread is blocked before it is noted.
const BLOCKED: Duration = Duration::from_millis(100);

/// The number by which the operating system knows the thread of an M; 0 until the thread runs.
#[derive(Debug, Default)]
pub(super) struct ThreadNumber(AtomicI32);

impl ThreadNumber {
    /// The number 0, because no thread runs yet.
    pub(super) const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Returns the number.
    pub(super) fn get(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores the number of the calling thread.
    pub(super) fn set(&self) {
        #[expect(unsafe_code, reason = "makes a system call")]
        // SAFETY: the call has no requirements.
        let number = unsafe { libc::gettid() };
        self.0.store(number, Ordering::Relaxed);
    }
}

/// What the last check found for a P.
#[derive(Clone, Copy)]
struct Found {
    /// The tick of the P, which shows whether it has begun another slice since.
    tick: u64,
    when: Instant,
    /// The number of context switches of the thread, if the thread was waiting.
    switches: Option<u64>,
}

/// The check of the Ps of a scheduler.
pub(super) struct Check {
    scheduler: &'static Scheduler<Native>,
    found: Vec<Option<Found>>,
}

impl Check {
    pub(super) fn new(scheduler: &'static Scheduler<Native>) -> Self {
        Self { scheduler, found: std::vec![None; scheduler.procs_limit()] }
    }

    /// Checks each P. Prints the note if the thread of a P is blocked and has been blocked for [`BLOCKED`]. Takes
    /// no lock and does not allocate, because sysmon calls this.
    pub(super) fn run(&mut self) {
        let now = Native::now();
        for (processor, found) in self.scheduler.processors().iter().zip(&mut self.found) {
            let tick = processor.tick();
            let last = found.filter(|last| last.tick == tick && processor.status() == ProcessorStatus::Running);
            let Some(last) = last else {
                *found = Some(Found { tick, when: now, switches: None });
                continue;
            };
            if now - last.when < if last.switches.is_some() { BLOCKED } else { LONG } {
                continue;
            }
            let machine = blockable(self.scheduler, processor);
            let switches = machine.and_then(switches_of_waiting_thread);
            if let Some(machine) = machine
                && switches.is_some()
                && switches == last.switches
            {
                note(machine);
            }
            *found = Some(Found { tick, when: now, switches });
        }
    }
}

/// The M that holds a P, if a G runs on it that could call `blocking`.
fn blockable(scheduler: &'static Scheduler<Native>, processor: &Processor<Native>) -> Option<&'static Machine<Native>> {
    let machine = scheduler.holder_of(processor)?;
    machine.current_goroutine()?;
    (!machine.are_waits_forbidden()).then_some(machine)
}

/// Returns the number of context switches of the M's thread if the thread waits in the operating system.
fn switches_of_waiting_thread(machine: &Machine<Native>) -> Option<u64> {
    let number = machine.thread()?.number.get();
    let (mut path, mut status) = ([0; 64], [0; 4096]);
    let mut rest = &mut path[..];
    write!(rest, "/proc/self/task/{number}/status").ok()?;
    let length = 64 - rest.len();
    let mut file = File::open(str::from_utf8(&path[..length]).ok()?).ok()?;
    let length = file.read(&mut status).ok()?;
    switches_if_waiting(&status[..length])
}

/// Returns the number of voluntary context switches in the text of a thread's file `status`, if the thread waits.
fn switches_if_waiting(status: &[u8]) -> Option<u64> {
    let field = |name: &str| {
        let mut lines = status.split(|&byte| byte == b'\n');
        str::from_utf8(lines.find_map(|line| line.strip_prefix(name.as_bytes()))?).ok().map(str::trim)
    };
    // The state `S` is a wait for an event. `D` is a wait for a disk, which ends soon.
    if field("State:")?.starts_with('S') { field("voluntary_ctxt_switches:")?.parse().ok() } else { None }
}

/// Prints the note, once per process, unless a report is being printed.
fn note(machine: &Machine<Native>) {
    static IS_PRINTED: AtomicBool = AtomicBool::new(false);
    let Some(goroutine) = machine.current_goroutine() else { return };
    if exception::is_reporting() || !is_error_output_writable() || IS_PRINTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut output = Buffered::new();
    // If standard error fails, there is no other place for the note.
    let _ = writeln!(
        output,
        "note: {} has blocked its thread for 100 ms, and its P with it. During a call that blocks, the P runs other \
         goroutines if the call is in `native::blocking(|| ...)`.",
        Named(goroutine)
    );
    output.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_those_of_a_waiting_thread() {
        let status = |state| {
            std::format!(
                "Name:\tM1\nState:\t{state}\nTgid:\t7\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
            )
        };
        assert_eq!(switches_if_waiting(status("S (sleeping)").as_bytes()), Some(12));
        for state in ["R (running)", "D (disk sleep)", "t (tracing stop)"] {
            assert_eq!(switches_if_waiting(status(state).as_bytes()), None);
        }
        assert_eq!(switches_if_waiting(b""), None);
    }
}
