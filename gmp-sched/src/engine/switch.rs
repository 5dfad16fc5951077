//! Leaving one G for the next.
//!
//! A G must not be visible to other Ms before its context is saved. So it cannot first enqueue itself or release a
//! lock, and then switch. Instead it passes a *commit* along. A commit is a closure that runs on the *far side* of the
//! switch, that is, on the stack of the next G or of g0. At that point the context of the G is saved, and its stack is
//! no longer in use. Go does the same with a function passed to `mcall`, always on g0. Here a switch for which the next
//! G is known (see `pick`) goes directly to that G.

use core::hint::cold_path;
use core::mem::{self, ManuallyDrop};

use crate::context::{self, SavedContext, Transfer, Word};
use crate::engine::hooks;
use crate::engine::hooks::Window;
use crate::entities::events::Leave;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};

/// The function that the far side calls. It moves the commit out of the register in which the switch has passed it, or
/// off the stack of `goroutine`, which has been left. Then it calls the commit. It takes over the pin of the code that
/// called the switch (the near side), and returns this pin. A `Pinned` has no size, so passing it costs nothing.
type Commit<Plat> = fn(Pinned<Plat>, &'static Goroutine<Plat>, commit: Word) -> Pinned<Plat>;

/// Whether the values that a commit captures fit in a register. If so, the switch passes them in that register. A
/// larger commit stays on the stack that is left, and its address is passed.
const fn fits_register<F>() -> bool {
    size_of::<F>() <= size_of::<Word>() && align_of::<F>() <= align_of::<Word>()
}

/// Packs `me` and `commit` for the switch. A commit that does not fit in a register stays where it is until the far
/// side moves it out.
#[inline(always)]
fn pack<Plat, F>(me: &'static Goroutine<Plat>, commit: &ManuallyDrop<F>) -> Transfer
where
    Plat: Platform,
    F: FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>),
{
    let address = core::ptr::from_ref(commit).cast::<F>();
    let argument = if fits_register::<F>() {
        let mut word = Word::uninit();
        #[expect(unsafe_code, reason = "moves a closure into a register")]
        // SAFETY: the closure fits in the word. `unpack` moves it out of the word exactly once, and `ManuallyDrop`
        // keeps its owner from dropping it.
        unsafe {
            word.as_mut_ptr().cast::<F>().copy_from_nonoverlapping(address, 1);
        }
        word
    } else {
        Word::new(address.cast())
    };
    let function: Commit<Plat> = unpack::<Plat, F>;
    Transfer {
        function: function as *const () as usize,
        subject: core::ptr::from_ref(me).expose_provenance(),
        argument,
    }
}

/// Calls the commit that [`pack`] has packed. Called on the far side.
fn unpack<Plat: Platform, F: FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>)>(
    pinned: Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
    commit: Word,
) -> Pinned<Plat> {
    let address = if fits_register::<F>() {
        commit.as_ptr().cast::<F>()
    } else {
        #[expect(unsafe_code, reason = "reads the address of a closure")]
        // SAFETY: for a commit that does not fit in a register, `pack` has initialised the word with its address.
        unsafe { commit.assume_init() }.cast::<F>()
    };
    #[expect(unsafe_code, reason = "moves a closure out of a register, or off a stack at rest")]
    // SAFETY: the closure is in the word, or on the stack of `goroutine`, which does not run. A commit runs once, so
    // the closure is moved out once, and `ManuallyDrop` keeps its owner from dropping it.
    let commit = unsafe { address.read() };
    commit(&pinned, goroutine);
    pinned
}

/// Runs the commit that the near side passed. Called on the far side.
#[inline(always)]
pub(crate) fn arrive<Plat: Platform>(transfer: Transfer) -> Pinned<Plat> {
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: `pack` made this word from a `Commit<Plat>` of the same platform. The reason is that a scheduler has one
    // platform, and an M switches only between contexts of its own scheduler: when a G of another scheduler is
    // readied, it goes to the global queue of that scheduler (`park`).
    let function = unsafe { mem::transmute::<usize, Commit<Plat>>(transfer.function) };
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: `pack` made the word from a `&'static Goroutine<Plat>` of the same platform, and Gs are never freed.
    let subject = unsafe { &*core::ptr::with_exposed_provenance::<Goroutine<Plat>>(transfer.subject) };
    let window = Window::<Plat>::open(At::Commit);
    // The near side pinned this M, and the far side unpins it when it drops the returned value.
    let pinned = function(Pinned::assume(), subject, transfer.argument);
    window.close();
    pinned
}

