//! Models in which kernel threads become ready while CPUs are about to halt.

use alloc::boxed::Box;
use core::cell::Cell;

use super::explore;
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::instant::Instant;
use crate::base::points::Points;
use crate::kthread::{Cpu, Thread, Threads};

const CPUS: usize = 3;

/// A CPU of the model is a loom thread, which ends where the CPU would halt or run a thread.
#[derive(Debug)]
struct ModelCpu;

loom::thread_local! {
    static CPU: Cell<usize> = Cell::new(0);
}

loom::lazy_static! {
    static ref THREADS: &'static Threads<ModelCpu> = Threads::new(CPUS);
    /// Whether each CPU has been sent an interrupt.
    static ref KICKED: [AtomicBool; CPUS] = core::array::from_fn(|_| AtomicBool::new(false));
}

impl Points for ModelCpu {
    fn relax() {
        loom::thread::yield_now();
    }
}

#[expect(unsafe_code, reason = "promises what kernel threads rely on")]
// SAFETY: in the model no interrupt occurs and no context is switched.
unsafe impl Cpu for ModelCpu {
    fn threads() -> &'static Threads<Self> {
        *THREADS
    }

    fn current() -> usize {
        CPU.with(Cell::get)
    }

    fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    fn kick(cpu: usize) {
        KICKED[cpu].swap(true, Ordering::AcqRel);
    }

    fn request_displacement() {}

    fn arm(_: Instant) {}

    fn now() -> Instant {
        Instant::from_nanos(0)
    }

    unsafe fn switching_to(_: &'static Thread<Self>, _: Instant) {}

    unsafe fn switching_to_idle() {}

    unsafe fn halt() {}

    unsafe fn set_interrupts(_: bool) {}
}

/// Makes a thread that waits for its first token. It is created on CPU `last`, so it prefers that CPU.
fn thread(last: usize) -> &'static Thread<ModelCpu> {
    CPU.with(|cpu| cpu.set(last));
    let stack = Box::leak(Box::new([0u128; 16])).as_ptr_range();
    let stack = stack.start.expose_provenance()..stack.end.expose_provenance();
    #[expect(unsafe_code, reason = "makes a thread that never runs")]
    // SAFETY: the stack is new and not used otherwise.
    unsafe {
        THREADS.create(stack, |_| unreachable!("no thread runs in a model"), 0)
    }
}

/// Runs `body` on a new loom thread, which is CPU `cpu`.
fn on<R: Send + 'static>(cpu: usize, body: impl FnOnce() -> R + Send + 'static) -> loom::thread::JoinHandle<R> {
    loom::thread::spawn(move || {
        CPU.with(|current| current.set(cpu));
        body()
    })
}

/// Runs a CPU that has no thread until it would halt; returns whether it found a thread.
fn find_thread() -> bool {
    THREADS.take_ready_or_be_idle().is_some()
}

/// Lets each CPU that was kicked during its halt check the lists again. Then no thread may be ready while a CPU
/// halts, and no thread may run twice. `woken` is the number of threads that were made ready. A CPU that is in `busy`
/// and was not in `busy_before` runs one of them.
fn check(woken: usize, busy_before: [bool; CPUS], mut busy: [bool; CPUS]) {
    while let Some(cpu) = (0..CPUS).find(|&cpu| !busy[cpu] && KICKED[cpu].swap(false, Ordering::AcqRel)) {
        CPU.with(|current| current.set(cpu));
        busy[cpu] = find_thread();
    }
    let taken = (0..CPUS).filter(|&cpu| busy[cpu] && !busy_before[cpu]).count();
    assert!(taken <= woken, "a thread runs twice");
    assert!(taken == woken || busy == [true; CPUS], "a thread is ready and a CPU halts");
}

#[test]
fn one_ready_thread_against_a_halting_cpu() {
    for last in 0..2 {
        explore(move || {
            let woken = thread(last);
            let halts = on(1, find_thread);
            CPU.with(|cpu| cpu.set(0));
            woken.unpark();
            let busy = halts.join().unwrap();
            check(1, [true, false, true], [true, busy, true]);
        });
    }
}

/// Two threads become ready at the same time. Both may be put on the list of the same CPU, and the same CPU may be
/// claimed for both.
#[test]
fn two_ready_threads_against_a_halting_cpu_and_an_idle_one() {
    explore(|| {
        let woken = [thread(1), thread(1)];
        // CPU 2 is idle from the beginning.
        CPU.with(|cpu| cpu.set(2));
        assert!(!find_thread());
        let halts = on(1, find_thread);
        CPU.with(|cpu| cpu.set(0));
        woken.into_iter().for_each(Thread::unpark);
        let busy = halts.join().unwrap();
        check(2, [true, false, false], [true, busy, false]);
    });
}

/// Two CPUs go idle. One takes the first thread and is claimed for the second at the same time. The other has checked
/// for threads before the second thread became ready.
#[test]
fn two_ready_threads_against_two_halting_cpus() {
    explore(|| {
        let woken = [thread(1), thread(1)];
        let halts = [on(1, find_thread), on(2, find_thread)];
        CPU.with(|cpu| cpu.set(0));
        woken.into_iter().for_each(Thread::unpark);
        let [first, second] = halts.map(|cpu| cpu.join().unwrap());
        check(2, [true, false, false], [true, first, second]);
    });
}

/// A thread becomes ready on each of two CPUs while the third goes idle.
#[test]
fn two_wakers_against_a_halting_cpu() {
    explore(|| {
        let woken = [thread(0), thread(1)];
        let halts = on(2, find_thread);
        let wakes = on(1, move || woken[1].unpark());
        CPU.with(|cpu| cpu.set(0));
        woken[0].unpark();
        wakes.join().unwrap();
        let busy = halts.join().unwrap();
        check(2, [true, true, false], [true, true, busy]);
    });
}
