//! What runs on a CPU, and the preempt word: whether the CPU may switch to something else.
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | *interrupts off* | the CPU's interrupt flag is clear: no handler runs on it but that of a non-maskable interrupt, so nothing preempts either |
//! | *pin* | turns preemption off until the matching unpin; pins nest |
//! | *preempt count* | the pins that are in force on a CPU; also called its preemption-disable depth |
//! | *pinned* | code with a preempt count above zero: it stays on its CPU, and a G on its M. The scheduler's proof is [`Pinned`](gmp_sched::platform::Pinned), a program's guard [`PreemptGuard`] |
//! | *preemption off* | the code is pinned or holds an [`InterruptMutex`](crate::sync::InterruptMutex): the CPU does not switch to another thread or G. Interrupts still come, unless they are off as well |
//! | *pending* | a switch was asked for while preemption was off; it happens when preemption is on again |
//!
//! An `InterruptMutex` turns both off. A handler runs with interrupts off, and its CPU does not switch before it returns.
//!
//! # The preempt word
//!
//! One `u32` for each CPU, which encodes the context (`contexts`) of what the CPU runs:
//!
//! | bits | what |
//! |---|---|
//! | 0 to 15 | pins: how often preemption was turned off |
//! | 16 to 23 | [`InterruptMutex`](crate::sync::InterruptMutex)es held |
//! | 24 to 28 | handlers of interrupts and exceptions, one in the other |
//! | 29 and 30 | handlers of non-maskable interrupts among them |
//! | 31 | set while *nothing* is pending |
//!
//! So the word is zero if preemption is on and a switch is pending, and `preempt_enable` is a decrement and a jump if the
//! result is zero. A check whether the context allows something is one test of the word against a constant. (Linux:
//! `preempt_count` with `PREEMPT_NEED_RESCHED`, arch/x86/include/asm/preempt.h.) Every CPU starts with one pin, that of its
//! idle loop.

use core::arch::asm;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::local::{self, change, cpu_local, load, store};

pub use super::id::{CpuId, MAX_CPUS};

/// The preempt word's top bit: set while nothing is pending.
const NOTHING_PENDING: u32 = 1 << 31;
/// The counts in the preempt word: the value of one unit, and the bits of the count.
pub(crate) const PINS: u32 = 0xffff;
pub(crate) const LOCK: u32 = 1 << 16;
pub(crate) const LOCKS: u32 = 0xff * LOCK;
const TRAP: u32 = 1 << 24;
pub(crate) const TRAPS: u32 = 0x1f * TRAP;
const NMI: u32 = 1 << 29;
pub(crate) const NMIS: u32 = 0b11 * NMI;

cpu_local! {
    /// The preempt word.
    static PREEMPT: AtomicU32 = AtomicU32::new(NOTHING_PENDING | 1);
    /// The address of the M that runs on this CPU, 0 if none does.
    static CURRENT_MACHINE: AtomicUsize = AtomicUsize::new(0);
    /// Where the outermost [`InterruptMutex`](crate::sync::InterruptMutex) held was taken, null if interrupts were off
    /// before or none is held.
    static INTERRUPTS_OFF_AT: AtomicPtr<Location<'static>> = AtomicPtr::new(ptr::null_mut());
    /// Where the preempt count was last raised from zero. Recorded in debug builds only: in others, raising it is one
    /// instruction.
    static PREEMPT_OFF_AT: AtomicPtr<Location<'static>> = AtomicPtr::new(ptr::null_mut());
}

/// Where a lock has turned interrupts off on this CPU, if one has.
pub(crate) fn interrupts_off_at() -> Option<&'static Location<'static>> {
    // SAFETY: only references to locations, which are constants, or null are stored.
    unsafe { INTERRUPTS_OFF_AT.here().load(Ordering::Relaxed).as_ref() }
}

/// Where preemption was last turned off on this CPU, if that is known.
pub(crate) fn preempt_off_at() -> Option<&'static Location<'static>> {
    // SAFETY: only references to locations, which are constants, or null are stored.
    unsafe { PREEMPT_OFF_AT.here().load(Ordering::Relaxed).as_ref() }
}

/// Whether a CPU is in a handler of an interrupt or exception.
pub(crate) fn is_in_trap(cpu: CpuId) -> bool {
    PREEMPT.of(cpu).is_some_and(|word| word.load(Ordering::Relaxed) & TRAPS != 0)
}

/// The CPU that runs this. One instruction. Unless preemption is off, the caller may be on another CPU when this returns.
#[inline(always)]
pub fn current() -> CpuId {
    local::id()
}

/// The address of the M that runs on this CPU, 0 if none does. One instruction.
#[inline(always)]
pub(crate) fn current_machine() -> usize {
    load!(CURRENT_MACHINE as usize)
}

/// Sets the word that [`current_machine`] reads. One instruction.
#[inline(always)]
pub(crate) fn set_current_machine(machine: usize) {
    store!(CURRENT_MACHINE, machine);
}

/// Records where a lock has turned interrupts off on this CPU, and with `None` that they come back on. One instruction.
#[inline(always)]
pub(super) fn set_interrupts_off_at(location: Option<&'static Location<'static>>) {
    store!(INTERRUPTS_OFF_AT, location.map_or(ptr::null(), ptr::from_ref));
}

unsafe extern "Rust" {
    /// Called when preemption is on again and a switch is pending: switches. A hook, defined in a layer above this one
    /// (`traps::preempt`) and connected by the linker, so that the call takes one instruction.
    #[cold]
    safe fn gmp_honour_pending();
}

