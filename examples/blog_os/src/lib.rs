//! A small kernel in the style of the `blog_os` tutorial that runs its tasks on [`gmp_sched`]. This library contains
//! what such a tutorial builds before it comes to tasks: a console, memory, a clock and interrupts. The two programs
//! add the tasks in two steps:
//!
//! | program | what |
//! |---|---|
//! | `src/bin/cooperative.rs` | one CPU, no interrupts: a G runs until it waits or yields |
//! | `src/bin/preemptive.rs` | a timer (PIT, through the PIC) ends time slices, and the idle CPU halts |
//!
//! `cargo run --bin cooperative` in this folder builds the first program and boots it in QEMU. The guide
//! `gmp_sched::porting` describes what the scheduler requires of each part.

#![no_std]

extern crate alloc;

mod c_functions;
pub mod clock;
pub mod console;
pub mod interrupts;
pub mod memory;

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

use x86_64::instructions::port::Port;

global_asm!(
    include_str!("boot.s"),
    stacks = sym memory::STACKS,
    stack_bytes = const memory::STACKS_BYTES,
    options(att_syntax)
);

/// Turns the computer off, through the ACPI port of QEMU's machine `pc`.
pub fn power_off() -> ! {
    // SAFETY: the only effect of this write is to turn the computer off.
    unsafe { Port::<u16>::new(0x604).write(0x2000) };
    halt()
}

/// Ends QEMU with a status that is not zero.
pub fn fail() -> ! {
    // SAFETY: this is the port of QEMU's device `isa-debug-exit`. Writing to it only ends QEMU.
    unsafe { Port::<u32>::new(0x501).write(1) };
    halt()
}

fn halt() -> ! {
    loop {
        // SAFETY: these instructions only stop the CPU, as the caller wants.
        unsafe { asm!("cli", "hlt") };
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    println!("{info}");
    fail()
}
