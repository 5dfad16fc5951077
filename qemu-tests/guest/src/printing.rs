//! Tests in which many Gs print at the same time, or in which the console is not read.

use core::array;
use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::goroutine::WaitReason;
use kernel::clock;
use kernel::internals::Stalled;
use kernel::percpu::{self, PreemptGuard};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use kernel::watchdog::longest_off_times;

use crate::reports::waiting;
use crate::several::{go_each, join_all};
use crate::vectors;

/// A number of lines for which the console's buffer has no room. Each line has 64 bytes, so the lines take 125 KiB. The
/// buffer has 128 KiB, and callers that can wait may fill only its first half.
const MANY: usize = 2_000;

/// Prints a line of 64 bytes.
fn print_line(g: usize, number: usize) {
    println!("<{g:4} {number:6} {:.<49}>", "");
}

/// Waits until `count` returns a number above zero that has not changed for 50 ms. Returns this number.
fn wait_until_it_stands(count: impl Fn() -> usize) -> usize {
    loop {
        let before = count();
        sleep(Duration::from_millis(50));
        if count() == before && before > 0 {
            return before;
        }
    }
}

guest_test!(others_run_while_a_printer_waits_for_room, smp = &[1, 2, 8], isolated);
fn others_run_while_a_printer_waits_for_room() {
    static PRINTED: AtomicUsize = AtomicUsize::new(0);
    let stalled = Stalled::new();
    let printers = go_each(0..3 * procs(), move |g| {
        for number in 0..MANY {
            print_line(g, number);
            PRINTED.fetch_add(1, Ordering::Relaxed);
        }
    });
    wait_until_it_stands(|| PRINTED.load(Ordering::Relaxed));
    // More Gs than there are CPUs wait for room in the buffer. Nevertheless, each CPU runs other Gs.
    let others = go_each(0..4 * procs(), move |n| n);
    assert!(others.into_iter().all(|other| other.join().is_ok()));
    let printed = PRINTED.load(Ordering::Relaxed);
    assert!(printed < MANY, "{printed} lines have found room");
    assert_eq!(stalled.lost(), 0);
    drop(stalled);
    join_all(printers);
    assert_eq!(PRINTED.load(Ordering::Relaxed), 3 * procs() * MANY);
}

