//! Memory that the machine shares with the host: the QEMU device `ivshmem-plain`.
//!
//! The memory is the third BAR of the device (docs/specs/ivshmem-spec.txt of QEMU). An access to it costs no more than
//! an access to other memory. The first words say what the memory is for: a disk begins with a
//! [header](boot_protocol::memory_disk::Header), the memory for [input](boot_protocol::input_memory) with another
//! header, and the memory in which the host [observes](boot_protocol::observed_memory) the scheduler with its purpose.

use alloc::vec::Vec;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use boot_protocol::{input_memory, memory_disk, observed_memory};
use spin::Once;

use crate::drivers::pci::{self, Registers};

const VENDOR: u16 = 0x1af4;
const DEVICE: u16 = 0x1110;
/// The number of the BAR that is the shared memory.
const MEMORY_BAR: u8 = 2;

/// What the memory of a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Disk(memory_disk::Header),
    Input,
    Observed(observed_memory::Purpose),
}

/// A disk in memory.
pub(crate) struct DiskMemory {
    pub(crate) content: &'static mut [u8],
    pub(crate) is_read_only: bool,
}

/// Returns what the memory of a device is for, according to the words at its start. Returns `None` if they are unknown.
fn purpose(memory: Registers) -> Option<Purpose> {
    if memory.bytes() < 3 * size_of::<u64>() {
        return None;
    }
    let word = |index: usize| memory.read::<u64>(index * size_of::<u64>());
    match memory_disk::Header::parse([word(0), word(1), word(2)]) {
        Some(header) => Some(Purpose::Disk(header)),
        None if word(0) == input_memory::MAGIC => Some(Purpose::Input),
        None => observed_memory::Purpose::parse(word(0)).map(Purpose::Observed),
    }
}

/// Maps the memory of all `ivshmem-plain` devices, in the order of their bus addresses. Leaves out a device whose
/// memory cannot be mapped, or has an unknown purpose.
fn memories() -> impl Iterator<Item = (Registers, Purpose)> {
    static DEVICES: Once<Vec<pci::Device>> = Once::new();
    let all = pci::functions().iter().filter(|(_, numbers)| *numbers == (VENDOR, DEVICE));
    let devices = DEVICES.call_once(|| all.map(|&(function, _)| pci::Device::enable(function)).collect());
    devices.iter().filter_map(|device| {
        let memory = device.map(MEMORY_BAR).inspect_err(|error| {
            log::error!("shared memory {}: {error}", device.function());
        });
        memory.ok().and_then(|memory| Some((memory, purpose(memory)?)))
    })
}

/// Returns the first memory for this purpose, or `None` if there is none. Called before the scheduler uses the memory.
pub(crate) fn observed(purpose: observed_memory::Purpose) -> Option<&'static [AtomicU64]> {
    words(Purpose::Observed(purpose))
}

/// Returns the first memory for input, or `None` if there is none.
pub(crate) fn input() -> Option<&'static [AtomicU64]> {
    words(Purpose::Input)
}

/// Returns the words of the first memory for a purpose other than a disk.
fn words(purpose: Purpose) -> Option<&'static [AtomicU64]> {
    let (memory, _) = memories().find(|&(_, other)| other == purpose)?;
    let words = memory.bytes() / size_of::<AtomicU64>();
    // SAFETY: the memory is mapped for ever and aligned to pages, and has at least `words` words. It is ordinary
    // memory, so every content is valid. Except for reading the first words, the kernel accesses it only through
    // atomics.
    Some(unsafe { slice::from_raw_parts(memory.start().cast::<AtomicU64>().as_ptr(), words) })
}

/// Returns the disks in shared memory, in the order of their bus addresses. Called once.
///
/// # Panics
/// If it is called again.
pub(crate) fn disks() -> Vec<DiskMemory> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    assert_eq!(CALLS.fetch_add(1, Ordering::Relaxed), 0, "the content of a disk has one owner");
    let disk = |(memory, purpose): (Registers, Purpose)| {
        let Purpose::Disk(header) = purpose else { return None };
        let content = memory.part(memory_disk::HEADER_BYTES, usize::try_from(header.bytes).ok()?)?;
        // SAFETY: the content is mapped for ever, and is ordinary memory, so every byte is valid. This function is
        // called once, so there is no other reference to the content. The host does not access it.
        let content = unsafe { slice::from_raw_parts_mut(content.start().as_ptr(), content.bytes()) };
        Some(DiskMemory { content, is_read_only: header.is_read_only })
    };
    memories().filter_map(disk).collect()
}
