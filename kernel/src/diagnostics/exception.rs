//! Text that describes an exception or a stack overflow.

use core::fmt;

use gmp_sched::goroutine::Goroutine;
use gmp_sched::stack_overflow::StackOverflow;
use x86_64::registers::control::{Cr2, Cr3};
use x86_64::registers::rflags::RFlags;
use x86_64::structures::idt::{DescriptorTable, PageFaultErrorCode, SelectorErrorCode};

use crate::arch::x86_64::trap::{TrapFrame, Vector};
use crate::mm::stack::Slot;
use crate::sched::goroutines;
use crate::sched::platform::Kernel;

/// Returns the name and the abbreviation of an exception.
fn name(vector: Vector) -> (&'static str, &'static str) {
    match vector {
        Vector::DIVIDE_ERROR => ("divide error", "#DE"),
        Vector::DEBUG => ("debug exception", "#DB"),
        Vector::NON_MASKABLE => ("non-maskable interrupt", "NMI"),
        Vector::BREAKPOINT => ("breakpoint", "#BP"),
        Vector::OVERFLOW => ("overflow", "#OF"),
        Vector::BOUND_RANGE => ("bound range exceeded", "#BR"),
        Vector::INVALID_OPCODE => ("invalid opcode", "#UD"),
        Vector::DEVICE_NOT_AVAILABLE => ("device not available", "#NM"),
        Vector::DOUBLE_FAULT => ("double fault", "#DF"),
        Vector::INVALID_TSS => ("invalid TSS", "#TS"),
        Vector::SEGMENT_NOT_PRESENT => ("segment not present", "#NP"),
        Vector::STACK_SEGMENT => ("stack-segment fault", "#SS"),
        Vector::GENERAL_PROTECTION => ("general protection fault", "#GP"),
        Vector::PAGE_FAULT => ("page fault", "#PF"),
        Vector::X87 => ("x87 floating-point exception", "#MF"),
        Vector::ALIGNMENT_CHECK => ("alignment check", "#AC"),
        Vector::MACHINE_CHECK => ("machine check", "#MC"),
        Vector::SIMD => ("SIMD floating-point exception", "#XM"),
        Vector::VIRTUALIZATION => ("virtualization exception", "#VE"),
        Vector::CONTROL_PROTECTION => ("control protection exception", "#CP"),
        Vector::HYPERVISOR_INJECTION => ("hypervisor injection exception", "#HV"),
        Vector::VMM_COMMUNICATION => ("VMM communication exception", "#VC"),
        Vector::SECURITY => ("security exception", "#SX"),
        _ => ("unknown exception", "?"),
    }
}

/// Displays an exception in one or more lines. `frame` contains what the processor and the kernel have saved for this
/// exception.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    frame: &'a TrapFrame,
    /// The contents of CR2. If the exception is a page fault, this is the address of the access. Read early, before
    /// another page fault can change CR2.
    fault_address: u64,
}

impl<'a> Description<'a> {
    /// Describes the exception that this CPU is handling.
    pub(crate) fn new(frame: &'a TrapFrame) -> Self {
        Self { frame, fault_address: Cr2::read_raw() }
    }

    fn page_fault(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = PageFaultErrorCode::from_bits_truncate(self.frame.error_code);
        let access = if code.contains(PageFaultErrorCode::INSTRUCTION_FETCH) {
            "execution"
        } else if code.contains(PageFaultErrorCode::CAUSED_BY_WRITE) {
            "write"
        } else {
            "read"
        };
        let cause = if code.contains(PageFaultErrorCode::MALFORMED_TABLE) {
            "a reserved bit is set in its page tables"
        } else if code.contains(PageFaultErrorCode::PROTECTION_VIOLATION) {
            "its page forbids that"
        } else {
            "nothing is mapped there"
        };
        write!(f, ": {access} at {:#018x}, {cause}", self.fault_address)?;
        self.overflow(f, self.fault_address)
    }

