//! The local APIC of each CPU (SDM 11): signals the end of an interrupt, sends interrupts to other CPUs, and contains a
//! timer.
//!
//! The kernel uses xAPIC mode, in which the registers are in memory. It uses x2APIC mode only if the firmware has left
//! that mode on, or if the APIC id of a CPU is above 254. [`kernel_formats::local_apic`] computes the values of the
//! registers; this module accesses the hardware.

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

/// The bits of the register [`APIC_BASE`] that hold the physical address of the APIC's registers.
const BASE_ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The maximum number of times that [`command`] polls whether the previous command has been sent. After that many polls
/// it sends the next command anyway, so that a panic cannot hang here. Usually the first poll finds that the command
/// has been sent.
const SEND_POLLS: u32 = 1_000_000;

/// The virtual address of the registers, which is the same for every CPU. Null in x2APIC mode, in which the registers
/// are not in memory.
static REGISTERS: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// The registers of the calling CPU's APIC. To be used only after [`init`].
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
        // SAFETY: `init` has mapped the APIC's registers, and `offset` is the offset of a register. Reading that
        // register has no side effect.
        unsafe { self.register(offset).read_volatile() }
    }

    #[inline(always)]
    fn write_memory(&self, offset: u16, value: u32) {
        // SAFETY: `init` has mapped the APIC's registers, and `offset` is the offset of a register. `LocalApic` writes
        // only values that are valid for that register.
        unsafe { self.register(offset).write_volatile(value) }
    }

    #[inline]
    fn read_msr(&self, number: u32) -> u64 {
        // SAFETY: `LocalApic` accesses only registers that exist in the chosen mode.
        unsafe { Msr::new(number).read() }
    }

    #[inline]
    fn write_msr(&self, number: u32, value: u64) {
        // SAFETY: `LocalApic` writes only registers that exist in the chosen mode, and only values that are valid for
        // them.
        unsafe { Msr::new(number).write(value) }
    }

    #[inline]
    fn fence(&self) {
        // SAFETY: this instruction needs SSE2, which every x86_64 processor has.
        unsafe { _mm_mfence() };
        // SAFETY: this instruction needs SSE2, which every x86_64 processor has.
        unsafe { _mm_lfence() };
    }
}

cpu_local! {
    /// The id of this CPU's local APIC.
    static APIC_ID: AtomicU32 = AtomicU32::new(0);
}

/// Returns the APIC of the calling CPU.
#[inline(always)]
fn local_apic() -> LocalApic<Hardware> {
    let registers = REGISTERS.load(Ordering::Relaxed);
    LocalApic::new(Hardware { registers }, if registers.is_null() { Mode::X2Apic } else { Mode::XApic })
}

/// Chooses the mode, maps the registers if they are in memory, and enables the APIC of the boot CPU.
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

/// Enables the APIC of the calling CPU.
pub(crate) fn init_cpu() {
    let apic = local_apic();
    apic.enter();
    APIC_ID.here().store(apic.id(), Ordering::Relaxed);
    apic.enable(SPURIOUS.0, ERROR.0);
}

fn mode() -> Mode {
    if REGISTERS.load(Ordering::Relaxed).is_null() { Mode::X2Apic } else { Mode::XApic }
}

/// Whether the chosen mode can address the CPU with this APIC id.
pub(crate) fn is_in_reach(id: u32) -> bool {
    mode() == Mode::X2Apic || id <= LAST_XAPIC_ID
}

/// Returns the id of the calling CPU's APIC.
pub(crate) fn id() -> u32 {
    local_apic().id()
}

/// Signals to the APIC that the current interrupt has been handled.
#[inline]
pub(crate) fn end_of_interrupt() {
    local_apic().end_of_interrupt();
}

/// Returns the id of the local APIC of `cpu`, or `None` if that CPU is not up.
pub(crate) fn id_of(cpu: CpuId) -> Option<u32> {
    APIC_ID.of(cpu).map(|id| id.load(Ordering::Relaxed))
}

/// Returns the APIC id to which a device sends interrupts that are meant for `cpu`. Devices can address only ids of
/// eight bits. If the id of `cpu` is larger, returns the id of another CPU. Returns `None` if the ids of all CPUs are
/// larger. Callable only when all CPUs are up.
pub(crate) fn device_target(cpu: CpuId) -> Option<u8> {
    local_apic::device_target([cpu].into_iter().chain(cpus::all()).filter_map(id_of))
}

/// Whether interrupts of devices can reach `cpu` itself. Callable only when all CPUs are up.
pub(crate) fn is_device_target(cpu: CpuId) -> bool {
    device_target(cpu).map(u32::from) == id_of(cpu)
}

/// Interrupts a CPU on `vector`. Does nothing if the CPU is not up. Callable from everywhere.
pub(crate) fn send(to: CpuId, vector: Vector) {
    if let Some(id) = id_of(to) {
        command(To::Id(id), Command::Interrupt(vector.0));
    }
}

/// Interrupts all CPUs except the calling one on `vector`, by one command. Callable from everywhere.
pub(crate) fn send_to_others(vector: Vector) {
    // This function must not send non-maskable interrupts, because they would also reach CPUs that the kernel has not
    // started. Such CPUs have no handler for them.
    if cpus::count() > 1 {
        command(To::Others, Command::Interrupt(vector.0));
    }
}

/// Sends a non-maskable interrupt to a CPU. Does nothing if the CPU is not up. Callable from everywhere.
pub(crate) fn send_nmi(to: CpuId) {
    if let Some(id) = id_of(to) {
        command(To::Id(id), Command::NonMaskable);
    }
}

/// Sends a non-maskable interrupt to the CPU with this APIC id, which need not be up.
pub(crate) fn send_nmi_to_id(apic_id: u32) {
    command(To::Id(apic_id), Command::NonMaskable);
}

/// Resets the CPU with this APIC id. The CPU then waits for [`send_startup`].
pub(crate) fn send_init(apic_id: u32) {
    command(To::Id(apic_id), Command::Init);
}

/// Starts a CPU that was reset. The CPU starts in real mode at the first byte of page number `page`. The number has
/// eight bits, so the page is below 1 MiB.
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

/// Logs the errors that the APIC reports. Called by the handler of the APIC's error interrupt.
pub(crate) fn report_error() {
    log::error!("local APIC of CPU {}: error status {:#x}", percpu::current(), local_apic().take_errors());
}

/// Whether the timer has a deadline mode, in which it fires when the time stamp counter reaches a value.
pub(super) fn has_deadline_timer() -> bool {
    cpuid::features().has_tsc_deadline()
}

/// Sets the mode and the vector of this CPU's timer. Leaves the timer stopped.
pub(super) fn set_timer(mode: TimerMode) {
    local_apic().set_timer(mode, TIMER.0);
}

/// Makes the timer of this CPU fire after `counts` counts. The timer must be in one-shot mode.
#[inline]
pub(super) fn start_timer(counts: u32) {
    local_apic().start_timer(counts);
}

/// Makes the timer of this CPU fire when the time stamp counter reaches `time_stamp`. The timer must be in deadline
/// mode.
#[inline]
pub(super) fn start_timer_at(time_stamp: u64) {
    local_apic().start_timer_at(time_stamp);
}

/// Stops the timer of this CPU. `mode` is the timer's mode.
#[inline]
pub(super) fn stop_timer(mode: TimerMode) {
    local_apic().stop_timer(mode);
}

/// Returns the remaining counts of this CPU's timer, which must be in one-shot mode.
pub(super) fn timer_counts() -> u32 {
    local_apic().read(Register::TimerCurrent)
}
