//! Kernel threads, on which Ms run where there is no operating system. This module is the hardware-independent half of
//! a small scheduler of threads onto CPUs. The other half implements the [`Cpu`] trait.
//!
//! This module does not depend on Gs and Ps. A thread runs until it parks or is displaced. A thread that becomes ready
//! goes to an idle CPU if there is one. Otherwise it goes to the CPU it last ran on, and displaces the thread that runs
//! there, as soon as that thread is in user code. (A thread that is ready because it was displaced does not displace
//! another thread, but waits in the list of its CPU.) A CPU without a thread halts. Because only threads whose M holds
//! a P run for long, there are about as many runnable threads as CPUs. So round robin is fair enough, and there are no
//! priorities.
//!
//! | file | concept |
//! |---|---|
//! | `token` | the park token: no wakeup is lost between the decision to park and the park |
//! | [`watchdog`] | which CPUs check for stuck CPUs |
//! | `placement` | ready lists, idle CPUs, CPU selection, displacement |
//! | `sleepers` | parking with a deadline |
//! | `switch` | switching between threads |
//! | [`epoch`] | grace periods: when every CPU has observed a change |

pub mod epoch;
mod placement;
mod sleepers;
mod switch;
pub(crate) mod token;
pub mod watchdog;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::fmt::Debug;
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, SpinMutex};
use crate::base::instant::Instant;
use crate::base::list::{Linked, List};
use crate::base::points::{Points, Relax};
use crate::base::reference::AtomicRef;
use crate::base::timing_wheel::{Timed, TimingWheel, WheelEntry};
use crate::context::SavedContext;
use token::Token;

/// A spinlock that is always taken with interrupts off, because interrupt handlers take it, too.
type InterruptLock<T, C> = SpinMutex<T, Relax<C>>;

/// What kernel threads need from a CPU.
///
/// # Safety
///
/// - [`current`](Cpu::current) is the index of the executing CPU, and is less than the number given to
///   [`Threads::new`].
/// - [`without_interrupts`](Cpu::without_interrupts) runs its argument with interrupts off on this CPU, and then
///   restores the interrupt flag.
/// - No other code switches the stacks of threads on a CPU.
#[expect(unsafe_code, reason = "memory safety of the thread switch rests on what a CPU promises")]
pub unsafe trait Cpu: Points + Sized + Debug + Send + Sync {
    /// The kernel threads and the CPUs that run them.
    fn threads() -> &'static Threads<Self>;

    /// The index of the executing CPU. The caller is pinned, or has interrupts off.
    fn current() -> usize;

    /// Calls `body` with interrupts off.
    ///
    /// # Safety
    ///
    /// `body` does not switch to another thread or G. Otherwise that thread or G would run with interrupts off, and
    /// could not be preempted. `body` does not turn interrupts on either.
    unsafe fn without_interrupts<R>(body: impl FnOnce() -> R) -> R;

    /// Makes another CPU call [`Threads::reschedule_interrupt`]. If that CPU halts, the call wakes it.
    fn kick(cpu: usize);

    /// Makes this CPU call [`Threads::displace`] as soon as it is in user code.
    fn request_displacement();

    /// Withdraws the last [request](Cpu::request_displacement), if it has not been carried out. Called when the running
    /// thread leaves this CPU by itself, and by the idle loop. The scheduler may also have requested that the thread's
    /// G give way. That request may be withdrawn, too, because the G does not run after its thread has left.
    fn withdraw_displacement();

    /// Makes this CPU call [`Threads::timer_interrupt`] no later than `deadline`. The caller is pinned.
    fn arm(deadline: Instant);

    /// The current time. The caller is pinned.
    fn now() -> Instant;

    /// Called before `thread` runs on this CPU.
    ///
    /// # Safety
    ///
    /// The caller switches to that thread next.
    unsafe fn switching_to(thread: &'static Thread<Self>, now: Instant);

    /// Called before this CPU switches to its idle loop.
    ///
    /// # Safety
    ///
    /// The caller switches to the idle loop next.
    unsafe fn switching_to_idle();

    /// Called after `thread` has [ended](Threads::end) and has left its stack, whose upper end is `stack_end`. The
    /// thread may be [restarted](Threads::restart) from now on. Called on the stack that runs next, pinned.
    ///
    /// # Safety
    ///
    /// The thread has ended, and this is called once for each end.
    unsafe fn ended(thread: &'static Thread<Self>, stack_end: usize) {
        let _ = (thread, stack_end);
    }

    /// Waits for an interrupt and handles it. Called with interrupts off. Enables interrupts and halts in one step,
    /// and turns interrupts off again before it returns. May also return without an interrupt.
    ///
    /// # Safety
    ///
    /// The caller is the idle loop of this CPU, with interrupts off.
    unsafe fn halt();

    /// Enables or disables interrupts.
    ///
    /// # Safety
    ///
    /// The caller is the idle loop of this CPU, either before it switches to a thread or after a thread has switched
    /// back.
    unsafe fn set_interrupts(on: bool);
}

/// A kernel thread. Never freed.
pub struct Thread<C: Cpu> {
    context: SavedContext,
    token: Token<C>,
    /// The upper end of the stack.
    stack_end: AtomicUsize,
    last_cpu: AtomicU32,
    link: AtomicRef<Self>,
    /// The entry in the list of sleepers of a CPU.
    sleep: WheelEntry<Self>,
    entry: fn(usize) -> !,
    argument: usize,
}

impl<C: Cpu> Thread<C> {
    /// The argument given to [`Threads::create`].
    #[must_use]
    pub fn argument(&self) -> usize {
        self.argument
    }

