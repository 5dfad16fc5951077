//! Step 2: Gs on one CPU, preempted by a timer. In addition to step 1 (`cooperative.rs`), this program has pins, a
//! timer, requests for preemptions, and a return from interrupts that carries these requests out. The CPU halts when it
//! is idle.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::fmt::Arguments;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use core::time::Duration;

use blog_os::interrupts::TrapFrame;
use blog_os::{clock, interrupts, memory, println};
use gmp_sched::interrupt_return::{self, InterruptReturn, Interrupted, Slots};
use gmp_sched::machine::{Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points};
use gmp_sched::preempt;
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::time::Instant;
use x86_64::instructions::interrupts::{disable, enable, enable_and_hlt};

#[derive(Debug)]
struct Kernel;

gmp_sched::platform_aliases!(Kernel);

/// The only M, as the word that `NewMachine::into_raw` returns; 0 until `start_thread` stores the word. `kernel_main`
/// converts the word back and runs the M.
static NEW: AtomicUsize = AtomicUsize::new(0);
/// The only M; null until it begins to run.
static MACHINE: AtomicPtr<Machine<Kernel>> = AtomicPtr::new(core::ptr::null_mut());
/// The park token of the only M.
static TOKEN: AtomicBool = AtomicBool::new(false);

/// The preemption-disable depth, that is, the number of pins. One counter is enough for one CPU. The depth is 1 at
/// first, because the boot stack becomes the stack of the M, which must start pinned.
static PINS: AtomicU32 = AtomicU32::new(1);
/// Whether the running G must give way.
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The values that an interrupt handler stores for a G that it preempts (see `interrupt_return`).
static SLOTS: Slots = Slots::new();

/// How many times each of the two Gs of the program has computed its sum.
static ROUNDS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

impl Points for Kernel {}

// SAFETY: there is one M. A G leaves the M only where the G switches or is preempted, and no G is preempted while
// `PINS` is above 0. `raise_checked_pin` panics before this count can overflow. `memory` allocates no stack a second
// time before the stack is released. The upper end of each stack is aligned to a page, and below the stack is an
// unmapped page. `kernel_main` calls `NewMachine::run` once, on the boot stack, pinned.
unsafe impl Platform for Kernel {
    type Thread = ();
    const TIMER_INTERRUPTS: bool = true;
    const COUNTS_PINS: bool = true;

    unsafe fn raise_pin() {
        // Ordering: Acquire here and Release in `lower_pin`, so that the compiler moves no access out of the code that
        // runs pinned.
        PINS.fetch_add(1, Acquire);
    }

    fn raise_checked_pin() {
        assert!(PINS.fetch_add(1, Acquire) < u32::MAX / 2, "pins were leaked");
    }

    unsafe fn lower_pin() {
        if PINS.fetch_sub(1, Release) == 1 && REQUESTED.load(Relaxed) {
            interrupt_return::honour_requests::<Self>();
        }
    }

    fn is_pinned_once() -> bool {
        PINS.load(Relaxed) == 1
    }

    fn current_machine() -> Option<&'static Machine<Self>> {
        // SAFETY: the pointer is null or points to an M, and Ms are never freed.
        unsafe { MACHINE.load(Relaxed).as_ref() }
    }

    fn now() -> Instant {
        Instant::from_nanos(clock::nanoseconds())
    }

    fn seed(_: usize) -> u64 {
        1
    }

    fn start_thread(machine: NewMachine<Self>) -> Result<(), OutOfResources> {
        NEW.compare_exchange(0, machine.into_raw(), Relaxed, Relaxed).map(drop).map_err(|_| OutOfResources)
    }

    fn park_thread(_: Parking<'_, Self>, deadline: Option<Instant>) {
        // Interrupts are off during the check, so that none comes between the check and the halt. `enable_and_hlt`
        // enables interrupts and halts in one step.
        disable();
        while !TOKEN.swap(false, Relaxed) && deadline.is_none_or(|deadline| Self::now() < deadline) {
            if let Some(deadline) = deadline {
                interrupts::arm(deadline.as_nanos());
            }
            enable_and_hlt();
            disable();
        }
        enable();
    }

    fn unpark_thread(_: &'static Machine<Self>) {
        TOKEN.store(true, Relaxed);
    }

    fn request_preemption(_: &'static Machine<Self>) {
        // There is only one M, so the request is for the G that runs on this CPU.
        REQUESTED.store(true, Relaxed);
    }

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, when: Instant) {
        interrupts::arm(when.as_nanos());
    }

    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources> {
        memory::allocate_stack(size).ok_or(OutOfResources)
    }

    unsafe fn release_stack(stack: Range<usize>) {
        // SAFETY: the caller guarantees that `allocate_stack` returned this stack and that nothing uses it any more.
        unsafe { memory::release_stack(stack) };
    }

    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        println!("fatal error: {message}\n{}", scheduler.goroutine_list());
        blog_os::fail()
    }
}

