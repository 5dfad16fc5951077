//! The arena that holds all memory of an explored machine, so that a state can be saved, compared and restored byte by
//! byte.
//!
//! The arena contains everything that a flow of control of the machine can write: its allocations (the test's global
//! allocator is [`Memory`], which serves them from the arena) and its stack. So the arena is the whole state of a
//! program that keeps the contract of [`explore`](super::explore).

mod image;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::ptr;
use std::alloc::System;
use std::thread;

pub(super) use self::image::Mark;
use self::image::{Image, WORD, is_zero};
use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Number of bytes of an arena: its heap, followed by its stacks.
const ARENA: usize = 16 << 20;
const HEAP: usize = 4 << 20;
/// Number of bytes of a stack. The lowest page is the guard page. Formatting a panic on the host needs most of the
/// other pages.
const STACK: usize = 256 << 10;
const STACKS: usize = (ARENA - HEAP) / STACK;
const PAGE: usize = 4096;
/// Maximum number of arenas in use at the same time: one for each exploration that is under way, and one for each that
/// has failed.
const ARENAS: usize = 32;

/// Number of bytes below a stack pointer that are looked at to find out whether the last step has used the stack.
const LOOKED_AT: usize = 4096;
/// Number of bytes below a stack pointer that are cleared if the last step has used the stack. Otherwise leftovers of
/// earlier calls would make equal states differ. They would also remain where a restored state has a 0, because the
/// image takes these bytes for 0. So no step may use more.
const CLEARED: usize = 64 << 10;

std::thread_local! {
    /// The arena of the explored machine that runs on this thread.
    static INSIDE: Cell<Option<&'static Arena>> = const { Cell::new(None) };
}

/// The address of the first arena, 0 until one is needed.
static FIRST_ARENA: AtomicUsize = AtomicUsize::new(0);
/// Bit n is set while arena n is in use.
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// The global allocator of a test that explores. It allocates from the system or, while an explored machine runs, from
/// that machine's arena. During a panic, it allocates from the system, because the report of the panic may keep the
/// memory (the captured output of a test) or need more memory than an arena has (a backtrace).
#[derive(Debug)]
pub struct Memory;

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: the system's allocator serves everything outside of explored machines. An arena hands each byte to one caller
// only, until that caller frees it.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match INSIDE.get() {
            Some(arena) if !thread::panicking() => arena.allocate(layout),
            // SAFETY: this function has the same contract, which its caller upholds.
            _ => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match Arena::of(pointer.addr()) {
            // SAFETY: the caller promises that `alloc` returned the memory and that it is no longer used.
            Some(arena) => unsafe { arena.release(pointer, layout) },
            // SAFETY: this function has the same contract, which its caller upholds. Memory outside of all arenas came
            // from the system.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }
}

/// The header of an arena, which is the memory of one explored machine. The header is at the start of this memory, so
/// each snapshot contains the fields below.
struct Arena {
    /// The first free address of the heap; 0 if the arena is abandoned.
    free: Cell<usize>,
    /// Number of stacks handed out.
    stacks: Cell<usize>,
}

