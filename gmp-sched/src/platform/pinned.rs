//! The proof that the caller stays on its M, and the right to park.

use core::marker::PhantomData;

use super::Platform;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;

/// The right to park the thread of the calling M. Only the scheduler can create this value, because it must decide what
/// happens to the P: while an M that holds a P is parked, no other M can use that P.
#[derive(Debug)]
pub struct Parking<'a, Plat: Platform> {
    pinned: &'a Pinned<Plat>,
    is_idle: bool,
}

impl<'a, Plat: Platform> Parking<'a, Plat> {
    /// For an M that waits until it is assigned a P.
    pub(crate) fn new(pinned: &'a Pinned<Plat>) -> Self {
        Self { pinned, is_idle: false }
    }

    /// For an M on the idle list, which looks for work, and for raised signals of devices, when it continues.
    pub(crate) fn of_idle(pinned: &'a Pinned<Plat>) -> Self {
        Self { pinned, is_idle: true }
    }

    /// Whether the M is idle: when it continues, it looks for work, and for raised signals of devices.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// The proof that the caller is pinned.
    pub fn pinned(&self) -> &'a Pinned<Plat> {
        self.pinned
    }
}

/// Proof that the caller stays on its M. The current M, G and P are reachable only through this proof.
///
/// Dropping the proof lowers the pin. After a switch, what the caller has learned about the M is outdated. So every
/// function that may switch consumes the proof. Go: `acquirem`, `releasem`.
#[derive(Debug)]
#[must_use]
pub struct Pinned<Plat: Platform> {
    // The raw pointer prevents `Send` and `Sync`, because a proof is valid only on the M on which it was made.
    _here: PhantomData<(*mut (), Plat)>,
}

impl<Plat: Platform> Pinned<Plat> {
    /// Pins the caller to its M.
    ///
    /// # Panics
    ///
    /// So many pins were leaked that their count could overflow.
    #[inline(always)]
    #[track_caller]
    #[doc(alias = "acquirem")]
    pub fn new() -> Self {
        Plat::raise_checked_pin();
        Self::assume()
    }

    /// Like [`new`](Self::new), but without the check of the number of pins, which takes two instructions. For the
    /// scheduler, which leaks no proof.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    #[expect(unsafe_code, reason = "a leaked pin could make the count of pins overflow")]
    pub(crate) fn of_scheduler() -> Self {
        // SAFETY: dropping the proof lowers the pin, and the scheduler leaks no proof.
        unsafe { Plat::raise_pin() };
        Self::assume()
    }

    /// Like [`of_scheduler`](Self::of_scheduler), and returns whether the caller is now pinned once.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    #[expect(unsafe_code, reason = "a leaked pin could make the count of pins overflow")]
    pub(crate) fn of_scheduler_and_check() -> (Self, bool) {
        // SAFETY: dropping the proof lowers the pin, and the scheduler leaks no proof.
        let is_pinned_once = unsafe { Plat::raise_pin_and_check() };
        (Self::assume(), is_pinned_once)
    }

    /// Takes over a pin that was not raised by [`new`](Self::new), for example one that an interrupt handler has raised
    /// for the G that it interrupted.
    ///
    /// # Safety
    ///
    /// The pin is raised, and nothing else lowers it.
    #[expect(unsafe_code, reason = "a pin too few lets an M change under the scheduler")]
    pub unsafe fn adopt() -> Self {
        Self::assume()
    }

    /// Returns the proof for a pin that is already raised. Dropping the proof lowers that pin.
    #[inline(always)]
    pub(crate) fn assume() -> Self {
        Self { _here: PhantomData }
    }

    /// Lowers the pin, as dropping the proof does. The compiler considers a function that never returns as cold, and
    /// does not inline the drop into it. But `lower` is inlined even there.
    #[inline(always)]
    pub(crate) fn lower(self) {
        core::mem::forget(self);
        #[expect(unsafe_code, reason = "a pin too few lets an M change under the scheduler")]
        // SAFETY: as in `drop`, which does not run for a proof that is forgotten.
        unsafe {
            Plat::lower_pin();
        }
    }

    /// The M that the caller runs on, if any.
    #[inline(always)]
    pub fn try_machine(&self) -> Option<&'static Machine<Plat>> {
        Plat::current_machine()
    }

    /// The M that the caller runs on.
    ///
    /// # Panics
    ///
    /// The caller is not on an M. It is on another operating-system thread, or on a CPU before the scheduler has
    /// started.
    #[inline(always)]
    #[track_caller]
    pub fn machine(&self) -> &'static Machine<Plat> {
        match Plat::current_machine() {
            Some(machine) => machine,
            None => Plat::misuse(format_args!("called outside the scheduler: only a G may do this")),
        }
    }

    /// The G that runs on this M.
    ///
    /// # Panics
    ///
    /// In the same cases as [`machine`](Self::machine), and on g0.
    #[inline]
    #[track_caller]
    pub fn goroutine(&self) -> &'static Goroutine<Plat> {
        self.machine().running_goroutine()
    }

    /// The P that this M holds.
    ///
    /// # Panics
    ///
    /// In the same cases as [`machine`](Self::machine), and on an M that holds no P, because it is in a system call or
    /// idle.
    #[inline(always)]
    #[track_caller]
    pub fn processor(&self) -> &'static Processor<Plat> {
        self.machine().held_processor()
    }
}

impl<Plat: Platform> Default for Pinned<Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform> Drop for Pinned<Plat> {
    #[inline(always)]
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a pin too few lets an M change under the scheduler")]
        // SAFETY: each proof is made for one raised pin, by `new`, `adopt` or `assume`. It is dropped once, and nothing
        // else lowers that pin.
        unsafe {
            Plat::lower_pin();
        }
    }
}
