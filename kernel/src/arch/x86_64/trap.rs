//! The data of an interrupt or exception: its vector, and the registers of the interrupted code.

use core::mem::offset_of;

/// The number of an interrupt or exception.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Vector(pub u8);

/// The exceptions that Intel (SDM 6.15) and AMD define.
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

/// The registers of the interrupted code, in the order of the addresses at which `traps::entry` stores them on the
/// stack. A handler may change these values. The interrupted code then continues with the changed values.
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

// The processor aligns the stack to 16 bytes before it pushes the first words of the frame. The size of the frame must
// keep this alignment, because `traps::entry` calls Rust code with the stack pointer at the lower end of the frame.
const _: () = assert!(size_of::<TrapFrame>().is_multiple_of(16));

impl TrapFrame {
    /// How many 64-bit words follow the SSE registers in the frame.
    pub(crate) const GENERAL: usize = (size_of::<Self>() - offset_of!(Self, r15)) / size_of::<u64>();

    /// Returns all words after the SSE registers, in the order of the fields.
    pub(crate) fn general(&self) -> &[u64; Self::GENERAL] {
        let words = core::ptr::from_ref(self).wrapping_byte_add(offset_of!(Self, r15)).cast();
        // SAFETY: the type is `repr(C)`, and all fields from `r15` on are `u64`. So there are `GENERAL` words at this
        // address.
        unsafe { &*words }
    }

    /// Makes a frame from the words that [`general`](Self::general) has returned. The SSE registers in the new frame
    /// are zero.
    pub(crate) fn from_general(words: [u64; Self::GENERAL]) -> Self {
        #[repr(C)]
        struct Parts {
            xmm: [u128; 16],
            words: [u64; TrapFrame::GENERAL],
        }
        // SAFETY: both types are `repr(C)` and consist of the same words in the same order, and every value of a word
        // is valid.
        unsafe { core::mem::transmute::<Parts, Self>(Parts { xmm: [0; 16], words }) }
    }

    /// Returns the vector of this interrupt or exception.
    pub(crate) fn vector(&self) -> Vector {
        Vector(self.vector.to_le_bytes()[0])
    }
}
