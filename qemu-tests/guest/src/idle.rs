//! Checks that the CPUs of an idle machine stay halted and take no interrupts. The tests count interrupts, because the
//! number of interrupts does not depend on the host's load.

use core::ops::Range;

use kernel::clock::now;
use kernel::cpus;
use kernel::prelude::*;
use kernel::watchdog::interrupts;

use crate::several::{go_each, join_all};

/// Returns how many interrupts each CPU takes while `body` runs.
fn interrupts_during(body: impl FnOnce()) -> Vec<u64> {
    let before: Vec<u64> = cpus::all().map(interrupts).collect();
    body();
    cpus::all().zip(before).map(|(cpu, before)| interrupts(cpu) - before).collect()
}

/// The largest number of interrupts that a CPU takes while main sleeps, no matter for how long. (Only the timekeeper's
/// CPU takes more, because it restarts its timer: see [`hops`].) These interrupts come from a tick that was armed
/// before the CPU slept, from the watchdog's last check, and from a wakeup by another CPU.
const A_FEW: u64 = 6;

/// Returns bounds of how often the timekeeper restarts the timer of its CPU in `seconds` seconds. The timekeeper is the
/// M that waits for the earliest timer of all Ps. The counter of a CPU's timer has 32 bits and counts at 1 to 4 GHz, so
/// it can count for 1 to 4.3 seconds.
fn hops(seconds: u64) -> Range<u64> {
    seconds / 5..seconds + 1
}

/// Returns the number of CPUs that took no interrupt.
fn sleepers(taken: &[u64]) -> usize {
    taken.iter().filter(|&&count| count == 0).count()
}

/// Checks that at most one CPU, that of the timekeeper, takes interrupts repeatedly, and that no CPU takes more
/// interrupts than the timekeeper needs to restart its timer.
fn check(taken: &[u64], seconds: u64) {
    let keepers = taken.iter().filter(|&&count| count > A_FEW).count();
    assert!(keepers <= 1, "more than one CPU is woken while main sleeps {seconds} s: {taken:?}");
    assert!(taken.iter().all(|&count| count < hops(seconds).end + A_FEW), "a tick goes on for {seconds} s: {taken:?}");
}

/// In this test the machine's clock follows the host's clock, and the virtual CPUs run in parallel. If the host
/// suspends a busy CPU for more than a second, the watchdog makes up to 20 checks in a second. So the bound is high,
/// but lower than the 100 interrupts per second that a tick would cause. The next test has exact bounds.
fn sleeping_machine_takes_no_ticks() {
    // Wait until the timers that were armed during the boot have expired.
    sleep(Duration::from_secs(1));
    let start = now();
    let taken = interrupts_during(|| sleep(Duration::from_secs(4)));
    let seconds = (now() - start) / 1_000_000_000;
    println!("interrupts per CPU in {seconds} s: {taken:?}");
    assert!(taken.iter().all(|&count| count < 30 * seconds), "a tick goes on for {seconds} s: {taken:?}");
}
guest_test!(sleeping_machine_takes_no_ticks, smp = &[1, 2, 8], isolated);

/// An hour of sleep causes no more interrupts than a second of sleep, except those that restart the timekeeper's timer.
/// In this test QEMU counts instructions instead of time, so an hour of sleep takes hardly any time of the host.
fn longer_sleep_only_adds_timer_restarts() {
    sleep(Duration::from_secs(1));
    let short = interrupts_during(|| sleep(Duration::from_secs(1)));
    let long = interrupts_during(|| sleep(Duration::from_secs(3600)));
    println!("interrupts per CPU in 1 s: {short:?}, in 1 h: {long:?}");
    check(&short, 1);
    check(&long, 3600);
    assert!(long.iter().sum::<u64>() >= hops(3600).start, "the timer's counter has no more than 32 bits: {long:?}");
    // At most three CPUs take interrupts: the CPU of main, the CPU of the timekeeper, and a CPU that searches for work
    // when main wakes.
    assert!(sleepers(&long) + 3 >= long.len(), "{long:?}");
}
guest_test!(longer_sleep_only_adds_timer_restarts, smp = &[1, 2, 8], icount);

/// Checks that the tests above detect ticks. A computing CPU has a tick. Each end of a slice makes another M search for
/// work. So at most three CPUs take interrupts: the computing CPU, the CPU of the searching M, and the CPU of the
/// timekeeper. All others stay halted.
fn busy_cpu_has_a_tick() {
    sleep(Duration::from_secs(1));
    let taken = interrupts_during(|| {
        let end = now() + 1_000_000_000;
        while now() < end {
            core::hint::black_box(());
        }
    });
    println!("interrupts per CPU in 1 s: {taken:?}");
    assert!(taken.iter().any(|&count| count >= 95), "{taken:?}");
    assert!(sleepers(&taken) + 3 >= taken.len(), "{taken:?}");
}
guest_test!(busy_cpu_has_a_tick, smp = &[1, 2, 8], icount);

/// A CPU that polls before it halts is woken like a halted CPU: by its timer and by other CPUs.
fn polling_cpu_is_woken() {
    for round in 0..200 {
        join_all(go_each(0..4, move |number| {
            // Some sleeps are shorter than the polling, some take about as long, and some are longer.
            sleep(Duration::from_micros((round * 7 + number * 150) % 900));
            yield_now();
        }));
    }
}
guest_test!(polling_cpu_is_woken, smp = &[1, 2, 8], options = &["halt_poll_us=300"]);
