//! What [`gmp_sched`] needs of this machine, and what the rest of the kernel needs of the scheduler.

use core::fmt::{self, Arguments};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::debugger::Layout;
use gmp_sched::goroutine::{Goroutine, Status, WaitReason};
use gmp_sched::machine::{Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points, SLICE, UNDISTURBED};
use gmp_sched::preempt::{self, NextTick};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sysmon::Sysmon;
use gmp_sched::time::Instant;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::interrupts::RESCHEDULE;
use crate::arch::x86_64::{apic, cpu};
use crate::cpu::contexts::Act;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::{contexts, cpus};
use crate::mm::stack::{self, Slot, Stack};
use crate::mm::{self, PAGE_SIZE, StackCache, frame, object_cache};
use crate::sched::kthread::{self, KernelThread};
use crate::sched::{idle, storm};

/// The platform type of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

gmp_sched::platform_aliases!(Kernel);

/// Bytes of an M's own stack, g0.
const THREAD_STACK: usize = 64 * 1024;

static SCHEDULER: spin::Once<&'static Scheduler<Kernel>> = spin::Once::new();
/// Set once, before the scheduler is made.
static SEED: AtomicU64 = AtomicU64::new(0);
/// Set once, before the scheduler is made.
static SLICE_NS: AtomicU64 = AtomicU64::new(SLICE.as_nanos() as u64);
/// Set once, before the scheduler is made.
static UNDISTURBED_NS: AtomicU64 = AtomicU64::new(UNDISTURBED.as_nanos() as u64);
/// Where gdb finds what it lists; see `scripts/gmp.py`.
#[used]
#[unsafe(no_mangle)]
static GMP_LAYOUT: Layout = Layout::of::<Kernel>();
/// The scheduler, for gdb.
#[used]
#[unsafe(no_mangle)]
static GMP_SCHEDULER: AtomicPtr<Scheduler<Kernel>> = AtomicPtr::new(core::ptr::null_mut());
static SYSMON: spin::Once<&'static KernelThread> = spin::Once::new();

impl Points for Kernel {
    #[inline(always)]
    #[track_caller]
    fn assert_not_preemptible() {
        debug_assert!(
            percpu::is_preemption_off() || !interrupts::are_enabled(),
            "a lock of the scheduler is taken by a G that may be preempted"
        );
    }
}

const _: () =
    assert!(object_cache::is_size(size_of::<Goroutine<Kernel>>()), "Gs are to have a size class of their own");

// SAFETY: the preempt count keeps a flow of control on its M; the current M is a per-CPU word that is read anew each time
// and set by the thread switch. Stacks come from slots with guard pages. A thread starts when it is unparked, pinned.
unsafe impl Platform for Kernel {
    type Thread = &'static KernelThread;

    const TIMER_INTERRUPTS: bool = true;
    const COUNTS_PINS: bool = true;

    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    fn raise_pin() {
        percpu::preempt_disable();
    }

    #[inline(always)]
    unsafe fn lower_pin() {
        percpu::preempt_enable();
    }

    #[inline(always)]
    fn is_pinned_once() -> bool {
        contexts::may_block_pinned()
    }

    #[cold]
    #[track_caller]
    fn refuse_to_block() -> ! {
        contexts::refuse(Act::Block)
    }

    #[inline(always)]
    #[track_caller]
    fn assert_may_spawn() {
        contexts::assert_may_spawn();
    }

    #[inline(always)]
    fn current_machine() -> Option<&'static Machine<Self>> {
        let machine = core::ptr::with_exposed_provenance::<Machine<Self>>(percpu::current_machine());
        // SAFETY: the word is 0 or the argument of a thread made by `start_thread`; machines are never freed.
        unsafe { machine.as_ref() }
    }

    fn now() -> Instant {
        kthread::now()
    }

    fn slice() -> Duration {
        Duration::from_nanos(SLICE_NS.load(Ordering::Relaxed))
    }

    fn undisturbed() -> Duration {
        Duration::from_nanos(UNDISTURBED_NS.load(Ordering::Relaxed))
    }

    fn seed(index: usize) -> u64 {
        0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index as u64 + 1) ^ SEED.load(Ordering::Relaxed)
    }

    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources> {
        make_thread(run_machine, machine.into_raw())
    }

    fn park_thread(_: Parking<'_, Self>, deadline: Option<Instant>) {
        kthread::park(deadline);
    }

    fn unpark_thread(machine: &'static Machine<Self>) {
        if let Some(thread) = machine.thread() {
            thread.unpark();
        }
    }

    fn exit_thread() -> ! {
        unreachable!("the machine's scheduler is never shut down")
    }

    fn request_preemption(machine: &'static Machine<Self>) {
        if let Some(thread) = machine.thread() {
            apic::send(CpuId::new(thread.last_cpu()), RESCHEDULE);
        }
    }

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, when: Instant) {
        kthread::arm(when);
    }

    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources> {
        let stack = Stack::allocate(size).map_err(|_| OutOfResources)?;
        let bottom = stack.bottom();
        Ok(bottom..stack.into_raw())
    }

    unsafe fn release_stack(stack: Range<usize>) {
        // SAFETY: the caller's promise: it is what `allocate_stack` gave, once.
        drop(unsafe { Stack::from_raw(stack.end) });
    }

    fn fatal(_: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        fatal(message)
    }
}

