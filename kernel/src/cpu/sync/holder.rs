//! Records which CPU holds a lock. A CPU that is about to wait for a lock that it holds itself panics instead of
//! waiting for ever.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use x86_64::instructions::interrupts::without_interrupts;

use crate::cpu::contexts;
use crate::cpu::percpu::{self, CpuId};

/// The value of [`Holder::cpu`] while no CPU holds the lock.
const NOBODY: u32 = u32::MAX;

/// The CPU that holds a lock, and the location in the source where the CPU took it.
#[derive(Debug)]
pub(super) struct Holder {
    /// Written only by the CPU that holds the lock. So if a CPU finds its own number here, it holds the lock itself.
    cpu: AtomicU32,
    location: AtomicPtr<Location<'static>>,
}

impl Holder {
    pub(super) const fn nobody() -> Self {
        Self { cpu: AtomicU32::new(NOBODY), location: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Records that the caller has taken the lock at `location`. The caller must stay on this CPU until it calls
    /// [`clear`](Self::clear).
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

    /// Whether `cpu` is the holder.
    pub(super) fn is(&self, cpu: CpuId) -> bool {
        self.cpu.load(Ordering::Relaxed) == cpu.number()
    }

    /// Checks that the caller, at `location`, may wait for the lock.
    ///
    /// # Panics
    /// If this CPU holds the lock. In this case the caller, or the code that it has interrupted, has taken the lock, so
    /// the wait would never end.
    #[track_caller]
    pub(super) fn check(&self, location: &'static Location<'static>) {
        // Interrupts are off so that the caller cannot migrate between the load of its CPU's number and the comparison.
        // If it migrated in between, its former CPU could take the lock before the comparison. The caller would then
        // panic for no reason.
        let is_here = without_interrupts(|| self.is(percpu::current()));
        if is_here {
            // SAFETY: this CPU has stored its number, and `set` stores the location before the number. The location is
            // a reference to a constant.
            let taken = unsafe { self.location.load(Ordering::Relaxed).as_ref() };
            let taken = taken.expect("a lock that is held was taken somewhere");
            contexts::misuse(format_args!(
                "a CPU waits for itself: at {location} for the lock that it took at {taken}"
            ));
        }
    }
}
