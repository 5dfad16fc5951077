//! Memory that the host reads: QEMU's device `ivshmem-plain`. The kernel writes its trace there.
//!
//! The memory is the third BAR of the device (docs/specs/ivshmem-spec.txt of QEMU). A write to it has no effect other
//! than that the host can read it.

use core::slice;
use core::sync::atomic::AtomicU64;

use crate::drivers::pci;

const VENDOR: u16 = 0x1af4;
const DEVICE: u16 = 0x1110;
/// The BAR that is the memory.
const MEMORY_BAR: u8 = 2;

/// Returns the memory of the first such device, or `None` if there is no such device or its memory cannot be mapped.
/// Called once, before the scheduler starts.
pub(crate) fn find() -> Option<&'static [AtomicU64]> {
    let mut root = pci::root();
    let (function, _) = pci::functions(&root)
        .into_iter()
        .find(|(_, information)| (information.vendor_id, information.device_id) == (VENDOR, DEVICE))?;
    pci::enable(&mut root, function);
    let memory = pci::map_bar(&mut root, function, MEMORY_BAR).ok()?;
    let words = memory.bytes() / size_of::<AtomicU64>();
    // SAFETY: the memory is mapped for ever and aligned to pages, and has at least `words` words. It is ordinary memory,
    // so every content is valid. The kernel accesses it only through the returned atomics, because this function is
    // called once. The host only reads it.
    Some(unsafe { slice::from_raw_parts(memory.start().cast::<AtomicU64>().as_ptr(), words) })
}
