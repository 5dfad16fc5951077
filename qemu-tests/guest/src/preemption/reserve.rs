//! Tests of the reserve, which is the memory below a G's stack that is reserved for preemption. A G that has used all
//! of its stack must be preempted like any other G.

#![expect(unsafe_code, reason = "moves the stack pointer to the bottom of a stack, and reads what lies below")]

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::internals::{RESERVE, Slot};
use kernel::platform::stop_the_world;
use kernel::prelude::*;

use super::{preemptions, storm};

use crate::several::{go_each, join_all, spawn_each};

/// The pattern that fills the reserve before the test.
const PAINT: u64 = 0x9a17_9a17_9a17_9a17;

static STOP: AtomicBool = AtomicBool::new(false);
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// Spins with the stack pointer at the lowest address of the stack, until `STOP` is set. Returns how many bytes of the
/// reserve below the stack were used by preemptions. These bytes hold the red zone, the registers, and the scheduler's
/// frames.
fn spin_at_the_bottom() -> usize {
    let here = 0u8;
    let bottom = Slot::containing((&raw const here).addr()).expect("a G's stack").bottom();
    let reserve = |index| core::ptr::with_exposed_provenance_mut::<u64>(bottom - RESERVE).wrapping_add(index);
    let words = RESERVE / size_of::<u64>();
    for index in 0..words {
        // SAFETY: this address is in the reserve below the stack. Only a preemption writes there, and only if the stack
        // is almost full, which it is not yet.
        unsafe { reserve(index).write_volatile(PAINT) };
    }
    SPINNING.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the second exchange restores the stack pointer. In between only preemptions push onto the stack, and the
    // reserve has room for them.
    unsafe {
        asm!(
            "xchg rsp, {bottom}",
            "2:", "pause", "cmp byte ptr [{stop}], 0", "je 2b",
            "xchg rsp, {bottom}",
            bottom = inout(reg) bottom => _,
            stop = in(reg) STOP.as_ptr(),
        );
    }
    // SAFETY: this address is in the reserve, and only preemptions have written there since it was filled.
    let untouched = (0..words).take_while(|&index| unsafe { reserve(index).read_volatile() } == PAINT).count();
    RESERVE - untouched * size_of::<u64>()
}

/// After a preemption the scheduler runs on the preempted G's stack. In this test the scheduler does everything on
/// that stack that it may do: switch to other Gs, fire due timers, stop the world, and ready Gs that wait for channels.
fn preemption_stays_within_its_reserve() {
    const WANTED: u64 = 3_000;
    STOP.store(false, Ordering::SeqCst);
    let count = 2 * procs();
    let storm = storm();
    let spinners = spawn_each(0..count, |_| spin_at_the_bottom);
    let sleepers = go_each(1..4, move |n| {
        while !STOP.load(Ordering::SeqCst) {
            sleep(Duration::from_micros(50 * n));
        }
    });
    let (sender, receiver) = channel::<u64>(1);
    let receiving = go(move || receiver.iter().count());
    while SPINNING.load(Ordering::SeqCst) < count {
        yield_now();
    }
    let end = preemptions() + WANTED;
    while preemptions() < end {
        let _ = sender.try_send(1);
        drop(stop_the_world());
        sleep(Duration::from_micros(100));
    }
    drop(storm);
    STOP.store(true, Ordering::SeqCst);
    drop(sender);
    let depths: Vec<_> = join_all(spinners);
    join_all(sleepers);
    receiving.join().expect("it does not panic");
    let deepest = depths.into_iter().max().expect("one at least");
    println!("preemption takes {deepest} bytes of {RESERVE}");
    // The preemptions used at least the red zone and one set of registers.
    assert!(deepest >= 128 + 512 + 20 * 8, "the G was not preempted at the bottom");
    // A quarter is added as a margin for cases that did not occur here.
    assert!(deepest + deepest / 4 <= RESERVE, "preemption takes {deepest} bytes of {RESERVE}");
}
guest_test!(preemption_stays_within_its_reserve, smp = &[1, 2, 8], seconds = 60);
