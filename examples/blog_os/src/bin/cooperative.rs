//! Step 1: Gs on one CPU without interrupts. A G runs until it waits, yields or ends.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::fmt::Arguments;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;

use blog_os::{clock, memory, println};
use gmp_sched::machine::{Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::time::Instant;

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

impl Points for Kernel {}

// SAFETY: there is only one M, so every flow of control stays on it. Nothing preempts, so a pin needs no counter.
// `memory` allocates no stack a second time before the stack is released. The upper end of each stack is aligned to a
// page, and below the stack is an unmapped page. `kernel_main` calls `NewMachine::run` once, on the boot stack.
unsafe impl Platform for Kernel {
    type Thread = ();
    const TIMER_INTERRUPTS: bool = false;

    unsafe fn raise_pin() {}
    unsafe fn lower_pin() {}

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
        while !TOKEN.swap(false, Relaxed) && deadline.is_none_or(|deadline| Self::now() < deadline) {
            Self::relax();
        }
    }

    fn unpark_thread(_: &'static Machine<Self>) {
        TOKEN.store(true, Relaxed);
    }

    fn request_preemption(_: &'static Machine<Self>) {}

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, _: Instant) {}

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

/// Starts the scheduler and becomes its only M. Called by `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    memory::init();
    clock::init();
    // SAFETY: the scheduler is new, and this kernel has no thread-local variables.
    unsafe { Scheduler::<Kernel>::new(1).start(main) }.expect("memory");
    // SAFETY: `NEW` contains the result of `into_raw` for the only M: `start` has called `start_thread`, which stored
    // it. This function is called once, so the word is converted back once.
    let machine = unsafe { NewMachine::<Kernel>::from_raw(NEW.load(Relaxed)) };
    MACHINE.store(core::ptr::from_ref(machine.machine()).cast_mut(), Relaxed);
    machine.run()
}

/// The main G.
fn main() {
    println!("primes: {:?}", primes(10));
    let begin = Kernel::now();
    let sleepers: Vec<_> = (0..4).map(|n| go(move || sleep(Duration::from_millis(5 * n)))).collect();
    sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("no G panics"));
    assert!(Kernel::now() - begin >= Duration::from_millis(15));
    println!("cooperative: ok");
    blog_os::power_off()
}

/// Returns the first `count` primes. They are computed by a chain of Gs, each of which removes the multiples of one
/// prime.
fn primes(count: usize) -> Vec<u32> {
    let (sender, mut numbers) = channel(0);
    go(move || (2..).try_for_each(|n| sender.send(n))).detach();
    let mut primes = Vec::new();
    while primes.len() < count {
        let prime = numbers.recv().expect("there is always another number");
        primes.push(prime);
        let (sender, rest) = channel(0);
        go(move || numbers.iter().filter(|n| n % prime != 0).try_for_each(|n| sender.send(n))).detach();
        numbers = rest;
    }
    primes
}
