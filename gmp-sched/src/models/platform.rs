//! The platform of the models: an M is a loom thread that runs the engine's own code up to the point where it would
//! park or switch. There the loom thread ends. [`Setting::settle`] runs what the Ms do later, one M after the other.
//! (In models that use `entities::loom_wait`, the loom thread of a G that parks blocks instead.)

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt::Arguments;
use core::ops::Range;
use core::time::Duration;
use std::panic::{self, AssertUnwindSafe};

use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::points::{Points, Site};
use crate::engine::pick::find_runnable;
use crate::engine::syscall::enter_blocking;
use crate::engine::wake::Assignment;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::{EndedMachine, Machine, NewMachine};
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::{ParkedStatus, Status};
use crate::platform::{Parking, Pinned, Platform, Scavenged};
use crate::refinements::preempt_in_place::continue_in_place;

/// The platform of loom's threads.
#[derive(Debug)]
pub(super) struct Model;

impl Points for Model {
    fn point(_: Site) {
        super::pass_point();
    }

    fn relax() {
        loom::thread::yield_now();
    }
}

/// The thread of an M. The thread is parked until a loom thread runs the M for the first time.
#[derive(Debug)]
pub(super) struct ModelThread {
    /// The park token.
    token: AtomicBool,
    /// Whether the M has parked. If so, the loom thread that ran the M has ended or is about to end.
    parked: core::sync::atomic::AtomicBool,
    /// The deadline until which the M is parked. It is read only after all loom threads have ended, so loom need not
    /// know of it.
    until: core::sync::atomic::AtomicU64,
    /// Whether the G on this M was asked to give way. This flag, too, is read only after all loom threads have ended.
    asked: core::sync::atomic::AtomicBool,
}

impl ModelThread {
    fn is_woken(&self) -> bool {
        self.parked.load(Ordering::Relaxed) && self.token.load(Ordering::Acquire)
    }

    /// The deadline at which the M wakes without a token; `NEVER` if it is not parked.
    fn until(&self) -> Instant {
        let is_parked = self.parked.load(Ordering::Relaxed);
        if is_parked { Instant::from_nanos(self.until.load(Ordering::Relaxed)) } else { Instant::NEVER }
    }
}

loom::thread_local! {
    static CURRENT: Cell<Option<&'static Machine<Model>>> = Cell::new(None);
    /// Whether the caller has preemption off.
    static IS_PINNED: Cell<bool> = Cell::new(false);
}

std::thread_local! {
    /// The time in nanoseconds. All loom threads of a run are on one thread of the host, so they share this variable.
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    static IDLE_LIMIT: Cell<Option<Duration>> = const { Cell::new(None) };
    /// Whether there is a background G.
    static SCAVENGES: Cell<bool> = const { Cell::new(false) };
    /// Whether sysmon has been asked to check. It is read only after all loom threads have ended.
    static SYSMON_IS_WOKEN: Cell<bool> = const { Cell::new(false) };
}

/// The payload of the panic that unwinds an M when the M parks or its thread ends.
struct Leaves;

#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
// SAFETY: no G ever runs, so no stack is used and no context is switched. A loom thread acts for one M until the next
// call of `run_as`, and nothing preempts it. Pins are not counted, so no count overflows. `start_thread` makes no
// thread.
unsafe impl Platform for Model {
    type Thread = ModelThread;

    const TIMER_INTERRUPTS: bool = false;

    const HAS_OTHER_THREADS: bool = true;

    // The models do not count pins. It is safe to claim that they do, because a G tries to block while it is pinned
    // only in `run_pinned`, which records that.
    const COUNTS_PINS: bool = true;

    fn is_pinned_once() -> bool {
        !IS_PINNED.with(Cell::get)
    }

    unsafe fn raise_pin() {}

    unsafe fn lower_pin() {}

