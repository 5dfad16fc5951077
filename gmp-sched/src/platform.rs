//! What the scheduler needs from the computer or operating system under it.
//!
//! A platform is a zero-sized type with static methods; everything in this crate is generic over it. There are three
//! platforms: the bare-metal kernel, where an M is a kernel thread on a CPU that halts when idle; `native`, where an M
//! is an operating-system thread; and `sim`, a simulated computer. The trait favours none of them. It has functions to
//! *start*, *park* and *unpark* a thread, and a platform may implement parking by a futex or by `sti; hlt`.
//! [`porting`](crate::porting) is the guide to writing another platform.
//!
//! ```
//! use gmp_sched::native::{self, Native};
//! use gmp_sched::platform::Pinned;
//!
//! let procs = unsafe { native::enter() }.run(2, || {
//!     // While this proof exists, the G stays on its M, and the M keeps its P.
//!     let pinned = Pinned::<Native>::new();
//!     assert!(core::ptr::eq(pinned.goroutine(), pinned.machine().current_goroutine().unwrap()));
//!     pinned.machine().scheduler().procs()
//! });
//! assert_eq!(procs, 2);
//! ```

mod pinned;

use core::fmt::{Arguments, Debug};
use core::ops::Range;
use core::time::Duration;

use crate::base::error::JoinError;
pub use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
pub use crate::base::points::{Points, Relax, Site};
use crate::entities::free_list::STACK_SIZE;
use crate::entities::machine::{EndedMachine, Machine, NewMachine};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::record::cpu_tracer::CpuTracer;
use crate::record::trace::{Event, Track};
pub use pinned::{Parking, Pinned};

/// The computer or operating system under the scheduler.
///
/// # Safety
///
/// - Between [`raise_pin`](Platform::raise_pin) and the matching [`lower_pin`](Platform::lower_pin) the calling flow of
///   control stays on its M. No other flow of control runs Gs of this M, and
///   [`current_machine`](Platform::current_machine) returns the same M, except across a [`crate::context::switch`].
/// - If pins are counted, [`raise_checked_pin`](Platform::raise_checked_pin) does not return if the count could overflow.
/// - [`allocate_stack`](Platform::allocate_stack) returns memory that is mapped (now or on first touch), has a 16-byte
///   aligned upper end and an unmapped guard below, and is not used otherwise until
///   [`release_stack`](Platform::release_stack). Without a guard, the caller of [`Scheduler::start`] guarantees that no
///   G overflows its stack.
/// - [`start_thread`](Platform::start_thread) makes at most one thread, which has a stack of its own, is pinned once,
///   has the M as its [`current_machine`](Platform::current_machine), and calls [`NewMachine::run`].
/// - [`unwind_body`](Platform::unwind_body) does not return. Or no thread but those of Ms borrows from the stack of a G:
///   because there are no other threads, or because the caller of [`Scheduler::start`] guarantees it.
#[expect(unsafe_code, reason = "the scheduler's memory safety rests on what a platform promises")]
pub unsafe trait Platform: Points + Sized + Debug + Send + Sync {
    /// The thread of an M.
    type Thread: Debug + Send + Sync;

    /// The stack size of a G in bytes, unless its spawner [chooses another one](crate::spawn::Builder::stack_size).
    const STACK_SIZE: usize = STACK_SIZE;

    /// Whether an interrupt comes when a timer of a P that an M holds is due. (The handler does not fire the timer.
    /// Instead it makes the running G give way.) If this is `false`, the scheduler itself reads the clock whenever it
    /// picks a G while a timer is armed.
    const TIMER_INTERRUPTS: bool;

    /// Whether there are threads that are not Ms of any scheduler but may call a [`Waker`](core::task::Waker) of a G.
    const HAS_OTHER_THREADS: bool = false;

    /// Whether [`Scheduler::shut_down`] may be called. If so, [`exit_thread`](Platform::exit_thread) must end the
    /// calling thread.
    const CAN_SHUT_DOWN: bool = false;

    /// Whether each section in which a G must not wait raises a pin, and pins are counted, so that
    /// [`assert_pinned_once`](Platform::assert_pinned_once) detects a caller in such a section.
    const COUNTS_PINS: bool = false;

    /// Whether the scheduler can take an exact trace, with which a run takes exactly the same steps as without a trace.
    /// Exact traces need one more test on some fast paths, so only simulators set this to `true`.
    const EXACT_TRACES: bool = false;

    /// Whether [`poisons_dead_stacks`](Platform::poisons_dead_stacks) may return `true`. Poisoning needs one more test
    /// in each spawn and at the end of each G, so only platforms for tests set this to `true`.
    const CAN_POISON_DEAD_STACKS: bool = false;

