//! Per-CPU data, reached through the GS base, and the preempt count.
//!
//! Every CPU has one `CpuLocal`; its GS base points there. The hot words (id, preempt word, current machine) are read
//! and written by *single* instructions with a GS prefix, so they need no guard: a read of the base followed by an
//! access could be separated by a migration to another CPU. Everything else goes through `local`, whose result is
//! only meaningful while the caller cannot migrate. All fields are atomics, so a stale reference is a wrong answer,
//! never undefined behaviour.
//!
//! # The preempt word
//!
//! One `u32` that says in which context (`contexts`) this CPU is:
//!
//! | bits | what |
//! |---|---|
//! | 0 to 15 | pins: how often preemption was turned off |
//! | 16 to 23 | [`InterruptMutex`](crate::sync::InterruptMutex)es held |
//! | 24 to 28 | handlers of interrupts and exceptions, one in the other |
//! | 29 and 30 | handlers of non-maskable interrupts among them |
//! | 31 | set while *nothing* is pending |
//!
//! So "no reason not to switch, and something pending" is the value zero, and `preempt_enable` needs a decrement and a
//! test of the zero flag; and what a context forbids is one test of the word against a constant (Linux: `preempt_count`
//! with `PREEMPT_NEED_RESCHED`, arch/x86/include/asm/preempt.h). Every CPU starts with one pin; the scheduler lowers it
//! when it is up.

use core::arch::asm;
use core::fmt;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::kthread::epoch::CpuEpoch;
use x86_64::VirtAddr;
use x86_64::instructions::interrupts;
use x86_64::registers::model_specific::GsBase;

use crate::arch::x86_64::preempt::{self, Diverted};
use crate::cpu::contexts;
use crate::diagnostics::snapshot::Snapshot;
use crate::diagnostics::watchdog::Watch;
use crate::mm::heap::CpuCache;
use crate::mm::stack::LastFrames;

/// Most CPUs that are brought up: xAPIC ids have 8 bits and 255 is the broadcast.
pub const MAX_CPUS: usize = 255;

/// The preempt word's top bit: set while nothing is pending.
const NOTHING_PENDING: u32 = 1 << 31;
/// The preempt word's counts: their units, and their bits.
pub(crate) const PINS: u32 = 0xffff;
pub(crate) const LOCK: u32 = 1 << 16;
pub(crate) const LOCKS: u32 = 0xff * LOCK;
const TRAP: u32 = 1 << 24;
pub(crate) const TRAPS: u32 = 0x1f * TRAP;
const NMI: u32 = 1 << 29;
pub(crate) const NMIS: u32 = 0b11 * NMI;

/// Number of a CPU: 0 is the boot CPU, the others are numbered as they came up, without holes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CpuId(u32);

impl CpuId {
    /// The CPU that the firmware started.
    pub const BOOT: Self = Self(0);

    /// The CPU with this number, which need not be up.
    ///
    /// # Panics
    /// If `index` is not below [`MAX_CPUS`].
    pub const fn new(index: usize) -> Self {
        assert!(index < MAX_CPUS, "no such CPU");
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        Self(index as u32)
    }

    /// The number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The number, for use as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The data of one CPU. Two cache lines, since the adjacent-line prefetcher pairs them.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct CpuLocal {
    /// Own address, so that one GS read gives a pointer.
    this: AtomicPtr<CpuLocal>,
    preempt: AtomicU32,
    id: CpuId,
    current_machine: AtomicUsize,
    /// Where the outermost [`InterruptMutex`](crate::sync::InterruptMutex) held was taken, null if interrupts were off
    /// before or none is held.
    interrupts_off_at: AtomicPtr<Location<'static>>,
    /// Where the preempt count was last raised from zero. Only noted in debug builds: elsewhere that is one instruction.
    preempt_off_at: AtomicPtr<Location<'static>>,
    /// Where a preempted G goes on, see `preempt`.
    pub(crate) diverted: Diverted,
    pub(crate) apic_id: AtomicU32,
    /// When the timer of this CPU is to fire, in ns; `u64::MAX` while it is not armed.
    pub(crate) timer_deadline: AtomicU64,
    /// What the clock was when this CPU came up, in ns.
    pub(crate) started_at: AtomicU64,
    /// Where this CPU was when another one asked it.
    pub(crate) snapshot: Snapshot,
    /// Questions from outside the machine that have reached this CPU, see `inspection`.
    pub(crate) questions: AtomicU32,
    pub(crate) watch: Watch,
    pub(crate) heap_cache: CpuCache,
    /// For pages of stacks when there is no other frame.
    pub(crate) last_frames: LastFrames,
    /// The epoch in which this CPU flushed its translations last, see `mm::tlb`.
    pub(crate) epoch: CpuEpoch,
}

