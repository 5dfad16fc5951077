//! The arena that holds all memory of an explored machine, so that a state can be saved, compared and restored byte by
//! byte.
//!
//! The arena contains everything that a flow of control of the machine can write: its allocations (the test's global
//! allocator is [`Memory`], which serves them from the arena) and its stack. So a [`Snapshot`] is complete whatever the
//! program does, as long as it writes no statics and no thread-local variables.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ops::Range;
use core::ptr;
use std::alloc::System;

use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Number of bytes of an arena: its heap, followed by its stacks.
const ARENA: usize = 16 << 20;
const HEAP: usize = 4 << 20;
/// Number of bytes of a stack. The lowest page is the guard page. Formatting a panic on the host needs most of the
/// other pages.
const STACK: usize = 256 << 10;
const STACKS: usize = (ARENA - HEAP) / STACK;
const PAGE: usize = 4096;
/// Maximum number of arenas at the same time: one for each test that explores, and one for each failed exploration.
const ARENAS: usize = 32;

/// Number of words in a block. States are compared, and snapshots share memory, block by block.
const WORDS: usize = 64;
const BLOCK: usize = WORDS * size_of::<u64>();

/// Number of bytes below a stack pointer that are cleared, so that leftovers of earlier calls do not make equal states
/// differ.
const CLEARED: usize = 4096;

std::thread_local! {
    /// The arena of the explored machine that runs on this thread.
    static INSIDE: Cell<Option<&'static Arena>> = const { Cell::new(None) };
}

/// The address of the first arena, 0 until one is needed.
static FIRST_ARENA: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// The global allocator of a test that explores. It allocates from the system or, while an explored machine runs, from
/// that machine's arena.
#[derive(Debug)]
pub struct Memory;

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: the system's allocator serves everything outside of explored machines. An arena hands each byte to one caller
// only, until that caller frees it.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match INSIDE.get() {
            Some(arena) => arena.allocate(layout),
            // SAFETY: this function has the same contract, which its caller upholds.
            None => unsafe { System.alloc(layout) },
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
    is_abandoned: Cell<bool>,
}

impl MachineMemory {
    pub(super) fn new() -> Self {
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
        Self { arena, is_abandoned: Cell::new(false) }
    }

    /// Runs `body` and serves its allocations from the arena.
    pub(super) fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        INSIDE.set(Some(self.arena));
        let result = body();
        INSIDE.set(None);
        result
    }

    /// Whether the process's global allocator is [`Memory`].
    pub(super) fn is_global_allocator(&self) -> bool {
        let probe = self.inside(|| core::hint::black_box(alloc::boxed::Box::new(0_u8)));
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

    /// Keeps the arena from being reused after a failure, because values allocated in it may still be referenced from
    /// outside.
    pub(super) fn abandon(&self) {
        self.is_abandoned.set(true);
        self.arena.free.set(0);
    }

    /// Saves all of the machine's memory. Only the part of a stack at or above its pointer in `stack_pointers` is in
    /// use; `CLEARED` bytes below the pointer are cleared.
    pub(super) fn save(&self, stack_pointers: &[usize], before: Option<&Snapshot>) -> Snapshot {
        let heap = (self.arena.base()..self.arena.free.get()).step_by(BLOCK);
        let heap = save_blocks(heap, before.map_or(&[], |before| &before.heap));
        let stacks = self.stacks().zip(stack_pointers).enumerate().map(|(number, (stack, &pointer))| {
            let start = pointer / BLOCK * BLOCK;
            clear(stack.start.max(start - CLEARED)..pointer);
            let known = before.and_then(|before| before.stacks.get(number)).map_or(&[][..], |stack| stack);
            save_blocks((start..stack.end).step_by(BLOCK).rev(), known)
        });
        let stacks: Vec<_> = stacks.collect();
        let all = stacks.iter().flatten().chain(&heap);
        let hash = all.fold(0_u128, |sum, block| sum.wrapping_add(block.hash));
        Snapshot { heap, stacks, hash }
    }

    /// Restores the machine to `snapshot`.
    pub(super) fn restore(&self, snapshot: &Snapshot) {
        let end = snapshot.heap.last().map_or(self.arena.base(), |last| last.address + BLOCK);
        // Memory that was allocated after the snapshot becomes free.
        clear(end..end.max(self.arena.free.get()));
        for (stack, blocks) in self.stacks().zip(&snapshot.stacks) {
            let start = blocks.last().map_or(stack.end, |lowest| lowest.address);
            clear(stack.start.max(start - CLEARED)..start);
        }
        snapshot.stacks.iter().flatten().chain(&snapshot.heap).for_each(|block| block.restore());
    }
}

