//! Checks the complete register state of a G. Registers are loaded with random values. Code that changes none of them
//! except RCX, its loop counter, runs for a while. Then the registers are compared with the values.

#![expect(unsafe_code, reason = "loads every register")]

use core::arch::naked_asm;
use core::fmt;
use core::mem::offset_of;
use core::ops::Range;

/// Number of words of the red zone.
const ZONE: usize = 16;
/// Number of general registers without the stack pointer. They are stored in the order of [`NAMES`].
const REGISTERS: usize = 15;
const NAMES: [&str; REGISTERS] =
    ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
/// The index of RCX among the registers. The loop counts its remaining iterations in RCX.
const COUNTER: usize = 1;

/// The flags that may have any value, because the code that holds the values does not depend on them: carry, parity,
/// adjust, zero, sign, direction, overflow, nested task, alignment check, identification.
const FREE_FLAGS: u64 = 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 0x400 | 0x800 | 0x4000 | 0x4_0000 | 0x20_0000;
/// The flags that must be set: interrupts on, and the bit that is always set.
const FIXED_FLAGS: u64 = 0x200 | 0x2;

/// The x87 and SSE state in the layout of `FXSAVE`.
#[repr(C, align(16))]
#[derive(Clone)]
struct Extended([u8; 512]);

#[repr(C, align(16))]
struct Block {
    extended: [Extended; 2],
    registers: [[u64; REGISTERS]; 2],
    flags: [u64; 2],
    zone: [[u64; ZONE]; 2],
    /// The start and the end of the code in which [`hold`] keeps the values in the registers.
    code: [u64; 2],
}

/// A part of the register state that has changed, although the code that ran should have preserved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Register(&'static str),
    /// The flags that differ, as a mask.
    Flags(u64),
    /// The control, status or tag word of the x87.
    X87Control,
    X87Register(usize),
    Mxcsr,
    Vector(usize),
    /// The number of a word of the red zone, counted from the stack pointer.
    RedZone(usize),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(name) => f.write_str(name),
            Self::Flags(which) => write!(f, "flags {which:#x}"),
            Self::X87Control => f.write_str("x87 control"),
            Self::X87Register(number) => write!(f, "st{number}"),
            Self::Mxcsr => f.write_str("mxcsr"),
            Self::Vector(number) => write!(f, "xmm{number}"),
            Self::RedZone(word) => write!(f, "red zone word {word}"),
        }
    }
}

