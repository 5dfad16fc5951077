//! Segments, and the stacks on which the handlers of interrupts and exceptions run. Each CPU has a GDT and a TSS of its
//! own.
//!
//! Every handler runs on a stack of the interrupt stack table (IST). The processor must not push a frame onto the
//! interrupted stack, because the prebuilt `core` keeps data in the red zone below the stack pointer. If a vector
//! interrupted a handler that runs on the vector's own stack, the second frame would overwrite the first. So vectors
//! that can interrupt each other's handlers have different stacks. Only exceptions that no handler resolves share one.

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

/// The stacks of the interrupt stack table. The number of each variant is the stack's index in that table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum TrapStack {
    /// For all interrupts. Their handlers run with interrupts off, so one stack is enough.
    Interrupt,
    /// For exceptions that have no stack of their own. Such an exception stops the kernel or ends the G that has raised
    /// it.
    Exception,
    /// For page faults. Any code may cause a page fault, including the handler of another exception.
    PageFault,
    /// For double faults.
    DoubleFault,
    /// For non-maskable interrupts, which may come at any time.
    NonMaskable,
    /// For machine checks, which may come at any time.
    MachineCheck,
}

const TRAP_STACKS: usize = 6;

/// The selector of the 64-bit code segment.
pub(crate) const KERNEL_CODE: u16 = 0x08;
/// The selector of the data segment.
pub(crate) const KERNEL_DATA: u16 = 0x10;

/// The size of each stack of the interrupt stack table, in bytes. It is enough to format the report of a panic.
pub(crate) const TRAP_STACK_BYTES: usize = 32 * 1024;

/// The stack on which all handlers run until the boot CPU loads tables with a stack for each [`TrapStack`]. One stack
/// is enough, because until then every exception stops the kernel.
#[repr(C, align(16))]
struct EarlyStack(UnsafeCell<[u8; TRAP_STACK_BYTES]>);

// SAFETY: Rust code only takes the address of this memory. It is used only as a stack, and only by the boot CPU.
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

    /// Allocates tables for one CPU, and a stack with a guard page for each [`TrapStack`].
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

/// Loads provisional tables on the boot CPU. All vectors have the same stack.
pub(crate) fn load_early() {
    let task = EARLY_TASK.call_once(|| {
        let mut task = TaskStateSegment::new();
        let top = VirtAddr::from_ptr(EARLY_STACK.0.get()) + TRAP_STACK_BYTES as u64;
        task.interrupt_stack_table = [top; 7];
        task
    });
    load(EARLY_TABLES.call_once(|| Tables::new(task)));
}

/// Loads `tables` on the calling CPU. These tables must not be in use on another CPU.
pub(crate) fn load(tables: &'static Tables) {
    // `load_registers` does not load the register GS, so the GS base should not change. As a precaution, `keep_base`
    // restores the GS base nevertheless: GS may still contain a selector of the boot loader's descriptor table, and
    // `load_registers` replaces that table.
    local::keep_base(|| load_registers(tables));
}

fn load_registers(tables: &'static Tables) {
    tables.gdt.load();
    // SAFETY: the selector selects a 64-bit code segment of the table that was just loaded.
    unsafe { CS::set_reg(tables.code) };
    // SAFETY: the selector selects a data segment of the same table.
    unsafe { SS::set_reg(tables.data) };
    // SAFETY: the selector selects a data segment of the same table.
    unsafe { DS::set_reg(tables.data) };
    // SAFETY: the selector selects a data segment of the same table.
    unsafe { ES::set_reg(tables.data) };
    // SAFETY: the selector selects a task segment of the same table. No other CPU uses this segment, so the segment is
    // not yet marked as busy.
    unsafe { load_tss(tables.task) };
}
