//! Frames in which the firmware has executed code.
//!
//! UEFI executes its drivers and the boot loader in memory that is usable afterwards. QEMU without KVM keeps its
//! translation of such code until the code is overwritten, and searches for it at each write to the same frame. This
//! makes these writes very slow: on OVMF, the benchmark `yield` took forty times as long. So frames that may contain
//! code of the firmware are marked as stale at boot, and are filled with zeros when they are allocated for the first
//! time.
//!
//! With the PVH protocol, too, QEMU runs SeaBIOS before the kernel. SeaBIOS executes code in only twenty frames that
//! are usable afterwards. But if one of them later belonged to the stack that is reused most often, `fib27_cut12` took
//! up to three times as long.

use core::ops::Range;

use super::address::PAGE_SIZE;

/// What was done with the usable memory before the kernel was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FormerUse {
    /// SeaBIOS has executed its initialisation near the end of the memory below 4 GiB. Nothing else has executed code.
    SeaBios,
    /// The firmware or a boot loader may have executed code everywhere.
    Code,
}

impl FormerUse {
    /// Returns which of the first `frames` frames are stale. For [`SeaBios`](Self::SeaBios), the last of these `frames`
    /// frames must be the last usable one below 4 GiB.
    ///
    /// SeaBIOS moves its initialisation, which has 100 KiB, to memory that it allocates below 4 GiB (`reloc_preinit` in
    /// its `src/post.c`). This memory is just below the area for its tables, which is at the end of the memory and has
    /// 16 MiB, or 256 KiB in older versions. Only up to 256 KiB of that area stay in use.
    pub(super) fn stale(self, frames: usize) -> [Range<usize>; 2] {
        const AREA: usize = (256 << 10) / PAGE_SIZE;
        let from_end = |most: usize, least: usize| frames.saturating_sub(most)..frames.saturating_sub(least);
        match self {
            Self::SeaBios => [from_end(65 * AREA, 63 * AREA), from_end(2 * AREA, 0)],
            Self::Code => [0..frames, 0..0],
        }
    }
}