/// Random values for all registers, generated from a seed.
pub(crate) struct State {
    block: Block,
    random: fastrand::Rng,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        let block = Block {
            extended: [const { Extended([0; 512]) }; 2],
            registers: [[0; REGISTERS]; 2],
            flags: [0; 2],
            zone: [[0; ZONE]; 2],
            code: [0; 2],
        };
        Self { block, random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns the addresses of the code that holds the values. While the instruction pointer is in this range, all
    /// registers except RCX have the loaded values.
    pub(crate) fn code(&mut self) -> Range<u64> {
        self.hold_for(1).expect("no register is lost in such a short time");
        self.block.code[0]..self.block.code[1]
    }

    /// Loads all registers with new values, runs a loop of `turns` iterations, and compares the values.
    pub(crate) fn hold_for(&mut self, turns: u64) -> Result<(), Lost> {
        self.fill(turns);
        // SAFETY: the block is aligned and may be read and written. `fill` has stored a valid image for `FXRSTOR` in
        // it.
        unsafe { hold(&raw mut self.block) };
        self.compare()
    }

    fn fill(&mut self, turns: u64) {
        for index in 0..REGISTERS {
            self.block.registers[0][index] = self.random.u64(..);
        }
        self.block.registers[0][COUNTER] = turns;
        for word in 0..ZONE {
            self.block.zone[0][word] = self.random.u64(..);
        }
        let random = self.random.u64(..);
        self.block.flags[0] = random & FREE_FLAGS | FIXED_FLAGS;
        let random = self.random.u64(..).to_le_bytes();
        let mut image = [0; 512];
        // x87 control word: all exceptions masked, random rounding, random precision (without the reserved encoding).
        image[0] = 0x7f;
        image[1] = [0x00, 0x02, 0x03][usize::from(random[0] % 3)] | random[1] & 0x0c;
        // x87 status and tag words: a random top of the stack, and all registers in use.
        image[3] = (random[2] & 7) << 3;
        image[4] = 0xff;
        // MXCSR: all exceptions masked, and random rounding, flush-to-zero and sticky flags.
        image[24] = 0x80 | random[3] & 0x3f;
        image[25] = 0x1f | random[4] & 0xe0;
        for register in 0..8 {
            let (significand, exponent) = (self.random.u64(..) | 1 << 63, self.random.u64(..));
            image[32 + 16 * register..][..8].copy_from_slice(&significand.to_le_bytes());
            image[40 + 16 * register] = exponent.to_le_bytes()[0];
            // Bit 14 of the exponent stays clear, so that the value is not an infinity.
            image[41 + 16 * register] = exponent.to_le_bytes()[1] & 0xbf;
        }
        for half in 0..32 {
            let word = self.random.u64(..);
            image[160 + 8 * half..][..8].copy_from_slice(&word.to_le_bytes());
        }
        self.block.extended[0].0 = image;
    }

    fn compare(&self) -> Result<(), Lost> {
        let block = &self.block;
        for (index, name) in NAMES.into_iter().enumerate() {
            let expected = if index == COUNTER { 0 } else { block.registers[0][index] };
            if block.registers[1][index] != expected {
                return Err(Lost::Register(name));
            }
        }
        if let Some(word) = (0..ZONE).find(|&word| block.zone[0][word] != block.zone[1][word]) {
            return Err(Lost::RedZone(word));
        }
        if block.flags[0] != block.flags[1] {
            return Err(Lost::Flags(block.flags[0] ^ block.flags[1]));
        }
        let differ = |range: Range<usize>| block.extended[0].0[range.clone()] != block.extended[1].0[range];
        if differ(0..5) {
            return Err(Lost::X87Control);
        }
        if differ(24..28) {
            return Err(Lost::Mxcsr);
        }
        if let Some(register) = (0..8).find(|&register| differ(32 + 16 * register..42 + 16 * register)) {
            return Err(Lost::X87Register(register));
        }
        match (0..16).find(|&register| differ(160 + 16 * register..176 + 16 * register)) {
            Some(register) => Err(Lost::Vector(register)),
            None => Ok(()),
        }
    }
}

/// Loads all registers from the first element of each array in `block`, holds the values while RCX counts down, and
/// stores the registers in the second element of each array.
#[unsafe(naked)]
unsafe extern "sysv64" fn hold(block: *mut Block) {
    naked_asm!(
        "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15", "pushfq",
        "lea rax, [rip + 2f]", "mov [rdi + {code}], rax",
        "lea rax, [rip + 3f]", "mov [rdi + {code} + 8], rax",
        "fxrstor64 [rdi + {extended}]",
        // This pushes the address of the block. The red zone of this function begins below the pushed address.
        "push rdi",
        "push qword ptr [rdi + {flags}]", "popfq",
        // From here to the loop there are only moves, which do not change the flags.
        ".set .Lword, 0",
        ".rept {zone_words}",
        "mov rax, [rdi + {zone} + .Lword * 8]", "mov [rsp - 8 - .Lword * 8], rax",
        ".set .Lword, .Lword + 1",
        ".endr",
        "mov rax, [rdi + {registers} + 0 * 8]", "mov rcx, [rdi + {registers} + 1 * 8]",
        "mov rdx, [rdi + {registers} + 2 * 8]", "mov rbx, [rdi + {registers} + 3 * 8]",
        "mov rbp, [rdi + {registers} + 4 * 8]", "mov rsi, [rdi + {registers} + 5 * 8]",
        "mov r8, [rdi + {registers} + 7 * 8]", "mov r9, [rdi + {registers} + 8 * 8]",
        "mov r10, [rdi + {registers} + 9 * 8]", "mov r11, [rdi + {registers} + 10 * 8]",
        "mov r12, [rdi + {registers} + 11 * 8]", "mov r13, [rdi + {registers} + 12 * 8]",
        "mov r14, [rdi + {registers} + 13 * 8]", "mov r15, [rdi + {registers} + 14 * 8]",
        "mov rdi, [rdi + {registers} + 6 * 8]",
        // The `loop` instruction does not change flags.
        "2:", "loop 2b", "3:",
        // Exchange RDI with the pushed address of the block. RDI is then the address of the block, and the value that
        // RDI has held is on the stack.
        "xchg rdi, [rsp]",
        "mov [rdi + {registers_after} + 0 * 8], rax", "mov [rdi + {registers_after} + 1 * 8], rcx",
        "mov [rdi + {registers_after} + 2 * 8], rdx", "mov [rdi + {registers_after} + 3 * 8], rbx",
        "mov [rdi + {registers_after} + 4 * 8], rbp", "mov [rdi + {registers_after} + 5 * 8], rsi",
        "mov [rdi + {registers_after} + 7 * 8], r8", "mov [rdi + {registers_after} + 8 * 8], r9",
        "mov [rdi + {registers_after} + 9 * 8], r10", "mov [rdi + {registers_after} + 10 * 8], r11",
        "mov [rdi + {registers_after} + 11 * 8], r12", "mov [rdi + {registers_after} + 12 * 8], r13",
        "mov [rdi + {registers_after} + 13 * 8], r14", "mov [rdi + {registers_after} + 14 * 8], r15",
        "mov rax, [rsp]", "mov [rdi + {registers_after} + 6 * 8], rax",
        ".set .Lword, 0",
        ".rept {zone_words}",
        "mov rax, [rsp - 8 - .Lword * 8]", "mov [rdi + {zone_after} + .Lword * 8], rax",
        ".set .Lword, .Lword + 1",
        ".endr",
        "pushfq", "pop qword ptr [rdi + {flags} + 8]",
        "fxsave64 [rdi + {extended} + 512]",
        // This restores the floating-point state that functions expect.
        "fninit",
        "mov dword ptr [rsp], 0x1f80", "ldmxcsr [rsp]",
        "add rsp, 8",
        "popfq", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
        "ret",
        code = const offset_of!(Block, code),
        extended = const offset_of!(Block, extended),
        flags = const offset_of!(Block, flags),
        registers = const offset_of!(Block, registers),
        registers_after = const offset_of!(Block, registers) + 8 * REGISTERS,
        zone = const offset_of!(Block, zone),
        zone_after = const offset_of!(Block, zone) + 8 * ZONE,
        zone_words = const ZONE,
    )
}
