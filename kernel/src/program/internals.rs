//! The parts of the kernel that the guest tests need. They are not part of the public interface, and change without
//! notice. A function that can break something is `unsafe`, so that a safe program cannot call it. This module is
//! hidden in the documentation, but no feature of the crate is needed to use it. So the tests run with the same kernel
//! as programs.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::slice;

use x86_64::instructions::interrupts::without_interrupts;

use crate::arch::x86_64::{apic, cpu, gdt, interrupts, timer};
use crate::cpu::cpus::ENTRANCE;
use crate::cpu::percpu;
use crate::diagnostics::snapshot;
use crate::drivers::pci;
use crate::drivers::virtio::{self, BlockDevice};
use crate::drivers::{console, net};
use crate::mm::{self, OutOfMemory, frame, heap, refusal, shared_lock, stack, tlb};
use crate::traps::divert;

pub use crate::arch::x86_64::interrupts::{NoVectorLeft, Vector};
pub use crate::cpu::percpu::CpuId;
pub use crate::drivers::console::state::Stalled;
pub use crate::mm::stack::{Slot, Stack};
pub use crate::sched::storm::Storm;
pub use x86_64::structures::paging::PhysFrame;

/// The size of a page and of a frame, in bytes.
pub const PAGE_SIZE: usize = mm::PAGE_SIZE;

/// The number of bytes below a stack that are reserved for preemption.
pub const RESERVE: usize = stack::RESERVE;

/// Allocates an interrupt vector permanently. Each interrupt with this vector calls `handler` with `argument`, on the
/// CPU that takes the interrupt.
///
/// # Errors
/// If all vectors are in use.
///
/// # Safety
/// `handler` does only what a handler may do (see `contexts`).
pub unsafe fn allocate_vector(handler: fn(usize), argument: usize) -> Result<Vector, NoVectorLeft> {
    interrupts::allocate("test", handler, argument)
}

/// Interrupts a CPU. Nothing happens if that CPU has not started.
///
/// # Safety
/// Either [`allocate_vector`] has returned the vector, or the vector is at least 32 and has no handler.
pub unsafe fn send(to: CpuId, vector: Vector) {
    apic::send(to, vector);
}

/// Interrupts all CPUs except the calling one.
///
/// # Safety
/// Either [`allocate_vector`] has returned the vector, or the vector is at least 32 and has no handler.
pub unsafe fn send_to_others(vector: Vector) {
    apic::send_to_others(vector);
}

/// Returns how many interrupts without a handler have come, including spurious ones.
pub fn unexpected_interrupts() -> usize {
    interrupts::unexpected_count()
}

/// Returns the number of CPUs that entered the kernel after it had stopped waiting for them. They have halted.
pub fn late_cpus() -> u32 {
    ENTRANCE.latecomers()
}

/// Sends a non-maskable interrupt to the late CPU with this APIC id.
///
/// # Safety
/// [`late_cpus`] counts the CPU. On a CPU that has just started, the interrupt would reset the machine.
pub unsafe fn send_nmi_to_late_cpu(apic_id: u32) {
    apic::send_nmi_to_id(apic_id);
}

/// How many pages the stack of a handler has.
const HANDLER_PAGES: usize = gdt::TRAP_STACK_BYTES / PAGE_SIZE;

/// Calls `body` with the same restrictions as in the handler of a non-maskable interrupt. The kernel's checks take
/// `body` for code of such a handler.
///
/// # Panics
/// If the caller is in a handler or in such a `body`. The counts of nested handlers have few bits, and could overflow.
#[track_caller]
pub fn as_if_in_nmi<R>(body: impl FnOnce() -> R) -> R {
    assert!(percpu::trap_depth() == 0, "`as_if_in_nmi` is called in a handler");
    // The stack of a real handler has all its pages. A first touch of a page of this G's stack would be a page fault,
    // whose handler takes a lock that is refused here.
    stack::touch_pages_ahead(HANDLER_PAGES);
    without_interrupts(|| {
        percpu::enter_trap(true);
        let result = body();
        percpu::leave_trap(true);
        result
    })
}

/// Makes preemptions inside of `code` overwrite the red zone of the interrupted code. This imitates an error in the
/// kernel.
///
/// # Safety
/// `code` does not use its red zone, or does not rely on its contents.
pub unsafe fn leave_red_zone_unprotected_in(code: Range<u64>) {
    divert::leave_red_zone_unprotected_in(code);
}

/// Returns the preemption-disable depth of this CPU.
pub fn preempt_count() -> u32 {
    percpu::preempt_count()
}

/// Calls `body`. Meanwhile no CPU can print, and the contents of the output ring are not sent.
pub fn with_console_locked<R>(body: impl FnOnce() -> R) -> R {
    console::with_all_locked(body)
}

/// Makes the virtio console, if it is in use, a device that does not answer any more.
pub fn mute_console() {
    console::mute();
}