impl CpuLocal {
    /// The data of CPU `id`, not yet in use.
    pub(crate) const fn new(id: CpuId, apic_id: u32) -> Self {
        Self {
            this: AtomicPtr::new(ptr::null_mut()),
            preempt: AtomicU32::new(NOTHING_PENDING | 1),
            id,
            current_machine: AtomicUsize::new(0),
            interrupts_off_at: AtomicPtr::new(ptr::null_mut()),
            preempt_off_at: AtomicPtr::new(ptr::null_mut()),
            diverted: Diverted::new(),
            apic_id: AtomicU32::new(apic_id),
            timer_deadline: AtomicU64::new(u64::MAX),
            started_at: AtomicU64::new(0),
            snapshot: Snapshot::new(),
            questions: AtomicU32::new(0),
            watch: Watch::new(),
            heap_cache: CpuCache::new(),
            last_frames: LastFrames::new(),
            epoch: CpuEpoch::new(),
        }
    }

    /// The id of this CPU's local APIC.
    pub(crate) fn apic_id(&self) -> u32 {
        self.apic_id.load(Ordering::Relaxed)
    }

    /// Where a lock has turned interrupts off on this CPU, if one has. Readable from every CPU.
    pub(crate) fn interrupts_off_at(&self) -> Option<&'static Location<'static>> {
        // SAFETY: only references to locations, which are constants, or null are stored.
        unsafe { self.interrupts_off_at.load(Ordering::Relaxed).as_ref() }
    }

    /// Where preemption was last turned off on this CPU, if that was noted. Readable from every CPU.
    pub(crate) fn preempt_off_at(&self) -> Option<&'static Location<'static>> {
        // SAFETY: only references to locations, which are constants, or null are stored.
        unsafe { self.preempt_off_at.load(Ordering::Relaxed).as_ref() }
    }

    /// Whether the CPU is in a handler of an interrupt or exception. Readable from every CPU.
    pub(crate) fn is_in_trap(&self) -> bool {
        self.preempt.load(Ordering::Relaxed) & TRAPS != 0
    }

    /// When the timer of this CPU is to fire, in ns of [`timer::now`](crate::arch::x86_64::timer::now); `u64::MAX` if
    /// it is not armed. Readable from every CPU.
    pub(crate) fn timer_deadline(&self) -> u64 {
        self.timer_deadline.load(Ordering::Relaxed)
    }
}

static BOOT_CPU: CpuLocal = CpuLocal::new(CpuId::BOOT, 0);
static CPUS: [AtomicPtr<CpuLocal>; MAX_CPUS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CPUS];

/// Gives the boot CPU its data. The first thing that happens in Rust.
pub(crate) fn init_boot_cpu() {
    install(&BOOT_CPU);
}

/// Makes `local` the data of the calling CPU and lets the others find it.
pub(crate) fn install(local: &'static CpuLocal) {
    let address = ptr::from_ref(local).cast_mut();
    local.this.store(address, Ordering::Relaxed);
    GsBase::write(VirtAddr::from_ptr(address));
    // Ordering: pairs with the load in `of`.
    CPUS[local.id.index()].store(address, Ordering::Release);
}

/// Loads the GS base again after the segment registers were loaded, which clears it.
pub(crate) fn restore_base(local: &'static CpuLocal) {
    GsBase::write(VirtAddr::from_ptr(local));
}

/// The data of CPU `id`, or `None` if it is not up.
pub(crate) fn of(id: CpuId) -> Option<&'static CpuLocal> {
    // Ordering: pairs with the store in `install`.
    let local = CPUS[id.index()].load(Ordering::Acquire);
    // SAFETY: `install` stores only pointers to `CpuLocal`s that live as long as the machine.
    unsafe { local.as_ref() }
}

/// The data of the calling CPU. Only meaningful while the caller cannot migrate.
pub(crate) fn local() -> &'static CpuLocal {
    let local: *const CpuLocal;
    // SAFETY: every CPU runs Rust only after `install`; one instruction. Not `pure`: it is read again after a switch.
    unsafe {
        asm!(
            "mov {}, gs:[{this}]",
            out(reg) local,
            this = const offset_of!(CpuLocal, this),
            options(nostack, preserves_flags, readonly)
        );
    }
    // SAFETY: `install` stored a pointer to data that lives as long as the machine.
    unsafe { &*local }
}

