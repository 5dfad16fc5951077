//! The local APIC: end of interrupt, interrupts to other CPUs, the timer's registers (SDM 11).
//!
//! In xAPIC mode, by registers in memory, unless the firmware left the x2APIC mode on or a CPU has an id beyond 254.
//! [`kernel_formats::local_apic`] encodes what is written; this module writes it to the hardware.

use core::arch::x86_64::{_mm_lfence, _mm_mfence};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use kernel_formats::local_apic::{
    self, APIC_BASE, Bus, Command, LAST_XAPIC_ID, LocalApic, Mode, Register, TimerMode, To,
};
use x86_64::PhysAddr;
use x86_64::instructions::interrupts::without_interrupts;
use x86_64::registers::model_specific::Msr;

use super::cpuid;
use super::interrupts::{ERROR, SPURIOUS, TIMER, Vector};
use crate::arch::acpi;
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, CpuId};
use crate::mm::paging;

const REGISTER_BYTES: usize = 4096;

/// In the register of the base: the address.
const BASE_ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// How often the APIC is polled before a pending send is abandoned, so that a panic cannot hang here. On hardware the first
/// poll succeeds.
const SEND_POLLS: u32 = 1_000_000;

/// Where the registers are mapped, at the same address for every CPU; null where they are not in memory, in x2APIC mode.
static REGISTERS: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// The registers of this CPU's APIC. Accessible only after [`init`].
#[derive(Clone, Copy)]
struct Hardware {
    registers: *mut u8,
}

impl Hardware {
    #[inline(always)]
    fn register(self, offset: u16) -> *mut u32 {
        self.registers.wrapping_add(usize::from(offset)).cast()
    }
}

impl Bus for Hardware {
    #[inline(always)]
    fn read_memory(&self, offset: u16) -> u32 {
        // SAFETY: a register of the mapped APIC; reading it changes nothing.
        unsafe { self.register(offset).read_volatile() }
    }

    #[inline(always)]
    fn write_memory(&self, offset: u16, value: u32) {
        // SAFETY: a register of the mapped APIC; `LocalApic` writes only values that are valid there.
        unsafe { self.register(offset).write_volatile(value) }
    }

    #[inline]
    fn read_msr(&self, number: u32) -> u64 {
        // SAFETY: `LocalApic` accesses only registers that exist in the chosen mode.
        unsafe { Msr::new(number).read() }
    }

    #[inline]
    fn write_msr(&self, number: u32, value: u64) {
        // SAFETY: as above, and only values that are valid there.
        unsafe { Msr::new(number).write(value) }
    }

    #[inline]
    fn fence(&self) {
        // SAFETY: every x86_64 processor has SSE2.
        unsafe { _mm_mfence() };
        // SAFETY: as above.
        unsafe { _mm_lfence() };
    }
}

cpu_local! {
    /// The id of this CPU's local APIC.
    static APIC_ID: AtomicU32 = AtomicU32::new(0);
}

/// This CPU's APIC.
#[inline(always)]
fn local_apic() -> LocalApic<Hardware> {
    let registers = REGISTERS.load(Ordering::Relaxed);
    LocalApic::new(Hardware { registers }, if registers.is_null() { Mode::X2Apic } else { Mode::XApic })
}

/// Chooses the mode, maps the registers, and turns the boot CPU's APIC on.
pub(crate) fn init() {
    // SAFETY: every x86_64 processor has this register.
    let base = unsafe { Msr::new(APIC_BASE).read() };
    assert!(local_apic::is_on(base), "the local APIC is turned off");
    if local_apic::choose_mode(base, cpuid::features().has_x2apic(), acpi::tables().apic_ids.iter().copied())
        == Mode::XApic
    {
        let address = PhysAddr::new(base & BASE_ADDRESS);
        let registers = paging::map_device(address, REGISTER_BYTES).expect("no memory to map the local APIC");
        REGISTERS.store(registers.as_ptr(), Ordering::Relaxed);
    }
    log::info!("local APICs in {:?} mode", mode());
    init_cpu();
}

