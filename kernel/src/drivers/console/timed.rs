//! Input from memory that the machine shares with the host. Each entry of the memory says at which instant of the
//! machine's clock the entry is received. With `boot --icount` and `--record-input` or `--input-script`, this memory
//! replaces the serial port for input, and the network device.
//!
//! After the program's first request for input, or its first use of the network, a timer of one CPU checks the memory
//! every [`INTERVAL_NS`]. So the instants at which input can come do not depend on the host.
//! [`boot_protocol::input_memory`] explains why a run with recorded input is equal to the run in which the input was
//! recorded. Frames stay in the memory until the network takes them.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use boot_protocol::input::{Input, Kind, Received};
use boot_protocol::input_memory::{AT, DATA, DATA_BYTES, DUE, ENTRY_WORDS, INTERVAL_NS, KIND, LENGTH, NEVER, SENT};
use gmp_sched::time::Instant;
use spin::Once;
use x86_64::instructions::interrupts::without_interrupts;

use super::input::{self, Unread};
use super::state::locked;
use crate::cpu::local::cpu_local;
use crate::drivers::{debug_exit, net, shared_memory};
use crate::sched::kthread;

/// The memory, without its header.
struct Memory {
    /// The entries that are received.
    received: &'static [AtomicU64],
    /// The entries for frames that the machine sends. Empty if it has no network.
    sent: &'static [AtomicU64],
}

static MEMORY: Once<Memory> = Once::new();
/// The number of entries that were taken. Changed under the console's lock.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static IS_STARTED: AtomicBool = AtomicBool::new(false);

cpu_local! {
    /// When this CPU checks the memory next, in ns. Only one CPU checks it.
    static NEXT_CHECK: AtomicU64 = AtomicU64::new(u64::MAX);
}

/// Finds the memory for input that is shared with the host, if the machine has such memory.
pub(super) fn init() {
    if let Some((header, entries)) = shared_memory::input().and_then(|memory| memory.split_at_checked(ENTRY_WORDS)) {
        let received = (header[SENT].load(Ordering::Relaxed) as usize).checked_sub(1);
        let received = received.map_or(entries.len(), |received| received.saturating_mul(ENTRY_WORDS));
        let (received, sent) = entries.split_at(received.min(entries.len()));
        MEMORY.call_once(|| Memory { received, sent });
    }
}

/// Whether the frames of the network are in the memory.
pub(crate) fn has_network() -> bool {
    MEMORY.get().is_some_and(|memory| !memory.sent.is_empty())
}

/// Starts the periodic checks of the memory, if the machine has such memory. Called when the program asks for input or
/// uses the network. Callable from everywhere except handlers of non-maskable interrupts.
pub(crate) fn start() {
    if MEMORY.get().is_some() && !IS_STARTED.swap(true, Ordering::Relaxed) {
        without_interrupts(|| {
            let next = kthread::now().as_nanos() + INTERVAL_NS;
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
    let next = now + INTERVAL_NS;
    NEXT_CHECK.here().store(next, Ordering::Relaxed);
    if let Some(memory) = MEMORY.get() {
        if locked(|console| receive_due(&mut console.input, memory.received, now)) {
            input::notify();
            net::announce();
        }
        if !memory.sent.is_empty() {
            debug_exit::wait_for_host();
        }
    }
    next
}

/// Takes all due entries for which there is room, and adds their data to the received bytes. Returns whether there was
/// such an entry. The caller holds the console's lock.
fn receive_due(input: &mut Unread, memory: &[AtomicU64], now: u64) -> bool {
    let first = TAKEN.load(Ordering::Relaxed);
    let mut taken = first;
    while input.room() >= DATA_BYTES {
        let Some(entry) = entry(memory, taken) else { break };
        // Ordering: Acquire, so that the content that the host wrote before this word is visible.
        let due = entry[DUE].load(Ordering::Acquire);
        if due == NEVER || due > now {
            break;
        }
        receive(input, kind(entry), bytes(entry));
        // Ordering: Relaxed, because the host reads this word when the machine has ended.
        entry[AT].store(now, Ordering::Relaxed);
        taken += 1;
    }
    // Ordering: Release; partner: `next_frame`, which reads the content of the entries.
    TAKEN.store(taken, Ordering::Release);
    taken != first
}

fn entry(memory: &[AtomicU64], index: usize) -> Option<&[AtomicU64]> {
    memory.chunks_exact(ENTRY_WORDS).nth(index)
}

fn kind(entry: &[AtomicU64]) -> Option<Kind> {
    Kind::from_word(entry[KIND].load(Ordering::Relaxed))
}

fn bytes(entry: &[AtomicU64]) -> impl Iterator<Item = u8> {
    let length = entry[LENGTH].load(Ordering::Relaxed) as usize;
    entry[DATA..].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).take(length)
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
        Some(Kind::Frame) => {}
        Some(Kind::End) => input.accept(Received::Input(Input::End)),
        Some(Kind::Failed) | None => input.accept(Received::Input(Input::Failed)),
    }
}

/// Copies the next frame that has arrived to the beginning of `frame`, and returns its length. A longer frame is cut.
/// `next` is the number of the first entry that the caller has not seen.
pub(crate) fn next_frame(next: &mut usize, frame: &mut [u8]) -> Option<usize> {
    // Ordering: Acquire; partner: `receive_due`.
    let taken = TAKEN.load(Ordering::Acquire);
    while *next < taken {
        let entry = entry(MEMORY.get()?.received, *next)?;
        *next += 1;
        if kind(entry) == Some(Kind::Frame) {
            return Some(frame.iter_mut().zip(bytes(entry)).map(|(to, byte)| *to = byte).count());
        }
    }
    None
}

/// Sends a frame. `number` is the number of frames that were sent before. Drops the frame if there is no room for it.
pub(crate) fn send_frame(number: usize, frame: &[u8]) {
    let Some(entry) = MEMORY.get().and_then(|memory| entry(memory.sent, number)) else { return };
    let frame = &frame[..frame.len().min(DATA_BYTES)];
    for (word, part) in entry[DATA..].iter().zip(frame.chunks(size_of::<u64>())) {
        let mut bytes = [0; size_of::<u64>()];
        bytes[..part.len()].copy_from_slice(part);
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
    // Ordering: Release, so that the host sees the content before the length.
    entry[LENGTH].store(frame.len() as u64, Ordering::Release);
}