    /// Returns a number for a new channel. A select locks its channels in the order of their numbers, and channels with
    /// the same number in the order of their addresses. Simulators override this function, because the addresses differ
    /// from run to run. Callable from anywhere, also outside of Gs.
    #[inline(always)]
    fn channel_number() -> u32 {
        0
    }

    /// Whether the stack of a G that has ended is overwritten with a pattern when it goes to a free list. The program
    /// ends if the pattern has changed when the stack is used again. This detects code that uses the stack of a dead G.
    #[inline(always)]
    fn poisons_dead_stacks() -> bool {
        false
    }

    /// Pins the caller to its M. Pins can be nested. Callable from anywhere on an M.
    ///
    /// # Safety
    ///
    /// The pin is lowered again. If pins were leaked, the pin count of a platform that counts pins could overflow. The
    /// platform would then preempt a caller that is pinned.
    #[cfg_attr(debug_assertions, track_caller)]
    unsafe fn raise_pin();

    /// Pins the caller, and returns whether it is now [pinned once](Platform::is_pinned_once). A platform may override
    /// this function if it finds that out at once.
    ///
    /// # Safety
    ///
    /// The same as for [`raise_pin`](Platform::raise_pin).
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    unsafe fn raise_pin_and_check() -> bool {
        // SAFETY: the contract is the same.
        unsafe { Self::raise_pin() };
        Self::is_pinned_once()
    }

    /// Like [`raise_pin`](Platform::raise_pin), for a caller that may leak the pin. A platform that counts pins must
    /// override this function, and [refuse](Platform::misuse) the pin before the count can overflow.
    #[inline(always)]
    #[track_caller]
    fn raise_checked_pin() {
        // SAFETY: this platform does not count pins.
        unsafe { Self::raise_pin() };
    }

    /// Undoes one [`raise_pin`](Platform::raise_pin). If this is the outermost pin, a preemption that has become
    /// pending meanwhile takes effect here.
    ///
    /// # Safety
    ///
    /// The calling flow of control has raised this pin or has taken it over, and nothing else lowers the pin.
    unsafe fn lower_pin();

    /// Called by a G that may be about to leave its M and to continue on another one. The G is pinned once. It has no P if
    /// it is at the end of a system call. On threads, a G that unwinds is locked to its thread here. Meanwhile it may lose
    /// its P and get another one.
    #[inline(always)]
    fn may_migrate() {}

    /// Whether the caller, which has pinned itself once for this call, may block, yield or end here, as far as the
    /// platform can detect. The caller may not if it holds another pin, because the switch would leave that pin behind
    /// on this CPU. An interrupt handler may not either, because it must return.
    #[inline(always)]
    fn is_pinned_once() -> bool {
        true
    }

    /// Panics if [`is_pinned_once`](Platform::is_pinned_once) returns `false`.
    #[inline(always)]
    #[track_caller]
    fn assert_pinned_once() {
        if !Self::is_pinned_once() {
            Self::refuse_to_block();
        }
    }

    /// Panics with the reason why the caller may not block, yield or end here. The pin that the caller raised for the
    /// check may already be lowered.
    #[cold]
    #[track_caller]
    fn refuse_to_block() -> ! {
        panic!("a G blocks, yields or ends with preemption turned off")
    }

    /// Panics with `message`, because the program has called the scheduler where it may not. The caller may be pinned.
    /// So a platform that distinguishes a panic of the program from a panic of the scheduler by the pins must override
    /// this function.
    #[cold]
    #[track_caller]
    fn misuse(message: Arguments<'_>) -> ! {
        panic!("{message}")
    }

    /// Panics if the caller may not spawn a G and the platform can detect that. An interrupt handler may not, because
    /// it may have interrupted the scheduler.
    #[inline(always)]
    #[track_caller]
    fn assert_may_spawn() {}

    /// The M that the caller runs on; `None` on a thread that is not an M. The caller is pinned.
    fn current_machine() -> Option<&'static Machine<Self>>;

    /// The time of a monotonic clock that all Ms share. Callable from interrupts.
    fn now() -> Instant;

    /// How long a G may run while others wait.
    fn slice() -> Duration {
        SLICE
    }

    /// Waits for about `duration`, which is some 20 microseconds. The caller is an M without a G to run.
    fn linger(duration: Duration) {
        let end = Self::now() + duration;
        while Self::now() < end {
            Self::relax();
        }
    }

    /// The least time between two displacements on the same P. A displacement preempts a running G for a G that a timer
    /// or a device has readied, or that returns from a blocking call.
    fn undisturbed() -> Duration {
        UNDISTURBED
    }

