//! Leaving one G for the next, and what is done on the far side.
//!
//! A G never switches away with its own publication still to come on its own stack: it hands a [`Commit`] to whoever
//! runs next, and that one publishes it (unlocks, enqueues) when its context is saved and its stack is at rest. Where
//! the local queue has work, the switch goes straight from G to G; g0 is visited only to look further.

use core::hint::cold_path;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};

use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::base::run_queue::Slice;
use crate::context::{self, SavedContext, Transfer};
use crate::engine::caller::Caller;
use crate::engine::due::{Due, pick_due};
use crate::engine::schedule::pass_turn;
use crate::engine::stacks::exchange_stacks;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::{Processor, has_due_timer};
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// What a commit is: run on the far side, with the G that left. It takes the pin and gives it back, which costs nothing.
type CommitFunction<P> = fn(Pinned<P>, &'static Goroutine<P>, usize) -> Pinned<P>;

/// A commit that needs the P it runs on, without a look for it: near and far side are on the same one.
pub(crate) trait FarSide<P: Platform> {
    /// Does it for the G that left.
    fn arrived(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, processor: &'static Processor<P>);
}

/// A [`FarSide`] that was chosen beforehand: the address of a commit function whose argument is a P.
pub(crate) struct ChosenFarSide<P: Platform>(AtomicUsize, PhantomData<CommitFunction<P>>);

impl<P: Platform> ChosenFarSide<P> {
    /// `F`.
    pub(crate) fn new<F: FarSide<P>>() -> Self {
        Self(AtomicUsize::new(run_far_side::<P, F> as *const () as usize), PhantomData)
    }

    /// `F` from here on.
    pub(crate) fn set<F: FarSide<P>>(&self) {
        self.0.store(run_far_side::<P, F> as *const () as usize, Ordering::Relaxed);
    }

    #[inline(always)]
    fn get(&self) -> CommitFunction<P> {
        #[expect(unsafe_code, reason = "turns an address back into the function it was made from")]
        // SAFETY: only `new` and `set` write it, with functions of this type.
        unsafe {
            mem::transmute::<usize, CommitFunction<P>>(self.0.load(Ordering::Relaxed))
        }
    }
}

fn run_far_side<P: Platform, F: FarSide<P>>(
    pinned: Pinned<P>,
    goroutine: &'static Goroutine<P>,
    argument: usize,
) -> Pinned<P> {
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: `argument` is the address of a P, which is never freed, exposed by `Commit`.
    let processor = unsafe { &*core::ptr::with_exposed_provenance::<Processor<P>>(argument) };
    F::arrived(&pinned, goroutine, processor);
    pinned
}

/// The most usual commit: `word`, the address of a lock's, is set to zero, which frees the lock.
fn unlock<P: Platform>(pinned: Pinned<P>, _: &'static Goroutine<P>, word: usize) -> Pinned<P> {
    unlock_word(word);
    pinned
}

#[inline(always)]
fn unlock_word(word: usize) {
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: `word` was exposed by `Commit::unlock`, and is good until somebody has taken that lock.
    let word = unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(word) };
    // Ordering: Release; partner: the Acquire of whoever takes the lock.
    word.store(0, Ordering::Release);
}

/// What is to be done for a G once it has been left.
pub(crate) struct Commit<P: Platform> {
    function: CommitFunction<P>,
    argument: usize,
}

impl<P: Platform> Commit<P> {
    /// Calls `function` with the G that left and `argument`.
    #[inline(always)]
    pub(crate) fn new(function: CommitFunction<P>, argument: usize) -> Self {
        Self { function, argument }
    }

    /// Does `F` with the G that left and `processor`, which the caller holds.
    #[inline(always)]
    pub(crate) fn on<F: FarSide<P>>(processor: &'static Processor<P>) -> Self {
        Self::new(run_far_side::<P, F>, core::ptr::from_ref(processor).expose_provenance())
    }

    /// Does what was chosen, with the G that left and `processor`, which the caller holds.
    #[inline(always)]
    pub(crate) fn chosen(chosen: &ChosenFarSide<P>, processor: &'static Processor<P>) -> Self {
        Self::new(chosen.get(), core::ptr::from_ref(processor).expose_provenance())
    }

    /// Frees the lock with that word, which the caller has and which is free at zero.
    ///
    /// # Safety
    ///
    /// The word is good until somebody has taken the lock after this.
    #[cfg(any(test, not(gmp_loom)))]
    #[expect(unsafe_code, reason = "passes a reference on as an address")]
    #[inline(always)]
    pub(crate) unsafe fn unlock(word: &AtomicU32) -> Self {
        Self::new(unlock, core::ptr::from_ref(word).expose_provenance())
    }

    /// Does it here and now, on the far side.
    pub(crate) fn run(self, pinned: &Pinned<P>, goroutine: &'static Goroutine<P>) {
        let _ = pinned;
        // The pin is the caller's: what the function takes and gives back is its proof only.
        mem::forget((self.function)(Pinned::assume(), goroutine, self.argument));
    }

    #[inline(always)]
    fn transfer(self, subject: &'static Goroutine<P>) -> Transfer {
        Transfer {
            function: self.function as *const () as usize,
            subject: core::ptr::from_ref(subject).expose_provenance(),
            argument: self.argument,
        }
    }
}

/// The commit of g0, which leaves for a G, and of one side of a coroutine that leaves for the other: nobody else is to know
/// of them. A call of nothing there costs less than a test everywhere.
pub(crate) fn nothing<P: Platform>(pinned: Pinned<P>, _: &'static Goroutine<P>, _: usize) -> Pinned<P> {
    pinned
}

/// Does on the far side what the near side asked for.
#[inline(always)]
fn arrive<P: Platform>(transfer: Transfer) -> Pinned<P> {
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: every transfer is made by `Commit::transfer` of the same platform: Ms switch only to Gs of their own
    // scheduler, since those of others are put on the global queue there by whoever readies them (`park`).
    let function = unsafe { mem::transmute::<usize, CommitFunction<P>>(transfer.function) };
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: as above; Gs are never freed.
    let subject = unsafe { &*core::ptr::with_exposed_provenance::<Goroutine<P>>(transfer.subject) };
    let no_unwinding = NoUnwinding::<P>(PhantomData);
    // The pin was raised by whoever left, on this M; it is ours to lower now.
    let pinned = function(Pinned::assume(), subject, transfer.argument);
    mem::forget(no_unwinding);
    pinned
}

/// Ends the program if a commit unwinds: it would unwind the G on whose stack it runs, which has nothing to do with it, and the
/// G that parked might never be found again.
struct NoUnwinding<P: Platform>(PhantomData<P>);

impl<P: Platform> Drop for NoUnwinding<P> {
    fn drop(&mut self) {
        let machine = P::current_machine().expect("a commit runs on an M");
        P::fatal(machine.scheduler(), format_args!("the commit of a park panicked"));
    }
}

/// [`arrive`] where the one who left has often begun to wait for a channel: it looks for that before it calls a function.
#[inline(always)]
fn arrive_from_wait<P: Platform>(transfer: Transfer) -> Pinned<P> {
    // Should the compiler have made it twice, the other one is called.
    if transfer.function != unlock::<P> as *const () as usize {
        return arrive(transfer);
    }
    unlock_word(transfer.argument);
    Pinned::assume()
}

/// [`arrive_from_wait`] for the first function of a G, which gets the words as arguments.
#[inline(always)]
pub(crate) fn arrive_words<P: Platform>(function: usize, subject: usize, argument: usize) -> Pinned<P> {
    arrive_from_wait(Transfer { function, subject, argument })
}

/// Switches; gives what whoever switches back hands over, still to be done.
#[inline(always)]
fn switch<P: Platform>(
    pinned: Pinned<P>,
    save: &'static SavedContext,
    to: &'static SavedContext,
    transfer: Transfer,
) -> Transfer {
    // Whoever leaves has checked it before it changed anything.
    if cfg!(debug_assertions) {
        P::assert_pinned_once();
    }
    // The far side lowers this pin, and this side the one of whoever resumes it.
    mem::forget(pinned);
    #[expect(unsafe_code, reason = "the context switch")]
    // SAFETY: `to` was saved by this function or made by `prepare`, and the caller has claimed its G: it was taken from
    // a queue or is this M's g0. What is saved becomes visible to others by the commit only, on the far side. The pin
    // goes over to the far side.
    unsafe {
        context::switch(save, to, transfer)
    }
}

/// [`switch`] without a way back.
#[inline(always)]
fn resume<P: Platform>(pinned: Pinned<P>, to: &'static SavedContext, transfer: Transfer) -> ! {
    if cfg!(debug_assertions) {
        P::assert_pinned_once();
    }
    // The far side lowers this pin.
    mem::forget(pinned);
    #[expect(unsafe_code, reason = "the context switch")]
    // SAFETY: as in `switch`; nobody resumes the context that is left, since it is not saved.
    unsafe {
        context::resume(to, transfer)
    }
}

/// Runs `next` from g0; comes back when a G finds nothing to run. Go: `execute`, `gogo`.
#[doc(alias = "gogo")]
pub(crate) fn execute<P: Platform>(pinned: Pinned<P>, next: &'static Goroutine<P>) -> Pinned<P> {
    let machine = pinned.machine();
    if let Some(dead) = machine.held_processor().free.last() {
        exchange_stacks(dead, next);
    }
    let to = start_running(machine, next);
    arrive(switch(pinned, &machine.g0, to, Commit::new(nothing, 0).transfer(next)))
}

/// Why a G leaves its M, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It parks; its wait reason says why.
    Park,
    /// It has to give way.
    Preempt,
}

