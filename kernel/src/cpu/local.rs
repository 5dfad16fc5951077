//! Per-CPU data: statics of which every CPU has its own copy. Each module declares the ones it needs:
//!
//! ```text
//! cpu_local! {
//!     /// When the timer of this CPU is to fire.
//!     static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);
//! }
//!
//! DEADLINE.here().store(deadline, Relaxed);    // the copy of the CPU that runs this
//! DEADLINE.of(cpu).map(|it| it.load(Relaxed)); // that of another CPU, if it is up
//! ```
//!
//! The linker puts these statics into a section of their own, `.cpu_local`. It is only the template from which each copy is
//! initialised. The GS base of a CPU is the *distance* from the section to the CPU's copy, so `gs:[DEADLINE]` is the CPU's own
//! `DEADLINE`, and a word can be read or changed in **one instruction**, during which the caller cannot migrate to another CPU.
//! [`load!`], [`store!`] and [`change!`] are these instructions; they need no guard. [`CpuLocal::here`] is a load of the
//! distance and an addition; its result is meaningful only while the caller cannot migrate. All values are atomics or have
//! locks, so the use of a stale reference gets the data of another CPU, but is never undefined behaviour.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

use super::id::{CpuId, MAX_CPUS};

/// A value of which each CPU has a copy. Made by [`cpu_local!`].
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct CpuLocal<T>(T);

impl<T: Sync> CpuLocal<T> {
    /// # Safety
    /// The result is the value of a static in the section `.cpu_local`, and can be copied byte by byte before its first use.
    pub(crate) const unsafe fn new(initial: T) -> Self {
        Self(initial)
    }

    /// The copy of the calling CPU. Meaningful only while the caller cannot migrate.
    #[inline(always)]
    pub(crate) fn here(&'static self) -> &'static T {
        // SAFETY: the base of a CPU that runs Rust is that of its copy.
        unsafe { self.at(base()) }
    }

    /// The copy of a CPU, `None` if the CPU is not up.
    pub(crate) fn of(&'static self, cpu: CpuId) -> Option<&'static T> {
        // Ordering: Acquire; partner: the Release in `install`.
        match BASES[cpu.index()].load(Ordering::Acquire) {
            NOT_UP => None,
            // SAFETY: `install` has stored it.
            base => Some(unsafe { self.at(base) }),
        }
    }

    /// # Safety
    /// `base` is the distance from the section to a copy.
    #[inline(always)]
    unsafe fn at(&'static self, base: usize) -> &'static T {
        let address = ptr::from_ref(self).addr().wrapping_add(base);
        // SAFETY: copies are as large as the section, are never freed, and are never borrowed mutably.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }
}

/// Declares per-CPU statics. Other CPUs may access a copy, so the type must be `Sync`.
macro_rules! cpu_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $initial:expr;)+) => {
        $(
            $(#[$attribute])*
            #[expect(unsafe_code, reason = "per-CPU data have a section of their own")]
            #[unsafe(link_section = ".cpu_local")]
            $visibility static $name: $crate::cpu::local::CpuLocal<$type> =
                // SAFETY: in that section; no value contains the address of another one.
                unsafe { $crate::cpu::local::CpuLocal::new($initial) };
        )+
    };
}
pub(crate) use cpu_local;

/// Loads a word of this CPU, of the named size. One instruction.
macro_rules! load {
    ($word:ident as u32) => { $crate::cpu::local::load!($word, u32, "mov {:e}, gs:[{word}]") };
    ($word:ident as usize) => { $crate::cpu::local::load!($word, usize, "mov {}, gs:[{word}]") };
    ($word:ident, $type:ty, $instruction:literal) => {{
        let value: $type;
        // SAFETY: every CPU runs Rust only after `install`. Not `pure`, so that the word is loaded again after a context
        // switch.
        unsafe {
            core::arch::asm!($instruction, out(reg) value, word = sym $word, options(nostack, preserves_flags, readonly));
        }
        value
    }};
}
pub(crate) use load;

/// Stores a `usize` or a pointer into a word of this CPU. One instruction.
macro_rules! store {
    ($word:ident, $value:expr) => {{
        let value = $value;
        // SAFETY: as in `load!`; all accesses are to the whole word.
        unsafe {
            core::arch::asm!("mov gs:[{word}], {}", in(reg) value, word = sym $word, options(nostack, preserves_flags));
        }
    }};
}
pub(crate) use store;

/// Changes a 32-bit word of this CPU by one instruction, which has a constant operand if one is given.
macro_rules! change {
    ($instruction:literal, $word:ident $(, $operand:expr)?) => {
        // SAFETY: as in `load!`. Not `nomem`, so that the compiler moves no memory access across it.
        unsafe {
            core::arch::asm!(
                concat!($instruction, " dword ptr gs:[{word}]" $(, ", {operand}", $crate::cpu::local::nothing!($operand))?),
                word = sym $word,
                $(operand = const $operand,)?
                options(nostack)
            );
        }
    };
}
pub(crate) use change;

/// The empty string: it expands once for each operand.
macro_rules! nothing {
    ($operand:expr) => {
        ""
    };
}
pub(crate) use nothing;

unsafe extern "C" {
    /// The section; see `link.ld`.
    static __cpu_local_start: u8;
    static __cpu_local_end: u8;
    /// The copy of the boot CPU.
    static mut __boot_cpu_local: u8;
}

/// In [`BASES`]: the CPU is not up. No distance is zero, since no copy is the section itself.
const NOT_UP: usize = 0;

/// The distance from the section to each CPU's copy.
static BASES: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(NOT_UP) }; MAX_CPUS];

