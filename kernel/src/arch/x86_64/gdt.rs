//! Segments, and the stacks on which interrupts and exceptions enter (GDT and TSS, one of each per CPU).
//!
//! Every vector enters on a stack of the interrupt stack table, because the prebuilt `core` has a red zone: the processor must
//! not push onto the stack that it interrupts. A vector that can interrupt another handler has a stack of its own, since a
//! second entry on the same stack would overwrite the first.

use core::cell::UnsafeCell;

use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::segmentation::SegmentSelector;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

use crate::cpu::local;
use crate::mm::stack::Stack;
use crate::mm::{OutOfMemory, heap};

/// Index into the interrupt stack table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum TrapStack {
    /// All interrupts. Their handlers run with interrupts off, so there is one at a time.
    Interrupt,
    /// Exceptions that have no stack of their own. They may occur in an interrupt handler, and stop the kernel then.
    Exception,
    /// Page faults. Any code may cause one, handlers of other exceptions included.
    PageFault,
    /// Double faults.
    DoubleFault,
    /// Non-maskable interrupts, which come at any time.
    NonMaskable,
    /// Machine checks, which come at any time.
    MachineCheck,
}

const TRAP_STACKS: usize = 6;

/// Selector of the 64-bit code segment, as in a frame for `iretq`.
pub(crate) const KERNEL_CODE: u16 = 0x08;
/// Selector of the data segment.
pub(crate) const KERNEL_DATA: u16 = 0x10;

/// Bytes of each stack: enough to format the report of a panic.
const TRAP_STACK_BYTES: usize = 32 * 1024;

/// The stack of all vectors before memory management is up, when every exception stops the kernel.
#[repr(C, align(16))]
struct EarlyStack(UnsafeCell<[u8; TRAP_STACK_BYTES]>);

// SAFETY: accessed only as the stack of the boot CPU.
unsafe impl Sync for EarlyStack {}

static EARLY_STACK: EarlyStack = EarlyStack(UnsafeCell::new([0; TRAP_STACK_BYTES]));
static EARLY_TASK: Once<TaskStateSegment> = Once::new();
static EARLY_TABLES: Once<Tables> = Once::new();

/// The descriptor tables of one CPU.
#[derive(Debug)]
pub(crate) struct Tables {
    gdt: GlobalDescriptorTable<5>,
    code: SegmentSelector,
    data: SegmentSelector,
    task: SegmentSelector,
}

impl Tables {
    fn new(task: &'static TaskStateSegment) -> Self {
        let mut gdt = GlobalDescriptorTable::<5>::empty();
        let code = gdt.append(Descriptor::kernel_code_segment());
        let data = gdt.append(Descriptor::kernel_data_segment());
        let task = gdt.append(Descriptor::tss_segment(task));
        assert!(code.0 == KERNEL_CODE && data.0 == KERNEL_DATA, "the table is laid out as the constants say");
        Self { gdt, code, data, task }
    }

    /// Tables for a CPU, with guarded stacks for all its vectors.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn allocate() -> Result<&'static Self, OutOfMemory> {
        let mut task = TaskStateSegment::new();
        for index in 0..TRAP_STACKS {
            let stack = Stack::allocate_whole(TRAP_STACK_BYTES)?;
            task.interrupt_stack_table[index] = VirtAddr::new(stack.into_raw() as u64);
        }
        Ok(&*heap::leak(Self::new(heap::leak(task)?))?)
    }
}

/// Loads tables for the boot CPU in which all vectors have the same stack.
pub(crate) fn load_early() {
    let task = EARLY_TASK.call_once(|| {
        let mut task = TaskStateSegment::new();
        let top = VirtAddr::from_ptr(EARLY_STACK.0.get()) + TRAP_STACK_BYTES as u64;
        task.interrupt_stack_table = [top; 7];
        task
    });
    load(EARLY_TABLES.call_once(|| Tables::new(task)));
}

/// Loads tables on the calling CPU. They must not be in use on another CPU.
pub(crate) fn load(tables: &'static Tables) {
    // Some boot paths leave a selector in GS, so the GS base is restored afterwards.
    local::keep_base(|| load_registers(tables));
}

fn load_registers(tables: &'static Tables) {
    tables.gdt.load();
    // SAFETY: a 64-bit code segment of the table that was just loaded.
    unsafe { CS::set_reg(tables.code) };
    // SAFETY: a data segment of the same table.
    unsafe { SS::set_reg(tables.data) };
    // SAFETY: as above.
    unsafe { DS::set_reg(tables.data) };
    // SAFETY: as above.
    unsafe { ES::set_reg(tables.data) };
    // SAFETY: a task segment of the same table, marked as in use by the instruction.
    unsafe { load_tss(tables.task) };
}
