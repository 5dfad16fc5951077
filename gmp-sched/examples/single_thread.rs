//! The smallest platform: one thread, which is the only M, and no service of an operating system. The scheduler of a
//! kernel for one CPU without interrupts looks like this. `gmp_sched::porting` explains each item.
//!
//! The example uses the clock, the memory and the output of `std`. A kernel has its own.
//!
//! ```sh
//! cargo run -p gmp-sched --example single_thread
//! ```

use std::fmt::Arguments;
use std::ops::Range;
use std::process::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::machine::{Machine, NewMachine};
use gmp_sched::platform::{OutOfResources, Parking, Pinned, Platform, Points};
use gmp_sched::processor::Processor;
use gmp_sched::scheduler::Scheduler;
use gmp_sched::time::Instant;

#[derive(Debug)]
struct SingleThread;

gmp_sched::platform_aliases!(SingleThread);

/// The M that was passed to `start_thread`, as a word (`NewMachine::into_raw`). 0 until `start_thread` is called.
static NEW: AtomicUsize = AtomicUsize::new(0);
/// The only M. It is set when the M begins to run.
static MACHINE: OnceLock<&'static Machine<SingleThread>> = OnceLock::new();
/// The park token of the only M.
static TOKEN: AtomicBool = AtomicBool::new(false);

impl Points for SingleThread {}

// SAFETY: there is one thread, so a flow of control cannot leave its M. `run` calls `NewMachine::run` once. Stacks
// have no guard, but the caller of `run` guarantees that no G overflows its stack, and that no other thread borrows from the
// stack of a G.
unsafe impl Platform for SingleThread {
    type Thread = ();
    const TIMER_INTERRUPTS: bool = false;

    unsafe fn raise_pin() {}
    unsafe fn lower_pin() {}

    fn current_machine() -> Option<&'static Machine<Self>> {
        MACHINE.get().copied()
    }

    fn now() -> Instant {
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        Instant::from_nanos(0) + START.get_or_init(std::time::Instant::now).elapsed()
    }

    fn seed(index: usize) -> u64 {
        index as u64 + 1
    }

    fn start_thread(machine: NewMachine<Self>) -> Result<(), OutOfResources> {
        // A second M gets an error, because there is only one thread.
        let word = machine.into_raw();
        NEW.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed).map(drop).map_err(|_| OutOfResources)
    }

    fn park_thread(_: Parking<'_, Self>, deadline: Option<Instant>) {
        while !TOKEN.swap(false, Ordering::Acquire) && deadline.is_none_or(|deadline| Self::now() < deadline) {
            Self::relax();
        }
    }

    fn unpark_thread(_: &'static Machine<Self>) {
        TOKEN.store(true, Ordering::Release);
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
        exit(2)
    }
}

/// Runs `main` as the main G on the calling thread, which becomes the thread of the only M.
///
/// # Safety
///
/// Called once. Only Gs use this platform, and no other thread borrows from the stack of a G. No G needs more stack than
/// [`Platform::STACK_SIZE`].
unsafe fn run(main: impl FnOnce() + Send + 'static) -> ! {
    // SAFETY: the scheduler is new, and its Gs never change their thread.
    unsafe { Scheduler::<SingleThread>::new(1).start(main) }.expect("memory, and the first call");
    // SAFETY: `start` has called `start_thread`, which stored this word, and the word is used for the first time.
    let machine = unsafe { NewMachine::<SingleThread>::from_raw(NEW.load(Ordering::Relaxed)) };
    MACHINE.set(machine.machine()).expect("the first call");
    machine.run()
}

/// Returns the sum of the squares of the numbers below `count`, which one G sends and another one receives.
fn sum_of_squares(count: u64) -> u64 {
    let (sender, squares) = channel(2);
    go(move || (0..count).try_for_each(|n| sender.send(n * n))).detach();
    sleep(std::time::Duration::from_millis(1));
    squares.iter().sum()
}

fn main() {
    // SAFETY: this is the first call, only Gs use the platform, and the Gs call only a few small functions.
    unsafe {
        run(|| {
            println!("{}", sum_of_squares(100));
            exit(0)
        })
    }
}

/// Takes values from a coroutine until the G of a timer has run, but at most `count` values. Returns whether that G has
/// run. There is no sysmon that ends the slice of the coroutine.
#[cfg(all(test, feature = "extras"))]
fn timer_fires_during_coroutine(count: usize) -> bool {
    static HAS_FIRED: AtomicBool = AtomicBool::new(false);
    let sleeper = go(|| {
        sleep(std::time::Duration::from_millis(1));
        HAS_FIRED.store(true, Ordering::Relaxed);
    });
    yield_now();
    let mut values = pull(|yielder| while yielder.yield_value(()) {});
    let has_fired = values.by_ref().take(count).any(|()| HAS_FIRED.load(Ordering::Relaxed));
    sleeper.join().unwrap();
    has_fired
}

#[test]
fn gs_send_receive_and_sleep_on_one_thread() {
    let (result, sum) = std::sync::mpsc::channel();
    // The M never ends. The process ends when the test has received the result.
    // SAFETY: this is the first call, only Gs use the platform, and the Gs call only a few small functions.
    std::thread::spawn(move || unsafe {
        run(move || {
            #[cfg(feature = "extras")]
            assert!(timer_fires_during_coroutine(30_000_000), "a coroutine keeps timers from firing");
            result.send(sum_of_squares(100)).unwrap();
        })
    });
    assert_eq!(sum.recv(), Ok(328_350));
}
