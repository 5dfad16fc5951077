//! Per-CPU state of the scheduler: the current M, and the preempt word, which determines whether the CPU may switch to
//! another thread or G. For messages, also the places where interrupts and preemption were turned off.
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | *interrupts off* | the CPU's interrupt flag is clear. The CPU takes no interrupts except non-maskable ones, so it preempts nothing either |
//! | *pin* | to turn preemption off until the matching unpin. Pins nest |
//! | *preempt count* | how many pins are in force on a CPU; also called its preemption-disable depth |
//! | *pinned* | said of code that runs with a preempt count above zero: it stays on its CPU, and a G also stays on its M. In the scheduler the proof is [`Pinned`](gmp_sched::platform::Pinned); in a program the guard is [`PreemptGuard`] |
//! | *preemption off* | the code is pinned or holds an [`InterruptMutex`](crate::sync::InterruptMutex): the CPU does not switch to another thread or G. Interrupts still come, unless they are off as well |
//! | *pending* | said of a switch that was requested and has not happened yet, because preemption is off or a handler runs |
//!
//! An `InterruptMutex` turns interrupts and preemption off. A handler runs with interrupts off, and its CPU does not
//! switch before the handler returns.
//!
//! # The preempt word
//!
//! Each CPU has a `u32` that encodes the context (see `contexts`) of the code that it runs:
//!
//! | bits | what |
//! |---|---|
//! | 0 to 15 | the preempt count; a pin of a program that sets bit 15 panics |
//! | 16 to 23 | how many [`InterruptMutex`](crate::sync::InterruptMutex)es the CPU holds |
//! | 24 to 28 | how many handlers of interrupts and exceptions are active, one nested in the other |
//! | 29 and 30 | how many of these handlers are for non-maskable interrupts |
//! | 31 | set while *no* switch is pending |
//!
//! So the word is zero exactly if a switch is pending and may happen now. Hence `preempt_enable` is two instructions: a
//! decrement, and a jump if the result is zero. A check whether the context allows an operation is one test of the word
//! against a constant. (Linux: `preempt_count` with `PREEMPT_NEED_RESCHED`, arch/x86/include/asm/preempt.h.) Every CPU
//! starts with one pin, that of its idle loop.

use core::arch::asm;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::contexts;
use super::local::{self, Word as _, cpu_local};

pub use super::id::{CpuId, MAX_CPUS};

/// The top bit of the preempt word: set while no switch is pending.
const NOTHING_PENDING: u32 = 1 << 31;
/// The counts in the preempt word. A constant with a singular name, such as `LOCK`, is the value that one lock adds to
/// the word. A constant with a plural name, such as `LOCKS`, is the mask of that count's bits.
pub(crate) const PINS: u32 = 0xffff;
pub(crate) const LOCK: u32 = 1 << 16;
pub(crate) const LOCKS: u32 = 0xff * LOCK;
const TRAP: u32 = 1 << 24;
pub(crate) const TRAPS: u32 = 0x1f * TRAP;
const NMI: u32 = 1 << 29;
pub(crate) const NMIS: u32 = 0b11 * NMI;

cpu_local! {
    /// The preempt word of this CPU. The table at the beginning of this file describes its bits.
    static PREEMPT: AtomicU32 = AtomicU32::new(NOTHING_PENDING | 1);
    /// The address of the M that runs on this CPU, or 0 if no M runs on it.
    static CURRENT_MACHINE: AtomicUsize = AtomicUsize::new(0);
    /// The address of the [`Location`] at which this CPU took the first of the
    /// [`InterruptMutex`](crate::sync::InterruptMutex)es that it holds. 0 if the CPU holds none, or if interrupts were
    /// already off when the CPU took the first one.
    static INTERRUPTS_OFF_AT: AtomicUsize = AtomicUsize::new(0);
    /// The address of the [`Location`] at which the preempt count was last raised from zero, or 0. Recorded only in
    /// debug builds, so that raising the count is a single instruction in other builds.
    static PREEMPT_OFF_AT: AtomicUsize = AtomicUsize::new(0);
}

/// Changes the preempt word of this CPU by the given instruction, whose second operand, if it has one, is a constant.
macro_rules! change_preempt_word {
    ($instruction:literal $(, $operand:expr)?) => {
        // SAFETY: the operand is this CPU's copy of the preempt word, because `CpuCopy::install` has set the GS base of
        // this CPU. The option `nomem` is not set, so the compiler moves no memory access across this instruction.
        unsafe { asm!($instruction, sym PREEMPT $(, const $operand)?, options(nostack)) }
    };
}

