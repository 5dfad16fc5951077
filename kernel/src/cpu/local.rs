//! Per-CPU data: statics of which every CPU has its own copy. Each module declares the statics that it needs:
//!
//! ```text
//! cpu_local! {
//!     /// When the timer of this CPU is to fire.
//!     static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);
//! }
//!
//! DEADLINE.here().store(deadline, Relaxed);    // the copy of the calling CPU
//! DEADLINE.of(cpu).map(|it| it.load(Relaxed)); // the copy of another CPU, if that CPU is up
//! ```
//!
//! The linker puts these statics into a section of their own, `.cpu_local`. The section itself is only the template
//! from which each copy is initialised. The GS base of a CPU is the *distance* from the section to the CPU's copy. So
//! the operand `gs:[DEADLINE]` is the CPU's own `DEADLINE`.
//!
//! A word can thus be read or changed by **one instruction**, during which the caller cannot migrate to another CPU.
//! `load_here`, `store_here` and `add_here` are such instructions, and need no guard. [`CpuLocal::here`] takes two
//! steps: it loads the distance and adds it to the address of the static. Its result is meaningful only while the
//! caller cannot migrate. If the caller migrates nevertheless, it accesses the data of another CPU. This is not
//! undefined behaviour, because the type of every per-CPU static is `Sync`.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

use super::id::{CpuId, MAX_CPUS};

/// A static of which each CPU has a copy. Declared by [`cpu_local!`], with a `Name` that no other static has. So each
/// static has a type of its own, for which [`Word`] is implemented with the instructions that name this static.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct CpuLocal<T, Name>(T, PhantomData<Name>);

impl<T: Sync, Name> CpuLocal<T, Name> {
    /// # Safety
    /// The result must be the initial value of a static in the section `.cpu_local`. This value must remain valid if it
    /// is copied byte by byte before its first use.
    pub(crate) const unsafe fn new(initial: T) -> Self {
        Self(initial, PhantomData)
    }

