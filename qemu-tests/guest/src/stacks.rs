//! Tests of the stacks of Gs. The pages of a stack are committed when a G touches them, and released when memory is
//! short.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::spawn::{STACK_SIZE, try_go};
use kernel::internals::{PAGE_SIZE, Slot};
use kernel::mm;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

use crate::several::{go_each, join_all, spawn_each};

pub(crate) const KIB: usize = 1024;
pub(crate) const MIB: usize = 1024 * KIB;

/// Uses `bytes` bytes of the stack. Recurses until this depth is reached, with frames that are full of marks, and calls
/// `at_the_end` there. When the calls return, each call checks its marks.
#[inline(never)]
pub(crate) fn dig(bytes: usize, mark: u64, at_the_end: &dyn Fn()) {
    #[inline(never)]
    fn deeper(until: usize, mark: u64, at_the_end: &dyn Fn()) {
        let mut frame = [mark; 32];
        black_box(&mut frame);
        if frame.as_ptr().addr() > until {
            deeper(until, mark.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1), at_the_end);
        } else {
            at_the_end();
        }
        assert!(black_box(&frame).iter().all(|&word| word == mark), "a stack has changed");
    }
    let here = 0u8;
    deeper((&raw const here).addr() - bytes, mark, at_the_end);
}

guest_test!(stacks_grow_and_are_reused, smp = &[1, 2, 8]);
/// Gs use nearly all of their stacks, and the next Gs reuse the pages.
fn stacks_grow_and_are_reused() {
    const GOROUTINES: u64 = 32;
    let round = || {
        join_all(go_each(0..GOROUTINES, move |mark| dig(56 * KIB, mark, &yield_now)));
        mm::usage().stacks_committed
    };
    // Pages of earlier tests are freed, so that they are not counted.
    mm::free_cached_memory();
    let before = mm::usage().stacks_committed;
    let first = round();
    // The bound is only one stack, because the Gs may run one after the other, and each may then reuse the stack of the
    // previous G.
    assert!(first >= before + 56 * KIB, "{before} and then {first}");
    for _ in 0..100 {
        round();
    }
    // 3,232 Gs have used some 60 KiB each. Each P keeps at most 64 dead Gs with their stacks, which are 512 stacks on 8
    // Ps. So if stacks are reused, far fewer than 3,232 stacks have pages.
    assert!(mm::usage().stacks_committed <= before + 600 * 68 * KIB, "pages are not reused: {:?}", mm::usage());
}

guest_test!(stacks_grow_under_preemption, smp = &[1, 2, 8], options = &["slice_us=100"], seconds = 60);
/// All CPUs touch new pages while slices are as short as possible. The registers of preempted Gs are saved on new
/// pages, too. The stacks are intact when the Gs continue on other CPUs.
fn stacks_grow_under_preemption() {
    for round in 0..10 {
        mm::free_cached_memory();
        join_all(go_each(0..64, move |g| {
            for depth in 1..=14 {
                dig(depth * 4 * KIB, round * 100 + g, &|| {
                    if g % 2 == 0 {
                        yield_now();
                    }
                });
            }
        }));
    }
}

guest_test!(stacks_have_the_chosen_size, smp = &[1, 8]);
/// Stacks of several sizes up to 4 MiB hold as many bytes as requested. The stacks are reused when their Gs have ended.
/// A larger stack is refused.
fn stacks_have_the_chosen_size() {
    const GS: usize = 20;
    /// The number of stacks of the standard size that a P keeps for its own spawns (two batches; see `free_list`).
    const KEPT_BY_P: usize = 64;
    for kib in [16, 40, 64, 100, 512, 3_000, 4_096] {
        let round = || {
            let digging: Vec<_> = (0..GS)
                .map(|g| {
                    let builder = Builder::new().stack_size(kib * KIB);
                    builder.go(move || dig(kib * KIB - 6 * KIB, g as u64, &yield_now))
                })
                .collect();
            join_all(digging);
        };
        // The Gs of a round may not have left their stacks when the next round begins. And main does not get the stacks
        // of the standard size that other Ps keep.
        let most = if kib * KIB == STACK_SIZE { GS + (procs() - 1) * KEPT_BY_P } else { GS };
        round();
        let before = mm::usage();
        // Without reuse, this number of rounds would need more than `most` new stacks.
        (0..most / GS + 2).for_each(|_| round());
        let after = mm::usage();
        // The background G may have given stacks back meanwhile.
        let new =
            (after.stacks_in_use + after.stacks_cached).saturating_sub(before.stacks_in_use + before.stacks_cached);
        assert!(new <= most, "{kib} KiB: {before:?}, then {after:?}");
    }
    assert!(Builder::new().stack_size(4 * MIB + 1).try_go(|| ()).is_err());
}

