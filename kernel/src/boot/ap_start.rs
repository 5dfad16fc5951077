//! Starts the other CPUs ("application processors", SDM 9.4).
//!
//! All of them start at the same time. The boot CPU sends an INIT to each of them. It waits 10 ms, during which it
//! measures the clocks. Then it sends a start-up message to each of them. If some CPUs have not begun 200 us later, it
//! sends the message to all of them again.
//!
//! A CPU starts in real mode in a page below 1 MiB, which contains a copy of `trampoline.s`. The trampoline loads page
//! tables that map this page and the kernel's upper half. So the kernel's own tables need not map low memory, and a CPU
//! that starts too late still finds its code.
//!
//! In the trampoline each CPU increments an atomic counter (the ticket) to get the index of its stack. Then it gets its
//! CPU number at the [`ENTRANCE`]. The boot CPU waits for a bounded time and then closes the entrance. CPUs that have
//! entered before this are used; CPUs that come later halt. So CPU numbers have no gaps, and a late CPU does no harm. A
//! non-maskable interrupt does not reset the machine when it reaches a late CPU: the CPU halts with
//! [a table](idt::load_halting) that has a gate for it.

use alloc::vec::Vec;
use core::arch::global_asm;
use core::hint::spin_loop;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kernel_formats::other_cpus::Selection;
use spin::Once;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use x86_64::structures::paging::{PageTable, PageTableFlags};

use super::DEVICE_FRAMES;
use super::options::{is_dead, is_late};
use crate::arch::acpi;
use crate::arch::x86_64::{apic, cpu, gdt, timer};
use crate::cpu::cpus::{self, ENTRANCE};
use crate::cpu::local::{CpuCopy, cpu_local};
use crate::cpu::percpu::{CpuId, MAX_CPUS};
use crate::mm::stack::{self, Stack};
use crate::mm::{OutOfMemory, PAGE_SIZE, PhysAddr, VirtAddr, emulated_tlb, frame, paging, physical_to_virtual};
use crate::sched::startup;
use crate::traps::idt;

global_asm!(include_str!("trampoline.s"), options(att_syntax));

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
    static trampoline_data: u8;
    static trampoline_gdt_pointer: u8;
    static trampoline_long_mode: u8;
}

/// The data at the end of the trampoline's copy. The fields are those of `trampoline_data` in `trampoline.s`.
#[repr(C)]
struct Data {
    stacks: *const u64,
    main: extern "C" fn() -> !,
    tables: u32,
    stack_count: u32,
    ticket: AtomicU32,
}

/// How long the boot CPU waits before it sends the start-up message a second time, in ns (SDM 9.4.4).
const SECOND_MESSAGE_NS: u64 = 200_000;
/// How long the boot CPU waits for the other CPUs, in ns. This time is long because a busy host may run virtual CPUs
/// late. The boot CPU waits that long only if a CPU does not start.
const PATIENCE_NS: u64 = 5_000_000_000;

/// How many CPUs have finished their start in [`ap_main`].
static UP: AtomicU32 = AtomicU32::new(0);

cpu_local! {
    /// When this CPU came up, in ns of [`timer::now`].
    static STARTED_AT: AtomicU64 = AtomicU64::new(0);
}

/// The memory that a CPU needs to start. It is allocated before the CPU starts, so that the start cannot fail.
#[derive(Debug)]
struct Prepared {
    local: CpuCopy,
    tables: &'static gdt::Tables,
}

// The next two statics contain a `Vec` each instead of an array. An unoptimised build would copy an array with an
// element for each CPU several times on the boot CPU's stack.
static PREPARED: Once<Vec<Prepared>> = Once::new();
static STACKS: Once<Vec<u64>> = Once::new();

/// The trampoline's page tables, one of each level. They are in the image, which is below 4 GiB, because the trampoline
/// loads their address into CR3 by a 32-bit instruction.
static TABLES: SpinMutex<[PageTable; 4]> = SpinMutex::new([const { PageTable::new() }; 4]);

/// The APIC ids of the CPUs that are to start.
type Processors = heapless::Vec<u32, MAX_CPUS>;

/// Resets the other CPUs that the kernel can use, and returns their APIC ids. CPUs that the mode of the local APIC
/// cannot address are left out, and so are CPUs beyond the limit [`MAX_CPUS`]. 10 ms must pass before [`start`] is
/// called.
pub(crate) fn send_init() -> Processors {
    let this = apic::id();
    let tables = acpi::tables();
    let mut selection = Selection::new(this, MAX_CPUS);
    let processors: Processors =
        tables.apic_ids.iter().copied().filter(|&id| selection.takes(id, apic::is_in_reach(id))).collect();
    selection.leave_out_rest(tables.ignored_cpus);
    if selection.surplus > 0 {
        log::warn!("{} CPUs are left out: the kernel uses at most {MAX_CPUS}", selection.surplus);
    }
    if selection.unreachable > 0 {
        log::warn!(
            "{} CPUs are left out: their ids need an x2APIC, which this computer does not have",
            selection.unreachable
        );
    }
    processors.iter().copied().filter(|&id| !is_dead(id)).for_each(apic::send_init);
    processors
}