cpu_local! {
    /// The value of GS base.
    static BASE: AtomicUsize = AtomicUsize::new(NOT_UP);
    /// The number of this CPU.
    static ID: AtomicU32 = AtomicU32::new(0);
}

/// The number of the CPU that runs this. One instruction.
#[inline(always)]
pub(super) fn id() -> CpuId {
    CpuId::from_number(load!(ID as u32))
}

#[inline(always)]
fn base() -> usize {
    load!(BASE as usize)
}

fn section() -> *const u8 {
    &raw const __cpu_local_start
}

fn section_bytes() -> usize {
    (&raw const __cpu_local_end).addr() - section().addr()
}

/// Two cache lines, since the adjacent-line prefetcher pairs them.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
struct Line(MaybeUninit<[u8; 128]>);

/// The copy for a CPU that is not up yet.
#[derive(Debug)]
pub(crate) struct CpuCopy {
    id: CpuId,
    base: usize,
}

impl CpuCopy {
    /// Allocates a copy, which is never freed. `None` if there is no memory.
    pub(crate) fn allocate(id: CpuId) -> Option<Self> {
        let lines = section_bytes().div_ceil(size_of::<Line>());
        let mut memory = Vec::new();
        memory.try_reserve_exact(lines).ok()?;
        memory.resize(lines, Line(MaybeUninit::uninit()));
        // SAFETY: new memory of at least that size, which is leaked.
        Some(unsafe { Self::fill(id, memory.leak().as_mut_ptr().cast()) })
    }

    /// # Safety
    /// `memory` is valid for a copy, is never freed, and is not used otherwise.
    unsafe fn fill(id: CpuId, memory: *mut u8) -> Self {
        // SAFETY: the caller's promise; the section does not overlap with it.
        unsafe { ptr::copy_nonoverlapping(section(), memory, section_bytes()) };
        let base = memory.expose_provenance().wrapping_sub(section().addr());
        // SAFETY: this is a copy.
        unsafe { BASE.at(base) }.store(base, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { ID.at(base) }.store(id.number(), Ordering::Relaxed);
        Self { id, base }
    }

    /// Makes this the copy of the calling CPU, and publishes it to the other CPUs. Called once, on the CPU that the copy is
    /// for.
    pub(crate) fn install(&self) {
        GsBase::write(VirtAddr::new(self.base as u64));
        // Ordering: Release; partner: the Acquire in `CpuLocal::of`.
        BASES[self.id.index()].store(self.base, Ordering::Release);
    }
}

/// Installs the copy of the boot CPU. This runs before all other Rust code.
pub(crate) fn init_boot_cpu() {
    let memory = &raw mut __boot_cpu_local;
    // SAFETY: the linker script reserves this memory for it, and nothing else runs yet.
    unsafe { CpuCopy::fill(CpuId::BOOT, memory) }.install();
}

/// Calls `body`, which loads segment registers and may change the GS base, and then restores the base.
pub(crate) fn keep_base(body: impl FnOnce()) {
    let base = base();
    body();
    GsBase::write(VirtAddr::new(base as u64));
}
