//! The addresses of the parts of the kernel's image. The linker script (`link.ld`) defines them.

use core::ops::Range;

use super::address::VirtAddr;

/// The difference between the virtual and the physical address of the image, as `link.ld` defines them.
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;

/// Defines functions that return the addresses of linker symbols.
macro_rules! symbols {
    ($($(#[$attribute:meta])* $function:ident = $symbol:ident;)*) => {
        unsafe extern "C" {
            $(static $symbol: u8;)*
        }
        $(
            $(#[$attribute])*
            pub(crate) fn $function() -> u64 {
                (&raw const $symbol).addr() as u64
            }
        )*
    };
}

symbols! {
    /// The physical address at which the image begins. The first part of the image is the segment of the PVH stub.
    boot_start = __boot_start;
    /// The first virtual address of the image, after the segment of the PVH stub.
    image_start = __image_start;
    /// The end of the image, as a virtual address.
    image_end = __image_end;
    /// The first address of the code.
    text_start = __text_start;
    /// The end of the code.
    text_end = __text_end;
    /// The first address of the constants.
    rodata_start = __rodata_start;
    /// The end of the constants.
    rodata_end = __rodata_end;
}

/// Returns the addresses of the code. Every return address is in this range.
pub(crate) fn text() -> Range<u64> {
    text_start()..text_end()
}

/// Returns up to `bytes` bytes of the code before `address`, and as many from `address` on. The result is shorter at
/// the ends of the code, and empty if `address` is not in the code.
pub(crate) fn code_around(address: u64, bytes: usize) -> (&'static [u8], &'static [u8]) {
    if !text().contains(&address) {
        return (&[], &[]);
    }
    // SAFETY: the linker script puts the code between these two addresses. It is mapped and never changes.
    let code = unsafe {
        core::slice::from_raw_parts(
            core::ptr::with_exposed_provenance::<u8>(text_start() as usize),
            (text_end() - text_start()) as usize,
        )
    };
    let (before, from) = code.split_at((address - text_start()) as usize);
    (&before[before.len().saturating_sub(bytes)..], &from[..from.len().min(bytes)])
}

/// The access that a page of the image allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The page contains code: it can be read and executed.
    Execute,
    /// The page contains constants: it can be read.
    Read,
    /// The page contains data: it can be read and written.
    Write,
}

/// Returns the access that is allowed to the page at `address`, which is in the kernel's image.
pub(crate) fn access(address: VirtAddr) -> Access {
    let address = address.as_u64();
    if text().contains(&address) {
        Access::Execute
    } else if (rodata_start()..rodata_end()).contains(&address) {
        Access::Read
    } else {
        Access::Write
    }
}