/// Clears memory of an explored machine that is not in use.
#[expect(unsafe_code, reason = "writes the machine's memory")]
fn clear(memory: Range<usize>) {
    // SAFETY: the memory is part of an arena whose machine does not run, and it is not in use: it is above the end of
    // the heap or below a stack pointer. No red zone below a stack pointer is in use, because the compiler keeps none
    // across the inline assembly by which a flow of control leaves its stack.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(memory.start).write_bytes(0, memory.len()) };
}

impl Drop for MachineMemory {
    fn drop(&mut self) {
        if self.is_abandoned.get() {
            return;
        }
        let base = ptr::with_exposed_provenance_mut(self.arena.base());
        #[expect(unsafe_code, reason = "discards memory")]
        // SAFETY: nothing refers to the arena any more. Its pages are zero when they are used again.
        let is_discarded = unsafe { libc::madvise(base, ARENA, libc::MADV_DONTNEED) } == 0;
        if is_discarded {
            let number = (self.arena.base() - FIRST_ARENA.load(Ordering::Acquire)) / ARENA;
            IN_USE.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }
}

/// A saved block of memory.
struct Block {
    address: usize,
    /// The hash of address and words.
    hash: u128,
    words: [u64; WORDS],
}

impl Block {
    fn new(address: usize, words: [u64; WORDS]) -> Self {
        let seed = [address as u64, !(address as u64)];
        let [low, high] = words.iter().fold(seed, |[low, high], &word| {
            [mix(low ^ word, 0x9E37_79B9_7F4A_7C15), mix(high.wrapping_add(word), 0xD6E8_FEB8_6659_FD93)]
        });
        Self { address, hash: u128::from(high) << 64 | u128::from(low), words }
    }

    #[expect(unsafe_code, reason = "writes the machine's memory")]
    fn restore(&self) {
        // SAFETY: the block is part of an arena whose machine does not run.
        unsafe { ptr::with_exposed_provenance_mut::<[u64; WORDS]>(self.address).write(self.words) };
    }
}

/// Multiplies to 128 bits and folds the halves, so that each bit of `word` changes about half of the bits of the
/// result.
fn mix(word: u64, factor: u64) -> u64 {
    let product = u128::from(word ^ factor.rotate_left(32)) * u128::from(factor);
    (product >> 64) as u64 ^ product as u64 ^ word.rotate_left(23)
}

/// Saves the blocks at these addresses; unchanged blocks are shared with `before`.
fn save_blocks(addresses: impl Iterator<Item = usize>, before: &[Rc<Block>]) -> Vec<Rc<Block>> {
    let save = |(number, address): (usize, usize)| {
        #[expect(unsafe_code, reason = "reads the machine's memory")]
        // SAFETY: the block is mapped memory of an arena whose machine does not run.
        let words = unsafe { &*ptr::with_exposed_provenance::<[u64; WORDS]>(address) };
        match before.get(number) {
            Some(block) if block.address == address && block.words == *words => block.clone(),
            _ => Rc::new(Block::new(address, *words)),
        }
    };
    addresses.enumerate().map(save).collect()
}

/// All memory of an explored machine at one point. Snapshots of similar states share most of their blocks.
pub(super) struct Snapshot {
    heap: Vec<Rc<Block>>,
    /// The blocks of each stack, from the top down.
    stacks: Vec<Vec<Rc<Block>>>,
    /// The hash of all blocks.
    pub(super) hash: u128,
}
