//! The boot: from the first instruction of Rust to a running scheduler, with all CPUs, memory and devices.
//!
//! Two boot protocols end in [`start`] with the same [`BootInfo`]: PVH (`pvh`, what QEMU's `-kernel` does) and the rust-osdev
//! bootloader (`bootloader`). Later code does not depend on which one it was.

mod ap_start;
mod bootloader;
mod options;
mod pvh;

use core::arch::naked_asm;

use boot_protocol::command_line::DISK;
use bootloader_api::BootInfo;

use crate::arch::acpi;
use crate::arch::x86_64::{apic, cpu, gdt, interrupts, ioapic, timer};
use crate::cpu::local;
use crate::diagnostics::{inspection, isolation, panic};
use crate::drivers::{console, disk};
use crate::mm;
use crate::mm::stack::{self, Stack};
use crate::program::{self, args, exit};
use crate::sched::startup::{self, Program};
use crate::traps::idt;

/// Takes the boot CPU from the boot protocol's environment to a stack of its own.
///
/// Before: interrupts are off, SSE is on, all physical memory below 4 GiB is mapped at [`mm::PHYSICAL_OFFSET`], and the other
/// CPUs have not started. `command_line` is what the boot protocol has passed, not yet split. After each step holds:
///
/// | step | from here on |
/// |---|---|
/// | `local::init_boot_cpu` | per-CPU data can be used, and with them locks; the boot CPU is pinned once |
/// | `console::init` | `println!` and the log work; a panic is reported |
/// | `gdt::load_early`, `idt::init` | an exception is reported; all of them share one stack |
/// | `cpu::init` | the control registers are as the kernel wants them |
/// | `mm::init` | frames, the kernel's own page tables, the heap |
/// | `args::init`, `console::configure` | kernel options can be read; the log has its level |
/// | `acpi::init` | the CPUs, interrupt controllers and the way to turn the computer off are known |
/// | `enter` | the boot CPU is on its final stack, which has a guard page |
fn start(boot_info: &'static mut BootInfo, command_line: &'static str) -> ! {
    local::init_boot_cpu();
    console::init();
    gdt::load_early();
    idt::init();
    cpu::init();
    mm::init(&boot_info.memory_regions);
    args::init(command_line);
    console::configure(options::log_level(), options::drain_time());
    acpi::init(boot_info.rsdp_addr.into_option());

    let stack = Stack::allocate_whole(stack::CPU_STACK_BYTES).expect("no memory for the boot CPU's stack");
    // SAFETY: the stack is whole, was just allocated and is never freed; `start_devices` does not return to this one.
    unsafe { enter(stack.into_raw(), start_devices) }
}

/// The rest of the boot, on the boot CPU's final stack. Interrupts stay off until the scheduler runs.
///
/// | step | from here on |
/// |---|---|
/// | `gdt::load` | traps have their final stacks, with guard pages |
/// | `interrupts::init`, `apic::init`, `ioapic::init` | vectors have handlers, CPUs can be interrupted, devices can be routed |
/// | `ap_start::send_init` | the other CPUs are being reset, which takes 10 ms |
/// | `timer::calibrate`, `timer::init_cpu` | the clock runs; the boot CPU's timer can be armed |
/// | `ap_start::start` | all CPUs that answer are up, in their `cpu_main`, waiting for kernel threads |
/// | `console::serve` | the port's interrupt, or a timer, empties the console's ring; input is read |
/// | `disk::init` | disks can be used by Gs |
/// | `isolation::init` | it is decided whether a panic ends one G or the program |
/// | `startup::boot_main` | the scheduler runs the program |
extern "C" fn start_devices() -> ! {
    gdt::load(gdt::Tables::allocate().expect("no memory for the boot CPU's interrupt stacks"));
    interrupts::init();
    apic::init();
    ioapic::init();
    // The reset of the other CPUs takes 10 ms, and so does the calibration of the clocks: both run at the same time.
    let processors = ap_start::send_init();
    timer::calibrate(options::timer());
    timer::init_cpu();
    ap_start::start(processors);
    console::serve(options::console_service(), || inspection::write("the console"));
    disk::init(args::options(DISK));
    isolation::init(options::panic());
    // SAFETY: called once, on the boot CPU's stack, with interrupts off.
    unsafe { startup::boot_main(&options::scheduler(), PROGRAM) }
}

/// What the scheduler runs, and how the kernel ends if that cannot continue.
const PROGRAM: Program = Program { main: || exit::exit(program::run()), fatal: panic::fatal };

/// Continues in `next` on the stack that ends at `top`.
///
/// # Safety
/// `top` must be the 16-byte aligned end of a mapped stack that nothing else uses.
#[unsafe(naked)]
unsafe extern "C" fn enter(top: usize, next: extern "C" fn() -> !) -> ! {
    // The zero frame pointer ends backtraces.
    naked_asm!("mov rsp, rdi", "xor ebp, ebp", "call rsi", "ud2")
}
