//! Models in which kernel threads become ready while CPUs are about to halt. No thread stays ready while a CPU halts,
//! and no two CPUs take the same thread.

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
    /// Whether the thread that runs on each CPU has been asked to give way.
    static ref DISPLACED: [AtomicBool; CPUS] = core::array::from_fn(|_| AtomicBool::new(false));
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

    unsafe fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    fn kick(cpu: usize) {
        KICKED[cpu].swap(true, Ordering::AcqRel);
    }

    fn request_displacement() {
        DISPLACED[Self::current()].store(true, Ordering::Relaxed);
    }

    fn withdraw_displacement() {
        DISPLACED[Self::current()].store(false, Ordering::Relaxed);
    }

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
    let thread = unsafe { THREADS.create(stack, |_| unreachable!("no thread runs in a model"), 0) };
    thread.expect("memory")
}

/// Runs `body` on a new loom thread, which is CPU `cpu`.
fn on<R: Send + 'static>(cpu: usize, body: impl FnOnce() -> R + Send + 'static) -> loom::thread::JoinHandle<R> {
    loom::thread::spawn(move || {
        CPU.with(|current| current.set(cpu));
        body()
    })
}

/// Does what the idle loop of a CPU does before it would halt or run a thread. Returns whether it found a thread.
fn find_thread() -> bool {
    THREADS.take_ready_or_be_idle().is_some()
}

/// Lets each CPU that was kicked during its halt check the lists again. Then no thread may be ready while a CPU halts,
/// and no thread may run twice. `woken` is the number of threads that were made ready. A CPU that is marked in `busy`
/// but not in `busy_before` runs one of these threads.
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

/// An interrupt handler on an idle CPU makes a thread ready that last ran on another idle CPU. The thread runs where the
/// handler ran, so no other CPU is interrupted.
#[test]
fn thread_that_is_made_ready_on_an_idle_cpu_runs_there() {
    explore(|| {
        let woken = thread(2);
        for idle in [2, 1] {
            CPU.with(|cpu| cpu.set(idle));
            assert!(!find_thread());
        }
        woken.unpark();
        assert!(!KICKED.iter().any(|kicked| kicked.load(Ordering::Acquire)), "another CPU is interrupted");
        assert!(find_thread());
    });
}

/// A CPU has taken a thread from a list. Before the CPU starts this thread, the CPU is kicked for a second thread. The
/// idle loop forgets what the kick's handler has requested, so `start` must repeat the request.
#[test]
fn kick_between_taking_and_starting_a_thread_is_kept() {
    explore(|| {
        let woken = [thread(1), thread(1)];
        woken[0].unpark();
        CPU.with(|cpu| cpu.set(1));
        let first = THREADS.take_ready_or_be_idle().expect("it is ready");
        CPU.with(|cpu| cpu.set(0));
        woken[1].unpark();
        CPU.with(|cpu| cpu.set(1));
        #[expect(unsafe_code, reason = "calls what an interrupt handler calls")]
        // SAFETY: the model has no interrupts.
        unsafe {
            THREADS.reschedule_interrupt();
        }
        DISPLACED[1].store(false, Ordering::Relaxed);
        THREADS.start(first);
        assert!(DISPLACED[1].load(Ordering::Relaxed), "the second thread waits until the first one is preempted");
    });
}

/// Two threads become ready shortly after each other. Both may be put on the list of the same CPU. The waker may also
/// choose the same idle CPU for both and kick it twice.
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

/// Two CPUs go idle while two threads become ready. In the run that matters, the first CPU takes the first thread. At
/// the same time, the waker clears the idle bit of the first CPU and kicks this CPU for the second thread. The second
/// CPU has checked the lists before the second thread became ready, so it must be kicked for that thread.
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

/// Two CPUs each make a thread ready while the third CPU goes idle.
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
