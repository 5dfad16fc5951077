//! The clock: the time stamp counter, whose rate is measured once with the programmable interval timer (PIT).

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use x86_64::instructions::port::Port;

/// Ticks of the PIT in a second.
pub const PIT_HZ: u64 = 1_193_182;
/// Duration of the measurement in ticks of the PIT (10 ms).
const MEASURE: u16 = 11_932;

static START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick of the time stamp counter, in units of 2^-32.
static RATE: AtomicU64 = AtomicU64::new(0);

fn counter() -> u64 {
    // SAFETY: reading the counter is always allowed in ring 0.
    unsafe { _rdtsc() }
}

/// Measures the rate of the time stamp counter. Called once, at the start.
pub fn init() {
    let mut gate = Port::<u8>::new(0x61);
    // SAFETY: only this function uses channel 2 of the PIT and its gate.
    unsafe {
        // Turns the gate on and the speaker off, selects mode 0, and writes the count. Bit 5 of the gate's port is set
        // when the count is over.
        let value = gate.read() & !3 | 1;
        gate.write(value);
        Port::<u8>::new(0x43).write(0b1011_0000);
        let [low, high] = MEASURE.to_le_bytes();
        Port::<u8>::new(0x42).write(low);
        Port::<u8>::new(0x42).write(high);
    }
    let start = counter();
    // SAFETY: only this function uses the gate.
    while unsafe { gate.read() } & 0x20 == 0 {}
    let ticks = counter() - start;
    let ns = u128::from(MEASURE) * 1_000_000_000 / u128::from(PIT_HZ);
    RATE.store(u64::try_from((ns << 32) / u128::from(ticks)).expect("a counter of at least 1 Hz"), Relaxed);
    START.store(start, Relaxed);
}

/// Returns the nanoseconds since [`init`]. Monotonic; callable from interrupt handlers.
pub fn nanoseconds() -> u64 {
    let ticks = counter() - START.load(Relaxed);
    ((u128::from(ticks) * u128::from(RATE.load(Relaxed))) >> 32) as u64
}
