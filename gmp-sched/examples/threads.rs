//! A platform on threads, written by hand. Each M is a thread of `std`, and an idle M parks. `gmp_sched::native` does
//! the same, and adds guard pages, panics that end only their G, and reuse. `gmp_sched::porting` explains each item.
//!
//! ```sh
//! cargo run -p gmp-sched --example threads
//! ```

use std::cell::Cell;
use std::fmt::Arguments;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use gmp_sched::machine::{Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sysmon::Sysmon;
use gmp_sched::time::Instant;

#[derive(Debug)]
struct Threads;

gmp_sched::platform_aliases!(Threads);

/// The thread of an M.
#[derive(Debug, Default)]
struct Thread {
    token: AtomicBool,
    handle: OnceLock<thread::Thread>,
}

impl Thread {
    /// Waits for the token, but no longer than until `deadline`, and takes it.
    fn park(&self, deadline: Option<Instant>) {
        // Ordering: Acquire; partner: the store in `unpark`.
        while !self.token.swap(false, Ordering::Acquire) {
            let left = deadline.map(|deadline| deadline - Threads::now());
            match left {
                None => thread::park(),
                Some(left) if left.is_zero() => return,
                Some(left) => thread::park_timeout(left),
            }
        }
    }

    fn unpark(&self) {
        self.token.store(true, Ordering::Release);
        self.handle.get().expect("set before an M has this thread").unpark();
    }
}

thread_local! {
    static CURRENT: Cell<Option<&'static Machine<Threads>>> = const { Cell::new(None) };
}

impl Points for Threads {}

// SAFETY: nothing preempts here, so a flow of control leaves its M only where it switches. The current M is loaded
// each time (`inline(never)`). The thread of an M calls `run` after the first unpark. Stacks have no guard, but the
// caller of `run` guarantees that no G overflows its stack.
unsafe impl Platform for Threads {
    type Thread = Arc<Thread>;
    const TIMER_INTERRUPTS: bool = false;
    const HAS_OTHER_THREADS: bool = true;

    fn raise_pin() {}
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

    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources> {
        let this = Arc::new(Thread::default());
        let own = Arc::clone(&this);
        let body = move || {
            own.park(None);
            CURRENT.set(Some(machine.machine()));
            machine.run();
        };
        let started = thread::Builder::new().spawn(body).map_err(|_| OutOfResources)?;
        this.handle.set(started.thread().clone()).expect("set once");
        Ok(this)
    }

    fn park_thread(parking: Parking<'_, Self>, deadline: Option<Instant>) {
        // An M runs only after its first unpark, which used the stored thread. So the thread is stored here.
        parking.pinned().machine().thread().expect("stored before the M ran").park(deadline);
    }

    fn unpark_thread(machine: &'static Machine<Self>) {
        if let Some(thread) = machine.thread() {
            thread.unpark();
        }
    }

    fn exit_thread() -> ! {
        unreachable!("no M ends on this platform")
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
        let bottom = std::ptr::with_exposed_provenance_mut::<u128>(stack.start);
        // SAFETY: the caller guarantees that `allocate_stack` leaked this vector, and that nothing uses it any more.
        drop(unsafe { Vec::from_raw_parts(bottom, 0, stack.len() / 16) });
    }

    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        eprintln!("fatal error: {message}\n{}", scheduler.goroutine_list());
        std::process::exit(2)
    }
}

/// Runs `main` as the main G of a scheduler with `procs` Ps, and returns the result of `main`. The threads stay idle
/// afterwards.
///
/// # Safety
///
/// While a G waits, it must not rely on running on the same thread afterwards; see the contract of
/// `gmp_sched::native::enter`. No G needs more stack than [`Platform::STACK_SIZE`].
unsafe fn run<T: Send + 'static>(procs: usize, main: impl FnOnce() -> T + Send + 'static) -> T {
    let scheduler = Scheduler::<Threads>::new(procs);
    thread::spawn(move || {
        let mut sysmon = Sysmon::new(scheduler);
        loop {
            thread::sleep(sysmon.check());
        }
    });
    let (sender, result) = mpsc::channel();
    // SAFETY: the scheduler is new; the caller guarantees what this platform requires of Gs.
    unsafe { scheduler.start(move || drop(sender.send(main()))) }.expect("threads and memory");
    result.recv().expect("main returns")
}

/// Counts the primes below `limit`, each part in a G of its own.
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
