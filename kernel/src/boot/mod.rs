//! The boot: from the first instruction of the kernel to a running scheduler, with all CPUs, memory and devices.
//!
//! There are two boot protocols: PVH (`pvh`), which QEMU's `-kernel` uses, and the rust-osdev bootloader
//! (`bootloader`). Both call [`start`] with a [`BootInfo`]. Later code does not depend on which of them was used.

mod ap_start;
mod bootloader;
mod options;
mod pvh;

use core::arch::naked_asm;
use core::mem;

use boot_protocol::command_line::DISK;
use bootloader_api::BootInfo;
use bootloader_api::info::Optional;

use crate::arch::acpi;
use crate::arch::x86_64::{apic, cpu, cpuid, gdt, interrupts, ioapic, timer};
use crate::cpu::{cpus, local};
use crate::diagnostics::{inspection, isolation, panic, watchdog};
use crate::drivers::{console, disk, net, random, screen};
use crate::mm::stack::{self, Stack};
use crate::mm::{self, FormerUse, PAGE_SIZE, emulated_tlb, frame};
use crate::program::{self, args, exit};
use crate::sched::startup::{self, Program};
use crate::traps::idt;

/// The first half of the boot: from the boot protocol's environment to the boot CPU's final stack.
///
/// Called with interrupts off and SSE on. All physical memory below 4 GiB is mapped at [`mm::PHYSICAL_OFFSET`], and the
/// other CPUs have not started. `command_line` is the whole command line, as the boot protocol has passed it.
/// `former_use` is what was done with the usable memory before. Each step establishes a condition that holds from there
/// on:
///
/// | step | from here on |
/// |---|---|
/// | `local::init_boot_cpu` | per-CPU data can be used, and so can locks, which need them; the boot CPU is pinned once |
/// | `screen::init` | the console's output is also shown on the screen, if the boot protocol has passed a framebuffer |
/// | `console::init` | `println!` and the log work; a panic is reported |
/// | `gdt::load_early`, `idt::init` | an exception is reported; all exceptions share one stack |
/// | `cpu::init` | the control registers have the values that the kernel needs |
/// | `mm::init` | frames and heap memory can be allocated; the kernel's own page tables are in use |
/// | `args::init`, `options::check` | kernel options can be read; each is known, and its value is one that the table of options allows |
/// | `require_frames` | there is enough memory for the scheduler and a small program on one CPU |
/// | `console::configure` | the log has its level; it is known whether standard error is a terminal |
/// | `acpi::init` | it is known which CPUs and interrupt controllers there are, and how to turn the computer off |
/// | `enter` | the boot CPU is on its final stack, which has a guard page |
fn start(boot_info: &'static mut BootInfo, command_line: &'static str, former_use: FormerUse) -> ! {
    local::init_boot_cpu();
    if let Optional::Some(framebuffer) = mem::replace(&mut boot_info.framebuffer, Optional::None) {
        screen::init(framebuffer);
    }
    console::init();
    gdt::load_early();
    idt::init();
    cpu::init();
    mm::init(&boot_info.memory_regions, former_use);
    args::init(command_line);
    options::check();
    require_frames(DEVICE_FRAMES);
    console::configure(options::log_level(), options::drain_time(), options::stderr_is_terminal());
    pvh::warn_of_ignored_regions();
    acpi::init(boot_info.rsdp_addr.into_option());

    let stack = Stack::allocate_whole(stack::CPU_STACK_BYTES).expect("no memory for the boot CPU's stack");
    // SAFETY: the stack was just allocated with all its pages, nothing else uses it, and it is never freed, since
    // `into_raw` leaks it.
    unsafe { enter(stack.into_raw(), start_devices) }
}