/// Starts the CPUs that [`send_init`] has reset, as far as there is memory for them. Waits at most [`PATIENCE_NS`] for
/// them to enter the kernel, and leaves out those that have not. Returns when all CPUs that have entered are up: they
/// wait for kernel threads, or are about to do so.
///
/// # Panics
/// If a CPU has entered the kernel, but does not finish its start within another [`PATIENCE_NS`].
pub(crate) fn start(processors: Processors) {
    if processors.is_empty() {
        return;
    }
    let Some(page) = frame::low_page() else {
        log::warn!("no memory below 1 MiB to start the other CPUs in");
        return;
    };
    let prepared = prepare(processors.len());
    if prepared < processors.len() {
        log::warn!("no memory for {} of {} other CPUs", processors.len() - prepared, processors.len());
    }
    let data = install_trampoline(page);
    let begin = timer::now();
    let page = u8::try_from(page.as_u64() / PAGE_SIZE as u64).expect("below 1 MiB");
    let expected = u32::try_from(prepared).expect("few");
    let send_all = |are_late: bool| {
        // The CPUs for which there is no memory keep waiting for a start-up message. Meanwhile they take no interrupts.
        let in_use = processors.iter().copied().take(prepared);
        let wanted = in_use.filter(|&id| !is_dead(id) && is_late(id) == are_late);
        wanted.for_each(|apic_id| apic::send_startup(apic_id, page));
    };
    send_all(false);
    wait(SECOND_MESSAGE_NS, || data.ticket.load(Ordering::Relaxed) >= expected);
    if data.ticket.load(Ordering::Relaxed) < expected {
        // CPUs that have already begun ignore the second message.
        send_all(false);
    }
    wait(PATIENCE_NS, || ENTRANCE.entered() >= expected);
    let entered = ENTRANCE.close();
    send_all(true);
    // Ordering: Acquire, so that everything that the other CPUs have set up is visible afterwards; partner: the Release
    // addition to `UP` in `ap_main`.
    wait(PATIENCE_NS, || UP.load(Ordering::Acquire) == entered);
    assert!(UP.load(Ordering::Acquire) == entered, "a CPU began to start but does not finish");
    if entered < expected {
        log::warn!(
            "{} of {} other CPUs did not start within {} s",
            expected - entered,
            expected,
            PATIENCE_NS / 1_000_000_000
        );
    }
    cpus::set_count(1 + entered as usize);
    log::info!("{} CPUs, {} us after the start-up messages", cpus::count(), (timer::now() - begin) / 1000);
    check_clocks(begin);
}

/// Waits until `done` returns true, but at most `ns` nanoseconds.
fn wait(ns: u64, done: impl Fn() -> bool) {
    let end = timer::now() + ns;
    while !done() && timer::now() < end {
        spin_loop();
    }
}

/// Allocates the memory that `count` CPUs need to start. Returns for how many CPUs there was memory. Leaves enough free
/// memory for the devices, for the scheduler on those CPUs and the boot CPU, and a little for the program.
fn prepare(count: usize) -> usize {
    let (mut prepared, mut stacks) = (Vec::new(), Vec::new());
    for index in 1..=count {
        let cpus = index + 1;
        if startup::frames_left() < PREPARED_FRAMES + DEVICE_FRAMES + startup::frames_for_start(cpus, cpus) {
            break;
        }
        let Ok((resources, stack)) = prepare_one(CpuId::new(index)) else { break };
        if prepared.try_reserve(1).is_err() || stacks.try_reserve(1).is_err() {
            break;
        }
        prepared.push(resources);
        stacks.push(stack);
    }
    PREPARED.call_once(|| prepared);
    STACKS.call_once(|| stacks).len()
}

/// The largest number of page frames that [`prepare_one`] takes. They are for the stack of the CPU, for the stacks of
/// its trap handlers, for the page tables that map these stacks, and for its per-CPU data.
const PREPARED_FRAMES: usize = 96;

fn prepare_one(id: CpuId) -> Result<(Prepared, u64), OutOfMemory> {
    let local = CpuCopy::allocate(id).ok_or(OutOfMemory)?;
    let tables = gdt::Tables::allocate()?;
    let stack = Stack::allocate_whole(stack::CPU_STACK_BYTES)?;
    Ok((Prepared { local, tables }, stack.into_raw() as u64))
}

