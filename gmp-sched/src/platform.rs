//! What the scheduler needs from the machine under it.
//!
//! A platform is a zero-sized type with static methods; everything in this crate is generic over it. There are three: the
//! bare-metal kernel, where an M is a kernel thread on a CPU that halts when idle; `native`, where an M is an
//! operating-system thread; and `sim`, a simulated machine. The trait favours none: it says *start*, *park* and *unpark* a
//! thread, and leaves open whether that ends in a futex or in `sti; hlt`.

use core::fmt::{Arguments, Debug};
use core::marker::PhantomData;
use core::ops::Range;
use core::time::Duration;

use crate::base::error::JoinError;
pub use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
pub use crate::base::points::{Points, Relax, Site};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::{Machine, NewMachine};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;

/// The machine under the scheduler.
///
/// # Safety
///
/// - Between [`raise_pin`](Platform::raise_pin) and the matching [`lower_pin`](Platform::lower_pin) the calling flow of
///   control stays on its M: nothing else runs Gs of this M, and [`current_machine`](Platform::current_machine) gives
///   the same answer, except across a [`crate::context::switch`].
/// - [`allocate_stack`](Platform::allocate_stack) gives memory that is mapped (now or on first touch), 16-byte aligned
///   at the upper end, with an unmapped guard below, used by nobody else until
///   [`release_stack`](Platform::release_stack) takes it back.
/// - [`start_thread`](Platform::start_thread) makes one thread at most, on a stack of its own, which is pinned once, whose
///   [`current_machine`](Platform::current_machine) is the M, and which calls [`NewMachine::run`].
#[expect(unsafe_code, reason = "the scheduler's memory safety rests on what a platform promises")]
pub unsafe trait Platform: Points + Sized + Debug + Send + Sync {
    /// What an M runs on.
    type Thread: Debug + Send + Sync;

    /// Whether an interrupt serves the timers of a running P. Where none does, the scheduler itself looks at the clock
    /// whenever it picks a G while a timer is armed.
    const TIMER_INTERRUPTS: bool;

    /// Whether there are threads that are no Ms of any scheduler and may call a [`Waker`](core::task::Waker) of a G.
    const HAS_OTHER_THREADS: bool = false;

    /// Whether pins are counted, so that [`assert_pinned_once`](Platform::assert_pinned_once) notices a caller that has pinned
    /// itself before.
    const COUNTS_PINS: bool = false;

    /// Keeps the caller on its M from here on. Nests. Callable from anywhere on an M.
    #[cfg_attr(debug_assertions, track_caller)]
    fn raise_pin();

    /// Undoes one [`raise_pin`](Platform::raise_pin); at the outermost one a preemption that was asked for in the
    /// meantime happens here.
    ///
    /// # Safety
    ///
    /// It undoes a pin that the calling flow of control has raised, or has taken over, and that nothing else lowers.
    unsafe fn lower_pin();

    /// Whether the caller, which has pinned itself once for this, may block, yield or end here, where the platform can tell:
    /// what switches with a pin raised by its caller would leave that pin behind on this CPU, and an interrupt handler
    /// cannot be left.
    #[inline(always)]
    fn is_pinned_once() -> bool {
        true
    }

    /// Panics unless [`is_pinned_once`](Platform::is_pinned_once).
    #[inline(always)]
    #[track_caller]
    fn assert_pinned_once() {
        if !Self::is_pinned_once() {
            Self::refuse_to_block();
        }
    }

    /// Panics because the caller may not block, yield or end here, and says why. Called after the pin that it raised for
    /// this is lowered, or before.
    #[cold]
    #[track_caller]
    fn refuse_to_block() -> ! {
        panic!("a G blocks, yields or ends with preemption turned off")
    }

    /// Panics if the caller is where no G may be spawned, where the platform can tell: in an interrupt handler, which may
    /// have interrupted the scheduler.
    #[inline(always)]
    #[track_caller]
    fn assert_may_spawn() {}

    /// The M that the caller runs on, `None` on a thread that is not an M. The caller is pinned.
    fn current_machine() -> Option<&'static Machine<Self>>;

    /// Nanoseconds on a clock that never goes back, the same on all Ms. Callable from interrupts.
    fn now() -> Instant;

    /// How long a G may run before it has to give way to others.
    fn slice() -> Duration {
        SLICE
    }

    /// Lets about `duration`, a few microseconds, go by. The caller is an M that has nothing to run.
    fn linger(duration: Duration) {
        let end = Self::now().after(duration);
        while Self::now() < end {
            Self::relax();
        }
    }

    /// How long a G runs before one whose timer is due may displace it, counted from the last time that happened.
    fn undisturbed() -> Duration {
        UNDISTURBED
    }

    /// A number that seeds the random choices of the P with this index. Equal seeds and equal timing give equal runs.
    fn seed(index: usize) -> u64;

    /// Makes the thread of `machine`, which calls [`NewMachine::run`] once it has been unparked for the first time.
    ///
    /// # Errors
    ///
    /// There is no memory or no thread to be had; nothing has happened.
    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources>;

