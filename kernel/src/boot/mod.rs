//! From the first instruction of Rust to a machine with all its CPUs, memory and devices.
//!
//! Two boot protocols end in [`start`] with the same [`BootInfo`]: PVH (`pvh`, what QEMU's `-kernel` does) and the
//! rust-osdev bootloader (`bootloader`). Nothing after this module knows which one it was.

mod bootloader;
mod pvh;

use core::arch::naked_asm;

use bootloader_api::BootInfo;

use crate::arch::acpi;
use crate::arch::x86_64::{ap_start, apic, cpu, gdt, idt, interrupts, ioapic, timer};
use crate::cpu::local;
use crate::drivers::{console, disk};
use crate::mm;
use crate::mm::stack::{self, Stack};
use crate::program::args;
use crate::sched::platform;

/// Takes the boot CPU from the boot protocol's environment to a stack of its own.
///
/// Expects interrupts off, SSE on, and all physical memory below 4 GiB mapped at [`mm::PHYSICAL_OFFSET`].
/// `command_line` is what the boot protocol handed over, not yet split.
fn start(boot_info: &'static mut BootInfo, command_line: &'static str) -> ! {
    local::init_boot_cpu();
    console::init();
    gdt::load_early();
    idt::init();
    cpu::init();
    mm::init(&boot_info.memory_regions);
    args::init(command_line);
    console::configure();
    acpi::init(boot_info.rsdp_addr.into_option());

    let stack = Stack::allocate_whole(stack::CPU_STACK_BYTES).expect("no memory for the boot CPU's stack");
    // SAFETY: the stack is whole, was just allocated and is never freed; `start_devices` does not return to this one.
    unsafe { enter(stack.into_raw(), start_devices) }
}

/// The rest of the boot, on the boot CPU's final stack.
extern "C" fn start_devices() -> ! {
    gdt::load(gdt::Tables::allocate().expect("no memory for the boot CPU's interrupt stacks"));
    interrupts::init();
    apic::init();
    ioapic::init();
    // The wait that INIT asks for is spent on measuring the clocks.
    let processors = ap_start::send_init();
    timer::calibrate();
    timer::init_cpu();
    ap_start::start(processors);
    console::enable_interrupt();
    disk::init();
    // SAFETY: on the stack of this CPU, once, with interrupts off.
    unsafe { platform::boot_main() }
}

/// Continues in `next` on the stack that ends at `top`.
///
/// # Safety
/// `top` must be the 16-byte aligned end of a mapped stack that nothing else uses.
#[unsafe(naked)]
unsafe extern "C" fn enter(top: usize, next: extern "C" fn() -> !) -> ! {
    // The zero frame pointer ends backtraces.
    naked_asm!("mov rsp, rdi", "xor ebp, ebp", "call rsi", "ud2")
}
