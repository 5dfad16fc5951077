//! Per-CPU data, reached through the GS base, and the preempt count.
//!
//! Every CPU has one [`CpuLocal`]; its GS base points there. The hot words (id, preempt word, current machine) are read
//! and written by *single* instructions with a GS prefix, so they need no guard: a read of the base followed by an
//! access could be separated by a migration to another CPU. Everything else goes through [`local`], whose result is
//! only meaningful while the caller cannot migrate. All fields are atomics, so a stale reference is a wrong answer,
//! never undefined behaviour.
//!
//! # The preempt word
//!
//! One `u32`: the low 31 bits count the reasons why this CPU must not switch, the top bit is set while *nothing* is
//! pending. So "count zero and something pending" is the value zero, and [`preempt_enable`] needs a decrement and a
//! look at the zero flag (Linux: `PREEMPT_NEED_RESCHED`, arch/x86/include/asm/preempt.h). Every CPU starts with a count
//! of 1; the scheduler lowers it when it is up.

use core::arch::asm;
use core::fmt;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::kthread::epoch::CpuEpoch;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

use crate::arch::x86_64::preempt::{self, Diverted};
use crate::mm::heap::CpuCache;
use crate::mm::stack::LastFrames;
use crate::snapshot::Snapshot;
use crate::watchdog::Watch;

/// Most CPUs that are brought up: xAPIC ids have 8 bits and 255 is the broadcast.
pub const MAX_CPUS: usize = 255;

/// The preempt word's top bit: set while nothing is pending.
const NOTHING_PENDING: u32 = 1 << 31;

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
pub struct CpuLocal {
    /// Own address, so that one GS read gives a pointer.
    this: AtomicPtr<CpuLocal>,
    preempt: AtomicU32,
    id: CpuId,
    current_machine: AtomicUsize,
    /// Where a lock has turned interrupts off that are to come back on, null if none has.
    interrupts_off_at: AtomicPtr<Location<'static>>,
    /// Where the preempt count was last raised from zero. Only noted in debug builds: elsewhere that is one instruction.
    preempt_off_at: AtomicPtr<Location<'static>>,
    /// Where a preempted G goes on, see `preempt`.
    pub(crate) diverted: Diverted,
    /// Interrupts and exceptions being handled on this CPU.
    pub(crate) trap_depth: AtomicU32,
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
    /// The epoch in which this CPU flushed its translations last, see `mm::flush`.
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
            trap_depth: AtomicU32::new(0),
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
    pub fn apic_id(&self) -> u32 {
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

    /// When the timer of this CPU is to fire, in ns of [`timer::now`](crate::arch::x86_64::timer::now); `u64::MAX` if
    /// it is not armed. Readable from every CPU.
    pub fn timer_deadline(&self) -> u64 {
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
pub fn of(id: CpuId) -> Option<&'static CpuLocal> {
    // Ordering: pairs with the store in `install`.
    let local = CPUS[id.index()].load(Ordering::Acquire);
    // SAFETY: `install` stores only pointers to `CpuLocal`s that live as long as the machine.
    unsafe { local.as_ref() }
}

/// The data of the calling CPU. Only meaningful while the caller cannot migrate.
pub fn local() -> &'static CpuLocal {
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
pub fn current_machine() -> usize {
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
pub fn set_current_machine(machine: usize) {
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
pub(crate) fn set_interrupts_off_at(place: Option<&'static Location<'static>>) {
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
pub fn preempt_disable() {
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

/// Undoes one [`preempt_disable`] and honours a request that came in between. May switch to something else.
#[inline(always)]
pub fn preempt_enable() {
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
pub fn preempt_enable_quietly() {
    // SAFETY: as in `preempt_enable`.
    unsafe {
        asm!("dec dword ptr gs:[{word}]", word = const offset_of!(CpuLocal, preempt), options(nostack));
    }
}

/// How many reasons there are not to switch on this CPU.
#[inline(always)]
pub fn preempt_count() -> u32 {
    preempt_word() & !NOTHING_PENDING
}

/// Whether there is more than one reason not to switch, for a caller that is one itself. Two instructions.
#[inline(always)]
pub fn is_preempt_count_above_one() -> bool {
    // SAFETY: as in `local`.
    unsafe {
        asm!(
            "test dword ptr gs:[{word}], {above_one}",
            "jnz {yes}",
            word = const offset_of!(CpuLocal, preempt),
            above_one = const !(NOTHING_PENDING | 1),
            yes = label { return true },
            options(nostack, readonly)
        );
    }
    false
}

/// Whether a switch was asked for on this CPU.
#[inline(always)]
pub fn is_pending() -> bool {
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
pub fn set_pending() {
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
pub fn clear_pending() {
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

/// Whether the caller is in a handler of an interrupt or exception. One instruction.
#[inline(always)]
pub fn in_trap() -> bool {
    trap_depth() != 0
}

/// How many handlers of interrupts and exceptions this CPU is in. One instruction.
#[inline(always)]
pub(crate) fn trap_depth() -> u32 {
    let depth: u32;
    // SAFETY: as in `local`. A handler cannot migrate, and outside of one the depth is zero on whatever CPU this runs.
    unsafe {
        asm!(
            "mov {:e}, gs:[{word}]",
            out(reg) depth,
            word = const offset_of!(CpuLocal, trap_depth),
            options(nostack, preserves_flags, readonly)
        );
    }
    depth
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