    /// Blocks the calling M's thread until [`unpark_thread`](Platform::unpark_thread) or the deadline. A token:
    /// an unpark that came before makes it return at once. May return early. Called pinned exactly once.
    fn park_thread(parking: Parking<'_, Self>, deadline: Option<Instant>);

    /// Gives `machine` its token. Callable from interrupts and from any thread.
    fn unpark_thread(machine: &'static Machine<Self>);

    /// The calling M ends: it runs nothing any more. Only where a scheduler can be shut down.
    fn exit_thread() -> !;

    /// Asks that the G running on `machine` comes to [`crate::engine::preempt::give_way`] soon. Best effort; a platform without
    /// preemption does nothing.
    fn request_preemption(machine: &'static Machine<Self>);

    /// A timer of `processor` is due at `when`: where timers are served by interrupt, see to it that one comes to the calling
    /// CPU no later than that.
    fn arm_timer(pinned: &Pinned<Self>, processor: &Processor<Self>, when: Instant);

    /// A stack of at least `size` bytes, which may be any number.
    ///
    /// # Errors
    ///
    /// There is no memory for it, or no stack is that large.
    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources>;

    /// Takes a stack back. Must not block or allocate; called pinned.
    ///
    /// # Safety
    ///
    /// It is what [`allocate_stack`](Platform::allocate_stack) gave, and nothing uses it any more.
    unsafe fn release_stack(stack: Range<usize>);

    /// Runs the body of a G. Does not unwind: neither a panic of the body nor one of dropping its payload comes out of it.
    ///
    /// # Errors
    ///
    /// The body panicked and the platform can carry on, or it ended itself by [`unwind_body`](Platform::unwind_body).
    #[inline(always)]
    fn run_body<R>(body: impl FnOnce() -> R) -> Result<R, JoinError> {
        Ok(body())
    }

    /// Unwinds the calling G up to [`run_body`](Platform::run_body), which returns [`JoinError::Exited`]. Returns if the platform
    /// cannot unwind: then the G is [abandoned](crate::exit::abandon).
    fn unwind_body() {}

    /// Whether nobody else in the process, another scheduler for example, is going to wake a G of `scheduler`, in which nothing
    /// runs and nothing will by itself.
    fn is_left_alone(scheduler: &'static Scheduler<Self>) -> bool {
        let _ = scheduler;
        true
    }

    /// The scheduler cannot go on: says why, shows every G, and ends the program with status 2, as Go does.
    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> !;
}

/// The right to park the thread of the calling M, which only the scheduler can make: a P that a parked M holds is lost to all
/// others until the M is unparked.
#[derive(Debug)]
pub struct Parking<'a, P: Platform> {
    pinned: &'a Pinned<P>,
}

impl<'a, P: Platform> Parking<'a, P> {
    pub(crate) fn new(pinned: &'a Pinned<P>) -> Self {
        Self { pinned }
    }

    /// The caller is pinned.
    pub fn pinned(&self) -> &'a Pinned<P> {
        self.pinned
    }
}

/// Proof that the caller stays on its M: current M, G and P are reachable only through it.
///
/// Lowers the pin when dropped. What was learned about the M through it is void after a switch, which is why everything
/// that may switch consumes it. Go: `acquirem`, `releasem`.
#[derive(Debug)]
#[must_use]
pub struct Pinned<P: Platform> {
    // Neither `Send` nor `Sync`: it speaks of the M it was made on.
    _here: PhantomData<(*mut (), P)>,
}

impl<P: Platform> Pinned<P> {
    /// Pins the caller to its M.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    #[doc(alias = "acquirem")]
    pub fn new() -> Self {
        P::raise_pin();
        Self::assume()
    }

    /// Takes over a pin that has been raised by other means: the caller was interrupted and the handler raised it.
    ///
    /// # Safety
    ///
    /// The pin is raised, and nobody else is going to lower it.
    #[expect(unsafe_code, reason = "a pin too few lets an M change under the scheduler")]
    pub unsafe fn adopt() -> Self {
        Self::assume()
    }

    /// The pin is already raised, and this proof is to lower it.
    #[inline(always)]
    pub(crate) fn assume() -> Self {
        Self { _here: PhantomData }
    }

    /// The M the caller runs on, if it runs on one.
    #[inline(always)]
    pub fn try_machine(&self) -> Option<&'static Machine<P>> {
        P::current_machine()
    }

    /// The M the caller runs on.
    ///
    /// # Panics
    ///
    /// The caller is not on an M: it is an operating-system thread, or a CPU before the scheduler is up.
    #[inline(always)]
    #[track_caller]
    pub fn machine(&self) -> &'static Machine<P> {
        match P::current_machine() {
            Some(machine) => machine,
            None => panic!("called outside the scheduler: only a G may do this"),
        }
    }

    /// The G that runs here.
    ///
    /// # Panics
    ///
    /// As [`machine`](Self::machine), and on g0.
    #[inline]
    #[track_caller]
    pub fn goroutine(&self) -> &'static Goroutine<P> {
        self.machine().running_goroutine()
    }

    /// The P this M holds.
    ///
    /// # Panics
    ///
    /// This M holds none: it is in a system call or idle.
    #[inline(always)]
    #[track_caller]
    pub fn processor(&self) -> &'static Processor<P> {
        self.machine().held_processor()
    }
}

impl<P: Platform> Default for Pinned<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Drop for Pinned<P> {
    #[inline(always)]
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a pin too few lets an M change under the scheduler")]
        // SAFETY: this proof was made with the pin that it lowers, raised here or taken over, and is dropped once.
        unsafe {
            P::lower_pin();
        }
    }
}

/// How long a G runs before one that a timer readied may displace it, unless the platform says otherwise: long enough
/// that displacing costs a few hundredths at most, and short enough that nobody notices. Go waits for the slice to end.
pub const UNDISTURBED: Duration = Duration::from_micros(50);

/// How long a G may run before it has to give way to others, unless the platform says otherwise. Go: `forcePreemptNS`.
pub const SLICE: Duration = Duration::from_millis(10);