    /// The seed of the random choices of the P with this index. Equal seeds and equal timing lead to equal runs.
    fn seed(index: usize) -> u64;

    /// Creates the thread of `machine`. The thread calls [`NewMachine::run`] after it has been unparked for the first
    /// time. If idle Ms end on this platform ([`idle_limit`](Platform::idle_limit)), the thread also waits until
    /// [`NewMachine::is_ready`] returns `true`.
    ///
    /// If the M had a thread before, [`Machine::thread`] keeps returning the value for that thread, and the result of
    /// this call is dropped. So [`unpark_thread`](Platform::unpark_thread) must wake the new thread by the old value.
    ///
    /// # Errors
    ///
    /// There is no memory or no thread. The call had no effect.
    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources>;

    /// Blocks the calling M's thread until [`unpark_thread`](Platform::unpark_thread) is called for the M, or until the
    /// deadline. If the M has been unparked since its last park, that unpark has left a token, and this returns at
    /// once. May return early. The caller is pinned exactly once.
    fn park_thread(parking: Parking<'_, Self>, deadline: Option<Instant>);

    /// Whether the caller, which raises a signal of a device, is sure to check the raised list of `scheduler` afterwards, or
    /// to make an M check it. The raise then wakes no M. This is so for an M that raises signals before it returns from
    /// [`park_thread`](Platform::park_thread), if it is [idle](Parking::is_idle).
    #[inline(always)]
    fn polls_later(scheduler: &Scheduler<Self>) -> bool {
        let _ = scheduler;
        false
    }

    /// Sets the park token of `machine` and wakes its thread. Callable from interrupts and from any thread.
    fn unpark_thread(machine: &'static Machine<Self>);

    /// Returns the function that gives back memory which caches keep, or `None` (the default) if there is nothing to
    /// give back. The scheduler then has a background G that calls this function repeatedly, a second after [growth was
    /// noted](Scheduler::note_growth), and only while a P has nothing else to do. Each call does a bounded piece of the
    /// work, as code of a G, and may call [`Scheduler::end_surplus_machine`]. It must call
    /// [`Scheduler::free_idle_stacks`]: while dead Gs have stacks, each P that becomes idle notes growth.
    #[inline(always)]
    fn scavenger() -> Option<fn() -> Scavenged> {
        None
    }

    /// How long a scheduler may have more Ms than it needs. After that, the threads of idle Ms that are not needed end
    /// by [`exit_thread`](Platform::exit_thread), and their Ms are used again if more are needed. `None` if idle Ms
    /// never end. With a [scavenger](Platform::scavenger), idle Ms are not woken for this, and only those end that
    /// [`Scheduler::end_surplus_machine`] wakes.
    #[inline(always)]
    fn idle_limit() -> Option<Duration> {
        None
    }

    /// Ends the calling thread, which is the thread of the M `ended`. The M runs nothing any more. Called on the
    /// thread's own stack, pinned once. If the platform unwinds [`NewMachine::run`] to end the thread, the unwinding
    /// releases the pin. Called only if [`CAN_SHUT_DOWN`](Platform::CAN_SHUT_DOWN) is `true` or there is an
    /// [`idle_limit`](Platform::idle_limit).
    fn exit_thread(ended: EndedMachine<Self>) -> ! {
        unreachable!("{ended:?} on a platform on which no M ends")
    }

    /// Asks another thread of the platform to make an M for `scheduler`, and returns `true`; the M exists some time later.
    /// Returns `false` if the caller may make the M itself. Callable from interrupts.
    #[inline(always)]
    fn request_machine(scheduler: &'static Scheduler<Self>) -> bool {
        let _ = scheduler;
        false
    }

    /// Asks the G that runs on `machine` to call [`crate::engine::preempt::give_way`] soon. Best effort; does nothing
    /// on a platform without preemption.
    fn request_preemption(machine: &'static Machine<Self>);

    /// Requests that the timers of `processor` are checked at `when`. If
    /// [`TIMER_INTERRUPTS`](Platform::TIMER_INTERRUPTS) is `true`, the platform must interrupt the calling CPU no later
    /// than `when`. Otherwise it may wake the thread that calls [`Sysmon::check`](crate::sysmon::Sysmon::check), which
    /// would check later than that.
    fn arm_timer(pinned: &Pinned<Self>, processor: &Processor<Self>, when: Instant);

    /// Allocates a stack of at least `size` bytes. The caller may pass any number, including 0 and numbers that are not
    /// multiples of the size of a page.
    ///
    /// # Errors
    ///
    /// There is no memory for the stack, or `size` is more than the platform supports.
    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources>;

    /// Frees a stack. Must not block or allocate; called pinned.
    ///
    /// # Safety
    ///
    /// `stack` was returned by [`allocate_stack`](Platform::allocate_stack), and nothing uses it any more.
    unsafe fn release_stack(stack: Range<usize>);

    /// Frees many stacks, when a scheduler has ended. May allocate, but must free the stacks even if there is no
    /// memory. A platform may free neighbouring stacks together. Called pinned.
    ///
    /// # Safety
    ///
    /// The same as for [`release_stack`](Platform::release_stack), for each of the stacks.
    unsafe fn release_stacks(stacks: impl Iterator<Item = Range<usize>>) {
        for stack in stacks {
            // SAFETY: the caller guarantees this for each stack.
            unsafe { Self::release_stack(stack) };
        }
    }

    /// Runs the body of a G. Never unwinds, because a platform that can unwind catches a panic of the body. The payload
    /// of that panic may panic again when it is dropped. The platform catches this second panic, too.
    ///
    /// # Errors
    ///
    /// The body panicked and the platform can continue, or the body was ended by
    /// [`unwind_body`](Platform::unwind_body).
    #[inline(always)]
    fn run_body<R>(body: impl FnOnce() -> R) -> Result<R, JoinError> {
        Ok(body())
    }

    /// Runs `future` to completion for a caller that is not a G with a P, if the calling thread may wait on this
    /// platform.
    ///
    /// # Errors
    ///
    /// The calling thread may not wait here. The future has not been polled.
    fn block_thread_on<F: Future>(future: F) -> Result<F::Output, F> {
        Err(future)
    }

    /// Unwinds the calling G up to [`run_body`](Platform::run_body), which then returns [`JoinError::Exited`]. If the
    /// platform cannot unwind, this returns, and the caller [abandons](crate::exit::abandon) the G. Then a thread that
    /// is not an M must not borrow from the stack of the G (`std::thread::scope`).
    fn unwind_body() {}

    /// The tracer of the CPU with this number; `None` if there is no such CPU. A platform that runs the threads of Ms
    /// on CPUs of its own records in these tracers what its CPUs do. Other platforms have none.
    #[inline(always)]
    fn cpu_tracer(cpu: u32) -> Option<&'static CpuTracer> {
        let _ = cpu;
        None
    }

    /// Calls `record` with the tracer of the executing CPU, with interrupts off. Does nothing on a platform without
    /// [tracers of CPUs](Platform::cpu_tracer). Callable from interrupts.
    #[inline(always)]
    fn with_cpu_tracer(record: impl FnOnce(&'static CpuTracer)) {
        let _ = record;
    }

    /// Called for each event of a G or a P while the platform observes the scheduler, by the M or thread that causes
    /// the event. `observer` is the number that the platform has given to itself when the observation began. The
    /// simulator compares these events with the policy. Must not block.
    #[inline(always)]
    fn observe(observer: u64, track: Track, event: Event) {
        let _ = (observer, track, event);
    }

    /// Stores the calls that led to the caller in `addresses`, innermost first: the return address of each call minus
    /// one, so that the address is within the call. Leaves out the outermost calls if there is no room for them.
    /// Returns how many addresses are stored; 0 on a platform without call stacks. The caller is a pinned G. Called
    /// only while a [profile](crate::trace#profiles) is taken.
    fn call_stack(addresses: &mut [u64]) -> usize {
        let _ = addresses;
        0
    }

    /// Whether `scheduler` is the only source of wakeups for its Gs, so that nothing else in the process, such as
    /// another scheduler, can wake them. Called when nothing runs in `scheduler` and none of its timers or devices can
    /// wake a G.
    fn is_left_alone(scheduler: &'static Scheduler<Self>) -> bool {
        let _ = scheduler;
        true
    }

    /// Called when the scheduler cannot continue. Prints `message` and every G, and ends the program with status 2, as
    /// Go does.
    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> !;
}

/// What a call of a [scavenger](Platform::scavenger) has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scavenged {
    /// There may be more to give back.
    InPart,
    /// There was nothing more to give back.
    Completely,
}

/// The default of [`Platform::undisturbed`]. It is so long that displacements take at most a few percent of the time,
/// and so short that users do not notice the delay. Go has no displacements: a readied G waits until the slice ends.
pub const UNDISTURBED: Duration = Duration::from_micros(50);

/// The default of [`Platform::slice`]. Go: `forcePreemptNS`.
pub const SLICE: Duration = Duration::from_millis(10);
