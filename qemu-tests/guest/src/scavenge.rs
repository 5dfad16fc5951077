//! Tests of the background G: the frames of a peak come back without a call that frees memory.

use gmp_sched::spawn::try_go;
use kernel::clock::now;
use kernel::disk;
use kernel::mm;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

use crate::several::{go_each, join_all};

/// How long a test waits for the frames. They are expected back an idle second after the peak, but the host may suspend
/// the machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns how much memory is free when nothing is cached that could be given back.
fn free_at_rest() -> usize {
    mm::free_cached_memory();
    mm::usage().free
}

/// Returns how many Ms have a thread.
fn machines() -> usize {
    scheduler().expect("the scheduler runs").machines().count()
}

/// Waits until at least 98 % of `before` bytes are free, and at most one M is left that no P needs.
fn wait_for_frames(what: &str, before: usize) {
    let start = now();
    let at_peak = mm::usage();
    let mut after = at_peak;
    while after.free < before - before / 50 || machines() > procs() + 1 {
        let waited = Duration::from_nanos(now() - start);
        assert!(
            waited < PATIENCE,
            "{before} bytes were free before {what}, and after {waited:?}: {after:?}, {} Ms",
            machines()
        );
        sleep(Duration::from_millis(50));
        after = mm::usage();
    }
    let waited = Duration::from_nanos(now() - start);
    println!("{what}: of {before} free bytes, {} after the peak, {} after {waited:?}", at_peak.free, after.free);
}

guest_test!(frames_of_the_heap_come_back, smp = &[1, 2, 8], memory = 64, isolated, seconds = 120);
/// The frames of objects of all sizes come back.
fn frames_of_the_heap_come_back() {
    let before = free_at_rest();
    for piece in crate::heap::PIECES {
        let count = crate::heap::peak(piece);
        assert!(
            mm::usage().free < before - before / 20,
            "the heap keeps nothing after {count} pieces of {piece} bytes"
        );
        wait_for_frames("a peak of the heap", before);
    }
}

guest_test!(frames_of_dead_gs_come_back, smp = &[1, 2, 8], memory = 512, isolated, seconds = 120);
/// The frames of the stacks of 10,000 Gs come back. (The Gs themselves are kept.)
fn frames_of_dead_gs_come_back() {
    let before = free_at_rest();
    let (gate, closed) = channel::<()>(0);
    let spawn = |_| {
        let closed = closed.clone();
        try_go::<Kernel, _, _>(move || assert!(closed.recv().is_err(), "nothing is sent")).expect("memory for a G")
    };
    let handles: Vec<_> = (0..10_000).map(spawn).collect();
    // Each G runs once, so that it uses its stack.
    sleep(Duration::from_millis(10));
    drop(gate);
    join_all(handles);
    assert!(mm::usage().free < before - before / 20, "the dead Gs keep no stacks: {:?}", mm::usage());
    wait_for_frames("10,000 Gs", before);
}

guest_test!(frames_of_surplus_ms_come_back, smp = &[1, 2, 8], memory = 64, isolated, seconds = 120);
/// After 240 calls that blocked at once, the Ms end and their stacks are given back. The Ms are used again by later
/// calls.
fn frames_of_surplus_ms_come_back() {
    let before = free_at_rest();
    for _ in 0..3 {
        let calls = go_each(0..240, move |_| disk::delay(Duration::from_millis(300)));
        calls.into_iter().for_each(|call| call.join().expect("no panic").expect("memory for an M"));
        wait_for_frames("240 blocked calls", before);
    }
}
