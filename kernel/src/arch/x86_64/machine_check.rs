//! Machine checks: errors that the hardware detects in itself (SDM 3B, chapter 16). A machine check stops the kernel
//! with a report of what the processor has recorded. If CR4.MCE were off, the processor would reset instead.
//!
//! The processor records errors in *banks*, each of four model-specific registers. The meaning of most bits depends on
//! the processor model.

use core::fmt;
use core::ops::Range;

use x86_64::registers::model_specific::Msr;

use super::cpuid;

const GLOBAL_CAPABILITIES: u32 = 0x179;
const GLOBAL_STATUS: u32 = 0x17a;
const GLOBAL_CONTROL: u32 = 0x17b;
/// The first register of bank 0.
const BANKS: u32 = 0x400;

/// The bits of the capabilities register that hold the number of banks.
const BANK_COUNT: u64 = 0xff;
/// The bit of the capabilities register that says that there is a global control register.
const HAS_GLOBAL_CONTROL: u64 = 1 << 8;

/// The bit of a bank's status register that says that the bank has recorded an error.
const IS_VALID: u64 = 1 << 63;
/// The bit of a bank's status register that says that the bank's address register contains the address of the error.
const HAS_ADDRESS: u64 = 1 << 58;

/// The registers of a bank that the kernel uses. The variant's number is the register's index in the bank.
#[derive(Clone, Copy)]
enum Register {
    Control = 0,
    Status = 1,
    Address = 2,
}

fn has_banks() -> bool {
    let features = cpuid::features();
    features.has_mce() && features.has_mca()
}

fn read(number: u32) -> u64 {
    // SAFETY: the callers read only registers whose existence the processor reports. Reading them has no side effect.
    unsafe { Msr::new(number).read() }
}

fn write(number: u32, value: u64) {
    // SAFETY: the callers write only registers whose existence the processor reports. These registers only control
    // error reports and record errors, so a write cannot violate memory safety.
    unsafe { Msr::new(number).write(value) }
}

fn bank(index: u32, register: Register) -> u32 {
    BANKS + 4 * index + register as u32
}

fn banks() -> Range<u32> {
    let count = if has_banks() { read(GLOBAL_CAPABILITIES) & BANK_COUNT } else { 0 };
    0..u32::try_from(count).expect("eight bits")
}

/// Makes this CPU report the errors that it can detect, as soon as CR4.MCE is set. For bank 0 of the oldest models, the
/// firmware has chosen which errors are reported. Also clears the banks, which may contain errors from before the boot.
pub(super) fn init() {
    if has_banks() && read(GLOBAL_CAPABILITIES) & HAS_GLOBAL_CONTROL != 0 {
        write(GLOBAL_CONTROL, u64::MAX);
    }
    for index in banks() {
        if index != 0 || !is_first_control_of_firmware() {
            write(bank(index, Register::Control), u64::MAX);
        }
        write(bank(index, Register::Status), 0);
    }
}

/// Whether the control register of bank 0 is reserved for the firmware, as it is on the oldest models. If so, the
/// kernel must not write to this register.
fn is_first_control_of_firmware() -> bool {
    let features = cpuid::features();
    features.family_id() == 6 && features.model_id() < 0x1a
}

/// The errors in the banks of the calling CPU. The `Display` of this type writes a part of the report of a machine
/// check.
pub(crate) struct Errors;

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !has_banks() {
            return Ok(());
        }
        write!(f, ": global status {:#x}", read(GLOBAL_STATUS))?;
        for index in banks() {
            let status = read(bank(index, Register::Status));
            if status & IS_VALID != 0 {
                write!(f, "\nbank {index}: status {status:#018x}")?;
                if status & HAS_ADDRESS != 0 {
                    write!(f, ", address {:#018x}", read(bank(index, Register::Address)))?;
                }
            }
        }
        Ok(())
    }
}