/// The CPU that runs this. One instruction; the answer may be out of date as soon as it is there unless preemption is
/// off.
#[inline(always)]
pub fn current() -> CpuId {
    let id: u32;
    // SAFETY: as in `local`.
    unsafe {
        asm!(
            "mov {:e}, gs:[{id}]",
            out(reg) id,
            id = const offset_of!(CpuLocal, id),
            options(nostack, preserves_flags, readonly)
        );
    }
    CpuId(id)
}

/// The scheduler's word for what runs on this CPU. One instruction.
#[inline(always)]
pub(crate) fn current_machine() -> usize {
    let machine: usize;
    // SAFETY: as in `local`.
    unsafe {
        asm!(
            "mov {}, gs:[{word}]",
            out(reg) machine,
            word = const offset_of!(CpuLocal, current_machine),
            options(nostack, preserves_flags, readonly)
        );
    }
    machine
}

/// Sets the word that [`current_machine`] reads. One instruction.
#[inline(always)]
pub(crate) fn set_current_machine(machine: usize) {
    // SAFETY: as in `local`; the word is only ever accessed as a whole.
    unsafe {
        asm!(
            "mov gs:[{word}], {}",
            in(reg) machine,
            word = const offset_of!(CpuLocal, current_machine),
            options(nostack, preserves_flags)
        );
    }
}

/// Notes which place has turned interrupts off on this CPU, and with `None` that they come back on. One instruction.
#[inline(always)]
fn set_interrupts_off_at(place: Option<&'static Location<'static>>) {
    let place = place.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: as in `local`; the word is only ever accessed as a whole.
    unsafe {
        asm!(
            "mov gs:[{word}], {}",
            in(reg) place,
            word = const offset_of!(CpuLocal, interrupts_off_at),
            options(nostack, preserves_flags)
        );
    }
}

/// Forbids this CPU to switch to something else until the matching [`preempt_enable`]. Nests. One instruction, also in
/// interrupts; in debug builds the caller's place is noted, too.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn preempt_disable() {
    // SAFETY: as in `local`. Not `nomem`: what follows must not move before it.
    unsafe {
        asm!("inc dword ptr gs:[{word}]", word = const offset_of!(CpuLocal, preempt), options(nostack));
    }
    #[cfg(debug_assertions)]
    if preempt_count() == 1 {
        let place = ptr::from_ref(Location::caller()).cast_mut();
        local().preempt_off_at.store(place, Ordering::Relaxed);
    }
}

/// Undoes one [`preempt_disable`] of the caller, and honours a request that came in between. May switch to something
/// else.
#[inline(always)]
pub(crate) fn preempt_enable() {
    // SAFETY: as in `local`. Not `nomem`: what precedes must not move behind it.
    unsafe {
        asm!(
            "dec dword ptr gs:[{word}]",
            "jz {honour}",
            word = const offset_of!(CpuLocal, preempt),
            honour = label { preempt::honour_pending() },
        );
    }
}

/// Undoes one [`preempt_disable`] without a look at what is pending: for interrupt handlers and the scheduler itself.
#[inline(always)]
pub(crate) fn preempt_enable_quietly() {
    // SAFETY: as in `preempt_enable`.
    unsafe {
        asm!("dec dword ptr gs:[{word}]", word = const offset_of!(CpuLocal, preempt), options(nostack));
    }
}

/// How often preemption was turned off on this CPU and not on again: the pins alone.
#[inline(always)]
pub(crate) fn preempt_count() -> u32 {
    preempt_word() & PINS
}

/// Whether what runs on this CPU, or was interrupted by the handlers that do, must not be switched away from: it is
/// pinned or holds an `InterruptMutex`.
#[inline(always)]
pub(crate) fn is_preemption_off() -> bool {
    preempt_word() & (PINS | LOCKS) != 0
}