/// Returns the location with this address, or `None` if the address is 0.
fn location_at(address: usize) -> Option<&'static Location<'static>> {
    // SAFETY: both words that contain such an address are 0 or the exposed address of a `Location`, and locations are
    // constants.
    unsafe { ptr::with_exposed_provenance::<Location<'static>>(address).as_ref() }
}

/// Returns where this CPU took the lock that has turned interrupts off, or `None` if no lock has turned them off.
pub(crate) fn interrupts_off_at() -> Option<&'static Location<'static>> {
    location_at(INTERRUPTS_OFF_AT.load_here())
}

/// Returns where preemption was last turned off on this CPU, if that was recorded.
pub(crate) fn preempt_off_at() -> Option<&'static Location<'static>> {
    location_at(PREEMPT_OFF_AT.load_here())
}

/// Whether `cpu` is in a handler of an interrupt or exception.
pub(crate) fn is_in_trap(cpu: CpuId) -> bool {
    PREEMPT.of(cpu).is_some_and(|word| word.load(Ordering::Relaxed) & TRAPS != 0)
}

/// Returns the calling CPU. Takes one instruction. If preemption is on, the caller may already be on another CPU when
/// this function returns.
#[inline(always)]
pub fn current() -> CpuId {
    local::id()
}

/// Returns the address of the M that runs on this CPU, or 0 if no M runs on it. Takes one instruction.
#[inline(always)]
pub(crate) fn current_machine() -> usize {
    CURRENT_MACHINE.load_here()
}

/// Sets the word that [`current_machine`] reads. Takes one instruction.
#[inline(always)]
pub(crate) fn set_current_machine(machine: usize) {
    CURRENT_MACHINE.store_here(machine);
}

/// Records where this CPU took the lock that has turned interrupts off. `None` means that no lock has turned them off,
/// or that they are about to be turned on again. Takes one instruction.
#[inline(always)]
pub(super) fn set_interrupts_off_at(location: Option<&'static Location<'static>>) {
    INTERRUPTS_OFF_AT.store_here(location.map_or(0, |location| ptr::from_ref(location).expose_provenance()));
}

unsafe extern "Rust" {
    /// Makes the pending switch. Called when preemption is turned on again while a switch is pending. This is a hook
    /// that a layer above this one defines (`traps::divert`). The linker resolves the name, so a call of the hook is
    /// one instruction.
    #[cold]
    safe fn gmp_honour_pending();
}

/// Pins the caller: turns preemption off on this CPU until the matching [`preempt_enable`]. Pins nest. Takes one
/// instruction; debug builds also record the location of the caller. Callable from interrupt handlers.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn preempt_disable() {
    change_preempt_word!("inc dword ptr gs:[{}]");
    #[cfg(debug_assertions)]
    if preempt_count() == 1 {
        PREEMPT_OFF_AT.store_here(ptr::from_ref(Location::caller()).expose_provenance());
    }
}

/// Like [`preempt_disable`], for a caller that may leak the pin. Takes three instructions.
///
/// # Panics
/// If this CPU holds 32,768 pins, which happens only if pins were leaked.
#[inline(always)]
#[track_caller]
pub(crate) fn preempt_disable_checked() {
    preempt_disable();
    if is_any_set::<TOO_MANY_PINS>() {
        refuse_pin();
    }
}

/// Undoes one [`preempt_disable`] of the caller. If preemption is then on and a switch is pending, makes the switch.
#[inline(always)]
pub(crate) fn preempt_enable() {
    // SAFETY: the operand is this CPU's copy of the preempt word, because `CpuCopy::install` has set the GS base of
    // this CPU. The label calls a safe function.
    unsafe {
        asm!(
            "dec dword ptr gs:[{word}]",
            "jz {honour}",
            word = sym PREEMPT,
            honour = label { gmp_honour_pending() },
        );
    }
}

/// Undoes one [`preempt_disable`] without making a pending switch. The switch stays pending until an interrupt returns
/// or preemption is next turned on by [`preempt_enable`], unless the caller makes it.
#[inline(always)]
pub(crate) fn preempt_enable_quietly() {
    change_preempt_word!("dec dword ptr gs:[{}]");
}

/// Returns the preempt count of this CPU: how many pins are in force.
#[inline(always)]
pub(crate) fn preempt_count() -> u32 {
    preempt_word() & PINS
}

/// Whether this CPU holds a pin or an `InterruptMutex`. The pins and locks of interrupted code count, so a handler can
/// find out whether preemption was off in the code that it has interrupted.
#[inline(always)]
pub(crate) fn is_preemption_off() -> bool {
    preempt_word() & (PINS | LOCKS) != 0
}

