//! Input from memory that the machine shares with the host. Each entry of the memory says at which instant of the
//! machine's clock the entry is received. With `boot --icount` and `--record-input` or `--input-script`, this memory
//! replaces the serial port for input.
//!
//! After the program's first request for input, a timer of one CPU checks the memory every [`INTERVAL`]. So the
//! instants at which input can come do not depend on the host. [`boot_protocol::input_memory`] explains why a run with
//! recorded input is equal to the run in which the input was recorded.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use boot_protocol::input::{Input, Kind, Received};
use boot_protocol::input_memory::{AT, DATA, DATA_BYTES, DUE, ENTRY_WORDS, KIND, LENGTH};
use gmp_sched::time::Instant;
use spin::Once;
use x86_64::instructions::interrupts::without_interrupts;

use super::input::{self, Unread};
use super::state::locked;
use crate::cpu::local::cpu_local;
use crate::drivers::shared_memory;
use crate::sched::kthread;

/// The time between two checks, in ns.
const INTERVAL: u64 = 10_000_000;
const NEVER: u64 = u64::MAX;

/// The words of the memory. Its first entry is the header.
static MEMORY: Once<&'static [AtomicU64]> = Once::new();
/// The number of entries that were taken. Changed under the console's lock.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

cpu_local! {
    /// When this CPU checks the memory next, in ns. Only one CPU checks it.
    static NEXT_CHECK: AtomicU64 = AtomicU64::new(NEVER);
}

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
            NEXT_CHECK.here().store(next, Ordering::Relaxed);
            kthread::arm(Instant::from_nanos(next));
        });
    }
}

/// Receives the input that is due. Returns the time at which this CPU must call this function again, in ns, or
/// `u64::MAX` if this CPU does not check the memory. Called by the timer's handler of each CPU.
pub(super) fn tick(now: u64) -> u64 {
    let next = NEXT_CHECK.here().load(Ordering::Relaxed);
    if now < next {
        return next;
    }
    let next = now + INTERVAL;
    NEXT_CHECK.here().store(next, Ordering::Relaxed);
    if let Some(memory) = MEMORY.get()
        && locked(|console| receive_due(&mut console.input, memory, now))
    {
        input::notify();
    }
    next
}

/// Takes all due entries for which there is room, and adds their data to the received bytes. Returns whether there was
/// such an entry. The caller holds the console's lock.
fn receive_due(input: &mut Unread, memory: &[AtomicU64], now: u64) -> bool {
    let first = TAKEN.load(Ordering::Relaxed);
    let mut taken = first;
    while input.room() >= DATA_BYTES {
        let start = (taken + 1) * ENTRY_WORDS;
        let Some(entry) = memory.get(start..start + ENTRY_WORDS) else { break };
        // Ordering: Acquire, so that the content that the host wrote before this word is visible.
        if entry[DUE].load(Ordering::Acquire) > now {
            break;
        }
        let length = entry[LENGTH].load(Ordering::Relaxed) as usize;
        let data = entry[DATA..].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        receive(input, Kind::from_word(entry[KIND].load(Ordering::Relaxed)), data.take(length));
        entry[AT].store(now, Ordering::Release);
        taken += 1;
    }
    TAKEN.store(taken, Ordering::Relaxed);
    taken != first
}

/// Adds an entry to the received bytes. The host writes the memory, so an entry of an unknown kind ends the input.
fn receive(input: &mut Unread, kind: Option<Kind>, data: impl Iterator<Item = u8>) {
    match kind {
        Some(Kind::Bytes) => data.for_each(|byte| input.accept(Received::Input(Input::Byte(byte)))),
        Some(Kind::Keys) => {
            for key in data {
                if let Some(received) = input.decoder.press(key) {
                    input.accept(received);
                }
            }
        }
        Some(Kind::End) => input.accept(Received::Input(Input::End)),
        Some(Kind::Failed) | None => input.accept(Received::Input(Input::Failed)),
    }
}