// SAFETY: there is one CPU, so only this CPU uses `SLOTS` and `PINS`. Handlers are not nested, because interrupts are
// off in the only handler. The default of `red_zone` is right, because the prebuilt `core` is compiled with a red zone.
unsafe impl InterruptReturn for Kernel {
    fn slots() -> &'static Slots {
        &SLOTS
    }

    fn is_pinned() -> bool {
        PINS.load(Relaxed) != 0
    }

    fn is_requested() -> bool {
        REQUESTED.load(Relaxed)
    }

    fn withdraw_request() {
        REQUESTED.store(false, Relaxed);
    }

    unsafe fn lower_pin_quietly() {
        PINS.fetch_sub(1, Release);
    }
}

/// The handler of the timer's interrupt.
#[unsafe(no_mangle)]
fn timer_interrupt(frame: &mut TrapFrame) {
    let next = preempt::tick(Kernel::current_machine());
    if next.gives_way {
        REQUESTED.store(true, Relaxed);
    }
    interrupts::arm(next.at.as_nanos());
    let TrapFrame { rdi, rip, cs, rflags, rsp, ss, .. } = frame;
    let interrupted = Interrupted { rip, cs: *cs, rflags, rsp, ss: *ss, rdi };
    // SAFETY: the interrupt is maskable, so the interrupted code had interrupts on. This handler runs in ring 0, with
    // interrupts off, on the interrupt stack, which belongs to no G. This call is the last one in the handler. Then the
    // stub restores the registers from the frame and returns by `iretq`. Below each stack of a G is a reserve (see
    // `memory`).
    unsafe { interrupt_return::on_interrupt_return::<Kernel>(interrupted) };
}

/// Starts the scheduler and becomes its only M. Called by `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    memory::init();
    clock::init();
    interrupts::init();
    let scheduler = Scheduler::<Kernel>::new(1);
    // SAFETY: the scheduler is new, and this kernel has no thread-local variables.
    unsafe { scheduler.start(move || main(scheduler)) }.expect("memory");
    // SAFETY: `NEW` contains the result of `into_raw` for the only M: `start` has called `start_thread`, which stored
    // it. This function is called once, so the word is converted back once.
    let machine = unsafe { NewMachine::<Kernel>::from_raw(NEW.load(Relaxed)) };
    MACHINE.store(core::ptr::from_ref(machine.machine()).cast_mut(), Relaxed);
    interrupts::arm(clock::nanoseconds());
    enable();
    machine.run()
}

/// The main G. It spawns two Gs that compute without ever waiting, and that end when both have made progress. Without
/// preemption, the first of them would compute for ever.
fn main(scheduler: &'static Scheduler<Kernel>) {
    let hogs: Vec<_> = (0..2).map(|me| go(move || compute(me))).collect();
    sleep(Duration::from_millis(5));
    println!("main has slept");
    hogs.into_iter().for_each(|hog| hog.join().expect("no G panics"));
    assert!(scheduler.counts().preemptions > 0);
    println!("preemptive: ok");
    blog_os::power_off()
}

/// Computes the same sum repeatedly, until each of the two Gs has computed it three times. The result stays the same
/// only if every preemption preserves the registers.
fn compute(me: usize) {
    let sum = || (1..10_000).map(|n| 1.0 / f64::from(n)).sum::<f64>();
    let expected = sum();
    while ROUNDS.iter().any(|rounds| rounds.load(Relaxed) < 3) {
        assert_eq!(core::hint::black_box(sum)(), expected);
        ROUNDS[me].fetch_add(1, Relaxed);
    }
}