guest_test!(g_with_a_full_stack_is_preempted, smp = &[1, 8], options = &["slice_us=100"]);
/// A G that has used its whole stack can still be preempted, because the reserve for preemption is not part of the
/// stack's size.
fn g_with_a_full_stack_is_preempted() {
    fn preemptions() -> u64 {
        scheduler().expect("the scheduler runs").counts().preemptions
    }
    let full = || {
        let here = 0u8;
        let stack = Slot::containing((&raw const here).addr()).expect("a G's stack");
        let used = stack.top() - (&raw const here).addr();
        // This depth leaves room for the frame of the last call.
        dig(stack.bytes() - used - 512, 1, &|| {
            let before = preemptions();
            while preemptions() < before + 100 {
                core::hint::spin_loop();
            }
        });
    };
    join_all(spawn_each(0..2 * procs(), |_| full));
}

guest_test!(stack_grows_when_another_g_touches_it, smp = &[1, 2, 8]);
/// A G writes to pages of another G's stack before the owner of that stack has touched these pages. The owner then
/// finds what was written.
fn stack_grows_when_another_g_touches_it() {
    const WORDS: usize = 4 * PAGE_SIZE / size_of::<usize>();
    let owner = || {
        let here = 0usize;
        let start = (&raw const here).addr() / PAGE_SIZE * PAGE_SIZE - 12 * PAGE_SIZE;
        let word = move |index: usize| core::ptr::with_exposed_provenance_mut::<usize>(start).wrapping_add(index);
        let writer = go(move || {
            for index in (0..WORDS).step_by(99) {
                #[expect(unsafe_code, reason = "writes to the stack of another G")]
                // SAFETY: the address is on the stack of the G that waits for this one, far below the part that is in
                // use.
                unsafe {
                    word(index).write_volatile(index);
                }
            }
        });
        writer.join().expect("no panic");
        for index in (0..WORDS).step_by(99) {
            #[expect(unsafe_code, reason = "reads what is not in use")]
            // SAFETY: the address is on this G's own stack, below the part that is in use. Only the writer has used
            // that part, and the writer has ended.
            let found = unsafe { word(index).read_volatile() };
            assert_eq!(found, index);
        }
        dig(56 * KIB, 1, &|| {});
    };
    mm::free_cached_memory();
    join_all(spawn_each(0..20, |_| owner));
}

guest_test!(pages_of_dead_gs_are_reused, smp = &[1, 2, 8], seconds = 60);
/// Stacks repeatedly lose their pages and get other pages, on all CPUs. If a CPU still used an old translation, it
/// would write to memory that is now used for something else.
fn pages_of_dead_gs_are_reused() {
    let mut given_back = 0;
    for round in 0..100 {
        join_all(go_each(0..40, move |g| dig((1 + g as usize % 14) * 4 * KIB, round * 40 + g, &yield_now)));
        given_back += mm::free_cached_memory();
    }
    assert!(given_back > MIB, "{given_back} bytes came back");
}

/// Spawns a G that waits for `gate`. Then spawns up to `most` further Gs, as long as there is memory for them. Each of
/// them waits for the G that was spawned before it, and then counts itself in `finished`. Returns the number of further
/// Gs. First resets `gate` and `finished`.
fn spawn_waiting(most: usize, gate: &'static AtomicBool, finished: &'static AtomicUsize) -> usize {
    gate.store(false, Ordering::Relaxed);
    finished.store(0, Ordering::Relaxed);
    let mut last = go(move || {
        while !gate.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1));
        }
    });
    for spawned in 0..most {
        let next = try_go::<Kernel, _, _>(move || {
            last.join().expect("no panic");
            finished.fetch_add(1, Ordering::Relaxed);
        });
        match next {
            Ok(next) => last = next,
            Err(_) => return spawned,
        }
    }
    most
}

fn wait_for(finished: &AtomicUsize, count: usize) {
    while finished.load(Ordering::Relaxed) < count {
        sleep(Duration::from_millis(1));
    }
}