/// Whether at least one of the bits in `MASK` is set in the preempt word. Takes two instructions.
#[inline(always)]
pub(crate) fn is_any_set<const MASK: u32>() -> bool {
    // SAFETY: the operand is this CPU's copy of the preempt word, because `CpuCopy::install` has set the GS base of
    // this CPU.
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

/// Adds the calling handler to the counts in the preempt word. The call must be the first action of the handler, with
/// interrupts off.
#[inline(always)]
pub(crate) fn enter_trap(is_nmi: bool) {
    if is_nmi {
        change_preempt_word!("add dword ptr gs:[{}], {}", TRAP + NMI);
    } else {
        change_preempt_word!("add dword ptr gs:[{}], {}", TRAP);
    }
}

/// Removes the handler that calls this function from the counts in the preempt word, because the handler is about to
/// end. Called with interrupts off.
#[inline(always)]
pub(crate) fn leave_trap(is_nmi: bool) {
    if is_nmi {
        change_preempt_word!("sub dword ptr gs:[{}], {}", TRAP + NMI);
    } else {
        change_preempt_word!("sub dword ptr gs:[{}], {}", TRAP);
    }
}

/// Returns the counts of the preempt word, from which `contexts` derives the context of the caller.
pub(crate) fn context_word() -> u32 {
    preempt_word() & !NOTHING_PENDING
}

/// Whether a switch is pending on this CPU.
#[inline(always)]
pub(crate) fn is_pending() -> bool {
    preempt_word() & NOTHING_PENDING == 0
}

/// Returns the preempt word. Takes one instruction.
#[inline(always)]
pub(super) fn preempt_word() -> u32 {
    PREEMPT.load_here()
}

/// Whether an `InterruptMutex` has turned interrupts off on this CPU. Returns `false` if no such lock is held, or if
/// interrupts were already off when the first lock was taken. Takes one instruction.
#[inline(always)]
pub(super) fn has_lock_turned_interrupts_off() -> bool {
    INTERRUPTS_OFF_AT.load_here() != 0
}

/// Records in the preempt word that the caller takes an [`InterruptMutex`](crate::sync::InterruptMutex). Takes one
/// instruction.
#[inline(always)]
pub(super) fn raise_lock_count() {
    change_preempt_word!("add dword ptr gs:[{}], {}", LOCK);
}

/// Records in the preempt word that the caller has released an [`InterruptMutex`](crate::sync::InterruptMutex). Takes
/// one instruction.
#[inline(always)]
pub(super) fn lower_lock_count() {
    change_preempt_word!("sub dword ptr gs:[{}], {}", LOCK);
}

/// Makes the pending switch. Called with preemption on, while a switch is pending.
#[inline(always)]
pub(super) fn honour_pending() {
    gmp_honour_pending();
}

/// Requests a switch on this CPU. The switch is pending from now on.
#[inline(always)]
pub(crate) fn set_pending() {
    change_preempt_word!("and dword ptr gs:[{}], {}", i32::MAX);
}

/// Withdraws the request of [`set_pending`].
#[inline(always)]
pub(crate) fn clear_pending() {
    change_preempt_word!("or dword ptr gs:[{}], {}", i32::MIN);
}

/// Returns how many handlers of interrupts and exceptions are active on this CPU, one nested in the other. Takes one
/// load.
#[inline(always)]
pub(crate) fn trap_depth() -> u32 {
    (preempt_word() & TRAPS) / TRAP
}

/// The top bit of the preempt count. The count must not reach the next field of the preempt word.
const TOO_MANY_PINS: u32 = 1 << 15;

/// # Panics
/// Always, because guards were leaked until the preempt count has reached its limit.
#[cold]
#[inline(never)]
#[track_caller]
fn refuse_pin() -> ! {
    contexts::misuse(format_args!("preemption is turned off {} times on one CPU: guards were leaked", preempt_count()))
}

/// A guard that turns preemption off on this CPU until the guard is dropped.
#[derive(Debug)]
#[must_use = "preemption comes back on when this is dropped"]
pub struct PreemptGuard {
    /// The preempt count must be lowered on the CPU on which it was raised, so the guard must not be sent to another
    /// thread.
    not_send: PhantomData<*mut ()>,
}

impl PreemptGuard {
    /// Turns preemption off until the guard is dropped. Callable from everywhere.
    ///
    /// # Panics
    /// If this CPU holds 32,768 pins, which happens only if guards were leaked.
    #[inline(always)]
    #[track_caller]
    pub fn new() -> Self {
        preempt_disable_checked();
        Self { not_send: PhantomData }
    }

    /// Like [`new`](Self::new), but does not check the count, which takes two instructions. For code of the kernel that
    /// does not leak the guard.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn of_kernel() -> Self {
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
