//! Objects with a size class: each CPU has magazines of free objects, and the CPUs share chains and spans
//! ([`kernel_heap`]).
//!
//! Nearly all operations use only the magazines of their CPU. Each CPU has a lock for its magazines, which other CPUs
//! take only to free idle memory ([`release`]). So a CPU practically never waits for this lock.

use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use kernel_heap::classes::{COUNT, magazine_size};
use kernel_heap::magazine::{Chain, Magazines};
use kernel_heap::runs::{Run, Size};
use kernel_heap::spans::Class;

use super::error::OutOfMemory;
use super::page_runs::{self, span_memory};
use super::pressure;
use super::shared_lock::SharedLock;
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::PreemptGuard;
use crate::cpu::sync::wait_while;

/// How many objects return to their spans while a lock is held once.
const GIVEN_BACK_AT_ONCE: usize = 4;

static CLASSES: [SharedLock<Class>; COUNT] = [const { SharedLock::new(Class::new()) }; COUNT];

cpu_local! {
    static CACHE: CpuCache = CpuCache::new();
}

/// The magazines of one CPU, one pair for each class, and their lock.
struct CpuCache {
    is_locked: AtomicBool,
    magazines: UnsafeCell<[Magazines; COUNT]>,
}

// SAFETY: only `with` accesses the cell, and only with the lock.
unsafe impl Sync for CpuCache {}

impl CpuCache {
    const fn new() -> Self {
        Self { is_locked: AtomicBool::new(false), magazines: UnsafeCell::new([const { Magazines::new() }; COUNT]) }
    }

    /// Calls `work` with the magazines of a class. The caller has preemption off. `work` must not allocate, free or
    /// panic.
    #[inline(always)]
    fn with<R>(&self, class: usize, work: impl FnOnce(&mut Magazines) -> R) -> R {
        // Ordering: Acquire and Release, so that each holder sees what the previous one has changed; the two are
        // partners. A handler never waits here, because handlers do not use the heap (see `cpu::contexts`).
        while self.is_locked.swap(true, Ordering::Acquire) {
            wait_while(|| self.is_locked.load(Ordering::Relaxed));
        }
        // SAFETY: the caller has the lock, so this is the only reference.
        let result = work(&mut unsafe { &mut *self.magazines.get() }[class]);
        self.is_locked.store(false, Ordering::Release);
        result
    }
}

impl fmt::Debug for CpuCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CpuCache")
    }
}

/// Calls `work` with this CPU's magazines of a class, with preemption off.
#[inline(always)]
fn with_magazines<R>(class: usize, work: impl FnOnce(&mut Magazines) -> R) -> R {
    let _preempt = PreemptGuard::of_kernel();
    CACHE.here().with(class, work)
}

/// Takes an object of a class from this CPU's magazines, or else from the shared chains and spans.
#[inline(always)]
pub(super) fn allocate(class: usize) -> Result<NonNull<u8>, OutOfMemory> {
    match with_magazines(class, Magazines::pop) {
        Some(object) => Ok(object.cast()),
        None => refill(class),
    }
}

/// Takes a chain of free objects, makes a new span if there is none, and puts the objects except one into this CPU's
/// magazines.
#[cold]
#[inline(never)]
fn refill(class: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let shared = take(class);
    // If there is no memory for a span, `make_span` has freed cached memory, but not enough. Perhaps objects of this
    // class have returned to their spans meanwhile, so the class is asked again.
    let chain = shared.map_or_else(|| make_span(class), Ok).or_else(|error| take(class).ok_or(error));
    let mut chain = chain?;
    let object = chain.pop().ok_or(OutOfMemory)?;
    if !chain.is_empty()
        && let Some(rest) = with_magazines(class, |magazines| magazines.fill(chain))
    {
        put(class, rest);
    }
    Ok(object.cast())
}

fn take(class: usize) -> Option<Chain> {
    CLASSES[class].lock().take(span_memory())
}

fn put(class: usize, chain: Chain) {
    // SAFETY: the callers pass chains of this class.
    unsafe { CLASSES[class].lock().put(span_memory(), chain) };
}

fn make_span(class: usize) -> Result<Chain, OutOfMemory> {
    let pages = CLASSES[class].lock().begin_span(class);
    let run = page_runs::allocate(Size::of_span(pages)).inspect_err(|_| CLASSES[class].lock().cancel_span())?;
    // SAFETY: the run was just allocated, with its frames.
    Ok(unsafe { span_memory().divide(class, run.first_page(), pages) })
}

/// Frees an object to this CPU's magazines. If both are full, one of them becomes a chain that the CPUs share.
///
/// # Safety
/// The object must have come from [`allocate`] with the same class, and must not be in use.
#[inline(always)]
pub(super) unsafe fn free(object: NonNull<u8>, class: usize) {
    // SAFETY: the caller promises that the object is of this class and not in use.
    let surplus = with_magazines(class, |magazines| unsafe { magazines.push(object.cast(), magazine_size(class)) });
    if let Some(surplus) = surplus {
        give(class, surplus);
    }
}

#[cold]
#[inline(never)]
fn give(class: usize, surplus: Chain) {
    put(class, surplus);
    pressure::note_growth();
}

/// Returns free objects to their spans, first the shared ones and then those in the magazines of all CPUs, and releases
/// the spans whose objects are all free. Stops when at least `frames` frames are freed. Returns how many were freed.
pub(super) fn release(frames: usize) -> usize {
    let mut freed = 0;
    for class in (0..COUNT).rev() {
        while freed < frames {
            let chain = CLASSES[class].lock().take_chain(span_memory());
            let Some(chain) = chain else { break };
            freed += give_back(class, chain);
        }
    }
    for cache in cpus::all().filter_map(|cpu| CACHE.of(cpu)) {
        for class in (0..COUNT).rev() {
            if freed >= frames {
                return freed;
            }
            let chains = {
                let _preempt = PreemptGuard::of_kernel();
                cache.with(class, Magazines::take_all)
            };
            freed += chains.into_iter().map(|chain| give_back(class, chain)).sum::<usize>();
        }
    }
    freed
}

/// Returns the objects of a chain to their spans, and releases the spans whose objects are all free. Returns how many
/// frames were freed.
fn give_back(class: usize, mut chain: Chain) -> usize {
    let mut freed = 0;
    while !chain.is_empty() {
        let mut unused = [None; GIVEN_BACK_AT_ONCE];
        {
            let mut shared = CLASSES[class].lock();
            for unused in &mut unused {
                let Some(object) = chain.pop() else { break };
                // SAFETY: the object is of this class and free.
                *unused = unsafe { shared.give_back(span_memory(), object) };
            }
        }
        for span in unused.into_iter().flatten() {
            freed += page_runs::release(Run::at(Size::of_span(span.pages), span.first));
        }
    }
    freed
}
