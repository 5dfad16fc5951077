//! Exceptions that Gs and other threads raise: how the process ends, and what it prints. For each case, a test runs
//! itself as a child process. An environment variable names the case to the child.
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "the unsafe operations of a block belong together")]

use core::arch::asm;
use core::hint::black_box;
use core::ptr;
use std::env;
use std::ffi::c_int;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::thread;

use crate::THREADS;
use crate::waits::until_waiting;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::native;

const CASE: &str = "GMP_CASE";

/// In the parent, runs the test named `test` in a child process with the case `case`, and returns how the child has
/// ended and its text on standard error.
fn child(test: &str, case: &str) -> (ExitStatus, String) {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("exceptions::{test}"), "--nocapture"])
        .env(CASE, case)
        .output()
        .unwrap();
    (child.status, String::from_utf8_lossy(&child.stderr).into_owned())
}

/// The case of this child process; `None` in the parent.
fn case() -> Option<String> {
    env::var(CASE).ok()
}

/// Raises an exception. The report must name the line that raises it.
#[inline(never)]
fn raise_exception(case: &str) {
    let null = black_box(ptr::null_mut::<u64>());
    // SAFETY: these operations violate their conditions on purpose. Each raises an exception, and the tests check how
    // the exception is reported.
    unsafe {
        match case {
            "divide" => asm!("div {0:e}", in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _),
            "read" => drop(black_box(null.read_volatile())),
            "write" => null.wrapping_add(1).write_volatile(1),
            "protected" => (raise_exception as *mut u64).write_volatile(1),
            "not canonical" => asm!("mov {0}, [{0}]", inout(reg) 1_u64 << 63 => _),
            "invalid" => asm!("ud2"),
            "call" => core::mem::transmute::<*mut u64, fn()>(null)(),
            "end of file" => drop(black_box(mapped_empty_file().read_volatile())),
            "library" => drop(black_box(libc::strlen(null.cast()))),
            _ => unreachable!(),
        }
    }
}

/// Maps a page of an empty file.
fn mapped_empty_file() -> *const u8 {
    // SAFETY: the name is a C string, and a new mapping at an address chosen by the system affects no memory.
    let mapped = unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file, 0)
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped.cast()
}

/// Raises an exception in a G with the name `faulty`, while another G waits.
fn raise_in_goroutine(case: &str, stack: usize) {
    let case = case.to_owned();
    THREADS.run(2, move || {
        let (_sender, receiver) = native::channel::<()>(0);
        let waiting = native::Builder::new().name("waits").go(move || receiver.recv());
        until_waiting(1, WaitReason::ChanReceive);
        let faulty = native::Builder::new().name("faulty").stack_size(stack).go(move || raise_exception(&case));
        faulty.join().unwrap();
        waiting.detach();
    });
}

#[test]
fn exception_names_goroutine_cause_and_line_and_ends_with_status_2() {
    if let Some(case) = case() {
        return raise_in_goroutine(&case, 512 * 1024);
    }
    for (case, cause) in [
        ("divide", "divide error (#DE, vector 0)"),
        ("read", "page fault (#PF, vector 14): read at 0x0000000000000000, nothing is mapped there (a null pointer)"),
        ("write", "page fault (#PF, vector 14): write at 0x0000000000000008, nothing is mapped there (a null pointer)"),
        ("protected", "its page forbids that"),
        ("not canonical", "general protection fault (#GP, vector 13)"),
        ("invalid", "invalid opcode (#UD, vector 6)"),
        ("call", "execution at 0x0000000000000000, nothing is mapped there (a null pointer)"),
        ("end of file", "page fault (#PF, vector 14): read at 0x"),
    ] {
        let (status, stderr) = child("exception_names_goroutine_cause_and_line_and_ends_with_status_2", case);
        assert_eq!(status.code(), Some(2), "{case}: {stderr}");
        let (first, last) = (stderr.lines().next().unwrap(), stderr.lines().next_back().unwrap());
        assert!(first.starts_with("exception in goroutine ") && first.contains(" (faulty): "), "{case}: {stderr}");
        assert!(first.contains(cause), "{case}: {stderr}");
        assert_eq!(last, first, "{case}");
        // The report contains the backtrace and the other G.
        for part in ["exceptions::raise_exception", "exceptions.rs:", "raise_in_goroutine", "(waits) [chan receive"] {
            assert!(stderr.contains(part), "{case}, {part}: {stderr}");
        }
        // The calls of the scheduler, before those of the program and after them, are left out.
        let calls = stderr.split_once(" [running]:\n").unwrap().1.split_once("\ngoroutine ").unwrap().0;
        assert!(!calls.contains("gmp_sched::") && !calls.contains("std::"), "{case}: {stderr}");
    }
}

#[test]
fn exception_on_a_small_stack_and_in_the_c_library_is_reported() {
    if let Some(case) = case() {
        return raise_in_goroutine(&case, 16 * 1024);
    }
    for case in ["divide", "library"] {
        let (status, stderr) = child("exception_on_a_small_stack_and_in_the_c_library_is_reported", case);
        assert_eq!(status.code(), Some(2), "{case}: {stderr}");
        assert_eq!(stderr.lines().next(), stderr.lines().next_back(), "{case}");
        for part in [" (faulty): ", "exceptions::raise_exception", "raise_in_goroutine", "(waits) [chan receive"] {
            assert!(stderr.contains(part), "{case}, {part}: {stderr}");
        }
    }
}