    /// The CPU that runs this thread or ran it last.
    #[must_use]
    pub fn last_cpu(&self) -> usize {
        self.last_cpu.load(Ordering::Relaxed) as usize
    }

    /// Gives the thread its park token, so that the thread's current or next [`Threads::park`] returns. Callable from
    /// interrupts.
    pub fn unpark(&'static self) {
        if self.token.give() {
            C::threads().make_ready(self, placement::Urgency::Displaces);
        }
    }
}

impl<C: Cpu> Linked for Thread<C> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<C: Cpu> Timed for Thread<C> {
    fn entry(&self) -> &WheelEntry<Self> {
        &self.sleep
    }
}

impl<C: Cpu> Debug for Thread<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("token", &self.token).field("last_cpu", &self.last_cpu).finish_non_exhaustive()
    }
}

/// The state of one CPU.
struct CpuState<C: Cpu> {
    /// Ready threads for this CPU, in FIFO order.
    ready: InterruptLock<List<Thread<C>>, C>,
    /// Length of `ready`, readable without the lock.
    ready_length: AtomicUsize,
    /// Whether the CPU has nothing to run, and halts or is about to halt. Another CPU that clears this bit must kick
    /// this CPU.
    idle: AtomicBool,
    /// The thread that runs on this CPU; `None` in the idle loop.
    current: AtomicRef<Thread<C>>,
    /// When the current thread began to run. Accessed by this CPU only.
    running_since: AtomicU64,
    /// Whether the running thread must give way to a ready one. Accessed by this CPU only.
    is_displaced: AtomicBool,
    /// The saved context of the idle loop.
    idle_context: SavedContext,
    /// Threads that parked on this CPU with a deadline.
    sleepers: InterruptLock<TimingWheel<Thread<C>>, C>,
}

/// The kernel threads of a computer, and the CPUs that run them.
pub struct Threads<C: Cpu> {
    cpus: Box<[CachePadded<CpuState<C>>]>,
}

