//! Who holds a lock, so that a CPU which waits for itself panics in place of hanging.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use x86_64::instructions::interrupts::without_interrupts;

use crate::cpu::percpu::{self, CpuId};

/// No CPU.
const NOBODY: u32 = u32::MAX;

/// The CPU that holds a lock, and where it took it.
#[derive(Debug)]
pub(super) struct Holder {
    /// Written by the holder, while it holds the lock; so a CPU finds its own number here only if it holds the lock.
    cpu: AtomicU32,
    place: AtomicPtr<Location<'static>>,
}

impl Holder {
    pub(super) const fn nobody() -> Self {
        Self { cpu: AtomicU32::new(NOBODY), place: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The caller has taken the lock at `place`, and stays on this CPU until it calls [`clear`](Self::clear).
    pub(super) fn set(&self, place: &'static Location<'static>) {
        self.place.store(ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
        self.cpu.store(percpu::current().number(), Ordering::Relaxed);
    }

    /// The caller is about to free the lock.
    pub(super) fn clear(&self) {
        self.cpu.store(NOBODY, Ordering::Relaxed);
    }

    /// Whether it is this CPU.
    pub(super) fn is(&self, cpu: CpuId) -> bool {
        self.cpu.load(Ordering::Relaxed) == cpu.number()
    }

    /// The caller waits for the lock at `place`.
    ///
    /// # Panics
    /// If this CPU holds it, in what the caller has interrupted or in the caller itself: the wait would never end.
    pub(super) fn check(&self, place: &'static Location<'static>) {
        // Whoever can migrate here must not compare the number of one CPU with what another one has written.
        let is_here = without_interrupts(|| self.is(percpu::current()));
        if is_here {
            // SAFETY: `set` stored a reference to a location, all of which are constants, before it stored the number.
            let taken = unsafe { self.place.load(Ordering::Relaxed).as_ref() };
            let taken = taken.expect("a lock that is held was taken somewhere");
            panic!("a CPU waits for itself: at {place} for the lock that it took at {taken}");
        }
    }
}
