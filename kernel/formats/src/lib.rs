//! Computes values that the kernel writes to device registers, and parses values that it reads from firmware tables and
//! from the configuration space of devices. It also contains computations and state machines of the kernel that need no
//! hardware, such as that of the watchdog. The tests of this crate need no hardware either.
//!
//! The kernel itself is tested in a virtual machine, which does not have every mode of every device: the TCG of QEMU
//! 7.2 has no x2APIC and no TSC-deadline timer. So the code for these two is in this crate, where it is tested without
//! them. The code accesses their registers through the trait [`Bus`](local_apic::Bus). The kernel implements `Bus` with
//! the hardware, and the tests of this crate implement `Bus` with a recorder.
//!
//! - [`acpi`]: how the firmware's tables are found, and what is in two of them.
//! - [`bars`]: where the registers of a PCI device are, and how many bytes they have.
//! - [`calibration`]: how the rates of the clocks are measured.
//! - [`capabilities`]: where a PCI device says that its registers are.
//! - [`fixed_point`]: how the units of one clock are converted to those of another.
//! - [`in_use`]: memory that the loader's memory map wrongly calls usable.
//! - [`local_apic`]: the local APIC in its two modes, and its timer in its two modes.
//! - [`madt`]: the firmware's table of CPUs and interrupt controllers.
//! - [`memory_map`]: the usable parts of a memory map whose regions overlap.
//! - [`other_cpus`]: which CPUs are started, and which of them may enter the kernel.
//! - [`pin_series`]: for how long a CPU had preemption off.
//! - [`soft_off`]: how to turn the computer off by ACPI.
//! - [`suspicion`]: when the watchdog reports a CPU.
//!
//! No function of this crate allocates or blocks.
#![no_std]
#![deny(unsafe_code)]

pub mod acpi;
pub mod bars;
pub mod calibration;
pub mod capabilities;
pub mod fixed_point;
pub mod in_use;
pub mod local_apic;
pub mod madt;
pub mod memory_map;
pub mod other_cpus;
pub mod pin_series;
pub mod soft_off;
pub mod suspicion;
