//! Tests of the reports that the kernel writes when a program ends the machine, and of its reports of what the CPUs
//! execute.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::goroutine::WaitReason;
use kernel::internals;
use kernel::percpu::{CpuId, PreemptGuard};
use kernel::platform::scheduler;
use kernel::prelude::*;
use kernel::sync::InterruptMutex;

use crate::provoke;
use crate::several::{go_each, join_all};

guest_test!(
    panic_ends_the_program,
    smp = &[1, 8],
    status = 2,
    texts = &["panic", "this is the reason", "panic_ends_the_program (qemu-tests/guest/src/reports.rs:"],
);
fn panic_ends_the_program() {
    panic!("this is the reason");
}

/// Defines a test for each of the functions of [`provoke`]: the exception that it raises in main ends the program, and the
/// report has these texts and names the function.
macro_rules! reported {
    ($($name:ident: $provoke:ident => $($text:literal),+;)*) => {$(
        guest_test!(
            $name,
            status = 2,
            texts = &["in goroutine 1: ", $($text,)+ concat!(stringify!($provoke), " (qemu-tests/guest/src/provoke.rs:")],
        );
        fn $name() {
            provoke::$provoke();
        }
    )*};
}

reported! {
    divide_error_is_reported: divide_error => "divide error (#DE, vector 0)";
    null_pointer_is_reported:
        null_read => "page fault (#PF, vector 14): read at 0x0000000000000008", "(a null pointer)";
    write_to_code_is_reported:
        write_to_code => "page fault (#PF, vector 14): write at 0xffffffff8", "its page forbids that";
    execution_of_data_is_reported:
        execute_data => "page fault (#PF, vector 14): execution at 0xffffffff8", "its page forbids that";
    write_to_a_constant_is_reported:
        write_to_constant => "page fault (#PF, vector 14): write at 0xffffffff8", "its page forbids that";
    invalid_opcode_is_reported: invalid_opcode => "invalid opcode (#UD, vector 6)";
    breakpoint_is_reported: breakpoint => "breakpoint (#BP, vector 3)";
    bad_selector_is_reported:
        bad_selector => "general protection fault (#GP, vector 13): GDT entry 582", "error 1230";
    bad_address_is_reported: bad_address => "general protection fault (#GP, vector 13)", "error 0";
    float_divide_error_is_reported: float_divide_error => "x87 floating-point exception (#MF, vector 16)";
}

guest_test!(
    exception_of_a_goroutine_is_a_fault_of_the_program,
    smp = &[1, 8],
    status = 2,
    texts = &[
        "exception on CPU",
        "in goroutine ",
        ": page fault (#PF, vector 14): read at 0x0000000000000008",
        "[running] on CPU",
        "null_read (qemu-tests/guest/src/provoke.rs:",
        "goroutine 1 [join, ",
        "exception_of_a_goroutine_is_a_fault_of_the_program (qemu-tests/guest/src/reports.rs:",
        // The report repeats the cause at its end.
        "exception on CPU",
        "(a null pointer)",
    ],
);
fn exception_of_a_goroutine_is_a_fault_of_the_program() {
    let fails = || {
        while waiting(WaitReason::Join) < 1 {
            yield_now();
        }
        provoke::null_read();
    };
    go(fails).join().expect("it does not come back");
}

/// Returns the number of Gs that wait for this reason.
pub(crate) fn waiting(reason: WaitReason) -> usize {
    let scheduler = scheduler().expect("it runs");
    scheduler.goroutines().filter(|goroutine| goroutine.wait_reason() == reason).count()
}

guest_test!(
    exception_with_preemption_off_is_a_fault_of_the_kernel,
    smp = &[1, 8],
    status = 102,
    texts = &["exception on CPU", ": divide error (#DE, vector 0)", "the kernel's last messages:", "divide error (#DE"],
);
fn exception_with_preemption_off_is_a_fault_of_the_kernel() {
    let _pinned = PreemptGuard::new();
    provoke::divide_error();
}

guest_test!(
    list_of_many_goroutines_is_grouped,
    smp = &[1, 8],
    status = 2,
    texts = &[
        "enough",
        "(another) [sleep, ",
        "  in 0x",
        "[chan receive, ",
        "waits_for_a_message (qemu-tests/guest/src/reports.rs:",
        "1,999 more like goroutine ",
        "panic at qemu-tests/guest/src/reports.rs:",
        "enough",
    ],
);
fn list_of_many_goroutines_is_grouped() {
    let (_sender, receiver) = channel::<()>(0);
    for _ in 0..2000 {
        let receiver = receiver.clone();
        go(move || waits_for_a_message(&receiver)).detach();
    }
    let another = || sleep(Duration::from_secs(1000));
    Builder::new().name("another").go(another).detach();
    while waiting(WaitReason::ChanReceive) < 2000 || waiting(WaitReason::Sleep) < 1 {
        yield_now();
    }
    panic!("enough");
}

#[inline(never)]
fn waits_for_a_message(receiver: &Receiver<()>) {
    let _ = receiver.recv();
    core::hint::black_box(());
}

guest_test!(
    double_fault_is_reported,
    status = 102,
    texts = &["exception on CPU", "double fault (#DF, vector 8)", "double_fault (qemu-tests/guest/src/provoke.rs:"],
);
fn double_fault_is_reported() {
    provoke::double_fault();
}