/// The handler calls the hook only if the G's stack has room for the call and the G cannot hold a lock of a library.
#[test]
fn exception_for_which_the_hook_cannot_be_called_is_named_by_the_handler() {
    if let Some(case) = case() {
        assert!(native::set_exception_hook(|_| unreachable!()));
        return raise_in_goroutine(&case, if case == "library" { 512 * 1024 } else { 16 * 1024 });
    }
    for (case, cause) in [("divide", "divide error (#DE, vector 0)"), ("library", "(a null pointer)")] {
        let (status, stderr) = child("exception_for_which_the_hook_cannot_be_called_is_named_by_the_handler", case);
        assert_eq!((status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(" (faulty): ") && stderr.contains(cause), "{stderr}");
        assert!(stderr.contains(", by the instruction at 0x"), "{stderr}");
    }
}

#[test]
fn exception_of_another_thread_keeps_its_default_action() {
    if let Some(case) = case() {
        // This run installs the handlers. The thread below raises its exception after that.
        THREADS.run(1, || ());
        return thread::spawn(move || raise_exception(&case)).join().unwrap();
    }
    for (case, signal) in
        [("divide", libc::SIGFPE), ("read", libc::SIGSEGV), ("invalid", libc::SIGILL), ("end of file", libc::SIGBUS)]
    {
        let (status, stderr) = child("exception_of_another_thread_keeps_its_default_action", case);
        assert_eq!((status.signal(), stderr.as_str()), (Some(signal), ""), "{case}");
    }
}

#[test]
fn signal_that_a_process_sends_keeps_its_default_action() {
    let signals = [libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV];
    if let Some(case) = case() {
        let signal: c_int = case.parse().unwrap();
        THREADS.run(1, move || {
            // SAFETY: the scheduler's handler of this signal runs no code of the program. It sets the default action,
            // which then ends the process.
            unsafe { libc::raise(signal) };
        });
    } else {
        for signal in signals {
            let (status, stderr) = child("signal_that_a_process_sends_keeps_its_default_action", &signal.to_string());
            assert_eq!((status.signal(), stderr.as_str()), (Some(signal), ""));
        }
    }
}

/// The signal handler of a program that maps memory on its first access. If the signal is not SIGSEGV, or the page
/// cannot be mapped, the handler ends the process with status 77.
extern "C" fn map_page(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid pointer, and SIGSEGV and SIGILL have an address. The new page replaces nothing.
    unsafe {
        let page = (*info).si_addr().map_addr(|address| address & !4095);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        if signal != libc::SIGSEGV || libc::mmap(page, 4096, libc::PROT_READ, flags, -1, 0) != page {
            libc::_exit(77);
        }
    }
}

#[test]
fn handler_that_the_program_has_installed_before_comes_first() {
    if let Some(case) = case() {
        // SAFETY: zeros are a valid `sigaction`, the pointers are valid, and the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = map_page as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            for signal in [libc::SIGSEGV, libc::SIGILL] {
                assert_eq!(libc::sigaction(signal, &raw const action, ptr::null_mut()), 0);
            }
        }
        return match case.as_str() {
            "resolved" => THREADS.run(1, || {
                let unmapped = black_box(ptr::without_provenance::<u64>(0x7000_0000_0000));
                // SAFETY: the handler maps this page.
                assert_eq!(unsafe { unmapped.read_volatile() }, 0);
            }),
            case => raise_in_goroutine(case, 512 * 1024),
        };
    }
    for (case, expected) in [("resolved", 0), ("invalid", 77), ("divide", 2)] {
        let (status, stderr) = child("handler_that_the_program_has_installed_before_comes_first", case);
        assert_eq!((status.code(), stderr.is_empty()), (Some(expected), expected != 2), "{case}: {stderr}");
    }
}

#[test]
fn hook_reports_the_exception_and_may_end_only_the_goroutine() {
    if case().is_some() {
        assert!(native::set_exception_hook(|exception| {
            eprintln!("the hook got: {exception}");
            if exception.goroutine().id().get() != 1 {
                // SAFETY: nothing borrows from the frames of this G.
                unsafe { gmp_sched::exit::abandon::<native::Native>(gmp_sched::JoinError::panicked()) }
            }
        }));
        assert!(!native::set_exception_hook(|_| ()));
        return THREADS.run(1, || {
            for _ in 0..2 {
                assert!(native::go(|| raise_exception("invalid")).join().is_err());
            }
            raise_exception("divide");
        });
    }
    let (status, stderr) = child("hook_reports_the_exception_and_may_end_only_the_goroutine", "hook");
    assert_eq!((status.code(), stderr.lines().count()), (Some(2), 3), "{stderr}");
    assert_eq!(stderr.matches(": invalid opcode (#UD, vector 6)\n").count(), 2, "{stderr}");
    assert!(stderr.ends_with("the hook got: exception in goroutine 1: divide error (#DE, vector 0)\n"), "{stderr}");
}
