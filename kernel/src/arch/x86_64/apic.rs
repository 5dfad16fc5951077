//! The local APIC: end of interrupt, interrupts to other CPUs, the registers of the timer (SDM 11).
//!
//! In xAPIC mode, by memory-mapped registers. That is all that QEMU's TCG has; ids up to 254 fit. A firmware that left
//! the x2APIC mode on is refused with a message.

use core::sync::atomic::{AtomicPtr, Ordering};

use x86_64::instructions::interrupts::without_interrupts;
use x86_64::registers::model_specific::{ApicBase, ApicBaseFlags};

use super::interrupts::{ERROR, SPURIOUS, Vector};
use crate::mm::paging;
use crate::percpu::{self, CpuId};

/// Registers, by their offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Register {
    Id = 0x20,
    TaskPriority = 0x80,
    EndOfInterrupt = 0xb0,
    SpuriousVector = 0xf0,
    ErrorStatus = 0x280,
    CommandLow = 0x300,
    CommandHigh = 0x310,
    TimerEntry = 0x320,
    Line0Entry = 0x350,
    Line1Entry = 0x360,
    ErrorEntry = 0x370,
    TimerInitial = 0x380,
    TimerCurrent = 0x390,
    TimerDivide = 0x3e0,
}

const REGISTER_BYTES: usize = 4096;

/// In the spurious vector register: the APIC takes interrupts.
const ENABLED: u32 = 1 << 8;
/// In an entry of the local vector table.
pub(super) const MASKED: u32 = 1 << 16;
/// Delivery modes, in commands and in entries of the local vector table.
const DELIVER_NMI: u32 = 4 << 8;
const DELIVER_INIT: u32 = 5 << 8;
const DELIVER_STARTUP: u32 = 6 << 8;
/// In a command: always set but for one obsolete form of INIT.
const ASSERT: u32 = 1 << 14;
/// In a command: the last one is still on its way.
const SEND_PENDING: u32 = 1 << 12;

/// A pending send is given up after this many looks: a panic must not hang here. It takes less than one on any machine.
const SEND_LOOKS: u32 = 1_000_000;

/// Where the registers are mapped; they are at the same address for every CPU.
static REGISTERS: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

fn register(register: Register) -> *mut u32 {
    let base = REGISTERS.load(Ordering::Relaxed);
    debug_assert!(!base.is_null(), "the local APIC is not mapped yet");
    base.wrapping_add(register as usize).cast()
}

pub(super) fn read(from: Register) -> u32 {
    // SAFETY: a register of the mapped APIC; reading it changes nothing.
    unsafe { register(from).read_volatile() }
}

pub(super) fn write(to: Register, value: u32) {
    // SAFETY: a register of the mapped APIC; the users of this module write only values that are valid there.
    unsafe { register(to).write_volatile(value) }
}

/// Maps the registers and turns the boot CPU's APIC on.
pub(crate) fn init() {
    let (frame, flags) = ApicBase::read();
    assert!(!flags.contains(ApicBaseFlags::X2APIC_ENABLE), "the firmware left the x2APIC on; only xAPIC is supported");
    assert!(flags.contains(ApicBaseFlags::LAPIC_ENABLE), "the local APIC is turned off");
    let registers = paging::map_device(frame.start_address(), REGISTER_BYTES).expect("no memory to map the local APIC");
    REGISTERS.store(registers.as_ptr(), Ordering::Relaxed);
    init_cpu();
}

/// Turns the calling CPU's APIC on.
pub(crate) fn init_cpu() {
    percpu::local().apic_id.store(id(), Ordering::Relaxed);
    write(Register::TimerEntry, MASKED);
    write(Register::Line0Entry, MASKED);
    write(Register::Line1Entry, DELIVER_NMI);
    write(Register::ErrorEntry, u32::from(ERROR.0));
    write(Register::TaskPriority, 0);
    write(Register::SpuriousVector, ENABLED | u32::from(SPURIOUS.0));
    // Errors of the firmware's time are not ours.
    write(Register::ErrorStatus, 0);
    end_of_interrupt();
}

/// The id of the calling CPU's APIC.
pub(super) fn id() -> u32 {
    read(Register::Id) >> 24
}

/// Tells the APIC that the handler of the interrupt in service is done.
#[inline]
pub fn end_of_interrupt() {
    write(Register::EndOfInterrupt, 0);
}

/// Interrupts a CPU. Nothing happens if it is not up. Callable from everywhere.
pub fn send(to: CpuId, vector: Vector) {
    if let Some(local) = percpu::of(to) {
        command(local.apic_id(), ASSERT | u32::from(vector.0));
    }
}

/// Sends a CPU a non-maskable interrupt. Nothing happens if it is not up. Callable from everywhere.
pub(crate) fn send_nmi(to: CpuId) {
    if let Some(local) = percpu::of(to) {
        command(local.apic_id(), ASSERT | DELIVER_NMI);
    }
}

/// Resets the CPU with this APIC id: it then waits for [`send_startup`].
pub(super) fn send_init(apic_id: u32) {
    command(apic_id, ASSERT | DELIVER_INIT);
}

/// Starts a CPU that was reset, in real mode at the beginning of `page`, the number of a page below 1 MiB.
pub(super) fn send_startup(apic_id: u32, page: u8) {
    command(apic_id, ASSERT | DELIVER_STARTUP | u32::from(page));
}

/// Sends one command. It is two writes, which no interrupt handler that sends may come between.
fn command(apic_id: u32, low: u32) {
    without_interrupts(|| {
        for _ in 0..SEND_LOOKS {
            if read(Register::CommandLow) & SEND_PENDING == 0 {
                break;
            }
            core::hint::spin_loop();
        }
        write(Register::CommandHigh, apic_id << 24);
        write(Register::CommandLow, low);
    });
}

/// Notes what the APIC reports. Called on the interrupt stack.
pub(super) fn report_error() {
    // The register shows what happened up to the last write (SDM 11.5.3).
    write(Register::ErrorStatus, 0);
    log::error!("local APIC of CPU {}: error status {:#x}", percpu::current(), read(Register::ErrorStatus));
}
