//! Tests of the heap: its frames come back after a peak, and an operation takes few instructions among many objects.

use core::alloc::Layout;
use core::hint::black_box;

use gmp_sched::spawn::try_go;
use kernel::clock::now;
use kernel::internals::{longest_shared_heap_lock, shared_heap_locks};
use kernel::mm;
use kernel::platform::Kernel;
use kernel::prelude::*;

use crate::several::{go_each, join_all};

const KIB: usize = 1024;

/// The sizes of the pieces in which a test takes all memory: three size classes, and page runs.
pub(crate) const PIECES: [usize; 4] = [KIB, 3_000, 16 * KIB, KIB * KIB];

/// Takes pieces of this size until there is no memory left, and frees them all. Returns how many there were.
pub(crate) fn peak(piece: usize) -> usize {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut next = Vec::new();
        if pieces.try_reserve(1).is_err() || next.try_reserve_exact(piece).is_err() {
            return pieces.len();
        }
        next.push(1);
        pieces.push(next);
    }
}

/// Spawns Gs until there is no memory for another one, and waits until all have ended. Returns how many there were.
fn gs_that_fit() -> usize {
    let (gate, closed) = channel::<()>(0);
    let mut handles = Vec::with_capacity(100_000);
    while let Ok(handle) = try_go::<Kernel, _, _>({
        let closed = closed.clone();
        move || assert!(closed.recv().is_err(), "nothing is sent")
    }) {
        handles.push(handle);
    }
    drop(gate);
    let count = handles.len();
    join_all(handles);
    count
}

guest_test!(gs_fit_as_before_after_a_peak, smp = &[1, 2, 8], memory = 64, isolated, seconds = 120);
/// After each peak, at least 95 % as many Gs can be spawned as before, although nothing calls `free_cached_memory`.
/// After another peak, a call can block, for which the scheduler needs memory for an M.
fn gs_fit_as_before_after_a_peak() {
    let before = gs_that_fit();
    assert!(before > 1_000, "only {before} Gs fit");
    for piece in PIECES {
        let count = peak(piece);
        let after = gs_that_fit();
        println!("{count} pieces of {piece} bytes: {before} Gs fitted before, and {after} after");
        assert!(after >= before - before / 20, "{before} Gs before {count} pieces of {piece} bytes, {after} after");
        peak(piece);
        assert!(
            kernel::disk::delay(Duration::from_millis(1)).is_ok(),
            "no call can block after {count} pieces of {piece}"
        );
    }
}

guest_test!(memory_moves_between_sizes_on_all_cpus, smp = &[1, 2, 8], memory = 64, isolated, seconds = 120);
/// On each CPU, Gs allocate, check and free objects of all sizes, while others free cached memory. So the same frames
/// and addresses serve spans of many classes. If a CPU used an old translation, an object would change.
fn memory_moves_between_sizes_on_all_cpus() {
    let work = |g: usize| {
        let mut random = fastrand::Rng::with_seed(g as u64);
        let mut live: Vec<(Vec<usize>, usize)> = Vec::new();
        for round in 0..600 {
            let mark = g << 32 | round;
            let words = 1 << random.usize(..16);
            let mut object = Vec::new();
            if object.try_reserve_exact(words).is_ok() {
                object.resize(words, mark);
                live.push((object, mark));
            }
            if live.len() > 12 || random.usize(..3) == 0 && !live.is_empty() {
                let (object, mark) = live.swap_remove(random.usize(..live.len()));
                assert!(object.iter().all(|&word| word == mark), "an object of {} words changed", object.len());
            }
            match random.usize(..40) {
                0 => drop(mm::free_cached_memory()),
                1 => yield_now(),
                _ => {}
            }
        }
        assert!(live.iter().all(|(object, mark)| object.iter().all(|word| word == mark)), "an object changed");
    };
    join_all(go_each(0..2 * procs(), work));
}

guest_test!(operations_among_many_objects_are_short, smp = &[1], icount, seconds = 300);
/// Replaces random objects among many. The clock counts instructions, and each takes a nanosecond.
fn operations_among_many_objects_are_short() {
    const ROUNDS: usize = 200_000;
    longest_shared_heap_lock();
    for (name, count, sizes) in [
        ("small", 100_000, 16..=2 * KIB),
        ("2 to 8 KiB", 100_000, 2 * KIB..=8 * KIB),
        ("64 KiB", 10_000, 64 * KIB..=64 * KIB),
    ] {
        let mut random = fastrand::Rng::with_seed(1);
        let mut objects: Vec<Vec<u8>> = (0..count).map(|_| Vec::with_capacity(random.usize(sizes.clone()))).collect();
        let (start, locks) = (now(), shared_heap_locks());
        for _ in 0..ROUNDS {
            let index = random.usize(..count);
            // The old object is freed before the new one is allocated, so that the heap can give its memory to the new one.
            objects[index] = Vec::new();
            objects[index] = black_box(Vec::with_capacity(random.usize(sizes.clone())));
        }
        let (time, locks) = ((now() - start) as usize / ROUNDS, shared_heap_locks() - locks);
        drop(objects);
        mm::free_cached_memory();
        let longest = longest_shared_heap_lock();
        println!("{name}: {time} instructions, {locks} shared locks in {ROUNDS} rounds, held for at most {longest}");
        assert!(time <= 400, "{time} instructions for freeing and allocating an object of {name}");
        assert!(locks * 100 <= 2 * ROUNDS, "{locks} shared locks in {} operations with objects of {name}", 2 * ROUNDS);
        assert!(longest <= 1000, "a shared lock was held for {longest} instructions, with objects of {name}");
    }
}

guest_test!(large_alignments_are_served);
fn large_alignments_are_served() {
    for (size, align) in [(1, 8 * KIB), (100, 64 * KIB), (3 * KIB * KIB, 2 * KIB * KIB), (5, 256 * KIB * KIB)] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        let all: Vec<_> = (0..3)
            .map(|_| {
                #[expect(unsafe_code, reason = "asks the allocator itself")]
                // SAFETY: the size of the layout is not zero.
                let memory = black_box(unsafe { alloc::alloc::alloc(layout) });
                assert!(!memory.is_null() && memory.addr() % align == 0, "{layout:?}: {memory:?}");
                memory
            })
            .collect();
        for memory in all {
            #[expect(unsafe_code, reason = "asks the allocator itself")]
            // SAFETY: the memory was allocated above with this layout, and is not in use.
            unsafe {
                alloc::alloc::dealloc(memory, layout);
            }
        }
    }
}
