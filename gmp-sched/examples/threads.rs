//! A platform on threads, written by hand. Each M is a thread of `std`. An idle M parks, and its thread ends if the M
//! is not needed for long. When the program is over, all threads end. `gmp_sched::native` does the same, and adds guard
//! pages, panics that end only their G, and reuse of schedulers. `gmp_sched::porting` explains each item.
//!
//! ```sh
//! cargo run -p gmp-sched --example threads
//! ```

use std::cell::Cell;
use std::fmt::Arguments;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::ptr;
use std::sync::{self, Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use gmp_sched::machine::{EndedMachine, Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sysmon::Sysmon;
use gmp_sched::time::Instant;

#[derive(Debug)]
struct Threads;

gmp_sched::platform_aliases!(Threads);

/// The park token of an M.
#[derive(Debug, Default)]
struct Token {
    is_set: sync::Mutex<bool>,
    wake: sync::Condvar,
}

impl Token {
    /// Takes the token. If the token is not set, waits for it, but no longer than until `deadline`.
    fn park(&self, deadline: Option<Instant>) {
        let mut is_set = self.is_set.lock().expect("no holder panics");
        while !*is_set {
            let left = deadline.map(|deadline| deadline - Threads::now());
            is_set = match left {
                None => self.wake.wait(is_set).expect("no holder panics"),
                Some(left) if left.is_zero() => return,
                Some(left) => self.wake.wait_timeout(is_set, left).expect("no holder panics").0,
            };
        }
        *is_set = false;
    }

    fn unpark(&self) {
        *self.is_set.lock().expect("no holder panics") = true;
        self.wake.notify_one();
    }
}

/// The threads that were made for Ms, each with the scheduler of its M.
static THREADS: sync::Mutex<Vec<(&'static Scheduler<Threads>, thread::JoinHandle<()>)>> = sync::Mutex::new(Vec::new());

thread_local! {
    static CURRENT: Cell<Option<&'static Machine<Threads>>> = const { Cell::new(None) };
}

impl Points for Threads {}

// SAFETY: nothing preempts here, so a flow of control leaves its M only where it switches. `current_machine` is never
// inlined, so each call loads the current M anew. The thread of an M calls `NewMachine::run` when the M is ready, and
// stops using the M before it calls `EndedMachine::reuse`. Stacks have no guard, but the caller of the function `run`
// guarantees that no G overflows its stack, and that no other thread borrows from the stack of a G.
unsafe impl Platform for Threads {
    type Thread = Arc<Token>;
    const TIMER_INTERRUPTS: bool = false;
    const HAS_OTHER_THREADS: bool = true;
    const CAN_SHUT_DOWN: bool = true;

    unsafe fn raise_pin() {}
    unsafe fn lower_pin() {}

    #[inline(never)]
    fn current_machine() -> Option<&'static Machine<Self>> {
        CURRENT.get()
    }

    fn now() -> Instant {
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        Instant::from_nanos(0) + START.get_or_init(std::time::Instant::now).elapsed()
    }

    fn seed(index: usize) -> u64 {
        0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index as u64 + 1)
    }

    fn start_thread(new: NewMachine<Self>) -> Result<Self::Thread, OutOfResources> {
        let (machine, scheduler) = (new.machine(), new.machine().scheduler());
        // Other threads unpark an M by the park token of its first thread. So a later thread of the M gets the same
        // token.
        let token = machine.thread().cloned().unwrap_or_default();
        let own = Arc::clone(&token);
        let body = move || {
            CURRENT.set(Some(machine));
            while !new.is_ready() {
                own.park(None);
            }
            let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| new.run()));
            // `exit_thread` panics with an `EndedMachine`. Any other payload comes from a panic of the scheduler
            // itself.
            let Ok(ended) = payload.downcast::<EndedMachine<Self>>() else { process::abort() };
            CURRENT.set(None);
            ended.reuse();
        };
        let thread = thread::Builder::new().spawn(body).map_err(|_| OutOfResources)?;
        THREADS.lock().expect("no holder panics").push((scheduler, thread));
        Ok(token)
    }

    fn park_thread(parking: Parking<'_, Self>, deadline: Option<Instant>) {
        // An M runs only after its first unpark, which used the stored thread. So the thread was stored before this
        // call.
        parking.pinned().machine().thread().expect("stored before the M ran").park(deadline);
    }

    fn unpark_thread(machine: &'static Machine<Self>) {
        if let Some(thread) = machine.thread() {
            thread.unpark();
        }
    }

    fn idle_limit() -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    fn exit_thread(ended: EndedMachine<Self>) -> ! {
        panic::resume_unwind(Box::new(ended))
    }

    fn request_preemption(_: &'static Machine<Self>) {}

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, _: Instant) {}

    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources> {
        let mut words: Vec<u128> = Vec::new();
        words.try_reserve_exact(size.div_ceil(16)).map_err(|_| OutOfResources)?;
        let bytes = words.capacity() * 16;
        let bottom = words.leak().as_mut_ptr().expose_provenance();
        Ok(bottom..bottom + bytes)
    }

    unsafe fn release_stack(stack: Range<usize>) {
        let bottom = ptr::with_exposed_provenance_mut::<u128>(stack.start);
        // SAFETY: the caller guarantees that `allocate_stack` leaked this vector, and that nothing uses it any more.
        drop(unsafe { Vec::from_raw_parts(bottom, 0, stack.len() / 16) });
    }

    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        eprintln!("fatal error: {message}\n{}", scheduler.goroutine_list());
        process::exit(2)
    }
}

