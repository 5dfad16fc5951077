//! Random numbers. They come from the first of these sources that exists:
//!
//! - The kernel option `seed`. It determines all numbers, so the n-th call of [`random`] returns the same number in
//!   every run. `boot --icount` sets this option, so that all runs are equal.
//! - The virtio entropy device, which has the random numbers of the host. A G that waits for the device parks. If the
//!   device does not answer a request within two seconds or breaks the protocol, it is reset and not used any more. If
//!   a limit ends the wait earlier, the request stays in flight, and its answer goes to the next G.
//! - The instruction RDRAND.
//! - The clock. These numbers can be guessed, so they are no secrets.

mod numbers;

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::device_signals::Signal;
use gmp_sched::sync::LimitedMutex as _;
use spin::Once;
use x86_64::instructions::random::RdRand;

use crate::arch::x86_64::timer;
use crate::cpu::contexts;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::drivers::virtio::entropy::{self, EntropyDevice};
use crate::sched::kthread;
use crate::sched::platform::{Kernel, Limit, Mutex};

pub use self::numbers::{fill_random, random, random_until};

/// How long the device may take to answer a request.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the boot waits for an answer of the device, in ns.
const BOOT_PATIENCE: u64 = 20_000_000;
/// How many times the processor is asked for a number, because it may have none ready. Intel recommends ten.
const ATTEMPTS: usize = 10;

/// The generator, if the option `seed` is given.
static SEEDED: Once<Generator> = Once::new();
/// The generator that is used, together with the clock, if the processor has no RDRAND or RDRAND returns no number.
static UNSEEDED: Generator = Generator::new(0);
static DEVICE: Once<EntropyDevice> = Once::new();
/// Whether the device is used. Cleared when the device has not answered in time or breaks the protocol.
static IS_IN_USE: AtomicBool = AtomicBool::new(false);
/// Held by the G that uses the device.
static READER: Mutex<()> = Mutex::new(());
/// Raised by the interrupt of the device.
static ANSWERED: Signal<Kernel> = Signal::new();

/// Like [`fill_random`], but waits no longer than `limit`.
///
/// # Errors
///
/// If the limit ends the wait. The beginning of `bytes` may have been filled.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn fill_random_until<'l>(bytes: &mut [u8], limit: impl Into<Limit<'l>>) -> Result<(), ContextError> {
    contexts::assert_may_block();
    match SEEDED.get() {
        Some(generator) => fill_with(bytes, || generator.next()),
        None if fill_from_device(bytes, &limit.into())? => {}
        None => fill_with(bytes, processor),
    }
    Ok(())
}

/// Chooses the source. `seed` is the kernel option of this name. If there is a device, sets it up and requests the
/// bytes for the function [`seed`]. Called once, after all CPUs have started.
pub(crate) fn init(seed: Option<u64>) {
    if let Some(seed) = seed {
        SEEDED.call_once(|| Generator::new(seed));
        return;
    }
    match entropy::open(CpuId::BOOT, |_| announce()) {
        Ok(device) => {
            DEVICE.call_once(|| device).request(size_of::<u64>(), kthread::now());
            IS_IN_USE.store(true, Ordering::Relaxed);
            log::info!("random numbers come from the virtio entropy device");
        }
        Err(SetupError::Missing) => {}
        Err(error) => log::warn!("virtio entropy device: {error}; random numbers come from the processor"),
    }
}

/// Returns a seed for the scheduler, for the case that the option `seed` is not given. Waits for the device for 20 ms
/// at most. Called at most once, before the scheduler starts.
pub(crate) fn seed() -> u64 {
    let mut bytes = processor().to_le_bytes();
    if let Some(device) = entropy_device() {
        let start = timer::now();
        while !device.has_answered() && timer::now().saturating_sub(start) < BOOT_PATIENCE {
            spin_loop();
        }
        // If the device has not answered yet, its answer goes to the first G that wants random bytes.
        device.take(&mut bytes);
    }
    u64::from_le_bytes(bytes)
}

fn entropy_device() -> Option<&'static EntropyDevice> {
    DEVICE.get().filter(|_| IS_IN_USE.load(Ordering::Relaxed))
}

/// The interrupt handler of the device. Wakes the G that waits for an answer.
fn announce() {
    ANSWERED.raise();
}

/// Fills `bytes` with bytes of the device. Returns `false` if no device is in use.
///
/// # Errors
/// If the limit ends the wait.
fn fill_from_device(bytes: &mut [u8], limit: &Limit<'_>) -> Result<bool, ContextError> {
    if entropy_device().is_none() {
        return Ok(false);
    }
    let _reader = READER.lock_until(*limit)?;
    // Another G may have stopped the device while this one waited for the lock.
    let Some(device) = entropy_device() else { return Ok(false) };
    let mut filled = 0;
    while filled < bytes.len() {
        let late = device.request(bytes.len() - filled, kthread::now()) + PATIENCE;
        // An earlier answer may have raised the signal, so the wait may end before this answer has arrived.
        while !device.has_answered() && ANSWERED.wait_until(limit.and(late)) {}
        let has_answered = device.has_answered();
        if let Some(count) = device.take(&mut bytes[filled..]) {
            filled += count;
            continue;
        }
        // Another CPU may have ended the wait, and its clock may be slightly ahead of this CPU's. So the deadline may
        // still be in the future for this CPU.
        let end_by_limit = || limit.err().or((limit.deadline() < late).then_some(ContextError::DeadlineExceeded));
        let ended = if has_answered { None } else { end_by_limit() };
        // If the device is late, it is stopped even if the limit has ended this wait. Otherwise, if all waits had short
        // limits, the device would never be stopped, and all waits would fail.
        if ended.is_none() || kthread::now() >= late {
            stop(device);
        }
        return ended.map_or(Ok(false), Err);
    }
    Ok(true)
}

/// Stops using the device.
fn stop(device: &EntropyDevice) {
    log::warn!("the virtio entropy device does not answer as it should; random numbers come from the processor");
    IS_IN_USE.store(false, Ordering::Relaxed);
    device.reset();
}

/// Fills `bytes` with the numbers that `next` returns.
fn fill_with(bytes: &mut [u8], next: impl Fn() -> u64) {
    for part in bytes.chunks_mut(size_of::<u64>()) {
        part.copy_from_slice(&next().to_le_bytes()[..part.len()]);
    }
}

/// Returns a random number of the processor. If the processor has no random numbers, uses the clock.
fn processor() -> u64 {
    let has_one = |source: RdRand| (0..ATTEMPTS).find_map(|_| source.get_u64());
    RdRand::new().and_then(has_one).unwrap_or_else(|| mixed(UNSEEDED.next() ^ timer::now()))
}

/// The generator SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators).
struct Generator(AtomicU64);

impl Generator {
    const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }
}

/// The function that mixes the bits in SplitMix64.
fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}