/// Saves the context in `save` and resumes `to`. Returns when another switch resumes `save`, with the transfer of that
/// switch.
#[inline(always)]
fn switch<Plat: Platform>(
    pinned: Pinned<Plat>,
    save: &'static SavedContext,
    to: &'static SavedContext,
    transfer: Transfer,
) -> Transfer {
    debug_assert_pinned_once::<Plat>();
    // The far side releases this pin. When another switch resumes `save`, the code that then runs releases the pin of
    // that switch.
    mem::forget(pinned);
    #[expect(unsafe_code, reason = "the context switch")]
    // SAFETY: `to` was saved by this function or made by `prepare`. The caller has exclusive use of `to`, which is this
    // M's g0, or the context of a G that only the caller may run, for example because the caller has taken the G from a
    // queue. Only the commit, which runs on the far side, makes the saved context visible to other Ms. The pin is
    // passed to the far side.
    unsafe {
        context::switch(save, to, transfer)
    }
}

#[inline(always)]
fn debug_assert_pinned_once<Plat: Platform>() {
    if cfg!(debug_assertions) {
        Plat::assert_pinned_once();
    }
}

/// Leaves `me`, the calling G, and runs `commit` on the far side. The far side is `next`, which only the caller may
/// run, for example because the caller has taken it from a queue. If `next` is `None`, the far side is g0. Returns when
/// `me` is resumed, perhaps on another M. Go: `mcall` and the G side of `schedule`.
///
/// If the M holds no P, `next` must be `None`.
#[doc(alias = "mcall")]
#[inline(always)]
pub(crate) fn leave<Plat: Platform>(
    pinned: Pinned<Plat>,
    machine: &'static Machine<Plat>,
    me: &'static Goroutine<Plat>,
    next: Option<&'static Goroutine<Plat>>,
    how: Leave,
    commit: impl FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>),
) -> Pinned<Plat> {
    let commit = ManuallyDrop::new(commit);
    machine.note_leave(me, next, how);
    let window = Window::<Plat>::open(At::Switch);
    let to = set_running(machine, me, next);
    let transfer = pack(me, &commit);
    window.close();
    arrive(switch(pinned, &me.context, to, transfer))
}

/// Like [`leave`], for a G that ends. The context of this G is not saved. `next` may begin to run on the stack of `me`,
/// so the commit must fit in a register.
#[inline(always)]
pub(crate) fn leave_forever<Plat: Platform, F: FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>)>(
    pinned: Pinned<Plat>,
    machine: &'static Machine<Plat>,
    me: &'static Goroutine<Plat>,
    next: Option<&'static Goroutine<Plat>>,
    commit: F,
) -> ! {
    const { assert!(fits_register::<F>(), "the commit would be on a stack that is not the G's any more") }
    let commit = ManuallyDrop::new(commit);
    machine.note_leave(me, next, Leave::End);
    let window = Window::<Plat>::open(At::Switch);
    let to = set_running(machine, me, next);
    debug_assert_pinned_once::<Plat>();
    window.close();
    // The far side releases this pin.
    mem::forget(pinned);
    #[expect(unsafe_code, reason = "the context switch")]
    // SAFETY: `to` is valid for the same reasons as in `switch`. The context that is left is not saved, so no other
    // code can resume it.
    unsafe {
        context::resume(to, pack(me, &commit))
    }
}

/// Runs `next` from g0; returns when a G leaves for g0. Go: `execute`, `gogo`.
#[doc(alias = "gogo")]
pub(crate) fn execute<Plat: Platform>(pinned: Pinned<Plat>, next: &'static Goroutine<Plat>) -> Pinned<Plat> {
    let machine = pinned.machine();
    let processor = machine.held_processor();
    if !Plat::TIMER_INTERRUPTS {
        processor.check_when_due(&pinned);
    }
    hooks::reuse_stack(processor, next);
    let to = set_running(machine, next, Some(next));
    arrive(switch(pinned, &machine.g0, to, pack(next, &ManuallyDrop::new(|_: &Pinned<Plat>, _| ()))))
}

/// Records that `next`, or g0 if `next` is `None`, runs on `machine` in place of `me`. Returns the context to resume.
#[inline(always)]
pub(crate) fn set_running<Plat: Platform>(
    machine: &'static Machine<Plat>,
    me: &'static Goroutine<Plat>,
    next: Option<&'static Goroutine<Plat>>,
) -> &'static SavedContext {
    let Some(next) = next else {
        cold_path();
        Plat::assert_pinned_once();
        if machine.locked_goroutine().is_some() {
            me.note_locked_wait();
        }
        machine.set_current(None);
        return &machine.g0;
    };
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
