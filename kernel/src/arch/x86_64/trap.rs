//! Entry and exit of interrupts and exceptions.
//!
//! Each of the 256 vectors has a stub of 16 bytes that pushes its number, and a zero where the processor pushes no
//! error code, so that all of them find the same [`TrapFrame`]. The frame lies on a stack of the interrupt stack table,
//! never on the interrupted one (SDM 6.14.5). It has all registers that Rust code may change, SSE included; the
//! handlers run with interrupts off.

use core::arch::naked_asm;
use core::mem::offset_of;

use super::{cpu, exception, interrupts, preempt};
use crate::cpu::percpu;
use crate::diagnostics::{panic, watchdog};

/// Number of an interrupt or exception.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Vector(pub u8);

/// The exceptions of SDM 6.15 and of AMD's manual.
#[expect(missing_docs, reason = "names of the architecture")]
impl Vector {
    pub const DIVIDE_ERROR: Self = Self(0);
    pub const DEBUG: Self = Self(1);
    pub const NON_MASKABLE: Self = Self(2);
    pub const BREAKPOINT: Self = Self(3);
    pub const OVERFLOW: Self = Self(4);
    pub const BOUND_RANGE: Self = Self(5);
    pub const INVALID_OPCODE: Self = Self(6);
    pub const DEVICE_NOT_AVAILABLE: Self = Self(7);
    pub const DOUBLE_FAULT: Self = Self(8);
    pub const INVALID_TSS: Self = Self(10);
    pub const SEGMENT_NOT_PRESENT: Self = Self(11);
    pub const STACK_SEGMENT: Self = Self(12);
    pub const GENERAL_PROTECTION: Self = Self(13);
    pub const PAGE_FAULT: Self = Self(14);
    pub const X87: Self = Self(16);
    pub const ALIGNMENT_CHECK: Self = Self(17);
    pub const MACHINE_CHECK: Self = Self(18);
    pub const SIMD: Self = Self(19);
    pub const VIRTUALIZATION: Self = Self(20);
    pub const CONTROL_PROTECTION: Self = Self(21);
    pub const HYPERVISOR_INJECTION: Self = Self(28);
    pub const VMM_COMMUNICATION: Self = Self(29);
    pub const SECURITY: Self = Self(30);

    /// The first vector that is not reserved for exceptions.
    pub const FIRST_INTERRUPT: u8 = 32;
}

/// The exceptions for which the processor pushes an error code, one bit each.
const WITH_ERROR_CODE: u32 = 1 << Vector::DOUBLE_FAULT.0
    | 1 << Vector::INVALID_TSS.0
    | 1 << Vector::SEGMENT_NOT_PRESENT.0
    | 1 << Vector::STACK_SEGMENT.0
    | 1 << Vector::GENERAL_PROTECTION.0
    | 1 << Vector::PAGE_FAULT.0
    | 1 << Vector::ALIGNMENT_CHECK.0
    | 1 << Vector::CONTROL_PROTECTION.0
    | 1 << Vector::VMM_COMMUNICATION.0
    | 1 << Vector::SECURITY.0;

/// What was interrupted: the registers, in the order in which the entry stores them. The code continues with what
/// stands here.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TrapFrame {
    pub xmm: [u128; 16],
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    pub vector: u64,
    pub error_code: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

// The processor aligns the stack; the entry relies on the frame keeping it aligned.
const _: () = assert!(size_of::<TrapFrame>().is_multiple_of(16));

impl TrapFrame {
    /// How many words stand behind the SSE registers.
    pub(crate) const GENERAL: usize = (size_of::<Self>() - offset_of!(Self, r15)) / size_of::<u64>();

    /// All but the SSE registers, in the order of the fields.
    pub(crate) fn general(&self) -> &[u64; Self::GENERAL] {
        let words = core::ptr::from_ref(self).wrapping_byte_add(offset_of!(Self, r15)).cast();
        // SAFETY: from there on the fields are nothing but words.
        unsafe { &*words }
    }

    /// What [`general`](Self::general) gave, with zeros for the SSE registers.
    pub(crate) fn from_general(words: [u64; Self::GENERAL]) -> Self {
        #[repr(C)]
        struct Parts {
            xmm: [u128; 16],
            words: [u64; TrapFrame::GENERAL],
        }
        // SAFETY: both are the same words in the same order, and all values are valid.
        unsafe { core::mem::transmute::<Parts, Self>(Parts { xmm: [0; 16], words }) }
    }