impl<C: Cpu> Threads<C> {
    /// Makes the state for `cpus` CPUs. Allocates the state, which is never freed.
    ///
    /// # Panics
    ///
    /// There is no memory for a timing wheel.
    #[must_use]
    #[track_caller]
    pub fn new(cpus: usize) -> &'static Self {
        let state = |_| CpuState {
            ready: InterruptLock::new(List::new()),
            ready_length: AtomicUsize::new(0),
            idle: AtomicBool::new(false),
            current: AtomicRef::none(),
            running_since: AtomicU64::new(0),
            is_displaced: AtomicBool::new(false),
            idle_context: SavedContext::new(),
            sleepers: InterruptLock::new(
                TimingWheel::new().unwrap_or_else(|error| panic!("cannot make the state of a CPU: {error}")),
            ),
        };
        Box::leak(Box::new(Self {
            cpus: (0..cpus).map(state).map(CachePadded::new).collect::<Vec<_>>().into_boxed_slice(),
        }))
    }

    fn here(&self) -> &CpuState<C> {
        &self.cpus[C::current()]
    }

    /// The thread that runs on this CPU, `None` in the idle loop. The caller is pinned.
    #[must_use]
    pub fn current(&self) -> Option<&'static Thread<C>> {
        self.here().current.load(Ordering::Relaxed)
    }

    /// Whether this CPU has a ready thread in its list. Callable from interrupts.
    #[must_use]
    pub fn has_ready_thread(&self) -> bool {
        self.here().ready_length.load(Ordering::Relaxed) != 0
    }

    /// The saved context of `thread`, and whether the thread runs. If it runs, the context is not in use.
    #[cfg(feature = "std")]
    pub(crate) fn context_of<'a>(&self, thread: &'a Thread<C>) -> (&'a SavedContext, bool) {
        let mut running = self.cpus.iter().filter_map(|cpu| cpu.current.load(Ordering::Relaxed));
        (&thread.context, running.any(|running| core::ptr::eq(running, thread)))
    }

    /// Clears what no later step reads: the link of each thread that runs or is parked, and the time of each thread's
    /// last sleep. So an exhaustive simulation finds that two states are equal if they differ only in these values.
    #[cfg(feature = "std")]
    pub(crate) fn forget_links<'a>(&self, threads: impl Iterator<Item = &'a Thread<C>>) {
        for thread in threads {
            if self.context_of(thread).1 || thread.token.is_parked() {
                thread.link.store(None, Ordering::Relaxed);
            }
            thread.sleep.forget();
        }
    }

    /// For each CPU, the saved context of its idle loop, and whether the idle loop runs. If it runs, the context is not
    /// in use.
    #[cfg(feature = "std")]
    pub(crate) fn idle_contexts(&self) -> impl Iterator<Item = (&SavedContext, bool)> {
        self.cpus.iter().map(|cpu| (&cpu.idle_context, cpu.current.load(Ordering::Relaxed).is_none()))
    }

    /// If a thread is ready on this CPU and the running thread has run for `granularity`, records that the running
    /// thread must give way, and returns `true`. The caller must then make this CPU call [`displace`](Self::displace)
    /// as soon as it is in user code. Called by the timer's interrupt handler.
    ///
    /// Without `granularity`, a thread whose P has a due timer would be preempted as soon as it begins to run, because
    /// a due timer interrupts at once. If all threads of a CPU had due timers, none of them would make progress.
    pub fn preempt_after(&self, now: Instant, granularity: Duration) -> bool {
        let since = Instant::from_nanos(self.here().running_since.load(Ordering::Relaxed));
        now - since >= granularity && self.make_room()
    }

    /// If a thread is ready on this CPU, records that the running thread must give way (`is_displaced`), and returns
    /// `true`. The caller must then [request](Cpu::request_displacement) the displacement, or make this CPU displace
    /// the thread in another way.
    fn make_room(&self) -> bool {
        let has_ready_thread = self.has_ready_thread();
        if has_ready_thread {
            self.here().is_displaced.store(true, Ordering::Relaxed);
        }
        has_ready_thread
    }

    /// Whether any CPU has a ready thread in its list.
    #[must_use]
    pub fn is_any_ready(&self) -> bool {
        self.cpus_with_ready_threads().any(|has_ready_thread| has_ready_thread)
    }

    /// For each CPU, whether it has a ready thread in its list.
    pub fn cpus_with_ready_threads(&self) -> impl Iterator<Item = bool> {
        self.cpus.iter().map(|cpu| cpu.ready_length.load(Ordering::Relaxed) != 0)
    }

    /// Whether any CPU is idle. A waker can claim an idle CPU.
    #[must_use]
    pub fn is_any_idle(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.idle.load(Ordering::Relaxed))
    }

    /// Whether all CPUs are idle.
    #[must_use]
    pub fn are_all_idle(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.idle.load(Ordering::Relaxed))
    }

    /// Blocks the calling thread until it has its park token, or until the deadline. May return early. The caller is
    /// still pinned afterwards, perhaps on another CPU.
    ///
    /// # Panics
    ///
    /// Called from the idle loop.
    ///
    /// # Safety
    ///
    /// The caller runs on the thread's own stack, not in a handler, and is pinned exactly once. A pin belongs to the
    /// CPU and not to the thread, so a second pin would stay on this CPU when the thread leaves.
    #[expect(unsafe_code, reason = "leaves the stack of a thread")]
    #[track_caller]
    pub unsafe fn park(&'static self, deadline: Option<Instant>) {
        let me = self.current().expect("the idle loop cannot park");
        if me.token.take() {
            return;
        }
        let slept_on = deadline.map(|deadline| self.add_sleeper(me, deadline));
        let next = self.take_ready();
        self.switch_from(me, next, Self::commit_park);
        if let Some(cpu) = slept_on {
            self.remove_sleeper(cpu, me);
        }
        // The deadline or an unpark has woken the thread. If another unpark has come since then, that unpark has left a
        // token. The return from this park answers that unpark, too, so the token is consumed.
        me.token.take();
    }

    /// The commit of a park. It runs after the thread's context has been saved.
    fn commit_park(&'static self, thread: &'static Thread<C>) {
        if !thread.token.commit_park() {
            // The token came during the switch.
            self.make_ready(thread, placement::Urgency::Displaces);
        }
    }
}

impl<C: Cpu> Debug for Threads<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({} CPUs)", self.cpus.len())
    }
}