impl Arena {
    /// The arena that contains `address`, if any.
    fn of(address: usize) -> Option<&'static Self> {
        let first = FIRST_ARENA.load(Ordering::Acquire);
        let is_inside = first != 0 && (first..first + ARENAS * ARENA).contains(&address);
        // SAFETY: the arenas follow each other from the first one, and `address` is in one of them. The computed
        // address is the start of that arena.
        #[expect(unsafe_code, reason = "finds the beginning of an arena")]
        is_inside.then(|| unsafe { Self::at(first + (address - first) / ARENA * ARENA) })
    }

    /// The arena that starts at `base`.
    ///
    /// # Safety
    ///
    /// An arena starts at `base`.
    #[expect(unsafe_code, reason = "finds the beginning of an arena")]
    unsafe fn at(base: usize) -> &'static Self {
        // SAFETY: arenas stay mapped, and are zero before their first use. Only the cells of an arena change, and only
        // the one thread that uses the arena changes them.
        unsafe { &*ptr::with_exposed_provenance(base) }
    }

    fn base(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn allocate(&self, layout: Layout) -> *mut u8 {
        let start = self.free.get().next_multiple_of(layout.align());
        let end = start + layout.size();
        if end > self.base() + HEAP {
            return ptr::null_mut();
        }
        self.free.set(end);
        ptr::with_exposed_provenance_mut(start)
    }

    /// Frees `pointer` if it was the last allocation; otherwise its memory stays in use.
    ///
    /// # Safety
    ///
    /// `pointer` was allocated here with `layout` and is no longer used.
    #[expect(unsafe_code, reason = "clears memory")]
    unsafe fn release(&self, pointer: *mut u8, layout: Layout) {
        if pointer.addr() + layout.size() == self.free.get() {
            // SAFETY: the caller promises that the memory was allocated here and is no longer used.
            unsafe { pointer.write_bytes(0, layout.size()) };
            self.free.set(pointer.addr());
        }
    }

    /// The addresses of a stack, without its guard.
    fn stack(&self, number: usize) -> Range<usize> {
        let start = self.base() + HEAP + number * STACK;
        start + PAGE..start + STACK
    }
}

/// Reserves the memory of all arenas; returns the address of the first.
fn first_arena() -> usize {
    let known = FIRST_ARENA.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    #[expect(unsafe_code, reason = "maps memory")]
    // SAFETY: a fresh private mapping at an address that the system chooses touches no existing memory.
    let fresh = unsafe { libc::mmap(ptr::null_mut(), ARENAS * ARENA, access, flags, -1, 0) };
    assert_ne!(fresh, libc::MAP_FAILED, "no memory for explored machines");
    let fresh = fresh.expose_provenance();
    match FIRST_ARENA.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        // Another thread has reserved the arenas meanwhile. This mapping stays unused.
        Err(known) => known,
    }
}

/// The exclusive use of an arena by one exploration.
pub(crate) struct MachineMemory {
    arena: &'static Arena,
    /// Whether other explorations may use the arena after this value is dropped. If not, the arena is abandoned.
    is_reusable: Cell<bool>,
    image: RefCell<Image>,
}