guest_test!(spawn_fails_when_memory_is_short, smp = &[1, 2, 8], memory = 64, isolated, seconds = 60);
/// If stacks take all memory, spawning returns an error, and nothing else fails. When Gs have ended, spawning succeeds
/// again.
fn spawn_fails_when_memory_is_short() {
    static GATE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicUsize = AtomicUsize::new(0);
    let first = spawn_waiting(usize::MAX, &GATE, &FINISHED);
    assert!(first > 3_000, "only {first} Gs fit");
    for _ in 0..1000 {
        assert!(try_go::<Kernel, _, _>(|| ()).is_err(), "there is memory again, though no G has ended");
    }
    // The heap and this stack still get memory.
    assert!(Vec::<u8>::new().try_reserve(64 * KIB).is_ok());
    dig(48 * KIB, 7, &yield_now);
    println!("{first} Gs, {:?}", mm::usage());
    GATE.store(true, Ordering::Relaxed);
    wait_for(&FINISHED, first);
    let second = spawn_waiting(usize::MAX, &GATE, &FINISHED);
    assert!(second >= first - first / 20, "{first} Gs at first, then {second}");
    GATE.store(true, Ordering::Relaxed);
    wait_for(&FINISHED, second);
}

guest_test!(memory_of_dead_stacks_returns_to_the_heap, smp = &[1, 8], memory = 128, isolated, seconds = 60);
/// When Gs have ended, the memory of their stacks can be allocated, and some memory is left for the stacks of new Gs.
fn memory_of_dead_stacks_returns_to_the_heap() {
    static GATE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicUsize = AtomicUsize::new(0);
    let in_use = mm::usage().stacks_in_use;
    let count = spawn_waiting(9_000, &GATE, &FINISHED);
    GATE.store(true, Ordering::Relaxed);
    wait_for(&FINISHED, count);
    // Some Gs may not have left their stacks yet.
    while mm::usage().stacks_in_use > in_use {
        yield_now();
    }
    let usage = mm::usage();
    assert!(usage.stacks_cached >= count && usage.stacks_committed >= count * PAGE_SIZE, "{usage:?}");
    let bytes = usage.free + 16 * MIB;
    let mut block = Vec::<u8>::new();
    block.try_reserve_exact(bytes).expect("the memory of dead stacks can be allocated");
    block.resize(bytes, 0x5a);
    assert!(mm::usage().stacks_cached < count, "{:?}", mm::usage());
    join_all(go_each(0..100, move |g| dig(40 * KIB, g, &yield_now)));
    assert!(block.iter().step_by(4001).all(|&byte| byte == 0x5a));
}

guest_test!(reported_usage_matches_the_stacks, isolated);
/// The reported usage of memory agrees with the stacks that the test uses.
fn reported_usage_matches_the_stacks() {
    static GATE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicUsize = AtomicUsize::new(0);
    mm::free_cached_memory();
    let before = mm::usage();
    assert!(before.total <= 1024 * MIB && before.free < before.total, "{before:?}");
    assert_eq!(spawn_waiting(1_000, &GATE, &FINISHED), 1_000);
    let during = mm::usage();
    assert_eq!(during.stacks_in_use, before.stacks_in_use + 1_001);
    let new = 1_001 - before.stacks_cached;
    assert!(during.stacks_committed >= before.stacks_committed + new * PAGE_SIZE, "{before:?}, then {during:?}");
    assert!(during.stacks_reserved >= during.stacks_committed, "{during:?}");
    assert!(before.free - during.free >= new * PAGE_SIZE, "{before:?}, then {during:?}");
    GATE.store(true, Ordering::Relaxed);
    wait_for(&FINISHED, 1_000);
    // The last G may not have left its stack yet, so this loop waits until that G has left it.
    while mm::usage().stacks_in_use != before.stacks_in_use {
        yield_now();
    }
    assert!(mm::usage().stacks_cached >= 1_001);
    mm::free_cached_memory();
    // The bound allows for the stacks that other Ps keep.
    assert!(mm::usage().stacks_committed <= before.stacks_committed + 7 * 64 * 2 * PAGE_SIZE, "{:?}", mm::usage());
}

guest_test!(hundred_thousand_gs_fit_in_a_gibibyte, smp = &[1, 8], isolated, seconds = 120);
fn hundred_thousand_gs_fit_in_a_gibibyte() {
    many_goroutines(100_000);
}

guest_test!(million_gs_fit_in_8_gibibytes, memory = 8192, isolated, ignored, seconds = 1200);
fn million_gs_fit_in_8_gibibytes() {
    many_goroutines(1_000_000);
}

fn many_goroutines(count: usize) {
    static GATE: AtomicBool = AtomicBool::new(false);
    static FINISHED: AtomicUsize = AtomicUsize::new(0);
    let before = mm::usage();
    assert_eq!(spawn_waiting(count, &GATE, &FINISHED), count, "{:?}", mm::usage());
    assert!(num_goroutine() >= count);
    let after = mm::usage();
    println!("{count} Gs take {} bytes each", (before.free - after.free) / count);
    GATE.store(true, Ordering::Relaxed);
    wait_for(&FINISHED, count);
}
