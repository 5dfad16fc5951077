//! Where the linker put the parts of the image (`link.ld`).

use core::ops::Range;

use super::address::VirtAddr;

/// Virtual minus physical address of the image, as it is linked.
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
    /// Physical address at which the image begins, with the segment of the PVH stub.
    boot_start = __boot_start;
    /// First address of the image.
    image_start = __image_start;
    /// End of the image.
    image_end = __image_end;
    /// First address of the code.
    text_start = __text_start;
    /// End of the code.
    text_end = __text_end;
    /// First address of the constants.
    rodata_start = __rodata_start;
    /// End of the constants.
    rodata_end = __rodata_end;
}

/// The code: where return addresses point.
pub(crate) fn text() -> Range<u64> {
    text_start()..text_end()
}

/// The access that a page of the image allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Code: read and execute.
    Execute,
    /// Constants: read.
    Read,
    /// Data: read and write.
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