    /// Which interrupt or exception this is.
    pub(crate) fn vector(&self) -> Vector {
        Vector(self.vector.to_le_bytes()[0])
    }
}

/// Bytes of a stub.
const STUB_BYTES: u64 = 16;

/// The address of the stub of a vector.
pub(super) fn stub(vector: Vector) -> u64 {
    stubs as *const () as u64 + u64::from(vector.0) * STUB_BYTES
}

/// The stubs, one behind the other.
#[unsafe(naked)]
extern "C" fn stubs() {
    naked_asm!(
        ".set .Lvector, 0",
        ".rept 256",
        ".balign {stub_bytes}",
        ".if .Lvector >= 32 || (({with_error_code} >> .Lvector) & 1) == 0",
        "push 0",
        ".endif",
        // push .Lvector: the assembler would take the name for a memory operand
        ".byte 0x68",
        ".long .Lvector",
        "jmp {enter}",
        ".set .Lvector, .Lvector + 1",
        ".endr",
        stub_bytes = const STUB_BYTES,
        with_error_code = const WITH_ERROR_CODE,
        enter = sym enter,
    )
}

/// The part that all stubs share: saves the registers, calls [`dispatch`], loads them and returns from the interrupt.
#[unsafe(naked)]
extern "C" fn enter() {
    naked_asm!(
        "push rax", "push rcx", "push rdx", "push rbx", "push rbp", "push rsi", "push rdi",
        "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        "sub rsp, {xmm_bytes}",
        "movups [rsp], xmm0", "movups [rsp + 0x10], xmm1", "movups [rsp + 0x20], xmm2", "movups [rsp + 0x30], xmm3",
        "movups [rsp + 0x40], xmm4", "movups [rsp + 0x50], xmm5",
        "movups [rsp + 0x60], xmm6", "movups [rsp + 0x70], xmm7",
        "movups [rsp + 0x80], xmm8", "movups [rsp + 0x90], xmm9",
        "movups [rsp + 0xa0], xmm10", "movups [rsp + 0xb0], xmm11",
        "movups [rsp + 0xc0], xmm12", "movups [rsp + 0xd0], xmm13",
        "movups [rsp + 0xe0], xmm14", "movups [rsp + 0xf0], xmm15",
        "cld",
        "mov rdi, rsp",
        // Link the frame pointers, so that a backtrace goes on in the interrupted code. Backtraces take return
        // addresses, which lie behind the call, and look one byte before them: hence plus 1.
        "mov rax, [rsp + {rip}]", "inc rax", "push rax", "push rbp", "mov rbp, rsp",
        "call {dispatch}",
        "add rsp, 16",
        "movups xmm0, [rsp]", "movups xmm1, [rsp + 0x10]", "movups xmm2, [rsp + 0x20]", "movups xmm3, [rsp + 0x30]",
        "movups xmm4, [rsp + 0x40]", "movups xmm5, [rsp + 0x50]",
        "movups xmm6, [rsp + 0x60]", "movups xmm7, [rsp + 0x70]",
        "movups xmm8, [rsp + 0x80]", "movups xmm9, [rsp + 0x90]",
        "movups xmm10, [rsp + 0xa0]", "movups xmm11, [rsp + 0xb0]",
        "movups xmm12, [rsp + 0xc0]", "movups xmm13, [rsp + 0xd0]",
        "movups xmm14, [rsp + 0xe0]", "movups xmm15, [rsp + 0xf0]",
        "add rsp, {xmm_bytes}",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rbp", "pop rbx", "pop rdx", "pop rcx", "pop rax",
        // Vector and error code.
        "add rsp, 16",
        "iretq",
        xmm_bytes = const offset_of!(TrapFrame, r15),
        rip = const offset_of!(TrapFrame, rip),
        dispatch = sym dispatch,
    )
}

/// Handles whatever has happened. Only interrupts, which come between instructions of any code, may end in a
/// preemption.
extern "sysv64" fn dispatch(frame: &mut TrapFrame) {
    let vector = frame.vector();
    let is_nmi = vector == Vector::NON_MASKABLE;
    percpu::enter_trap(is_nmi);
    let is_interrupt = vector.0 >= Vector::FIRST_INTERRUPT;
    if is_interrupt {
        watchdog::note_interrupt();
        interrupts::handle(vector);
    } else if is_nmi {
        panic::non_maskable(frame);
        cpu::skip_halt(frame);
    } else {
        exception::handle(frame);
    }
    percpu::leave_trap(is_nmi);
    if is_interrupt {
        preempt::on_interrupt_return(frame);
    }
}