impl Leave {
    #[inline(always)]
    fn note<P: Platform>(self, processor: &Processor<P>, me: &Goroutine<P>) {
        if processor.tracer.is_active() {
            self.note_now(processor, me);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_now<P: Platform>(self, processor: &Processor<P>, me: &Goroutine<P>) {
        let (kind, detail) = match self {
            Self::Park => (EventKind::Park, me.wait_reason() as u64),
            Self::Preempt => (EventKind::Preempt, 0),
        };
        processor.tracer.note::<P>(kind, Some(me.id()), detail);
    }
}

/// Leaves the caller for the next local G or for g0, and has `commit` run there. Comes back when the caller is resumed,
/// perhaps on another M. Go: `mcall` and the G side of `schedule`.
#[doc(alias = "mcall")]
#[inline(always)]
pub(crate) fn leave<P: Platform>(caller: Caller<P>, why: Leave, commit: Commit<P>) -> Pinned<P> {
    if caller.processor.is_look_wanted() {
        return leave_after_look(caller.pinned, why, commit);
    }
    let picked = pick_at_once(caller.processor);
    leave_for_picked(caller, commit, picked)
}

/// [`leave`] when a pick has to look further. Apart, so that the usual one keeps nothing for a call before the switch.
#[cold]
#[inline(never)]
fn leave_after_look<P: Platform>(pinned: Pinned<P>, why: Leave, commit: Commit<P>) -> Pinned<P> {
    let caller = Caller::of(pinned);
    // While that is wanted each pick looks.
    why.note(caller.processor, caller.me);
    let picked = pick_after_look(&caller);
    leave_for_picked(caller, commit, picked)
}

/// The rest of [`leave`] for a caller that has picked: goes on with that G, or with g0.
#[inline(always)]
pub(crate) fn leave_for_picked<P: Platform>(
    caller: Caller<P>,
    commit: Commit<P>,
    picked: Option<(&'static Goroutine<P>, Slice)>,
) -> Pinned<P> {
    let Caller { pinned, machine, me, .. } = caller;
    let to = match picked {
        Some((next, _)) => start_running(machine, next),
        None => {
            cold_path();
            to_g0(machine, me)
        }
    };
    arrive_from_wait(switch(pinned, &me.context, to, commit.transfer(me)))
}

/// What others may still want of the stack of a G that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// Nothing.
    Nothing,
    /// Its result, or what it held when it was abandoned.
    OnStack,
}

/// Leaves the caller for good: as [`leave`], but there is nothing to save, and its stack may be the next one's.
#[inline(always)]
pub(crate) fn leave_for_good<P: Platform>(caller: Caller<P>, remains: Remains, commit: Commit<P>) -> ! {
    if caller.processor.is_look_wanted() {
        end_after_look(caller.pinned, remains, commit);
    }
    let picked = pick_at_once(caller.processor);
    end_for_picked(caller, remains, commit, picked)
}

/// [`leave_for_good`] when a pick has to look further.
#[cold]
#[inline(never)]
fn end_after_look<P: Platform>(pinned: Pinned<P>, remains: Remains, commit: Commit<P>) -> ! {
    let caller = Caller::of(pinned);
    caller.processor.tracer.note::<P>(EventKind::End, Some(caller.me.id()), 0);
    let picked = pick_after_look(&caller);
    end_for_picked(caller, remains, commit, picked)
}

#[inline(always)]
fn end_for_picked<P: Platform>(
    caller: Caller<P>,
    remains: Remains,
    commit: Commit<P>,
    picked: Option<(&'static Goroutine<P>, Slice)>,
) -> ! {
    let Caller { pinned, machine, me, .. } = caller;
    let to = match picked {
        Some((next, _)) => {
            if remains == Remains::Nothing {
                exchange_stacks(me, next);
            }
            start_running(machine, next)
        }
        None => {
            machine.set_free();
            to_g0(machine, me)
        }
    };
    resume(pinned, to, commit.transfer(me))
}

/// Leaves the caller for `next`, which it has claimed.
#[inline(always)]
pub(crate) fn leave_for<P: Platform>(caller: Caller<P>, next: &'static Goroutine<P>, commit: Commit<P>) -> Pinned<P> {
    let Caller { pinned, machine, me, .. } = caller;
    let to = start_running(machine, next);
    arrive(switch(pinned, &me.context, to, commit.transfer(me)))
}

/// Leaves `me`, the calling G, for g0, with or without a P.
#[track_caller]
pub(crate) fn leave_for_g0<P: Platform>(pinned: Pinned<P>, me: &'static Goroutine<P>, commit: Commit<P>) -> Pinned<P> {
    P::assert_pinned_once();
    let to = to_g0(pinned.machine(), me);
    arrive(switch(pinned, &me.context, to, commit.transfer(me)))
}

#[inline(always)]
fn start_running<P: Platform>(machine: &'static Machine<P>, next: &'static Goroutine<P>) -> &'static SavedContext {
    debug_assert_eq!(next.status(), Status::Runnable, "{next:?} is not to be run");
    debug_assert!(
        next.locked_machine().is_none_or(|locked| core::ptr::eq(locked, machine))
            && machine.locked_goroutine().is_none_or(|locked| core::ptr::eq(locked, next)),
        "{next:?} is not to be run by {machine:?}"
    );
    next.set_status(Status::Running);
    machine.set_current(Some(next));
    &next.context
}

fn to_g0<P: Platform>(machine: &'static Machine<P>, me: &'static Goroutine<P>) -> &'static SavedContext {
    if machine.locked_goroutine().is_some() {
        me.note_locked_wait();
    }
    machine.set_current(None);
    &machine.g0
}

/// The next G to run without a look beyond this P, `None` if g0 has to decide; also tells where the G was: one with a slice
/// of its own was in the ring. For a caller that has asked [`Processor::is_look_wanted`].
#[inline(always)]
pub(crate) fn pick_at_once<P: Platform>(processor: &'static Processor<P>) -> Option<(&'static Goroutine<P>, Slice)> {
    if !P::TIMER_INTERRUPTS && has_due_timer(processor) {
        return None;
    }
    processor.pop_local()
}

/// [`pick_at_once`] when it is the turn of the global queue, or a timer may be due. Part of its callers, which are apart from
/// what runs as a rule.
#[inline(always)]
pub(crate) fn pick_after_look<P: Platform>(caller: &Caller<P>) -> Option<(&'static Goroutine<P>, Slice)> {
    let is_traced = caller.processor.watch.wants_all();
    if begin_look(caller, is_traced) {
        pick_besides(caller.processor, pick_due(&caller.pinned, caller.processor, is_traced))
    } else {
        None
    }
}

/// A pick looks now, and so does the next one if everything is watched: tells whether what is to run next may be found on this
/// P, timers included.
#[inline(always)]
pub(crate) fn begin_look<P: Platform>(caller: &Caller<P>, is_traced: bool) -> bool {
    let Caller { machine, processor, .. } = caller;
    let scheduler = machine.scheduler();
    // A stop and a locked G are g0's to deal with; until that is over every pick looks.
    if scheduler.is_stopping() || machine.locked_goroutine().is_some() {
        return false;
    }
    if !P::TIMER_INTERRUPTS && processor.is_slice_over() {
        pass_turn(&caller.pinned, processor);
    }
    if processor.is_global_turn() {
        if scheduler.has_work_for_all() {
            return false;
        }
        processor.set_next_global_turn();
    }
    processor.begin_look(is_traced);
    // What devices do is for g0: the G that leaves may hold a lock until the far side that is taken there.
    !scheduler.poller.is_ready()
}

/// Picks between a G that is `due` and those in the local queue.
#[inline(always)]
pub(crate) fn pick_besides<P: Platform>(
    processor: &'static Processor<P>,
    due: Due<P>,
) -> Option<(&'static Goroutine<P>, Slice)> {
    match due {
        Due::Nothing => processor.pop_local(),
        // The ring is as full as it was, as after a pop of `runnext`.
        Due::Goroutine(goroutine) => Some((goroutine, Slice::Inherited)),
        Due::Other => None,
    }
}

/// Packs a closure for the far side: it stays on the stack of the G that leaves, and is moved out there.
#[inline(always)]
pub(crate) fn commit_closure<P, F>(closure: &ManuallyDrop<F>) -> Commit<P>
where
    P: Platform,
    F: FnOnce(&Pinned<P>, &'static Goroutine<P>),
{
    fn run<P: Platform, F: FnOnce(&Pinned<P>, &'static Goroutine<P>)>(
        pinned: Pinned<P>,
        goroutine: &'static Goroutine<P>,
        argument: usize,
    ) -> Pinned<P> {
        #[expect(unsafe_code, reason = "moves a closure off a stack at rest")]
        // SAFETY: `argument` is the address of the closure below, on the stack of `goroutine`, which does not run; a
        // commit is run once, so it is moved out once, and `ManuallyDrop` keeps its home from dropping it.
        let closure = unsafe { core::ptr::with_exposed_provenance::<F>(argument).read() };
        closure(&pinned, goroutine);
        pinned
    }
    Commit::new(run::<P, F>, core::ptr::from_ref(closure).expose_provenance())
}
