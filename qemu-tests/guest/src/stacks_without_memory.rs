//! Tests of Gs whose stacks need more pages when no memory is left.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};

use kernel::internals::{PAGE_SIZE, PhysFrame, Stack, Storm, allocate_frame, free_frame};
use kernel::mm;
use kernel::percpu::PreemptGuard;
use kernel::prelude::*;

use crate::stacks::{KIB, MIB, dig};

/// Holds all frames of the computer that were free or in cached memory, so that no memory is left. Dropping this value
/// frees the frames.
struct NoMemory(Vec<PhysFrame>);

impl NoMemory {
    fn new() -> Self {
        let mut taken = Self(Vec::with_capacity(mm::usage().total / PAGE_SIZE));
        loop {
            taken.take_rest();
            if mm::free_cached_memory() == 0 {
                return taken;
            }
        }
    }

    /// Takes the frames that are free now.
    fn take_rest(&mut self) {
        while let Ok(frame) = allocate_frame() {
            self.0.push(frame);
        }
    }
}

impl Drop for NoMemory {
    fn drop(&mut self) {
        for &frame in &self.0 {
            #[expect(unsafe_code, reason = "gives frames back")]
            // SAFETY: `take_rest` has allocated the frame, and nothing uses it.
            unsafe {
                free_frame(frame);
            }
        }
    }
}

guest_test!(
    g_without_memory_for_its_stack_dies,
    smp = &[1, 8],
    memory = 64,
    status = 2,
    texts = &["out of memory: there is no frame for a page of a stack", "deeper (qemu-tests/guest/src/stacks.rs:"],
);
fn g_without_memory_for_its_stack_dies() {
    let digging = go(|| {
        let no_memory = NoMemory::new();
        dig(56 * KIB, 1, &|| {});
        drop(no_memory);
    });
    digging.join().expect("no panic");
}

/// Calls itself until the stack has reached the address `until`, and prints there. The frames are small.
#[inline(never)]
fn descend(until: usize) {
    let here = 0u8;
    if black_box(&raw const here).addr() > until {
        descend(until);
    } else {
        println!("a G prints at {until:#x}");
    }
    black_box(&here);
}

/// Prints at a depth that differs by `PADDING` bytes, which is less than a frame of [`descend`].
#[inline(never)]
fn print_at<const PADDING: usize>(until: usize) {
    let mut padding = [0u8; PADDING];
    black_box(&mut padding);
    descend(until);
    black_box(&padding);
}

/// Runs a G that calls `print` when no memory is left. The argument of `print` is `offset` bytes above the start of the
/// lowest page of the stack that has a frame. Returns whether the G has survived.
fn survives_without_memory(offset: usize, print: fn(usize)) -> bool {
    static GATE: AtomicBool = AtomicBool::new(false);
    mm::free_cached_memory();
    // This use of the stack refills the CPU's reserve of frames, which the last G may have used while it died.
    go(|| dig(56 * KIB, 1, &|| {})).join().expect("no panic");
    mm::free_cached_memory();
    GATE.store(false, Ordering::Relaxed);
    let printer = go(move || {
        let here = 0u8;
        let deepest = (&raw const here).addr() - 16 * KIB;
        dig(16 * KIB, 1, &|| {});
        while !GATE.load(Ordering::Relaxed) {
            yield_now();
        }
        print(deepest / PAGE_SIZE * PAGE_SIZE + offset);
    });
    yield_now();
    let _no_memory = NoMemory::new();
    GATE.store(true, Ordering::Relaxed);
    printer.join().is_ok()
}