/// The second half of the boot, on the boot CPU's final stack. Interrupts stay off until the scheduler runs.
///
/// | step | from here on |
/// |---|---|
/// | `gdt::load` | the handlers of interrupts and exceptions have their final stacks, with guard pages |
/// | `interrupts::init`, `apic::init`, `ioapic::init` | interrupts can be sent to CPUs, and those of devices can be routed to CPUs |
/// | `ap_start::send_init` | the other CPUs are being reset, which takes 10 ms |
/// | `timer::calibrate`, `timer::set_alignment`, `timer::init_cpu` | the clock runs; the boot CPU's timer can be armed |
/// | `emulated_tlb::init`, `emulated_tlb::enlarge` | if QEMU emulates the CPUs, its TLB for the boot CPU is large |
/// | `ap_start::start` | all CPUs that have started in time are up, and wait for kernel threads in `cpu_main` |
/// | `console::start_virtio` | output uses the virtio console, if there is one, so the serial port does not interrupt for output |
/// | `console::serve` | the serial port's interrupt, or a timer, writes the console's ring to the port; input is read |
/// | `random::init` | the source of random numbers is chosen |
/// | `disk::init` | disks can be used by Gs |
/// | `net::init` | the network can be used by Gs |
/// | `watchdog::init` | a CPU that waits for a lock with interrupts off checks the other CPUs meanwhile |
/// | `panic::init` | a panic in the source of the program is a fault of the program, also with preemption off |
/// | `isolation::init` | it is decided whether a panic ends one G or the program |
/// | `require_frames` | there is enough memory for one P, even if the devices have taken much |
/// | `startup::boot_main` | the scheduler runs the program |
extern "C" fn start_devices() -> ! {
    gdt::load(gdt::Tables::allocate().expect("no memory for the boot CPU's interrupt stacks"));
    interrupts::init();
    apic::init();
    ioapic::init();
    // The reset of the other CPUs takes 10 ms. The calibration of the clocks takes as long, so both are done at the
    // same time.
    let processors = ap_start::send_init();
    timer::calibrate(options::timer());
    timer::set_alignment(options::aligns_timer());
    timer::init_cpu();
    if cpuid::is_emulated() {
        emulated_tlb::init();
    }
    emulated_tlb::enlarge();
    ap_start::start(processors);
    if options::allows_virtio_console() {
        console::start_virtio();
    }
    console::serve(options::console_service(), || inspection::write("the console"));
    random::init(options::seed());
    disk::init(args::options(DISK), options::disk_timeout(), options::disk_model());
    net::init(options::net_configuration());
    watchdog::init();
    panic::init(program::source_prefix());
    isolation::init(options::panic());
    require_frames(0);
    // SAFETY: this is called once, on the boot CPU's final stack, with interrupts off.
    unsafe { startup::boot_main(&options::scheduler(), PROGRAM) }
}

/// How many frames the boot takes after [`require_frames`] was first called and before the scheduler starts: for the
/// stacks of the boot CPU, and for the buffers of a console, a source of random numbers and a small disk. A network
/// device or a larger disk takes more.
const DEVICE_FRAMES: usize = 96;

/// Ends the kernel with the status of a wrong use if fewer than `more` frames would be left beside those that the
/// scheduler needs on the CPUs that are up, with one P. The message names the least memory with which the kernel
/// starts.
fn require_frames(more: usize) {
    let (needed, left) = (startup::frames_for_start(cpus::count(), 1) + more, startup::frames_left());
    if left < needed {
        let missing = needed - left;
        // The tables of the frame allocator take less than a hundredth of the memory that is added.
        let least = (frame::end_of_memory() + missing + missing / 100) * PAGE_SIZE;
        crate::eprintln!("too little memory: this machine needs at least {} MiB", least.div_ceil(1 << 20));
        exit::exit(options::WRONG_USE)
    }
}

/// The program that the scheduler runs, and the function that ends the kernel after a fatal error.
const PROGRAM: Program = Program {
    stack_size: program::stack_size,
    policy: program::policy,
    main: || exit::exit(program::run()),
    fatal: panic::fatal,
};

/// Returns a command line as text. If the bytes are not valid UTF-8, returns only the valid part before the first
/// error.
fn valid_text(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Switches to the stack whose upper end is `top`, and calls `next` there.
///
/// # Safety
/// `top` must be the 16-byte aligned end of a mapped stack that nothing else uses.
#[unsafe(naked)]
unsafe extern "C" fn enter(top: usize, next: extern "C" fn() -> !) -> ! {
    // Backtraces end at a frame pointer of zero.
    naked_asm!("mov rsp, rdi", "xor ebp, ebp", "call rsi", "ud2")
}
