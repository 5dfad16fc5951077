//! Input from memory that the machine shares with the host. Each entry of the memory says at which instant of the
//! machine's clock the entry is received. With `boot --icount` and `--record-input` or `--input-script`, this memory
//! replaces the serial port for input.
//!
//! After the program's first request for input, a timer of one CPU checks the memory every [`INTERVAL`]. So the
//! instants at which input can come do not depend on the host. [`boot_protocol::input_memory`] explains why a run with
//! recorded input is equal to the run in which the input was recorded.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use boot_protocol::input::{Decoder, Input, Kind, Received};
use boot_protocol::input_memory::{AT, DATA, DATA_BYTES, DUE, ENTRY_WORDS, KIND, LENGTH};
use gmp_sched::time::Instant;
use spin::Once;
use x86_64::instructions::interrupts::without_interrupts;

use super::received;
use super::state::{Console, locked};
use crate::cpu::percpu;
use crate::drivers::shared_memory;
use crate::sched::kthread;

/// The time between two checks, in ns.
const INTERVAL: u64 = 10_000_000;
const NEVER: u64 = u64::MAX;
const NO_CPU: usize = usize::MAX;

/// The words of the memory. Its first entry is the header.
static MEMORY: Once<&'static [AtomicU64]> = Once::new();
/// The CPU whose timer checks the memory.
static CHECKER: AtomicUsize = AtomicUsize::new(NO_CPU);
/// When the memory is checked next. Only the CPU [`CHECKER`] changes it.
static NEXT_CHECK: AtomicU64 = AtomicU64::new(NEVER);
/// The number of entries that were taken. Changed under the console's lock.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Finds the memory for input that is shared with the host, if the machine has such memory.
pub(super) fn init() {
    if let Some(memory) = shared_memory::input() {
        MEMORY.call_once(|| memory);
    }
}

/// Starts the periodic checks of the memory, if the machine has such memory. Called once, when the program asks for
/// input. Callable from everywhere except handlers of non-maskable interrupts.
pub(super) fn start() {
    if MEMORY.get().is_some() {
        without_interrupts(|| {
            let next = kthread::now().as_nanos() + INTERVAL;
            NEXT_CHECK.store(next, Ordering::Relaxed);
            CHECKER.store(percpu::current().index(), Ordering::Relaxed);
            kthread::arm(Instant::from_nanos(next));
        });
    }
}

/// Receives the input that is due. Returns the time at which this CPU must call this function again, in ns, or
/// `u64::MAX` if this CPU does not check the memory. Called by the timer's handler of each CPU.
pub(super) fn tick(now: u64) -> u64 {
    if CHECKER.load(Ordering::Relaxed) != percpu::current().index() {
        return NEVER;
    }
    let next = NEXT_CHECK.load(Ordering::Relaxed);
    if now < next {
        return next;
    }
    let next = now + INTERVAL;
    NEXT_CHECK.store(next, Ordering::Relaxed);
    if let Some(memory) = MEMORY.get()
        && locked(|console| receive_due(console, memory, now))
    {
        received::notify();
    }
    next
}

/// Takes all due entries for which there is room, and adds their data to the received bytes. Returns whether there was
/// such an entry. The caller holds the console's lock.
fn receive_due(console: &mut Console, memory: &[AtomicU64], now: u64) -> bool {
    let first = TAKEN.load(Ordering::Relaxed);
    let mut taken = first;
    while received::room() >= DATA_BYTES {
        let start = (taken + 1) * ENTRY_WORDS;
        let Some(entry) = memory.get(start..start + ENTRY_WORDS) else { break };
        // Ordering: Acquire, so that the content that the host wrote before this word is visible.
        if entry[DUE].load(Ordering::Acquire) > now {
            break;
        }
        let length = entry[LENGTH].load(Ordering::Relaxed) as usize;
        let data = entry[DATA..].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        receive(&mut console.port.input, Kind::from_word(entry[KIND].load(Ordering::Relaxed)), data.take(length));
        entry[AT].store(now, Ordering::Release);
        taken += 1;
    }
    TAKEN.store(taken, Ordering::Relaxed);
    taken != first
}

/// Adds an entry to the received bytes. The host writes the memory, so an entry of an unknown kind ends the input.
fn receive(decoder: &mut Decoder, kind: Option<Kind>, data: impl Iterator<Item = u8>) {
    match kind {
        Some(Kind::Bytes) => data.for_each(|byte| received::accept(Received::Input(Input::Byte(byte)))),
        Some(Kind::Keys) => data.filter_map(|key| decoder.press(key)).for_each(received::accept),
        Some(Kind::End) => received::accept(Received::Input(Input::End)),
        Some(Kind::Failed) | None => received::accept(Received::Input(Input::Failed)),
    }
}