/// Writes a line for every G that is alive: what it does, and who spawned it.
pub(crate) fn list_goroutines(out: &mut impl fmt::Write) -> fmt::Result {
    let Some(scheduler) = scheduler() else { return Ok(()) };
    for goroutine in scheduler.goroutines().filter(|goroutine| goroutine.status() != Status::Dead) {
        let (status, reason) = (goroutine.status(), goroutine.wait_reason());
        write!(out, "\ngoroutine {} ", goroutine.id())?;
        if let Some(name) = goroutine.name() {
            write!(out, "({name}) ")?;
        }
        if status == Status::Waiting && reason != WaitReason::None {
            let waited = kthread::now() - goroutine.waiting_since();
            write!(out, "[{reason}, {}.{:03} s]", waited.as_secs(), waited.subsec_millis())?;
        } else {
            write!(out, "[{status}]")?;
        }
        if let Some(creator) = goroutine.creator() {
            write!(out, " created by goroutine {creator}")?;
        }
    }
    writeln!(out)
}

/// The G that runs this, if it is in code of its own: not in the scheduler, in a driver or in a handler.
pub(crate) fn goroutine_in_user_code() -> Option<&'static Goroutine<Kernel>> {
    if percpu::trap_depth() != 0 || percpu::is_preemption_off() || !interrupts::are_enabled() {
        return None;
    }
    // Not to be moved to another CPU between the look at the M and the look at its G.
    let _here = percpu::PreemptGuard::new();
    interrupted_goroutine()
}

/// The machine's scheduler, `None` until it is up.
pub fn scheduler() -> Option<&'static Scheduler<Kernel>> {
    SCHEDULER.get().copied()
}

fn make_thread(entry: fn(usize) -> !, argument: usize) -> Result<&'static KernelThread, OutOfResources> {
    let stack = Stack::allocate_whole(THREAD_STACK).map_err(|_| OutOfResources)?;
    let range = stack.bottom()..stack.into_raw();
    // SAFETY: the stack is given up for good and is this thread's alone.
    Ok(unsafe { kthread::all().create(range, entry, argument) })
}

/// The first function of an M's thread.
fn run_machine(machine: usize) -> ! {
    // SAFETY: `start_thread` made the thread with this word, which comes here once.
    unsafe { NewMachine::<Kernel>::from_raw(machine) }.run()
}

/// sysmon's thread: sleeps until a tick finds an M in a system call, and watches as long as there is one.
fn run_sysmon(_: usize) -> ! {
    let scheduler = scheduler().expect("sysmon starts after the scheduler");
    let mut sysmon = Sysmon::new(scheduler);
    loop {
        kthread::park(None);
        while scheduler.is_any_in_syscall() {
            let delay = sysmon.check();
            kthread::park(Some(kthread::now() + delay));
        }
    }
}

/// What the scheduler calls of the layers above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// The main G: runs the program, and ends the kernel with its status.
    pub(crate) main: fn() -> !,
    /// Ends the kernel with a message: the program cannot continue, and no single G is the cause.
    pub(crate) fatal: fn(Arguments<'_>) -> !,
}

static PROGRAM: spin::Once<Program> = spin::Once::new();

fn fatal(message: Arguments<'_>) -> ! {
    let program = PROGRAM.get().expect("set before the scheduler is made");
    (program.fatal)(message)
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

    fn apply(&self) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        SEED.store(self.seed, Ordering::Relaxed);
        SLICE_NS.store(nanos(self.slice), Ordering::Relaxed);
        UNDISTURBED_NS.store(nanos(self.undisturbed), Ordering::Relaxed);
        idle::set_polling(self.halt_poll);
    }
}

/// Frames that the scheduler and the first Gs take, whatever the number of CPUs: 320 in a machine with 64 MiB, most of
/// them the heap's.
const START_FRAMES: usize = 512;
/// What each CPU adds to that: the stack of an M and its page tables, frames put aside for page faults, an M.
const START_FRAMES_PER_CPU: usize = 32;
/// What each P adds, above those of every machine.
const BYTES_PER_PROCESSOR: usize = 2 * size_of::<Processor<Kernel>>();

/// How many frames a machine with `cpus` CPUs needs to start the program, with a little for that to begin with.
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

/// What `mm` needs to know of the stacks that dead Gs keep.
const STACK_CACHE: StackCache = StackCache {
    free: |at_most| scheduler().map_or(0, |scheduler| scheduler.give_back_stacks(at_most)),
    count: || scheduler().map_or(0, Scheduler::cached_stacks),
};

