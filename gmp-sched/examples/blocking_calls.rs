//! Handoff: a G that blocks in the operating system does not keep other Gs from running. Such a G blocks its M, so
//! another M takes over the P and runs the other Gs.
//!
//! ```sh
//! cargo run -p gmp-sched --example blocking_calls
//! ```

use std::sync::{Arc, Barrier};

use gmp_sched::native::{self, go};

/// Makes `count` Gs meet at a barrier of the operating system, on one P. The barrier opens only when all Gs are blocked
/// at the same time. Without handoff the first G would keep the P, and the others would never run. Returns the number
/// of Gs that the barrier calls its leader, which is 1.
fn meet(count: usize) -> usize {
    let barrier = Arc::new(Barrier::new(count));
    let blocked: Vec<_> = (0..count)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            // `native::blocking` declares that the call blocks, so the P is handed off at once. For a call that is
            // usually short, `native::syscall` is better: the call keeps the P, and sysmon retakes the P only if the
            // call takes long.
            go(move || native::blocking(|| barrier.wait().is_leader()))
        })
        .collect();
    blocked.into_iter().filter_map(|handle| handle.join().ok()).filter(|&is_leader| is_leader).count()
}

fn main() {
    // SAFETY: no G uses a thread-local variable or holds a lock of `std` while it waits.
    let threads = unsafe { native::enter() };
    let leaders = threads.run(1, || meet(16));
    println!("16 Gs were blocked at the same time on one P; {leaders} of them was the last to come");
}

#[test]
fn gs_on_one_p_block_at_the_same_time() {
    // SAFETY: as in `main`.
    let threads = unsafe { native::enter() };
    assert_eq!(threads.run(1, || meet(16)), 1);
}