/// Turns the calling CPU's APIC on.
pub(crate) fn init_cpu() {
    let apic = local_apic();
    apic.enter();
    APIC_ID.here().store(apic.id(), Ordering::Relaxed);
    apic.enable(SPURIOUS.0, ERROR.0);
}

fn mode() -> Mode {
    if REGISTERS.load(Ordering::Relaxed).is_null() { Mode::X2Apic } else { Mode::XApic }
}

/// Whether a CPU with this id can be interrupted in the chosen mode.
pub(crate) fn is_in_reach(id: u32) -> bool {
    mode() == Mode::X2Apic || id <= LAST_XAPIC_ID
}

/// The id of the calling CPU's APIC.
pub(crate) fn id() -> u32 {
    local_apic().id()
}

/// Signals the end of the interrupt in service to the APIC.
#[inline]
pub(crate) fn end_of_interrupt() {
    local_apic().end_of_interrupt();
}

/// The id of a CPU's local APIC, `None` if the CPU is not up.
pub(crate) fn id_of(cpu: CpuId) -> Option<u32> {
    APIC_ID.of(cpu).map(|id| id.load(Ordering::Relaxed))
}

/// Interrupts a CPU. Nothing happens if it is not up. Callable from everywhere.
pub(crate) fn send(to: CpuId, vector: Vector) {
    if let Some(id) = id_of(to) {
        command(To::Id(id), Command::Interrupt(vector.0));
    }
}

/// Interrupts all CPUs but the calling one, by one command. Callable from everywhere.
pub(crate) fn send_to_others(vector: Vector) {
    // Not for non-maskable interrupts: those would also reach CPUs that have not been started, which have no handler.
    if cpus::count() > 1 {
        command(To::Others, Command::Interrupt(vector.0));
    }
}

/// Sends a CPU a non-maskable interrupt. Nothing happens if it is not up. Callable from everywhere.
pub(crate) fn send_nmi(to: CpuId) {
    if let Some(id) = id_of(to) {
        command(To::Id(id), Command::NonMaskable);
    }
}

/// Resets the CPU with this APIC id, which then waits for [`send_startup`].
pub(crate) fn send_init(apic_id: u32) {
    command(To::Id(apic_id), Command::Init);
}

/// Starts a CPU that was reset: in real mode, at the start of the page with the number `page`, below 1 MiB.
pub(crate) fn send_startup(apic_id: u32, page: u8) {
    command(To::Id(apic_id), Command::Startup(page));
}

fn command(to: To, command: Command) {
    without_interrupts(|| {
        let apic = local_apic();
        for _ in 0..SEND_POLLS {
            if !apic.is_sending() {
                break;
            }
            core::hint::spin_loop();
        }
        apic.send(to, command);
    });
}

/// Logs the error that the APIC reports. Called on the interrupt stack.
pub(crate) fn report_error() {
    log::error!("local APIC of CPU {}: error status {:#x}", percpu::current(), local_apic().take_errors());
}

/// Whether the timer can wait for a value of the time stamp counter.
pub(super) fn has_deadline_timer() -> bool {
    cpuid::features().has_tsc_deadline()
}

/// Sets the timer of this CPU, not armed.
pub(super) fn set_timer(mode: TimerMode) {
    local_apic().set_timer(mode, TIMER.0);
}

/// Starts the timer of this CPU, which is in one-shot mode.
#[inline]
pub(super) fn start_timer(counts: u32) {
    local_apic().start_timer(counts);
}

/// Starts the timer of this CPU, which is in deadline mode.
#[inline]
pub(super) fn start_timer_at(time_stamp: u64) {
    local_apic().start_timer_at(time_stamp);
}

/// Stops the timer of this CPU, which is in this mode.
#[inline]
pub(super) fn stop_timer(mode: TimerMode) {
    local_apic().stop_timer(mode);
}

/// The remaining counts of the timer, in one-shot mode.
pub(super) fn timer_counts() -> u32 {
    local_apic().read(Register::TimerCurrent)
}