/// Runs `main` as the main G of a scheduler with `procs` Ps. Returns the result of `main` when all threads have ended.
/// A thread cannot end while it runs a G, so this function returns only if every other G ends or waits at some time.
///
/// # Safety
///
/// A G must not rely on running on the same thread before and after a wait; see the contract of
/// `gmp_sched::native::enter`. No G needs more stack than [`Platform::STACK_SIZE`]. No thread that is not an M borrows from
/// the stack of a G, because `goexit` does not unwind here.
unsafe fn run<T: Send + 'static>(procs: usize, main: impl FnOnce() -> T + Send + 'static) -> T {
    let scheduler = Scheduler::<Threads>::new(procs);
    let (stop, stopped) = mpsc::channel::<()>();
    let sysmon = thread::spawn(move || {
        let mut sysmon = Sysmon::new(scheduler);
        while stopped.recv_timeout(sysmon.check()) == Err(mpsc::RecvTimeoutError::Timeout) {}
    });
    let (sender, result) = mpsc::channel();
    let main = move || {
        let result = main();
        // Shuts the scheduler down before the main G ends. Gs that still wait are then abandoned; without the shutdown,
        // they would be reported as a deadlock.
        scheduler.shut_down();
        drop(sender.send(result));
    };
    // SAFETY: the scheduler is new; the caller guarantees what this platform requires of Gs.
    unsafe { scheduler.start(main) }.expect("threads and memory");
    let result = result.recv().expect("main returns");
    drop(stop);
    sysmon.join().expect("sysmon does not panic");
    let next = || {
        let mut threads = THREADS.lock().expect("no holder panics");
        let index = threads.iter().position(|(of, _)| ptr::eq(*of, scheduler))?;
        Some(threads.swap_remove(index).1)
    };
    while let Some(thread) = next() {
        thread.join().expect("the thread of an M does not panic");
    }
    result
}

/// Counts the primes below `limit`, which is a multiple of 100. A G counts those among 100 numbers.
fn primes_below(limit: u64) -> usize {
    let is_prime = |n: u64| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    let count = move |part| (part * 100..(part + 1) * 100).filter(|&n| is_prime(n)).count();
    let parts: Vec<_> = (0..limit / 100).map(|part| go(move || count(part))).collect();
    parts.into_iter().map(|part| part.join().expect("no G panics")).sum()
}

fn main() {
    // SAFETY: the Gs use no thread-local variables and call a few small functions.
    println!("{} primes", unsafe { run(4, || primes_below(10_000)) });
}

#[test]
fn gs_on_several_threads_count_primes() {
    // SAFETY: as in `main`.
    assert_eq!(unsafe { run(4, || primes_below(10_000)) }, 1_229);
}

#[test]
fn blocked_thread_passes_its_p_on() {
    // SAFETY: as in `main`.
    let received = unsafe {
        run(1, || {
            let (sender, receiver) = mpsc::channel();
            let receiving = move || receiver.recv().expect("the other G sends");
            let waiting = go(move || gmp_sched::syscall::blocking::<Threads, _>(receiving));
            yield_now();
            sender.send(7).expect("the receiver waits");
            waiting.join()
        })
    };
    assert_eq!(received, Ok(7));
}

#[test]
fn all_threads_have_ended_when_run_returns() {
    static ALIVE: OnceLock<Arc<()>> = OnceLock::new();
    // Each thread that uses `COPY` has a copy of its own, which is dropped when the thread ends.
    thread_local!(static COPY: Arc<()> = Arc::clone(ALIVE.get_or_init(Arc::default)));

    let blocks = || gmp_sched::syscall::blocking::<Threads, _>(|| COPY.with(|_| thread::yield_now()));
    // SAFETY: as in `main`; the thread-local variable is used only within one call.
    unsafe {
        run(2, move || {
            let waiting: Vec<_> = (0..8).map(|_| go(blocks)).collect();
            waiting.into_iter().for_each(|waits| waits.join().expect("no G panics"));
            let never = Chan::<()>::new(0);
            go(move || never.recv()).detach();
            yield_now();
        });
    }
    let count = Arc::strong_count(ALIVE.get().expect("a call has used it"));
    assert_eq!(count, 1, "only the static is left");
}
