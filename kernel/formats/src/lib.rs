//! The encoding of what the kernel writes to hardware and reads from firmware, tested without the hardware.
//!
//! The kernel itself is tested in a virtual machine, which does not have every mode of every device: QEMU's TCG has neither the
//! x2APIC nor the TSC-deadline timer. The code that determines the values of their registers is here. It accesses them through
//! a [`Bus`](local_apic::Bus), which is the hardware in the kernel and a recorder in the tests of this crate.
//!
//! - [`local_apic`]: the local APIC in its two modes, and its timer in its two modes.
//! - [`soft_off`]: turning the computer off by ACPI.
//! - [`suspicion`]: when the watchdog reports a CPU.
//!
//! Nothing here allocates or blocks.
#![no_std]
#![deny(unsafe_code)]

pub mod local_apic;
pub mod soft_off;
pub mod suspicion;