/// Pins the caller: turns preemption off on this CPU until the matching [`preempt_enable`]. Nests. One instruction; debug
/// builds also record the location of the caller. Callable from interrupts.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn preempt_disable() {
    change!("inc", PREEMPT);
    #[cfg(debug_assertions)]
    if preempt_count() == 1 {
        PREEMPT_OFF_AT.here().store(ptr::from_ref(Location::caller()).cast_mut(), Ordering::Relaxed);
    }
}

/// Undoes one [`preempt_disable`] of the caller. If preemption is on afterwards and a switch is pending, switches.
#[inline(always)]
pub(crate) fn preempt_enable() {
    // SAFETY: as in `change!`.
    unsafe {
        asm!(
            "dec dword ptr gs:[{word}]",
            "jz {honour}",
            word = sym PREEMPT,
            honour = label { gmp_honour_pending() },
        );
    }
}

/// Undoes one [`preempt_disable`], but leaves a pending switch to the caller: an interrupt handler, or the scheduler.
#[inline(always)]
pub(crate) fn preempt_enable_quietly() {
    change!("dec", PREEMPT);
}

/// The preempt count of this CPU: how many pins are in force.
#[inline(always)]
pub(crate) fn preempt_count() -> u32 {
    preempt_word() & PINS
}

/// Whether preemption is off on this CPU: for the caller, or, in a handler, for the code that was interrupted.
#[inline(always)]
pub(crate) fn is_preemption_off() -> bool {
    preempt_word() & (PINS | LOCKS) != 0
}

/// Whether one of the bits `MASK` of the preempt word is set. Two instructions.
#[inline(always)]
pub(crate) fn is_any_set<const MASK: u32>() -> bool {
    // SAFETY: as in `load!`.
    unsafe {
        asm!(
            "test dword ptr gs:[{word}], {mask}",
            "jnz {yes}",
            word = sym PREEMPT,
            mask = const MASK,
            yes = label { return true },
            options(nostack, readonly)
        );
    }
    false
}

/// Adds to the preempt word, in one instruction.
#[inline(always)]
fn add_to_preempt_word<const UNITS: u32>() {
    change!("add", PREEMPT, UNITS);
}

/// Subtracts from the preempt word, in one instruction.
#[inline(always)]
fn subtract_from_preempt_word<const UNITS: u32>() {
    change!("sub", PREEMPT, UNITS);
}

/// Counts a handler that begins. Called with interrupts off, before anything else in the handler.
#[inline(always)]
pub(crate) fn enter_trap(is_nmi: bool) {
    if is_nmi {
        add_to_preempt_word::<{ TRAP + NMI }>();
    } else {
        add_to_preempt_word::<TRAP>();
    }
}

/// Counts a handler that ends. Called with interrupts off.
#[inline(always)]
pub(crate) fn leave_trap(is_nmi: bool) {
    if is_nmi {
        subtract_from_preempt_word::<{ TRAP + NMI }>();
    } else {
        subtract_from_preempt_word::<TRAP>();
    }
}

/// The counts of the preempt word, from which `contexts` derives the context of the caller.
pub(crate) fn context_word() -> u32 {
    preempt_word() & !NOTHING_PENDING
}

/// Whether a switch is pending on this CPU.
#[inline(always)]
pub(crate) fn is_pending() -> bool {
    preempt_word() & NOTHING_PENDING == 0
}

/// The preempt word. One instruction.
#[inline(always)]
pub(super) fn preempt_word() -> u32 {
    load!(PREEMPT as u32)
}

/// Whether a lock has turned interrupts off on this CPU, and they were on before. One instruction.
#[inline(always)]
pub(super) fn has_lock_turned_interrupts_off() -> bool {
    load!(INTERRUPTS_OFF_AT as usize) != 0
}

/// Counts an [`InterruptMutex`](crate::sync::InterruptMutex) that is taken. One instruction.
#[inline(always)]
pub(super) fn raise_lock_count() {
    add_to_preempt_word::<LOCK>();
}

/// Counts an [`InterruptMutex`](crate::sync::InterruptMutex) that is released. One instruction.
#[inline(always)]
pub(super) fn lower_lock_count() {
    subtract_from_preempt_word::<LOCK>();
}

/// Makes the switch that is pending. Called with preemption on.
#[inline(always)]
pub(super) fn honour_pending() {
    gmp_honour_pending();
}

/// Makes a switch pending on this CPU.
#[inline(always)]
pub(crate) fn set_pending() {
    change!("and", PREEMPT, i32::MAX);
}

/// Withdraws the request of [`set_pending`].
#[inline(always)]
pub(crate) fn clear_pending() {
    change!("or", PREEMPT, i32::MIN);
}

/// How many handlers of interrupts and exceptions are active on this CPU, one inside the other. One load.
#[inline(always)]
pub(crate) fn trap_depth() -> u32 {
    (preempt_word() & TRAPS) / TRAP
}

/// A guard: preemption is off on this CPU until it is dropped.
#[derive(Debug)]
#[must_use = "preemption comes back on when this is dropped"]
pub struct PreemptGuard {
    /// The count belongs to the CPU on which it was raised.
    not_send: PhantomData<*mut ()>,
}

impl PreemptGuard {
    /// Turns preemption off. Callable from everywhere.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn new() -> Self {
        preempt_disable();
        Self { not_send: PhantomData }
    }
}

impl Default for PreemptGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PreemptGuard {
    #[inline(always)]
    fn drop(&mut self) {
        preempt_enable();
    }
}