    fn current_machine() -> Option<&'static Machine<Self>> {
        CURRENT.with(Cell::get)
    }

    /// The clock advances a little at each call, so that code that waits for a later time does not wait forever.
    fn now() -> Instant {
        CLOCK.set(CLOCK.get() + 1000);
        Instant::from_nanos(CLOCK.get())
    }

    fn seed(index: usize) -> u64 {
        index as u64
    }

    fn start_thread(_: NewMachine<Self>) -> Result<ModelThread, OutOfResources> {
        Ok(ModelThread {
            token: AtomicBool::new(false),
            parked: true.into(),
            until: Instant::NEVER.as_nanos().into(),
            asked: false.into(),
        })
    }

    fn park_thread(parking: Parking<'_, Self>, deadline: Option<Instant>) {
        let thread = thread(parking.pinned().machine());
        if thread.token.swap(false, Ordering::AcqRel) {
            return;
        }
        thread.until.store(deadline.unwrap_or(Instant::NEVER).as_nanos(), Ordering::Relaxed);
        thread.parked.store(true, Ordering::Relaxed);
        panic::resume_unwind(Box::new(Leaves))
    }

    fn unpark_thread(machine: &'static Machine<Self>) {
        thread(machine).token.swap(true, Ordering::AcqRel);
    }

    fn scavenger() -> Option<fn() -> Scavenged> {
        SCAVENGES.get().then_some(|| Scavenged::Completely)
    }

    fn idle_limit() -> Option<Duration> {
        IDLE_LIMIT.get()
    }

    fn exit_thread(_: EndedMachine<Self>) -> ! {
        panic::resume_unwind(Box::new(Leaves))
    }

    fn request_preemption(machine: &'static Machine<Self>) {
        thread(machine).asked.store(true, Ordering::Relaxed);
    }

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, _: Instant) {
        SYSMON_IS_WOKEN.set(true);
    }

    fn allocate_stack(_: usize) -> Result<Range<usize>, OutOfResources> {
        Ok(0..0)
    }

    unsafe fn release_stack(_: Range<usize>) {}

    fn fatal(_: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        panic!("{message}")
    }
}

