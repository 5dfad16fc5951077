//! Workloads that measure on which Ms and CPUs Gs run, the cost of Gs that need a thread of their own, and the memory
//! that a waiting G takes.

use core::time::Duration;

use super::report::{measure, report};
use crate::platform::{Chan, PARKED, WaitGroup, channel, go, lock_thread, memory_in_use, place, sleep, yield_now};

/// Measures the cost of a thread (in the kernel, of a kernel thread). 500 Gs lock themselves to their threads and wait,
/// all at the same time. So each of them needs a thread of its own, and almost all of these threads are new.
pub(super) fn thread_spawn() {
    const COUNT: u32 = 500;
    static LOCKED: WaitGroup = WaitGroup::new();
    static ENDED: WaitGroup = WaitGroup::new();
    let (sender, receiver) = channel::<()>(0);
    LOCKED.add(COUNT);
    ENDED.add(COUNT);
    measure("thread_spawn", u64::from(COUNT), || {
        for _ in 0..COUNT {
            let receiver = receiver.clone();
            go(move || {
                let locked = lock_thread();
                LOCKED.done();
                assert!(receiver.recv().is_err(), "nothing is sent");
                drop(locked);
                ENDED.done();
            })
            .detach();
        }
        LOCKED.wait();
    });
    drop(sender);
    ENDED.wait();
}

/// Two Gs pass a message back and forth. Measures the percentage of round trips in which both Gs run on the same M, and
/// the percentage in which both run on the same CPU. With the channel operations of
/// [`ping_pong`](super::channels::ping_pong), the G that is readied runs next on the same P. So the two Gs should not
/// spread over two Ms, even if other Ms are idle.
pub(super) fn ping_pong_places() {
    const ROUNDS: u32 = 20_000;
    let (there, here) = (Chan::new(0), Chan::new(0));
    let (to, from) = (there.clone(), here.clone());
    let other = go(move || {
        for _ in 0..ROUNDS {
            to.recv().expect("open");
            from.send(place()).expect("open");
        }
    });
    let (mut same_thread, mut same_cpu) = (0, 0);
    for _ in 0..ROUNDS {
        there.send(()).expect("open");
        let [thread, cpu] = here.recv().expect("open");
        let [my_thread, my_cpu] = place();
        same_thread += u32::from(thread == my_thread);
        same_cpu += u32::from(cpu == my_cpu);
    }
    other.join().expect("no panic");
    report("pingpong_one_thread", 100.0 * f64::from(same_thread) / f64::from(ROUNDS), "%");
    report("pingpong_one_cpu", 100.0 * f64::from(same_cpu) / f64::from(ROUNDS), "%");
}

/// Measures how much memory a G takes while it waits to receive from a channel.
pub(super) fn parked() {
    static ENDED: WaitGroup = WaitGroup::new();
    let Some(before) = memory_in_use() else { return };
    let (sender, receiver) = channel::<bool>(0);
    ENDED.add(PARKED as u32);
    for _ in 0..PARKED {
        let receiver = receiver.clone();
        go(move || {
            assert!(receiver.recv().is_err(), "nothing is sent");
            ENDED.done();
        })
        .detach();
    }
    for _ in 0..10 {
        yield_now();
        sleep(Duration::from_millis(10));
    }
    let after = memory_in_use().unwrap_or(before);
    report("bytes_per_parked_g", after.saturating_sub(before) as f64 / PARKED as f64, "B");
    drop(sender);
    // The next measurement must not run beside these Gs, or beside the release of their stacks.
    ENDED.wait();
}
