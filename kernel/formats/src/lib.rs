//! What the kernel writes to hardware and reads from firmware, bit by bit, without the hardware.
//!
//! The kernel cannot be tested but in a machine, and no machine has every mode of every device: QEMU's TCG has neither
//! the x2APIC nor the TSC-deadline timer. What goes to their registers is decided here, over a [`Bus`](local_apic::Bus)
//! that is the hardware in the kernel and a recorder in the tests of this crate.
//!
//! - [`local_apic`]: the local APIC in its two modes, and its timer in its two modes.
//! - [`soft_off`]: how ACPI wants to be told to turn the machine off.
//! - [`suspicion`]: when the watchdog reports a CPU.
//!
//! Nothing here allocates or blocks.
#![no_std]
#![deny(unsafe_code)]

pub mod local_apic;
pub mod soft_off;
pub mod suspicion;
