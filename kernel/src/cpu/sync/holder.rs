//! The holder of a lock, so that a CPU which waits for a lock of its own panics and does not hang.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use x86_64::instructions::interrupts::without_interrupts;

use crate::cpu::percpu::{self, CpuId};

/// No CPU.
const NOBODY: u32 = u32::MAX;

/// The CPU that holds a lock, and the location where it took the lock.
#[derive(Debug)]
pub(super) struct Holder {
    /// Written by the holder while it holds the lock. So a CPU finds its own number here only if it holds the lock.
    cpu: AtomicU32,
    location: AtomicPtr<Location<'static>>,
}

impl Holder {
    pub(super) const fn nobody() -> Self {
        Self { cpu: AtomicU32::new(NOBODY), location: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Records that the caller has taken the lock at `location`. It stays on this CPU until it calls [`clear`](Self::clear).
    #[inline]
    pub(super) fn set(&self, location: &'static Location<'static>) {
        self.location.store(ptr::from_ref(location).cast_mut(), Ordering::Relaxed);
        self.cpu.store(percpu::current().number(), Ordering::Relaxed);
    }

    /// Records that the caller is about to release the lock.
    #[inline]
    pub(super) fn clear(&self) {
        self.cpu.store(NOBODY, Ordering::Relaxed);
    }

    /// Whether this CPU is the holder.
    pub(super) fn is(&self, cpu: CpuId) -> bool {
        self.cpu.load(Ordering::Relaxed) == cpu.number()
    }

    /// Checks that the caller, at `location`, may wait for the lock.
    ///
    /// # Panics
    /// This CPU holds the lock, taken by the caller or by the code that it has interrupted: the wait would never end.
    pub(super) fn check(&self, location: &'static Location<'static>) {
        // Code that can migrate here must not compare the number of one CPU with the number written by another.
        let is_here = without_interrupts(|| self.is(percpu::current()));
        if is_here {
            // SAFETY: `set` stored a reference to a location, all of which are constants, before it stored the number.
            let taken = unsafe { self.location.load(Ordering::Relaxed).as_ref() };
            let taken = taken.expect("a lock that is held was taken somewhere");
            panic!("a CPU waits for itself: at {location} for the lock that it took at {taken}");
        }
    }
}
