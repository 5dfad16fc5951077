//! The interrupt descriptor table (IDT), which all CPUs that are up share. It has a gate for each vector, except the
//! reserved ones below 32. A gate contains the address of the handler and selects the stack.

use core::arch::naked_asm;

use spin::Once;
use x86_64::VirtAddr;
use x86_64::structures::idt::InterruptDescriptorTable;

use super::entry;
use crate::arch::x86_64::gdt::TrapStack;
use crate::arch::x86_64::trap::Vector;

static TABLE: Once<InterruptDescriptorTable> = Once::new();

/// Builds the table, and loads it on the calling CPU, which is the boot CPU.
pub(crate) fn init() {
    TABLE.call_once(build);
    load();
}

/// Loads the table on the calling CPU.
pub(crate) fn load() {
    TABLE.get().expect("the boot CPU has built the table").load();
}

/// The table of a CPU that has just started. It has only the gate for non-maskable interrupts.
static HALTING: Once<InterruptDescriptorTable> = Once::new();

/// Loads a table with which a non-maskable interrupt halts the calling CPU for ever. Without a table the interrupt
/// would reset the machine. Called on a CPU that has no per-CPU data and no task segment yet, and may never have any.
pub(crate) fn load_halting() {
    HALTING.call_once(build_halting).load();
}

fn build_halting() -> InterruptDescriptorTable {
    let mut table = InterruptDescriptorTable::new();
    let handler = VirtAddr::new(halt as *const () as u64);
    // SAFETY: `halt` never returns, so it need not keep the registers, the stack or its red zone.
    unsafe { table.non_maskable_interrupt.set_handler_addr(handler) };
    table
}

/// Halts for ever. Interrupts are off, and further non-maskable interrupts are blocked, because this handler of one
/// does not return.
#[unsafe(naked)]
extern "C" fn halt() -> ! {
    naked_asm!("2:", "hlt", "jmp 2b")
}

fn build() -> InterruptDescriptorTable {
    let mut table = InterruptDescriptorTable::new();
    /// Fills one gate. This is a macro because the type of the handler differs among the fields of the table.
    macro_rules! set {
        ($entry:expr, $vector:expr) => {{
            let vector = $vector;
            // SAFETY: the address is that of this vector's stub, which expects an error code exactly if the processor
            // pushes one.
            let options = unsafe { $entry.set_handler_addr(VirtAddr::new(entry::stub(vector))) };
            // SAFETY: every CPU has all stacks of `TrapStack` in its task segment before it loads this table.
            unsafe { options.set_stack_index(stack(vector) as u16) };
        }};
    }
    set!(table.divide_error, Vector::DIVIDE_ERROR);
    set!(table.debug, Vector::DEBUG);
    set!(table.non_maskable_interrupt, Vector::NON_MASKABLE);
    set!(table.breakpoint, Vector::BREAKPOINT);
    set!(table.overflow, Vector::OVERFLOW);
    set!(table.bound_range_exceeded, Vector::BOUND_RANGE);
    set!(table.invalid_opcode, Vector::INVALID_OPCODE);
    set!(table.device_not_available, Vector::DEVICE_NOT_AVAILABLE);
    set!(table.double_fault, Vector::DOUBLE_FAULT);
    set!(table.invalid_tss, Vector::INVALID_TSS);
    set!(table.segment_not_present, Vector::SEGMENT_NOT_PRESENT);
    set!(table.stack_segment_fault, Vector::STACK_SEGMENT);
    set!(table.general_protection_fault, Vector::GENERAL_PROTECTION);
    set!(table.page_fault, Vector::PAGE_FAULT);
    set!(table.x87_floating_point, Vector::X87);
    set!(table.alignment_check, Vector::ALIGNMENT_CHECK);
    set!(table.machine_check, Vector::MACHINE_CHECK);
    set!(table.simd_floating_point, Vector::SIMD);
    set!(table.virtualization, Vector::VIRTUALIZATION);
    set!(table.cp_protection_exception, Vector::CONTROL_PROTECTION);
    set!(table.hv_injection_exception, Vector::HYPERVISOR_INJECTION);
    set!(table.vmm_communication_exception, Vector::VMM_COMMUNICATION);
    set!(table.security_exception, Vector::SECURITY);
    for number in Vector::FIRST_INTERRUPT..=u8::MAX {
        set!(table[number], Vector(number));
    }
    table
}

/// Returns the stack on which the handler of a vector starts.
fn stack(vector: Vector) -> TrapStack {
    match vector {
        Vector::PAGE_FAULT => TrapStack::PageFault,
        Vector::DOUBLE_FAULT => TrapStack::DoubleFault,
        Vector::NON_MASKABLE => TrapStack::NonMaskable,
        Vector::MACHINE_CHECK => TrapStack::MachineCheck,
        Vector(..Vector::FIRST_INTERRUPT) => TrapStack::Exception,
        _ => TrapStack::Interrupt,
    }
}