guest_test!(all_printers_get_room, smp = &[1, 4, 8], isolated);
/// Runs four Gs that print until each of them has printed many lines. A G that has printed its lines continues to print
/// until the others have printed theirs. So if a G got no room in the buffer beside the others, the test would not end.
/// All four Gs are first blocked by a full buffer, and each prints its lines after that.
///
/// The test does not compare the numbers of lines, because these depend on how long each virtual CPU runs.
/// `blocked_printers_print_in_turn` compares them.
fn all_printers_get_room() {
    const PRINTERS: usize = 4;
    let lines: Arc<[AtomicUsize; PRINTERS]> = Arc::default();
    let goal: Arc<[AtomicUsize; PRINTERS]> = Arc::new([const { AtomicUsize::new(MANY) }; PRINTERS]);
    let stalled = Stalled::new();
    let printers: [_; PRINTERS] = array::from_fn(|g| {
        let (lines, goal) = (lines.clone(), goal.clone());
        go(move || {
            while (0..PRINTERS).any(|g| lines[g].load(Ordering::Relaxed) < goal[g].load(Ordering::Relaxed)) {
                print_line(g, lines[g].fetch_add(1, Ordering::Relaxed));
            }
        })
    });
    let total = || lines.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    wait_until_it_stands(total);
    for (goal, lines) in goal.iter().zip(&*lines) {
        goal.fetch_add(lines.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    drop(stalled);
    join_all(printers);
}

// With one CPU and no ends of slices, no printer loses the CPU between two lines. So each printer waits for the lock again
// before the next one has printed its line, however slow the machine is.
guest_test!(blocked_printers_print_in_turn, smp = &[1], isolated, options = &["slice_us=10000000"]);
/// Four Gs wait to print, one after the other: the first for room in the buffer, the others for the first. When there is
/// room, they print line after line in turn, because the lock is handed over in FIFO order. So their numbers of lines
/// never differ by more than one.
fn blocked_printers_print_in_turn() {
    // The first printer is woken when there is room for all these lines, so no printer waits for room again.
    const LINES: usize = 50;
    let lines: Arc<[AtomicUsize; 4]> = Arc::default();
    let stalled = Stalled::new();
    {
        // These lines fill the first half of the buffer and a part of the second. So callers that can wait find no
        // room.
        let _pinned = PreemptGuard::new();
        (0..1_500).for_each(|number| print_line(9, number));
        assert_eq!(stalled.lost(), 0);
    }
    let [for_room, for_turn] = [WaitReason::IoWait, WaitReason::MutexLock].map(waiting);
    let printers: [_; 4] = array::from_fn(|g| {
        let lines = lines.clone();
        let printer = go(move || {
            for line in 0..LINES {
                print_line(g, line);
                lines[g].store(line + 1, Ordering::Relaxed);
                let all = [0, 1, 2, 3].map(|g| lines[g].load(Ordering::Relaxed));
                assert!(all.iter().max() <= all.iter().min().map(|fewest| fewest + 1).as_ref(), "{all:?} lines");
            }
        });
        while waiting(WaitReason::IoWait) < for_room + 1 || waiting(WaitReason::MutexLock) < for_turn + g {
            yield_now();
        }
        printer
    });
    drop(stalled);
    join_all(printers);
}

guest_test!(many_printers_are_no_lockup, smp = &[8], isolated, seconds = 60);
fn many_printers_are_no_lockup() {
    let end = clock::now() + 2_000_000_000;
    join_all(go_each(0..procs(), move |g| {
        let mut number = 0;
        while clock::now() < end {
            print_line(g, number);
            number += 1;
        }
    }));
    assert_eq!(longest_off_times().lockups, 0);
}

guest_test!(waiting_for_the_console_is_no_lockup, smp = &[2, 8], isolated);
fn waiting_for_the_console_is_no_lockup() {
    let stalled = Stalled::new();
    let printers = go_each(0..procs(), move |g| (0..MANY).for_each(|number| print_line(g, number)));
    let end = clock::now() + 2_000_000_000;
    join_all(go_each(1..procs(), move |_| {
        while clock::now() < end {
            spin_loop();
        }
    }));
    drop(stalled);
    join_all(printers);
    assert_eq!(longest_off_times().lockups, 0);
}

guest_test!(
    handlers_never_wait_for_the_console_and_losses_are_reported,
    smp = &[1, 8],
    isolated,
    texts = &["<   0      0 ", "[the console was full: ", " are lost]", "and the machine goes on"],
);
fn handlers_never_wait_for_the_console_and_losses_are_reported() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let handler = |_| {
        (0..2 * MANY).for_each(|number| print_line(0, number));
        IS_DONE.store(true, Ordering::Release);
    };
    let vector = vectors::allocate(handler);
    let stalled = Stalled::new();
    {
        let _pinned = PreemptGuard::new();
        vectors::send(percpu::current(), vector);
    }
    while !IS_DONE.load(Ordering::Acquire) {
        spin_loop();
    }
    // The buffer holds 128 KiB, and the rest is lost.
    let lost = stalled.lost();
    assert!(lost >= 2 * MANY * 64 - 128 * 1024, "{lost}");
    drop(stalled);
    println!("and the machine goes on");
}

guest_test!(printing_with_preemption_off_never_waits, smp = &[1, 8], isolated);
fn printing_with_preemption_off_never_waits() {
    let stalled = Stalled::new();
    let before = {
        let _pinned = PreemptGuard::new();
        (0..2 * MANY).for_each(|number| print_line(0, number));
        stalled.lost()
    };
    assert!(before > 0);
    let lock = InterruptMutex::new(());
    let held = lock.lock();
    print_line(1, 0);
    drop(held);
    assert_eq!(stalled.lost(), before + 64);
    drop(stalled);
}

guest_test!(
    stuck_cpu_that_prints_does_not_end_the_machine,
    smp = &[2, 8],
    isolated,
    texts = &["has had interrupts off for ", "has interrupts on again"],
);
/// A CPU prints with interrupts off, until the watchdog reports it. At this moment the CPU may hold the console's lock.
/// Nevertheless, the report must not end the machine.
fn stuck_cpu_that_prints_does_not_end_the_machine() {
    let before = longest_off_times();
    let lock = InterruptMutex::new(());
    let held = lock.lock();
    while longest_off_times().lockups == before.lockups {
        print!(".");
    }
    drop(held);
    while longest_off_times().recoveries == before.recoveries {
        spin_loop();
    }
}

/// A text of 300 bytes, each of which is formatted by itself. Counts how often the text is formatted.
struct Counted<'a>(&'a AtomicUsize);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fetch_add(1, Ordering::Relaxed);
        (0..300).try_for_each(|_| f.write_str("+"))
    }
}

/// Prints long text with an end by which the text can be recognised, and returns how often the text was formatted.
fn print_counted(end: &str) -> usize {
    let count = AtomicUsize::new(0);
    println!("{} {end}", Counted(&count));
    count.into_inner()
}

guest_test!(
    long_text_is_formatted_once,
    smp = &[1, 8],
    isolated,
    texts = &["+ by a G\n", "+ in a handler\n", "the last line\n"],
);
/// A G can allocate the memory for the long text, and a handler cannot.
fn long_text_is_formatted_once() {
    static OF_HANDLER: AtomicUsize = AtomicUsize::new(0);
    assert_eq!(print_counted("by a G"), 1);
    let vector = vectors::allocate(|_| {
        OF_HANDLER.fetch_add(print_counted("in a handler"), Ordering::Relaxed);
    });
    vectors::send(percpu::current(), vector);
    while OF_HANDLER.load(Ordering::Relaxed) == 0 {
        spin_loop();
    }
    assert_eq!(OF_HANDLER.load(Ordering::Relaxed), 1);
    println!("the last line");
}