    /// Returns the copy of the calling CPU. Meaningful only while the caller cannot migrate.
    #[inline(always)]
    pub(crate) fn here(&'static self) -> &'static T {
        // SAFETY: before a CPU accesses per-CPU data, `install` sets the CPU's GS base to the distance from the section
        // to the CPU's copy. `fill` has stored the same distance in that copy's `BASE`.
        unsafe { self.at(BASE.load_here()) }
    }

    /// Returns the copy of `cpu`, or `None` if that CPU is not up.
    pub(crate) fn of(&'static self, cpu: CpuId) -> Option<&'static T> {
        // Ordering: Acquire; partner: the Release store to `BASES` in `CpuCopy::install`.
        match BASES[cpu.index()].load(Ordering::Acquire) {
            NOT_UP => None,
            // SAFETY: `install` has stored the distance from the section to the copy of `cpu`.
            base => Some(unsafe { self.at(base) }),
        }
    }

    /// # Safety
    /// `base` must be the distance from the section to a copy.
    #[inline(always)]
    unsafe fn at(&'static self, base: usize) -> &'static T {
        let address = ptr::from_ref(self).addr().wrapping_add(base);
        // SAFETY: `self` is in the section (`CpuLocal::new`), and a copy is as large as the section. So the address is
        // that of a `T` in the copy. Copies are never freed and never borrowed mutably.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }
}

/// A per-CPU static that is an `AtomicU32` or an `AtomicUsize`. Each function is one instruction. An instruction names
/// the static, so [`cpu_local!`] implements this trait for each static by itself.
pub(crate) trait Word {
    /// The value of the word.
    type Value;

    /// Loads this CPU's copy.
    fn load_here(&'static self) -> Self::Value;

    /// Stores `value` into this CPU's copy.
    fn store_here(&'static self, value: Self::Value);

    /// Adds `value` to this CPU's copy. Wraps around.
    fn add_here(&'static self, value: Self::Value);
}

/// Declares per-CPU statics. The type must be `Sync`, because other CPUs may access a CPU's copy.
macro_rules! cpu_local {
    ($($(#[$attribute:meta])* static $name:ident: $type:tt = $initial:expr;)+) => {$(
        $(#[$attribute])*
        #[expect(unsafe_code, reason = "per-CPU data have a section of their own")]
        #[unsafe(link_section = ".cpu_local")]
        static $name: $crate::cpu::local::CpuLocal<$type, $name::Name> =
            // SAFETY: the static is in that section. The value may be copied, because no per-CPU value contains an
            // address inside the section.
            unsafe { $crate::cpu::local::CpuLocal::new($initial) };

        #[expect(non_snake_case, reason = "a module may have the name of a static")]
        mod $name {
            #[derive(Debug)]
            pub(super) enum Name {}
        }

        $crate::cpu::local::cpu_local!(@word $name $type);
    )+};
    (@word $name:ident AtomicU32) => { $crate::cpu::local::cpu_local!(@word $name AtomicU32, u32, "{:e}"); };
    (@word $name:ident AtomicUsize) => { $crate::cpu::local::cpu_local!(@word $name AtomicUsize, usize, "{:r}"); };
    (@word $name:ident $other:tt) => {};
    (@word $name:ident $type:ident, $value:ty, $register:literal) => {
        #[expect(unsafe_code, reason = "reaches per-CPU data through GS")]
        impl $crate::cpu::local::Word for $crate::cpu::local::CpuLocal<$type, $name::Name> {
            type Value = $value;

            #[inline(always)]
            fn load_here(&'static self) -> $value {
                let value;
                // SAFETY: `install` sets the GS base before this CPU accesses per-CPU data, so the operand is the CPU's
                // copy of the static. The register has the size of the static. The option `pure` is not set, because
                // the word must be loaded again after a context switch.
                unsafe {
                    core::arch::asm!(concat!("mov ", $register, ", gs:[{}]"), out(reg) value, sym $name,
                        options(nostack, preserves_flags, readonly));
                }
                value
            }

            #[inline(always)]
            fn store_here(&'static self, value: $value) {
                // SAFETY: as in `load_here`.
                unsafe {
                    core::arch::asm!(concat!("mov gs:[{1}], ", $register), in(reg) value, sym $name,
                        options(nostack, preserves_flags));
                }
            }

            #[inline(always)]
            fn add_here(&'static self, value: $value) {
                // SAFETY: as in `load_here`.
                unsafe {
                    core::arch::asm!(concat!("add gs:[{1}], ", $register), in(reg) value, sym $name, options(nostack));
                }
            }
        }
    };
}
pub(crate) use cpu_local;

unsafe extern "C" {
    /// The first address of the section `.cpu_local`, defined in `link.ld`.
    static __cpu_local_start: u8;
    /// The end of the section `.cpu_local`.
    static __cpu_local_end: u8;
    /// The memory for the boot CPU's copy of the section, defined in `link.ld`.
    static mut __boot_cpu_local: u8;
}

/// The entry in [`BASES`] for a CPU that is not up. The entry of a CPU that is up is never 0, because no CPU uses the
/// section `.cpu_local` itself as its copy.
const NOT_UP: usize = 0;

/// For each CPU that is up, the distance from the section to the CPU's copy.
static BASES: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(NOT_UP) }; MAX_CPUS];

cpu_local! {
    /// The GS base of this CPU: the distance from the section to this CPU's copy.
    static BASE: AtomicUsize = AtomicUsize::new(NOT_UP);
    /// The number of this CPU.
    static ID: AtomicU32 = AtomicU32::new(0);
}

/// Returns the number of the calling CPU. Takes one instruction.
#[inline(always)]
pub(super) fn id() -> CpuId {
    CpuId::from_number(ID.load_here())
}

fn section() -> *const u8 {
    &raw const __cpu_local_start
}

fn section_bytes() -> usize {
    (&raw const __cpu_local_end).addr() - section().addr()
}

/// Two cache lines. Copies are aligned to this size to avoid false sharing, because the adjacent-line prefetcher
/// fetches lines in pairs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
struct Line(MaybeUninit<[u8; 128]>);

/// The per-CPU data of a CPU that is not up yet.
#[derive(Debug)]
pub(crate) struct CpuCopy {
    id: CpuId,
    base: usize,
}

impl CpuCopy {
    /// Allocates and initialises a copy for the CPU `id`. The copy is never freed. Returns `None` if there is no
    /// memory.
    pub(crate) fn allocate(id: CpuId) -> Option<Self> {
        let lines = section_bytes().div_ceil(size_of::<Line>());
        let mut memory = Vec::new();
        memory.try_reserve_exact(lines).ok()?;
        memory.resize(lines, Line(MaybeUninit::uninit()));
        // SAFETY: the memory is new and at least as large as the section. It is leaked, so nothing else uses it, and it
        // is never freed.
        Some(unsafe { Self::fill(id, memory.leak().as_mut_ptr().cast()) })
    }

    /// # Safety
    /// `memory` must be writable memory of the size and alignment of the section, must never be freed, and must not be
    /// used otherwise.
    unsafe fn fill(id: CpuId, memory: *mut u8) -> Self {
        // SAFETY: the caller promises that `memory` has the size of the section and is not used otherwise, so it does
        // not overlap with the section.
        unsafe { ptr::copy_nonoverlapping(section(), memory, section_bytes()) };
        let base = memory.expose_provenance().wrapping_sub(section().addr());
        // SAFETY: `base` is the distance to the copy that was just made.
        unsafe { BASE.at(base) }.store(base, Ordering::Relaxed);
        // SAFETY: `base` is the distance to the copy that was just made.
        unsafe { ID.at(base) }.store(id.number(), Ordering::Relaxed);
        Self { id, base }
    }

    /// Sets the GS base of the calling CPU to this copy, and publishes the copy to the other CPUs. Called once for each
    /// copy, on the CPU that the copy was made for.
    pub(crate) fn install(&self) {
        GsBase::write(VirtAddr::new(self.base as u64));
        // Ordering: Release; partner: the Acquire load of `BASES` in `CpuLocal::of`.
        BASES[self.id.index()].store(self.base, Ordering::Release);
    }
}

/// Installs the copy of the boot CPU. Called before any other code that accesses per-CPU data.
pub(crate) fn init_boot_cpu() {
    let memory = &raw mut __boot_cpu_local;
    // SAFETY: the linker script reserves this memory for the boot CPU's copy, aligned and of the section's size, and
    // nothing else uses it.
    unsafe { CpuCopy::fill(CpuId::BOOT, memory) }.install();
}

/// Calls `body`, which loads segment registers, and then restores the GS base in case `body` has changed it. `body`
/// must not access per-CPU data.
pub(crate) fn keep_base(body: impl FnOnce()) {
    let base = BASE.load_here();
    body();
    GsBase::write(VirtAddr::new(base as u64));
}