guest_test!(
    stack_overflow_is_reported,
    smp = &[1, 8],
    status = 2,
    texts = &[
        "exceeds its 64 KiB stack",
        "(`Builder::stack_size` chooses a larger stack)",
        "fatal error: stack overflow",
        "[running] on CPU",
        "deeper (qemu-tests/guest/src/provoke.rs:",
        // Repeated frames are only counted, so that the report also shows the start of the recursion.
        " more times",
        "stack_overflow (qemu-tests/guest/src/provoke.rs:",
        "goroutine 1 [",
    ],
);
fn stack_overflow_is_reported() {
    go(provoke::stack_overflow).join().expect("it does not come back");
}

/// The number of Gs that spin. They stop when `ENOUGH` is set.
static SPINNING: AtomicUsize = AtomicUsize::new(0);
static ENOUGH: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn spins_with_interrupts_on() {
    SPINNING.fetch_add(1, Ordering::SeqCst);
    while !ENOUGH.load(Ordering::SeqCst) {
        spin_loop();
    }
}

#[inline(never)]
fn spins_with_interrupts_off() {
    let lock = InterruptMutex::new(());
    let _guard = lock.lock();
    spins_with_interrupts_on();
}

/// Makes every other CPU execute a known function.
fn keep_others_busy() {
    for index in 1..procs() {
        go(move || if index == 1 { spins_with_interrupts_off() } else { spins_with_interrupts_on() }).detach();
    }
    while SPINNING.load(Ordering::SeqCst) < procs() - 1 {
        spin_loop();
    }
}

guest_test!(
    every_cpu_reports_where_it_is_and_continues,
    smp = &[2, 8],
    isolated,
    texts = &[
        "runs this:",
        "every_cpu_reports_where_it_is_and_continues (qemu-tests/guest/src/reports.rs:",
        "interrupts off since qemu-tests/guest/src/reports.rs:",
        "spins_with_interrupts_off (qemu-tests/guest/src/reports.rs:",
        "all of them go on",
    ],
);
fn every_cpu_reports_where_it_is_and_continues() {
    keep_others_busy();
    // The memory for the text is allocated here, because `write_all_cpus` writes the text while it holds a lock, and
    // the holder of this lock must not allocate.
    let mut text = String::with_capacity(1 << 20);
    for _ in 0..5 {
        text.clear();
        let _pinned = PreemptGuard::new();
        internals::write_all_cpus(&mut text).expect("strings take everything");
    }
    // On standard error, because `boot` adds functions and lines only to addresses there.
    eprint!("{text}");
    for cpu in 0..num_cpu() {
        assert!(text.contains(&format!("CPU {cpu}")), "CPU {cpu} is missing");
    }
    assert_eq!(text.matches("rflags").count(), num_cpu() - 1, "each other CPU shows its registers");
    // The number of lines with this text is not compared, because other CPUs may be in the handler of their tick, with
    // interrupts off as well.
    assert!(text.contains("interrupts off since"), "the one that holds a lock is found");
    ENOUGH.store(true, Ordering::SeqCst);
    let handles = go_each(0..procs(), move |n| n);
    assert!(handles.into_iter().all(|handle| handle.join().is_ok()));
    println!("all of them go on");
}

guest_test!(
    exception_report_shows_where_the_other_cpus_are,
    smp = &[2, 8],
    status = 102,
    texts = &[
        "exception on CPU",
        "interrupts off since qemu-tests/guest/src/reports.rs:",
        "spins_with_interrupts_off (qemu-tests/guest/src/reports.rs:",
        "the kernel's last messages:",
    ],
);
fn exception_report_shows_where_the_other_cpus_are() {
    keep_others_busy();
    let _pinned = PreemptGuard::new();
    provoke::divide_error();
}

guest_test!(
    panic_ignores_the_locks_of_the_console,
    smp = &[1, 8],
    status = 2,
    texts = &["panic at", "nobody can print", "with_all_locked"],
);
fn panic_ignores_the_locks_of_the_console() {
    internals::with_console_locked(|| {
        panic!("nobody can print");
    });
}

guest_test!(
    panic_interrupts_printers,
    status = 2,
    texts = &[" xxxxxxxx", "panic at", "in the middle of it all", "goroutine"],
);
fn panic_interrupts_printers() {
    static PRINTED: AtomicUsize = AtomicUsize::new(0);
    for g in 1..procs() {
        go(move || {
            loop {
                println!("<{g} {}>", "x".repeat(100));
                PRINTED.fetch_add(1, Ordering::Relaxed);
            }
        })
        .detach();
    }
    while PRINTED.load(Ordering::Relaxed) < 100 {
        spin_loop();
    }
    panic!("in the middle of it all");
}

guest_test!(
    messages_that_were_not_printed_are_in_the_report,
    smp = &[1, 8],
    status = 102,
    options = &["log=off"],
    texts = &["exception on CPU", "the kernel's last messages:", "info: kernel::arch::x86_64::timer: "],
);
fn messages_that_were_not_printed_are_in_the_report() {
    let _pinned = PreemptGuard::new();
    provoke::divide_error();
}

guest_test!(concurrent_report_requests_do_not_end_the_machine, smp = &[2, 8], isolated);
/// Many CPUs request a report of the same CPU by NMIs. If the kernel mistook one of these NMIs for a hardware error, it
/// would end the machine.
fn concurrent_report_requests_do_not_end_the_machine() {
    join_all(go_each(0..procs(), move |_| {
        // If the host runs the virtual CPUs in parallel, all CPUs send NMIs to the same CPU at about the same
        // time.
        (0..6_000).for_each(|round| internals::ask(CpuId::new(round / 1_000 % num_cpu())));
    }));
}
