//! The start of the scheduler, by the boot CPU; the other CPUs join it.

use core::fmt::Arguments;
use core::time::Duration;

use gmp_sched::platform::{SLICE, UNDISTURBED};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;

use crate::arch::x86_64::interrupts::RESCHEDULE;
use crate::arch::x86_64::{apic, cpu};
use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::mm::{self, PAGE_SIZE, StackCache, frame, stack};
use crate::sched::platform::{self, Kernel, fatal, scheduler};
use crate::sched::{idle, kthread, sysmon};

/// What the scheduler calls of the layers above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// The main G: runs the program, and ends the kernel with its status.
    pub(crate) main: fn() -> !,
    /// Ends the kernel with a message: the program cannot continue, and no single G is the cause.
    pub(crate) fatal: fn(Arguments<'_>) -> !,
}

/// How the scheduler is to work. Chosen once, before it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Number of Ps.
    pub(crate) procs: usize,
    /// The seed of its random choices.
    pub(crate) seed: u64,
    /// How long a G runs while others wait.
    pub(crate) slice: Duration,
    /// How long no displacement follows another one on the same P.
    pub(crate) undisturbed: Duration,
    /// How long the last CPU to become idle polls before it halts.
    pub(crate) halt_poll: Duration,
}

impl Settings {
    /// Go's, where Go has them, for this number of CPUs.
    pub(crate) fn standard(cpus: usize) -> Self {
        Self { procs: cpus, seed: 0, slice: SLICE, undisturbed: UNDISTURBED, halt_poll: Duration::ZERO }
    }
}

/// Frames that the scheduler and the first Gs take, whatever the number of CPUs. Of these 320 were used with 64 MiB of memory, most
/// of them by the heap.
const START_FRAMES: usize = 512;
/// What each CPU adds: the stack of an M and its page tables, frames put aside for page faults, an M.
const START_FRAMES_PER_CPU: usize = 32;
/// What each P adds above [`PROCS_LIMIT`]; those below are included above.
const BYTES_PER_PROCESSOR: usize = 2 * size_of::<Processor<Kernel>>();

/// How many frames must be free to start the scheduler on `cpus` CPUs, and the program, which gets a few of them.
pub(crate) fn frames_for_start(cpus: usize) -> usize {
    let processors = cpus.saturating_sub(PROCS_LIMIT) * BYTES_PER_PROCESSOR;
    START_FRAMES + cpus * START_FRAMES_PER_CPU + processors.div_ceil(PAGE_SIZE)
}

/// Ends the kernel with a message if there is too little memory to start the scheduler.
fn assert_memory_suffices() {
    let (needed, free) = (frames_for_start(cpus::count()), frame::free_frames());
    if free < needed {
        let (needed, free) = (needed * PAGE_SIZE / 1024, free * PAGE_SIZE / 1024);
        fatal(format_args!("not enough memory: the scheduler needs {needed} KiB, and {free} KiB are free"));
    }
}

/// How `mm` frees the stacks that dead Gs keep.
const STACK_CACHE: StackCache = StackCache {
    free: |at_most| scheduler().map_or(0, |scheduler| scheduler.free_idle_stacks(at_most)),
    count: || scheduler().map_or(0, Scheduler::cached_stacks),
};

/// Starts the scheduler and `program.main` as its main G, and runs kernel threads on the boot CPU.
///
/// # Safety
/// Called once, by the boot CPU on its own stack, with interrupts off, when all CPUs that answer are up.
pub(crate) unsafe fn boot_main(settings: &Settings, program: Program) -> ! {
    platform::set_fatal(program.fatal);
    assert_memory_suffices();
    idle::set_polling(settings.halt_poll);
    kthread::init();
    stack::fill_last_frames();
    platform::configure(settings.seed, settings.slice, settings.undisturbed);
    let scheduler = Scheduler::with_limit(settings.procs, procs_limit());
    platform::install(scheduler);
    mm::set_stack_cache(STACK_CACHE);
    sysmon::init();
    // SAFETY: there are no thread-local variables here, and the scheduler is new.
    unsafe { scheduler.start(move || (program.main)()) }.expect("memory for one M per P and the main G");
    // The other CPUs wait until kernel threads are set up.
    for cpu in 1..cpus::count() {
        apic::send(CpuId::new(cpu), RESCHEDULE);
    }
    // SAFETY: the caller's promise; the pin is the one that every CPU starts with.
    unsafe { kthread::all().idle_loop() }
}

/// Runs kernel threads on another CPU, as soon as they are set up.
///
/// # Safety
/// Called once on each CPU but the boot CPU, on its own stack, with interrupts off.
pub(crate) unsafe fn cpu_main() -> ! {
    while !kthread::is_up() {
        cpu::wait_for_interrupt();
    }
    // SAFETY: the caller's promise; the pin is the one that every CPU starts with.
    unsafe { kthread::all().idle_loop() }
}

/// The most Ps on a computer with fewer CPUs.
const PROCS_LIMIT: usize = 64;

/// The most Ps that a program may choose. With more Ps than CPUs their Ms share the CPUs, slice by slice; with fewer, the CPUs
/// left over run threads that are in drivers.
pub(crate) fn procs_limit() -> usize {
    cpus::count().max(PROCS_LIMIT)
}