/// Makes the network device, if it is in use, find an error in its queue, after which it needs a reset.
pub fn mislead_network_device() {
    net::mislead_device();
}

/// Whether output goes to the virtio console.
pub fn uses_virtio() -> bool {
    console::uses_virtio()
}

/// Returns how many words of the configuration spaces of PCI devices were read, and how many were written.
pub fn configuration_accesses() -> (u32, u32) {
    pci::configuration_accesses()
}

/// Returns the number of buffers of the disk with this index that the driver never uses again, because the device is
/// broken and may still access them. Returns 0 if there is no such disk.
pub fn abandoned_disk_buffers(disk: usize) -> usize {
    block_device(disk).map_or(0, BlockDevice::abandoned_buffers)
}

/// Returns, for each queue of the disk with this index, how many requests have been answered on each CPU. The list is
/// empty if there is no such disk.
pub fn served_disk_requests(disk: usize) -> Vec<Vec<usize>> {
    block_device(disk).map_or(Vec::new(), BlockDevice::served)
}

fn block_device(disk: usize) -> Option<&'static BlockDevice> {
    virtio::block_devices().get(disk)?.as_ref().ok()
}

/// Returns how many bytes of the heap are in use: the sizes of all objects that were allocated and not freed. Exact as
/// long as no other code uses the heap.
pub fn live_heap_bytes() -> usize {
    heap::live_bytes()
}

/// Returns how often the heap has taken a lock that all CPUs share, since the boot.
pub fn shared_heap_locks() -> usize {
    shared_lock::times_taken()
}

/// Returns for how many nanoseconds a lock of the heap that all CPUs share, or the lock of the frames, was held at most
/// since the last call. The first call begins the measurement.
pub fn longest_shared_heap_lock() -> u64 {
    shared_lock::longest_hold(timer::now)
}

/// From now on, each request for memory of the heap or for a stack fails if `refuses` returns `true`. Only the first
/// call has an effect, and only in a debug build.
///
/// # Safety
/// `refuses` does not panic, allocate or block. It is called in each context in which memory may be allocated.
pub unsafe fn refuse_memory_if(refuses: fn() -> bool) {
    refusal::set(refuses);
}

/// Takes a free frame, even if it is the last free one.
///
/// # Errors
/// If no frame is free.
pub fn allocate_frame() -> Result<PhysFrame, OutOfMemory> {
    frame::allocate()
}

/// Frees a frame: returns it to the frame allocator.
///
/// # Safety
/// `frame` comes from [`allocate_frame`] and is not in use.
pub unsafe fn free_frame(frame: PhysFrame) {
    // SAFETY: the caller promises that `frame` comes from `allocate_frame` and is not in use.
    unsafe { frame::free(frame) };
}

/// Allocates `count` frames, and frees them again. Returns how many of them contained something other than zeros.
///
/// # Errors
/// If fewer than `count` frames are free.
pub fn count_frames_with_contents(count: usize) -> Result<usize, OutOfMemory> {
    let mut frames = Vec::with_capacity(count);
    let enough = (0..count).try_for_each(|_| allocate_frame().map(|frame| frames.push(frame)));
    let has_contents = |frame: &PhysFrame| {
        let words = mm::physical_to_virtual(frame.start_address()).as_ptr::<u64>();
        // SAFETY: all usable memory is mapped, and nothing uses this frame. Any bytes are valid.
        let words = unsafe { slice::from_raw_parts(words, PAGE_SIZE / size_of::<u64>()) };
        words.iter().any(|&word| word != 0)
    };
    let with_contents = frames.iter().filter(|frame| has_contents(frame)).count();
    // SAFETY: the frames were allocated above, and nothing uses them.
    frames.into_iter().for_each(|frame| unsafe { free_frame(frame) });
    enough.map(|()| with_contents)
}

/// Asks a CPU for its state by a non-maskable interrupt. Does not wait for the answer.
pub fn ask(cpu: CpuId) {
    snapshot::ask(cpu);
}

/// Returns the number of the last request for its state that a CPU has answered. All requests to a CPU, those of
/// [`ask`] and those of the kernel, are numbered from 1. Returns 0 if the CPU has answered none, and `u32::MAX` if it
/// has stopped for ever.
pub fn answers(cpu: CpuId) -> u32 {
    snapshot::answers(cpu)
}

/// Writes the state of every CPU.
///
/// # Errors
/// The errors that `out` returns.
pub fn write_all_cpus(out: &mut impl fmt::Write) -> fmt::Result {
    snapshot::write_all(out)
}

/// Sets the control registers of this CPU as the kernel requires.
pub fn init_cpu() {
    cpu::init();
}

/// Whether this CPU is marked as halted, so that no TLB epoch waits for it. The caller is pinned.
pub fn is_halted() -> bool {
    tlb::is_halted()
}

/// Returns the address of the instruction at which an idle CPU halts.
pub fn halt_address() -> u64 {
    cpu::halt_address()
}