fn thread(machine: &'static Machine<Model>) -> &'static ModelThread {
    machine.thread().expect("every M has its thread before it is used")
}

/// Whether the G on `machine` has been asked to give way.
pub(super) fn is_asked(machine: &'static Machine<Model>) -> bool {
    thread(machine).asked.load(Ordering::Relaxed)
}

/// Whether `machine` has a park token that it has not used.
pub(super) fn is_unparked(machine: &'static Machine<Model>) -> bool {
    thread(machine).token.load(Ordering::Acquire)
}

/// Whether the thread of `machine` is parked and nothing has unparked it.
pub(super) fn is_parked(machine: &'static Machine<Model>) -> bool {
    thread(machine).parked.load(Ordering::Relaxed) && !is_unparked(machine)
}

/// Lets `machine` search for a G. If the M finds a G, it marks the G as running. Otherwise it parks. (The G does not
/// run, because that would need a switch of stacks.)
pub(super) fn run_next(pinned: &Pinned<Model>, machine: &'static Machine<Model>) {
    let next = find_runnable(pinned, machine);
    assert_eq!(next.status(), Status::Runnable, "{next:?} must not be run");
    next.set_status(Status::Running);
    machine.set_current(Some(next));
}

/// Lets `machine` wait for a P for its locked G. If the M gets a P, it marks the G as running. Otherwise it parks.
pub(super) fn run_locked(pinned: &Pinned<Model>, machine: &'static Machine<Model>, locked: &'static Goroutine<Model>) {
    machine.wait_for_locked(pinned, locked);
    assert_eq!(locked.status(), Status::Runnable, "{locked:?} must not be run");
    locked.set_status(Status::Running);
    machine.set_current(Some(locked));
}

/// Runs `body` as `machine` until `body` returns, the M parks, or its thread ends. Returns `None` in the last two
/// cases. The calling loom thread counts as the thread of `machine` from now on, also after the call.
pub(super) fn run_as<R>(machine: &'static Machine<Model>, body: impl FnOnce(&Pinned<Model>) -> R) -> Option<R> {
    CURRENT.with(|current| current.set(Some(machine)));
    thread(machine).parked.store(false, Ordering::Relaxed);
    match panic::catch_unwind(AssertUnwindSafe(|| body(&Pinned::new()))) {
        Ok(result) => Some(result),
        Err(panic) if panic.is::<Leaves>() => None,
        Err(panic) => panic::resume_unwind(panic),
    }
}

/// Runs `body` as code that is not on an M.
pub(super) fn run_outside(body: impl FnOnce()) {
    let before = CURRENT.with(|current| current.replace(None));
    body();
    CURRENT.with(|current| current.set(before));
}

/// Whether sysmon has been asked to check.
pub(super) fn is_sysmon_woken() -> bool {
    SYSMON_IS_WOKEN.get()
}

/// Advances the clock.
pub(super) fn let_time_pass(duration: Duration) {
    CLOCK.set(CLOCK.get() + duration.as_nanos() as u64);
}

/// Runs `body` with preemption off.
pub(super) fn run_pinned(body: impl FnOnce()) {
    IS_PINNED.with(|is_pinned| is_pinned.set(true));
    body();
    IS_PINNED.with(|is_pinned| is_pinned.set(false));
}

/// Calls [`run_as`] on a new loom thread.
pub(super) fn spawn_as(
    machine: &'static Machine<Model>,
    body: impl FnOnce(&Pinned<Model>) + Send + 'static,
) -> loom::thread::JoinHandle<()> {
    loom::thread::spawn(move || {
        run_as(machine, body);
    })
}

/// A scheduler whose Ms and Ps are idle at first.
pub(super) struct Setting {
    pub(super) scheduler: &'static Scheduler<Model>,
}

impl Setting {
    pub(super) fn new(processors: usize) -> Self {
        CLOCK.set(0);
        IDLE_LIMIT.set(None);
        SCAVENGES.set(false);
        SYSMON_IS_WOKEN.set(false);
        let scheduler = Scheduler::new(processors);
        let setting = Self { scheduler };
        for _ in 0..processors {
            setting.add_machine();
        }
        setting
    }

    /// Makes each M that becomes idle from now on end at once, unless a P needs it.
    pub(super) fn end_idle_machines(&self) {
        self.end_idle_machines_after(Duration::ZERO);
    }

    /// From now on, an M ends if there have been more Ms than needed for `limit`.
    pub(super) fn end_idle_machines_after(&self, limit: Duration) {
        IDLE_LIMIT.set(Some(limit));
    }

    /// From now on, Ms that become idle do not end. This is also the setting at the beginning.
    pub(super) fn keep_idle_machines(&self) {
        IDLE_LIMIT.set(None);
    }

    /// Returns the idle M that will be woken next.
    pub(super) fn idle_machine(&self) -> &'static Machine<Model> {
        self.scheduler.shared.lock().idle_machines.front().expect("an M is idle")
    }

    /// Adds an idle M.
    pub(super) fn add_machine(&self) {
        self.scheduler.add_machine().expect("the model has threads enough");
    }

    /// Takes an idle M and an idle P off the idle lists, and lets the M hold the P.
    pub(super) fn busy_machine(&self) -> &'static Machine<Model> {
        let mut shared = self.scheduler.shared.lock();
        let processor = self.scheduler.take_idle_processor(&mut shared).expect("a P is idle");
        let machine = self.scheduler.assign_to_idle(&mut shared, processor, Assignment::Run);
        machine.assigned_processor.store(None, Ordering::Relaxed);
        machine.set_processor(Some(processor));
        machine
    }

    /// Makes a busy M, as [`busy_machine`](Self::busy_machine) does, and makes it spinning.
    pub(super) fn spinning_machine(&self) -> &'static Machine<Model> {
        let machine = self.busy_machine();
        machine.spinning.store(true, Ordering::Relaxed);
        self.scheduler.spinning.fetch_add(1, Ordering::Relaxed);
        machine
    }

    /// Makes an M that holds a P and runs a G.
    pub(super) fn running_machine(&self) -> &'static Machine<Model> {
        let machine = self.busy_machine();
        let goroutine = self.goroutine();
        goroutine.set_status(Status::Running);
        machine.set_current(Some(goroutine));
        machine
    }

    /// Makes an M whose G is in a system call and whose P was handed off.
    pub(super) fn blocked_machine(&self) -> &'static Machine<Model> {
        let machine = self.running_machine();
        run_as(machine, |_| core::mem::forget(enter_blocking::<Model>().expect("the model has threads enough")));
        machine
    }

    /// Makes a G that is parked, with no waiter in any queue.
    pub(super) fn goroutine(&self) -> &'static Goroutine<Model> {
        let goroutine: &'static _ = Box::leak(Box::new(Goroutine::new(self.scheduler)));
        goroutine.set_waiting(
            WaitReason::Parked,
            ParkedStatus::unsampled(self.scheduler.number()),
            Instant::from_nanos(0),
        );
        self.scheduler.reserve_global().expect("memory");
        self.scheduler.register(goroutine);
        goroutine
    }

    /// Makes the background G, which counts as running until [`Scheduler::background_parks`] is called.
    pub(super) fn start_background(&self) {
        SCAVENGES.set(true);
        self.scheduler.background.goroutine.store(Some(self.goroutine()), Ordering::Release);
    }

    /// Lets every M that was unparked continue until it runs a G or parks again.
    pub(super) fn settle(&self) {
        while let Some(machine) = self.scheduler.machines().find(|&machine| thread(machine).is_woken()) {
            // In a model, a park unwinds the M. The M continues here as if `park_thread` had returned. The M checked
            // the queues once more before it parked, so this check is not repeated.
            run_as(machine, |pinned| match machine.locked_goroutine() {
                Some(preempted) if machine.locked.is_preempted.load(Ordering::Relaxed) => {
                    continue_in_place(pinned, machine, preempted);
                }
                Some(locked) => run_locked(pinned, machine, locked),
                None => {
                    machine.take_assigned();
                    run_next(pinned, machine);
                }
            });
        }
    }

    /// Like [`settle`](Self::settle), for models in which the loom thread of an M may end while the M holds a P and
    /// runs no G. Each of `machines` that holds a P first searches for a G.
    pub(super) fn settle_all(&self, machines: impl IntoIterator<Item = &'static Machine<Model>>) {
        for machine in machines {
            if machine.processor().is_some() {
                run_as(machine, |pinned| run_next(pinned, machine));
            }
        }
        self.settle();
    }

    /// Checks at the end of a model, after all loom threads, that no work is left that an M could do, and that the
    /// lists, counts and states of Ms and Ps agree.
    pub(super) fn check(&self) {
        self.settle();
        let scheduler = self.scheduler;
        assert_eq!(scheduler.spinning.load(Ordering::Relaxed), 0, "an M counts as spinning forever");
        let idle = scheduler.idle_processors.load(Ordering::Relaxed);
        assert!(idle == 0 || !scheduler.is_work_visible(), "lost wakeup: a G is runnable, a P idle, and no M searches");
        let timers = scheduler.processors().iter().map(|processor| processor.timers.earliest());
        let earliest = timers.fold(scheduler.background_due(), Instant::min);
        let wakes = scheduler.machines().map(|machine| thread(machine).until()).fold(Instant::NEVER, Instant::min);
        assert!(idle == 0 || wakes <= earliest, "a timer is missed: all sleep until {wakes:?}");
        let held: Vec<_> = scheduler.machines().filter_map(Machine::processor).map(Processor::id).collect();
        let shared = scheduler.shared.lock();
        let left_behind =
            scheduler.processors().iter().filter(|processor| processor.status() == ProcessorStatus::Syscall);
        let elsewhere = held.len() + shared.blocked_machines as usize + left_behind.count();
        assert_eq!(
            shared.idle_machines.len() + elsewhere,
            shared.machines as usize,
            "an M is idle and not on the list"
        );
        assert!(idle as usize <= shared.idle_machines.len(), "a P is idle without an M to run it");
        drop(shared);
        for processor in scheduler.processors() {
            let holders = held.iter().filter(|&&id| id == processor.id()).count();
            assert!(holders <= 1, "{processor:?} has {holders} holders");
            let status = processor.status();
            let is_right =
                if holders == 1 { status == ProcessorStatus::Running } else { status != ProcessorStatus::Running };
            assert!(
                is_right && !matches!(status, ProcessorStatus::Stopped | ProcessorStatus::StoppedInSyscall),
                "{processor:?}"
            );
        }
    }

    /// Checks at the end of a model that there are as many runnable Gs as Gs on the queues, and empties the queues. The
    /// code of the model must mark each G that it takes off a queue as running.
    pub(super) fn check_goroutines(&self) {
        let scheduler = self.scheduler;
        let is_runnable = |goroutine: &&'static Goroutine<Model>| goroutine.status() == Status::Runnable;
        let runnable = scheduler.goroutines().filter(is_runnable).count();
        let mut shared = scheduler.shared.lock();
        let in_rings =
            scheduler.processors().iter().flat_map(|processor| core::iter::from_fn(|| processor.queue.pop(true)));
        let queued = in_rings.count()
            + core::iter::from_fn(|| scheduler.take_global(&mut shared)).count()
            + core::iter::from_fn(|| scheduler.take_locked(&mut shared)).count();
        assert_eq!(queued, runnable, "a G is lost, or on two queues");
    }
}