/// Whether one of the bits `MASK` of the preempt word is set. Two instructions.
#[inline(always)]
pub(crate) fn is_any_set<const MASK: u32>() -> bool {
    // SAFETY: as in `local`.
    unsafe {
        asm!(
            "test dword ptr gs:[{word}], {mask}",
            "jnz {yes}",
            word = const offset_of!(CpuLocal, preempt),
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
    // SAFETY: as in `preempt_enable`.
    unsafe {
        asm!("add dword ptr gs:[{word}], {units}", word = const offset_of!(CpuLocal, preempt), units = const UNITS, options(nostack));
    }
}

/// Subtracts from the preempt word, in one instruction.
#[inline(always)]
fn subtract_from_preempt_word<const UNITS: u32>() {
    // SAFETY: as in `preempt_enable`.
    unsafe {
        asm!("sub dword ptr gs:[{word}], {units}", word = const offset_of!(CpuLocal, preempt), units = const UNITS, options(nostack));
    }
}

/// A handler begins. Called with interrupts off, before anything else in it.
#[inline(always)]
pub(crate) fn enter_trap(is_nmi: bool) {
    if is_nmi {
        add_to_preempt_word::<{ TRAP + NMI }>();
    } else {
        add_to_preempt_word::<TRAP>();
    }
}

/// A handler ends. Called with interrupts off.
#[inline(always)]
pub(crate) fn leave_trap(is_nmi: bool) {
    if is_nmi {
        subtract_from_preempt_word::<{ TRAP + NMI }>();
    } else {
        subtract_from_preempt_word::<TRAP>();
    }
}

/// The top bit of the count of `InterruptMutex`es: nobody holds so many, unless guards were leaked.
const TOO_MANY_LOCKS: u32 = 0x80 * LOCK;

/// The caller, who has turned interrupts off, takes an `InterruptMutex` at `place`; they come back on after the last one
/// if `were_on`.
///
/// # Panics
/// In a handler of a non-maskable interrupt; or 128 are held already.
#[inline(always)]
#[track_caller]
pub(crate) fn enter_interrupt_lock(were_on: bool, place: &'static Location<'static>) {
    let word = preempt_word();
    if word & (contexts::REFUSING_INTERRUPT_MUTEX | TOO_MANY_LOCKS) != 0 {
        contexts::refuse_interrupt_mutex();
    }
    add_to_preempt_word::<LOCK>();
    if word & LOCKS == 0 {
        set_interrupts_off_at(were_on.then_some(place));
    }
}

/// The caller has freed an `InterruptMutex`. After the last one interrupts come back on if they were on before the first,
/// whichever that was, and a request that came in between is honoured.
#[inline(always)]
pub(crate) fn leave_interrupt_lock() {
    // Read before the count falls: a handler that takes a lock after that overwrites it.
    let were_on = interrupts_off_at() != 0;
    subtract_from_preempt_word::<LOCK>();
    if !were_on {
        return;
    }
    let word = preempt_word();
    if word & LOCKS != 0 {
        return;
    }
    set_interrupts_off_at(None);
    interrupts::enable();
    // What is asked for from here on is asked for by an interrupt, whose return honours it.
    if word == 0 {
        preempt::honour_pending();
    }
}

/// Where a lock has turned interrupts off on this CPU, as an address. One instruction.
#[inline(always)]
fn interrupts_off_at() -> usize {
    let place: usize;
    // SAFETY: as in `local`.
    unsafe {
        asm!(
            "mov {}, gs:[{word}]",
            out(reg) place,
            word = const offset_of!(CpuLocal, interrupts_off_at),
            options(nostack, preserves_flags, readonly)
        );
    }
    place
}

/// The counts of the preempt word, by which [`contexts`] tells where the caller is.
pub(crate) fn context_word() -> u32 {
    preempt_word() & !NOTHING_PENDING
}

/// Whether a switch was asked for on this CPU.
#[inline(always)]
pub(crate) fn is_pending() -> bool {
    preempt_word() & NOTHING_PENDING == 0
}

#[inline(always)]
fn preempt_word() -> u32 {
    let word: u32;
    // SAFETY: as in `local`.
    unsafe {
        asm!(
            "mov {:e}, gs:[{word}]",
            out(reg) word,
            word = const offset_of!(CpuLocal, preempt),
            options(nostack, preserves_flags, readonly)
        );
    }
    word
}

/// Notes on this CPU that a switch was asked for; honoured when the count reaches zero.
#[inline(always)]
pub(crate) fn set_pending() {
    // SAFETY: as in `preempt_enable`.
    unsafe {
        asm!(
            "and dword ptr gs:[{word}], {mask}",
            word = const offset_of!(CpuLocal, preempt),
            mask = const i32::MAX,
            options(nostack)
        );
    }
}

/// Forgets the request noted by [`set_pending`].
#[inline(always)]
pub(crate) fn clear_pending() {
    // SAFETY: as in `preempt_enable`.
    unsafe {
        asm!(
            "or dword ptr gs:[{word}], {mask}",
            word = const offset_of!(CpuLocal, preempt),
            mask = const i32::MIN,
            options(nostack)
        );
    }
}

/// How many handlers of interrupts and exceptions this CPU is in. One load.
#[inline(always)]
pub(crate) fn trap_depth() -> u32 {
    (preempt_word() & TRAPS) / TRAP
}

/// Preemption is off on this CPU as long as this exists.
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