    /// Writes an explanation of `address` if it is in the first page of memory, in a stack, or in the guard page of a
    /// stack.
    fn overflow(&self, f: &mut fmt::Formatter<'_>, address: u64) -> fmt::Result {
        if address < 4096 {
            return f.write_str(" (a null pointer)");
        }
        let address = usize::try_from(address).expect("64 bits");
        let Some(slot) = Slot::containing(address) else { return Ok(()) };
        if slot.guard_contains(address) {
            write!(f, "\nstack overflow: {slot}")?;
        } else {
            write!(f, "\nin a {slot}")?;
        }
        match goroutines::owner_of(slot) {
            Some(goroutine) => write!(f, " of goroutine {}", goroutine.id()),
            None => Ok(()),
        }
    }

    fn selector(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = SelectorErrorCode::new_truncate(self.frame.error_code);
        if code.is_null() {
            return Ok(());
        }
        let table = match code.descriptor_table() {
            DescriptorTable::Gdt => "GDT",
            DescriptorTable::Idt => "IDT",
            DescriptorTable::Ldt => "LDT",
        };
        let external = if code.external() { ", from outside the program" } else { "" };
        write!(f, ": {table} entry {}{external}", code.index())
    }
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vector = self.frame.vector();
        let (name, abbreviation) = name(vector);
        write!(f, "{name} ({abbreviation}, vector {})", vector.0)?;
        match vector {
            Vector::PAGE_FAULT => self.page_fault(f),
            // The double fault may come from a push of 8 bytes into a guard page, if the page fault of this push could
            // not be delivered.
            Vector::DOUBLE_FAULT => self.overflow(f, self.frame.rsp.saturating_sub(8)),
            Vector::GENERAL_PROTECTION | Vector::INVALID_TSS | Vector::SEGMENT_NOT_PRESENT | Vector::STACK_SEGMENT => {
                self.selector(f)
            }
            _ => Ok(()),
        }
    }
}

/// Displays, in several lines, the registers of a frame and those control registers of this CPU that describe an
/// exception.
#[derive(Debug)]
pub(crate) struct Registers<'a>(pub(crate) &'a TrapFrame);

impl fmt::Display for Registers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cr3 = Cr3::read_raw().0.start_address();
        write!(f, "{}", GeneralRegisters(self.0))?;
        writeln!(f, "  cr2 {:016x}  cr3 {cr3:016x}  error {:x}", Cr2::read_raw(), self.0.error_code)
    }
}

/// Displays the general registers of a frame, in several lines.
#[derive(Debug)]
pub(crate) struct GeneralRegisters<'a>(pub(crate) &'a TrapFrame);

impl fmt::Display for GeneralRegisters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0;
        writeln!(f, "  rip {:016x}  rsp {:016x}  rbp {:016x}", r.rip, r.rsp, r.rbp)?;
        writeln!(f, "  rax {:016x}  rbx {:016x}  rcx {:016x}  rdx {:016x}", r.rax, r.rbx, r.rcx, r.rdx)?;
        writeln!(f, "  rsi {:016x}  rdi {:016x}  r8  {:016x}  r9  {:016x}", r.rsi, r.rdi, r.r8, r.r9)?;
        writeln!(f, "  r10 {:016x}  r11 {:016x}  r12 {:016x}  r13 {:016x}", r.r10, r.r11, r.r12, r.r13)?;
        let flags = RFlags::from_bits_truncate(r.rflags);
        writeln!(f, "  r14 {:016x}  r15 {:016x}  rflags {:x} ({flags:?})", r.r14, r.r15, r.rflags)
    }
}

/// Describes that `goroutine` has overflowed its stack. If a stack probe has touched the guard page, `frame_bytes` is
/// the size of the frame that was probed.
pub(crate) fn stack_overflow(goroutine: &Goroutine<Kernel>, frame_bytes: Option<usize>) -> StackOverflow<'_, Kernel> {
    StackOverflow { goroutine, frame_bytes, for_main: "`kernel::main!(main, stack_size = BYTES)`" }
}