/// Copies the trampoline to `page`, fills in its data, and returns the data.
fn install_trampoline(page: PhysAddr) -> &'static Data {
    let start = &raw const trampoline_start;
    let offset_of = |symbol: *const u8| symbol.addr() - start.addr();
    let copy = physical_to_virtual(page).as_mut_ptr::<u8>();
    let length = offset_of(&raw const trampoline_end);
    // SAFETY: `frame::low_page` has returned this page, which is mapped and not used otherwise. The trampoline is
    // smaller than a page.
    unsafe { ptr::copy_nonoverlapping(start, copy, length) };
    for symbol in [(&raw const trampoline_gdt_pointer).wrapping_add(2), &raw const trampoline_long_mode] {
        let address = copy.wrapping_add(offset_of(symbol)).cast::<u32>();
        // SAFETY: the four bytes at this address are in the copy. They are the address in the pointer to the GDT, or
        // the offset in the far pointer to the 64-bit code.
        let offset = unsafe { address.read_unaligned() };
        // SAFETY: the four bytes are in the copy. No CPU has started, so nothing else accesses the copy.
        unsafe { address.write_unaligned(offset + page_address(page)) };
    }
    let stacks = STACKS.get().expect("made ready before");
    let data = copy.wrapping_add(offset_of(&raw const trampoline_data)).cast::<Data>();
    let contents = Data {
        stacks: stacks.as_ptr(),
        main: ap_main,
        tables: start_tables(page),
        stack_count: u32::try_from(stacks.len()).expect("few"),
        ticket: AtomicU32::new(0),
    };
    // SAFETY: the address is aligned (`trampoline.s`), and the value is inside the page of the copy. No other CPU has
    // started, so nothing else accesses the page.
    unsafe { data.write(contents) };
    // SAFETY: the data was written above and is never freed. From now on only the field `ticket` changes, which is
    // atomic.
    unsafe { &*data }
}

fn page_address(page: PhysAddr) -> u32 {
    u32::try_from(page.as_u64()).expect("below 1 MiB")
}

/// Builds the page tables of the trampoline. They map the kernel's upper half, and `page` at its physical address.
/// Returns the value for CR3.
fn start_tables(page: PhysAddr) -> u32 {
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    let [top, third, second, first] = SpinMutexGuard::leak(TABLES.lock());
    let physical = |table: &PageTable| paging::translate(VirtAddr::from_ptr(table)).expect("the image is mapped");
    paging::copy_upper_half(top);
    let address = VirtAddr::new(page.as_u64());
    top[address.p4_index()].set_addr(physical(third), flags);
    third[address.p3_index()].set_addr(physical(second), flags);
    second[address.p2_index()].set_addr(physical(first), flags);
    first[address.p1_index()].set_addr(page, flags);
    u32::try_from(physical(top).as_u64()).expect("the image is below 4 GiB")
}

/// The first Rust function on a started CPU. The CPU is on a stack of its own, but has no per-CPU data yet.
extern "C" fn ap_main() -> ! {
    idt::load_halting();
    let Some(index) = ENTRANCE.enter() else { cpu::halt() };
    paging::load();
    let prepared = &PREPARED.get().expect("made ready before")[index as usize];
    prepared.local.install();
    gdt::load(prepared.tables);
    idt::load();
    cpu::init();
    apic::init_cpu();
    timer::init_cpu();
    STARTED_AT.here().store(timer::now(), Ordering::Relaxed);
    // Ordering: Release; partner: the Acquire loads of `UP` in `start`.
    UP.fetch_add(1, Ordering::Release);
    // The boot CPU need not wait for this. It finds the devices meanwhile.
    emulated_tlb::enlarge();
    // SAFETY: this is called once on each CPU, on the stack of that CPU. Interrupts have been off since the trampoline.
    unsafe { startup::cpu_main() }
}

/// Checks that the clocks of all CPUs agree. Each CPU has recorded the time when it came up. That time must be between
/// `begin`, which the boot CPU has read before it started the others, and the boot CPU's present time. Otherwise
/// [`timer::now`] is not monotonic across CPUs, and this function logs a warning.
fn check_clocks(begin: u64) {
    let end = timer::now();
    for started_at in cpus::all().filter(|&cpu| cpu != CpuId::BOOT).filter_map(|cpu| STARTED_AT.of(cpu)) {
        let started_at = started_at.load(Ordering::Relaxed);
        if !(begin..=end).contains(&started_at) {
            log::warn!("the time stamp counters differ: {started_at} ns is not in {begin}..={end} ns");
        }
    }
}