guest_test!(
    g_without_memory_for_its_stack_does_not_keep_the_console,
    smp = &[1],
    memory = 64,
    options = &["panic=isolate"],
    texts =
        &["out of memory: there is no frame for a page of a stack", "is dead and the others go on", "have survived"],
);
/// Gs print when no memory is left, one after the other, each at another depth of its stack. At some depths, printing
/// needs a new page of the stack, so these Gs die. None of them dies while it holds the lock of the console.
fn g_without_memory_for_its_stack_does_not_keep_the_console() {
    let prints = [print_at::<0>, print_at::<16>, print_at::<32>];
    // At the last of these offsets, printing needs no new page.
    let offsets = (0..PAGE_SIZE / 2).step_by(48).chain([3 * PAGE_SIZE]);
    let all: Vec<_> = offsets.flat_map(|offset| prints.map(|print| (offset, print))).collect();
    let survivors = all.iter().filter(|&&(offset, print)| survives_without_memory(offset, print)).count();
    println!("{survivors} of {} have survived", all.len());
    assert!(0 < survivors && survivors < all.len());
}

guest_test!(line_without_memory_is_an_error, smp = &[1], memory = 64, options = &["panic=isolate"], hidden);
/// Run by `tests/console.rs`, which sends a line of 100,000 bytes. When there is no memory for the line, reading it is an
/// error, and the next call returns the whole line.
fn line_without_memory_is_an_error() {
    let reader = go(|| {
        // Reading needs these pages of the stack.
        dig(32 * KIB, 1, &|| {});
        let mut line = String::new();
        let no_memory = NoMemory::new();
        let result = stdin().read_line(&mut line);
        drop(no_memory);
        assert!(result.is_err() && line.is_empty(), "{result:?}, {} bytes", line.len());
    });
    reader.join().expect("an error is no panic");
    let mut line = String::new();
    assert_eq!(stdin().read_line(&mut line), Ok(100_000));
    assert_eq!(line, "x".repeat(99_999) + "\n");
}

guest_test!(code_with_preemption_off_gets_reserved_frames, smp = &[1, 8], memory = 64, isolated);
/// With preemption off, a G gets the frames for its stack from its CPU's reserve of frames, which is refilled later.
fn code_with_preemption_off_gets_reserved_frames() {
    for mark in 0..10 {
        mm::free_cached_memory();
        let digging = go(move || {
            let no_memory = NoMemory::new();
            {
                let _preemption_off = PreemptGuard::new();
                dig(24 * KIB, mark, &|| {});
            }
            drop(no_memory);
            // This use of the stack, with preemption on, refills the reserve.
            dig(56 * KIB, mark, &|| {});
        });
        digging.join().expect("no panic");
    }
}

guest_test!(g_that_frees_memory_is_preempted_once_at_a_time, smp = &[1], memory = 64, icount, seconds = 120,);
/// A G touches pages in a storm of preemptions, while all remaining memory belongs to free stacks. Each page fault
/// diverts the G to free such memory. If the G were preempted while it frees this memory, a second set of registers
/// would be saved on its stack. The kernel asserts that this does not happen.
fn g_that_frees_memory_is_preempted_once_at_a_time() {
    /// The number of stacks whose pages are released at once.
    const STACKS: usize = 64;
    const PAGES: usize = 100;
    let touch_without_memory = || {
        let stacks: Vec<_> = (0..PAGES * STACKS).map(|_| Stack::allocate(16 * KIB).expect("memory")).collect();
        drop(stacks);
        let mut no_memory = NoMemory(Vec::with_capacity(mm::usage().total / PAGE_SIZE));
        no_memory.take_rest();
        let here = 0u8;
        // The page `highest` is below the part of the stack that is in use while memory is freed.
        let highest = (&raw const here).addr() / PAGE_SIZE - 8;
        let storm = Storm::begin(Duration::from_nanos(800)..Duration::from_micros(4));
        for page in 0..PAGES {
            #[expect(unsafe_code, reason = "touches pages of a stack")]
            // SAFETY: the address is on this G's own stack, below the part that is in use.
            unsafe {
                core::ptr::with_exposed_provenance::<u8>((highest - page) * PAGE_SIZE).read_volatile();
            }
            no_memory.take_rest();
        }
        drop(storm);
        drop(no_memory);
    };
    for _ in 0..20 {
        let toucher = Builder::new().stack_size(MIB).go(touch_without_memory);
        toucher.join().expect("no panic");
        mm::free_cached_memory();
    }
}
