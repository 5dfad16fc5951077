//! Starts the scheduler on the boot CPU. From then on all CPUs run kernel threads, on which the scheduler's Ms run.

use core::fmt::Arguments;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use gmp_sched::platform::{SLICE, UNDISTURBED};
use gmp_sched::policy::Policy;
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;

use crate::arch::x86_64::interrupts::RESCHEDULE;
use crate::arch::x86_64::{apic, cpu};
use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::mm::frame::{self, Priority};
use crate::mm::{self, PAGE_SIZE, StackCache, stack};
use crate::sched::platform::{self, Kernel, scheduler};
use crate::sched::{blocking, idle, kthread, sysmon};

/// The functions of higher layers of the kernel that the scheduler calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Returns the size of the main G's stack in bytes.
    pub(crate) stack_size: fn() -> usize,
    /// Returns the policy of the program; `None` for Go's rules.
    pub(crate) policy: fn() -> Option<&'static dyn Policy>,
    /// The body of the main G: runs the program, and ends the kernel with the program's status.
    pub(crate) main: fn() -> !,
    /// Ends the kernel with a message when the program cannot continue and no single G is the cause.
    pub(crate) fatal: fn(Arguments<'_>) -> !,
}

/// The body of a kernel thread that observes the scheduler. The thread is no M, and runs from the start of the
/// scheduler.
pub(crate) type Observer = fn(usize) -> !;

/// The settings of the scheduler. They are chosen once, before the scheduler is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The number of Ps.
    pub(crate) procs: usize,
    /// The seed of the scheduler's random choices.
    pub(crate) seed: u64,
    /// How long a G may run while other Gs wait: the slice.
    pub(crate) slice: Duration,
    /// The undisturbed time: for how long after a displacement there is no other displacement on the same P.
    pub(crate) undisturbed: Duration,
    /// How long the last CPU to become idle polls before it halts.
    pub(crate) halt_poll: Duration,
    /// How many calls may block their Ms in drivers at the same time.
    pub(crate) blocking_limit: u32,
    /// How the scheduler records a trace. `None` if it records none.
    pub(crate) trace: Option<TraceSettings>,
    /// The kernel threads that observe the scheduler.
    pub(crate) observers: [Option<Observer>; 2],
}

/// How the scheduler records a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSettings {
    /// The memory into which the scheduler writes the trace.
    pub(crate) memory: &'static [AtomicU64],
    /// Whether the trace is a profile, that is, contains call stacks.
    pub(crate) is_profile: bool,
}

impl Settings {
    /// Returns the default settings for `cpus` CPUs and the seed `seed`. If Go has the same setting, the default is
    /// that of Go.
    pub(crate) fn standard(cpus: usize, seed: u64) -> Self {
        Self {
            procs: cpus,
            seed,
            slice: SLICE,
            undisturbed: UNDISTURBED,
            halt_poll: Duration::ZERO,
            blocking_limit: blocking::BLOCKING_LIMIT,
            trace: None,
            observers: [None; 2],
        }
    }
}

/// The number of frames that the scheduler and the first Gs need in addition to the frames for each CPU and each P. A
/// kernel with 64 MiB of memory used 311 of these 384 frames, most of them for the Ps.
const START_FRAMES: usize = 384;
/// The number of frames that each CPU needs: 12 for its reserve for page faults, and 4 for its list of kernel threads
/// and the timing wheel of those that sleep.
const START_FRAMES_PER_CPU: usize = 12 + 4;
/// The number of frames that each P needs. They are for an M, the M's stack, and the page tables of that stack.
const START_FRAMES_PER_PROCESSOR: usize = 20;
/// How many bytes each P after the first [`PROCS_LIMIT`] Ps needs, in use or not: its own size, and 12 KiB for its
/// timing wheel, with a little for the spans of the heap. The memory of the first [`PROCS_LIMIT`] Ps is included in
/// [`START_FRAMES`].
const BYTES_PER_PROCESSOR: usize = size_of::<Processor<Kernel>>() + 13 * 1024;

/// Returns how many frames the start of the scheduler needs on `cpus` CPUs, with `procs` Ps in use. The number includes
/// a few frames for the program. [`frames_left`] must not be less.
pub(crate) fn frames_for_start(cpus: usize, procs: usize) -> usize {
    let processors = cpus.saturating_sub(PROCS_LIMIT) * BYTES_PER_PROCESSOR;
    START_FRAMES + cpus * START_FRAMES_PER_CPU + procs * START_FRAMES_PER_PROCESSOR + processors.div_ceil(PAGE_SIZE)
}