impl MachineMemory {
    /// Takes an unused arena.
    ///
    /// # Panics
    ///
    /// There is no unused arena, or the global allocator is not [`Memory`].
    ///
    /// # Safety
    ///
    /// The bodies that are passed to [`inside`](Self::inside) run one simulated machine. Its program keeps the contract
    /// of [`explore`](super::explore).
    #[expect(unsafe_code, reason = "restores memory to which the program may have given away references")]
    pub(super) unsafe fn new() -> Self {
        let first = first_arena();
        let taken = IN_USE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            let free = used.trailing_ones() as usize;
            (free < ARENAS).then(|| used | 1 << free)
        });
        let number = taken.expect("too many machines are explored at the same time").trailing_ones() as usize;
        #[expect(unsafe_code, reason = "finds the beginning of an arena")]
        // SAFETY: arena `number` starts at this address.
        let arena = unsafe { Arena::at(first + number * ARENA) };
        arena.free.set(arena.base() + size_of::<Arena>());
        arena.stacks.set(0);
        for stack in (0..STACKS).map(|stack| arena.stack(stack)) {
            let guard = ptr::with_exposed_provenance_mut(stack.start - PAGE);
            #[expect(unsafe_code, reason = "changes mappings")]
            // SAFETY: this is an unused page of the arena, below a stack.
            let is_guarded = unsafe { libc::mprotect(guard, PAGE, libc::PROT_NONE) } == 0;
            assert!(is_guarded, "no guard for a stack");
        }
        let memory = Self { arena, is_reusable: Cell::new(true), image: RefCell::default() };
        assert!(
            memory.is_global_allocator(),
            "a test that explores needs `sim::exhaustive::Memory` as its global allocator"
        );
        memory.is_reusable.set(false);
        memory
    }

    /// Runs `body` and serves its allocations from the arena.
    pub(super) fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        /// Leaves the arena, also if the body panics.
        struct Inside;
        impl Drop for Inside {
            fn drop(&mut self) {
                INSIDE.set(None);
            }
        }
        INSIDE.set(Some(self.arena));
        let _inside = Inside;
        body()
    }

    /// Whether the process's global allocator is [`Memory`].
    fn is_global_allocator(&self) -> bool {
        let probe = self.inside(|| core::hint::black_box(Box::new(0_u8)));
        Arena::of(ptr::from_ref(&*probe).addr()).is_some()
    }

    /// Takes an unused stack.
    pub(crate) fn take_stack() -> Range<usize> {
        let arena = INSIDE.get().expect("stacks are made by explored machines");
        let number = arena.stacks.replace(arena.stacks.get() + 1);
        assert!(number < STACKS, "an explored machine with too many stacks");
        arena.stack(number)
    }

    /// The address ranges of the stacks handed out so far, by number.
    pub(super) fn stacks(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.arena.stacks.get()).map(|number| self.arena.stack(number))
    }

    /// Lets other explorations use the arena after this value is dropped. Not called after a failure or a panic,
    /// because values in the arena may then still be referenced from outside.
    pub(super) fn allow_reuse(&self) {
        self.is_reusable.set(true);
    }

    /// Brings the image of the machine's memory up to date and returns the hash of this memory. Only the part of a
    /// stack at or above its pointer in `stack_pointers` is in use. Below the pointer, all bytes that were in use at the
    /// last call are cleared and, if the stack has been used since, the [`CLEARED`] bytes next to the pointer.
    ///
    /// # Panics
    /// If the last step has used more than `CLEARED` bytes of its stack.
    pub(super) fn save(&self, stack_pointers: &[usize]) -> u128 {
        let mut image = self.image.borrow_mut();
        let heap = self.arena.base()..self.arena.base() + HEAP;
        image.update(0, &heap, heap.start..self.arena.free.get().next_multiple_of(WORD));
        for (number, (stack, &pointer)) in self.stacks().zip(stack_pointers).enumerate() {
            let below = |bytes: usize| stack.start.max(pointer - bytes);
            let copied = image.parts.get(number + 1).map_or(stack.end, |part| part.used().start);
            if copied < pointer || !is_zero(below(LOOKED_AT)..pointer) {
                let cleared = copied.min(below(CLEARED));
                clear(cleared..pointer);
                assert!(
                    is_zero(stack.start.max(cleared - LOOKED_AT)..cleared),
                    "a step that uses too much of its stack"
                );
            }
            image.update(number + 1, &stack, pointer..stack.end);
        }
        image.hash
    }

    /// Makes a mark for [`go_back`](Self::go_back). The machine has not run since the last [`save`](Self::save).
    pub(super) fn mark(&self) -> Mark {
        self.image.borrow().mark()
    }

    /// Restores the memory that the machine had when `mark` was made. The machine has not run since the last
    /// [`save`](Self::save).
    pub(super) fn go_back(&self, mark: Mark) {
        self.image.borrow_mut().go_back(mark);
    }
}

/// Clears the part of a stack below the stack pointer.
#[expect(unsafe_code, reason = "writes the machine's memory")]
fn clear(memory: Range<usize>) {
    // SAFETY: the memory is part of an arena whose machine does not run. It is not in use, because it is below the
    // stack pointer. No red zone below a stack pointer is in use, because the compiler keeps none across the inline
    // assembly by which a flow of control leaves its stack.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(memory.start).write_bytes(0, memory.len()) };
}

impl Drop for MachineMemory {
    fn drop(&mut self) {
        if !self.is_reusable.get() {
            self.arena.free.set(0);
            return;
        }
        let base = ptr::with_exposed_provenance_mut(self.arena.base());
        #[expect(unsafe_code, reason = "discards memory")]
        // SAFETY: nothing refers to the arena any more: no flow of control of the machine runs again, and the contract
        // of `new` excludes references from outside. The pages of the arena are zero when they are used again.
        let is_discarded = unsafe { libc::madvise(base, ARENA, libc::MADV_DONTNEED) } == 0;
        if is_discarded {
            let number = (self.arena.base() - FIRST_ARENA.load(Ordering::Acquire)) / ARENA;
            IN_USE.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }
}
