//! Interrupts: segments and the interrupt stack, the interrupt table, the PIC, and the timer (PIT).

use alloc::boxed::Box;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use x86_64::VirtAddr;
use x86_64::instructions::interrupts::without_interrupts;
use x86_64::instructions::port::Port;
use x86_64::instructions::segmentation::{CS, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::idt::InterruptDescriptorTable;
use x86_64::structures::tss::TaskStateSegment;

use crate::{clock, memory};

/// The vector of the timer: the first one that is not an exception.
const TIMER: u8 = 32;

/// When the armed timer is to fire, in ns of the clock; `u64::MAX` if the timer is not armed. If this time is more than
/// 50 ms away, the timer fires earlier (see [`arm`]).
static ARMED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The registers of the interrupted code, which [`timer_stub`] and the CPU have stored on the interrupt stack.
#[repr(C)]
pub struct TrapFrame {
    pub rdi: u64,
    pub others: [u64; 14],
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

unsafe extern "Rust" {
    /// The handler of the timer's interrupt, which the program defines. Called on the interrupt stack, with interrupts
    /// off. Afterwards the interrupted code continues with the registers in `frame`.
    safe fn timer_interrupt(frame: &mut TrapFrame);
}

/// Saves all registers that the handler may change, including those of SSE, calls the handler, and restores the
/// registers.
#[unsafe(naked)]
extern "C" fn timer_stub() {
    naked_asm!(
        "push rax", "push rcx", "push rdx", "push rbx", "push rbp", "push rsi",
        "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        "push rdi",
        "cld",
        "mov rdi, rsp",
        "mov rbx, rsp",
        "sub rsp, 512",
        "and rsp, -16",
        "fxsave64 [rsp]",
        "call {handler}",
        "fxrstor64 [rsp]",
        "mov rsp, rbx",
        "pop rdi",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rsi", "pop rbp", "pop rbx", "pop rdx", "pop rcx", "pop rax",
        "iretq",
        handler = sym handle,
    )
}

extern "sysv64" fn handle(frame: &mut TrapFrame) {
    ARMED.store(u64::MAX, Relaxed);
    // SAFETY: this write only signals the end of the interrupt to the PIC. It comes before the handler, because another
    // G may run after the handler, and the timer must be able to interrupt that G.
    unsafe { Port::<u8>::new(0x20).write(0x20) };
    timer_interrupt(frame);
}

/// Loads the segment table and the interrupt table, and routes the timer's interrupt to [`timer_interrupt`]. Called
/// once, with interrupts off.
pub fn init() {
    let stack = memory::allocate_stack(16 * 1024).expect("a stack for interrupts");
    let tss = Box::leak(Box::new(TaskStateSegment::new()));
    // Handlers have a stack of their own, because they must not write to the red zone below the stack pointer of the
    // interrupted code.
    tss.interrupt_stack_table[0] = VirtAddr::new(stack.end as u64);
    let gdt = Box::leak(Box::new(GlobalDescriptorTable::new()));
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let task = gdt.append(Descriptor::tss_segment(tss));
    gdt.load();
    // SAFETY: these segments are in the table that was just loaded.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        load_tss(task);
    }
    let idt = Box::leak(Box::new(InterruptDescriptorTable::new()));
    // SAFETY: the stub is a handler for an interrupt without an error code, and entry 0 of the TSS is a stack for
    // handlers.
    unsafe { idt[TIMER].set_handler_addr(VirtAddr::new(timer_stub as *const () as u64)).set_stack_index(0) };
    idt.load();
    // Initialises both PICs. The pairs of writes start the initialisation, set the first vectors, describe how the PICs
    // are connected, select 8086 mode, and set the masks. All interrupts except IRQ 0, the timer, are masked.
    for (port, value) in [
        (0x20, 0x11),
        (0xa0, 0x11),
        (0x21, TIMER),
        (0xa1, TIMER + 8),
        (0x21, 4),
        (0xa1, 2),
        (0x21, 1),
        (0xa1, 1),
        (0x21, 0xfe),
        (0xa1, 0xff),
    ] {
        // SAFETY: these are the ports of the PICs. Before interrupts are on, only this function uses them.
        unsafe { Port::<u8>::new(port).write(value) };
    }
}

/// Makes the timer fire at the time `when`, in ns of the clock. If the timer is already armed for this time or an
/// earlier one, does nothing. The PIT can count for at most 55 ms. So if `when` is more than 50 ms away, the timer
/// fires after 50 ms, and the program has to arm it again. Callable from the handler.
pub fn arm(when: u64) {
    without_interrupts(|| {
        if when >= ARMED.load(Relaxed) {
            return;
        }
        ARMED.store(when, Relaxed);
        let ns = when.saturating_sub(clock::nanoseconds()).min(50_000_000);
        let [low, high] = ((ns * clock::PIT_HZ / 1_000_000_000 + 1) as u16).to_le_bytes();
        // SAFETY: these writes set channel 0 of the PIT to mode 0, in which it raises one interrupt when the count is
        // over.
        unsafe {
            Port::<u8>::new(0x43).write(0b0011_0000);
            Port::<u8>::new(0x40).write(low);
            Port::<u8>::new(0x40).write(high);
        }
    });
}