/// Returns how many frames the start may take. Frames that are reserved for existing stacks do not count, because the
/// request for the main G's stack must leave them free (`Priority::Spawn`).
pub(crate) fn frames_left() -> usize {
    frame::frames_for(Priority::Spawn)
}

/// Returns how many Ps can be in use: at most `wanted`, and not more than there is memory for. The devices may have
/// taken memory since the other CPUs were started, and the program's options may demand more Ps than there are CPUs.
fn affordable_procs(wanted: usize) -> usize {
    let spare = frames_left().saturating_sub(frames_for_start(cpus::count(), 0));
    let procs = wanted.min(spare / START_FRAMES_PER_PROCESSOR).max(1);
    if procs < wanted {
        log::warn!("no memory for {} of {wanted} Ps", wanted - procs);
    }
    procs
}

/// The functions of the scheduler that `mm` calls.
const STACK_CACHE: StackCache = StackCache {
    free: |at_most| scheduler().map_or(0, |scheduler| scheduler.free_idle_stacks(at_most)),
    count: || scheduler().map_or(0, Scheduler::cached_stacks),
    note_growth: || {
        if let Some(scheduler) = scheduler() {
            scheduler.note_growth();
        }
    },
};

/// Starts the scheduler and `program.main` as its main G, and runs kernel threads on the boot CPU.
///
/// # Safety
/// Must be called once, by the boot CPU on its own stack, with interrupts off, after the other CPUs have been started.
pub(crate) unsafe fn boot_main(settings: &Settings, program: Program) -> ! {
    platform::set_fatal(program.fatal);
    let procs = affordable_procs(settings.procs);
    idle::set_polling(settings.halt_poll);
    blocking::init(settings.blocking_limit);
    kthread::init();
    stack::fill_last_frames();
    platform::configure(settings.seed, settings.slice, settings.undisturbed);
    let scheduler = Scheduler::with_limit(procs, procs_limit());
    if let Some(policy) = (program.policy)() {
        scheduler.set_policy(policy).expect("memory for a policy");
    }
    platform::install(scheduler);
    mm::set_stack_cache(STACK_CACHE);
    sysmon::init();
    if let Some(TraceSettings { memory, is_profile }) = settings.trace {
        let started = if is_profile { scheduler.start_profile_in(memory) } else { scheduler.start_trace_in(memory) };
        started.expect("memory for what describes the rings of a trace");
    }
    // SAFETY: the kernel has no thread-local variables, and this scheduler has not been started before.
    unsafe { scheduler.start_with_stack((program.stack_size)(), move || (program.main)()) }
        .expect("memory for one M per P and the main G");
    for observer in settings.observers.into_iter().flatten() {
        platform::make_thread(observer, 0).expect("memory for a thread that observes the scheduler").unpark();
    }
    // Interrupt the other CPUs, which wait in `cpu_main` until kernel threads are set up.
    for cpu in 1..cpus::count() {
        apic::send(CpuId::new(cpu), RESCHEDULE);
    }
    // SAFETY: called once on this CPU, on its own stack, with interrupts off, as the caller promises. The CPU's only
    // pin is the one with which every CPU starts.
    unsafe { kthread::all().idle_loop() }
}

/// Runs kernel threads on a CPU other than the boot CPU, as soon as they are set up.
///
/// # Safety
/// Must be called once on each CPU except the boot CPU, on its own stack, with interrupts off.
pub(crate) unsafe fn cpu_main() -> ! {
    while !kthread::is_up() {
        cpu::wait_for_interrupt();
    }
    // SAFETY: called once on this CPU, on its own stack, with interrupts off, as the caller promises. The CPU's only
    // pin is the one with which every CPU starts.
    unsafe { kthread::all().idle_loop() }
}

/// The least value of [`procs_limit`].
const PROCS_LIMIT: usize = 64;

/// The largest number of Ps that a program may choose. With more Ps than CPUs, the Ms that hold the Ps share the CPUs,
/// slice by slice. With fewer Ps than CPUs, the remaining CPUs run only threads without a P, for example those in
/// drivers.
pub(crate) fn procs_limit() -> usize {
    cpus::count().max(PROCS_LIMIT)
}