/// The boot CPU, on its own stack, with interrupts off, when all CPUs that answer are up: starts the scheduler, and `program`
/// as its main G.
///
/// # Safety
///
/// That is so, and it is called once.
pub(crate) unsafe fn boot_main(settings: &Settings, program: Program) -> ! {
    let main = PROGRAM.call_once(|| program).main;
    assert_memory_suffices();
    settings.apply();
    kthread::init();
    stack::fill_last_frames();
    let scheduler = Scheduler::with_limit(settings.procs, procs_limit());
    SCHEDULER.call_once(|| scheduler);
    GMP_SCHEDULER.store(core::ptr::from_ref(scheduler).cast_mut(), Ordering::Relaxed);
    mm::set_stack_cache(STACK_CACHE);
    let sysmon = make_thread(run_sysmon, 0).expect("memory for sysmon");
    SYSMON.call_once(|| sysmon);
    // SAFETY: there are no thread-local variables here, and the scheduler is new.
    unsafe { scheduler.start(move || main()) }.expect("memory for one M per P and the main G");
    // The others wait for kernel threads to be set up.
    for cpu in 1..cpus::count() {
        apic::send(CpuId::new(cpu), RESCHEDULE);
    }
    // SAFETY: the caller's promise; the pin is the one that every CPU starts with.
    unsafe { kthread::all().idle_loop() }
}

/// Every other CPU, on its own stack, with interrupts off.
///
/// # Safety
///
/// That is so, and it is called once on each CPU.
pub(crate) unsafe fn cpu_main() -> ! {
    while !kthread::is_up() {
        cpu::wait_for_interrupt();
    }
    // SAFETY: the caller's promise; the pin is the one that every CPU starts with.
    unsafe { kthread::all().idle_loop() }
}

/// Ps that there may be at most on a machine with fewer CPUs.
const PROCS_LIMIT: usize = 64;

/// The most Ps that a program may choose. With more than there are CPUs their Ms take turns on these, slice by slice; with
/// fewer, the CPUs left over run threads that are in drivers.
pub(crate) fn procs_limit() -> usize {
    cpus::count().max(PROCS_LIMIT)
}

/// The timer of a CPU that runs a thread has fired; gives when it is to fire again. In an interrupt.
pub(crate) fn tick(now: Instant) -> Instant {
    if scheduler().is_some_and(Scheduler::is_any_in_syscall)
        && let Some(sysmon) = SYSMON.get()
    {
        sysmon.unpark();
    }
    let machine = Kernel::current_machine();
    let mut next = preempt::tick(machine);
    if let Some(wait) = storm::strike(machine) {
        next = NextTick { at: next.at.min(now + wait), gives_way: machine.is_some_and(preempt::is_wanted) };
    }
    // Threads that wait for this CPU take turns with the one that runs, once a slice.
    if next.gives_way | kthread::all().preempt_after(now, Kernel::slice()) {
        percpu::set_pending();
    }
    next.at
}

/// When the timer of this CPU is to fire for the thread that begins to run on it. The caller is pinned.
pub(crate) fn first_tick(now: Instant) -> Instant {
    preempt::first_tick(Kernel::current_machine(), now)
}

/// Another CPU asks for a preemption here. In an interrupt.
pub(crate) fn preemption_interrupt() {
    if Kernel::current_machine().is_some_and(preempt::is_wanted) {
        percpu::set_pending();
    }
}

/// The G that runs on this CPU, if it is in user code as far as the scheduler is concerned. Called with interrupts off
/// and a preempt count of zero.
pub(crate) fn interrupted_goroutine() -> Option<&'static Goroutine<Kernel>> {
    Kernel::current_machine().and_then(Machine::current_goroutine)
}

/// The G whose stack is in that slot. Callable from everywhere; takes as long as there are Gs.
pub(crate) fn goroutine_with_stack(slot: Slot) -> Option<&'static Goroutine<Kernel>> {
    scheduler()?.goroutines().find(|goroutine| goroutine.stack().contains(&slot.bottom()))
}

/// Does what was asked of the G on this CPU: lets a ready thread run, due timers fire, the next G run. Gives the pin
/// back, perhaps on another CPU.
pub(crate) fn give_way(pinned: Pinned<Kernel>) -> Pinned<Kernel> {
    // SAFETY: the caller has pinned a G in user code, once, for this; it is on the G's stack.
    unsafe { kthread::all().displace() };
    preempt::give_way(pinned)
}

/// CPUs of this machine that are up.
#[must_use]
pub fn num_cpu() -> usize {
    cpus::count()
}

/// Gs that run at once, at most.
#[must_use]
pub fn procs() -> usize {
    scheduler().map_or(1, Scheduler::procs)
}

/// Gs that are alive.
#[must_use]
pub fn num_goroutine() -> usize {
    scheduler().map_or(0, Scheduler::num_goroutine)
}
