//! The exploration of small programs itself: what it keeps of a machine, which switches it counts, and how it fails.
//! `composition` explores the protocols of the scheduler. It also checks that an exploration leaves out no state that
//! matters.
#![cfg(not(gmp_loom))]

use std::backtrace::Backtrace;
use std::hint::black_box;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::JoinError;
use gmp_sched::sim;
use gmp_sched::sim::exhaustive::{self, Census, Failure, Setting};

#[global_allocator]
static MEMORY: exhaustive::Memory = exhaustive::Memory;

/// A short time. Its length does not matter, because the clock of an explored machine jumps from one deadline to the
/// next.
const A_WHILE: Duration = Duration::from_micros(1);

/// A setting with at most one switch away from a CPU that could continue.
fn one_switch() -> Setting {
    Setting { switches: Some(1), ..Setting::default() }
}

fn explore(setting: Setting, program: fn()) -> Result<Census, Failure> {
    // SAFETY: the programs in this file only call the scheduler and allocate memory that they keep to themselves. One
    // of them increments an atomic static, on which no program depends. They do not print, unless they panic, and they
    // catch no panic.
    unsafe { exhaustive::explore(setting, program) }
}

/// A result of more than 64 bytes is on the stack of its G, also after the G has ended.
#[test]
fn result_on_the_stack_is_kept_until_the_join() {
    let program = || {
        let child = sim::go(|| [7_u64; 20]);
        exhaustive::begin();
        sim::work(A_WHILE);
        assert_eq!(child.join().unwrap(), [7; 20]);
    };
    explore(one_switch(), program).unwrap();
}

/// What a G that exits holds is not dropped, so it can still be in use.
#[test]
fn stack_of_a_g_that_exits_is_kept() {
    let program = || {
        let address = Arc::new(AtomicUsize::new(0));
        let address_in_child = address.clone();
        let child = sim::go(move || {
            let held = AtomicU64::new(7);
            address_in_child.store(ptr::from_ref(&held).expose_provenance(), Ordering::Relaxed);
            sim::goexit();
        });
        exhaustive::begin();
        sim::work(A_WHILE);
        assert_eq!(child.join(), Err(JoinError::Exited));
        // SAFETY: the child has exited, so `held` is not dropped, and its stack is never used again.
        let held = unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(address.load(Ordering::Relaxed)) };
        sim::work(A_WHILE);
        assert_eq!(held.load(Ordering::Relaxed), 7);
    };
    explore(one_switch(), program).unwrap();
}

/// In an earlier state, zeros are on the stack. Later, a deep call writes other values to the same addresses. When the
/// exploration goes back to the earlier state, the zeros must be there again.
#[test]
fn zeros_on_the_stack_are_restored_after_a_deep_call() {
    const WORDS: usize = 2_000;
    #[inline(never)]
    fn hold_zeros() {
        let zeros = black_box([0_u64; WORDS]);
        sim::work(A_WHILE);
        assert_eq!(black_box(zeros), [0; WORDS]);
    }
    #[inline(never)]
    fn call_deeply() {
        black_box([7_u64; WORDS + 500]);
    }
    let program = || {
        let child = sim::go(|| sim::work(A_WHILE));
        exhaustive::begin();
        for _ in 0..2 {
            hold_zeros();
            sim::work(A_WHILE);
            call_deeply();
        }
        child.join().unwrap();
    };
    explore(one_switch(), program).unwrap();
}

/// Without a switch away from the main G's CPU, which is not CPU 0, the program can end.
#[test]
fn switches_are_counted_from_the_cpu_that_begins() {
    let program = || {
        let child = sim::go(|| sim::work(A_WHILE));
        sim::work(A_WHILE);
        child.join().unwrap();
        exhaustive::begin();
        let child = sim::go(|| ());
        sim::yield_now();
        child.join().unwrap();
    };
    let census = explore(Setting { switches: Some(0), ..Setting::default() }, program).unwrap();
    assert!(census.ends > 0, "{census:?}");
}

#[test]
fn panic_before_begin_fails_without_a_step() {
    let failure = explore(Setting::default(), || panic!("the reason")).unwrap_err();
    assert_eq!((failure.message.as_str(), failure.steps.len()), ("the reason", 0));
}

/// The G panics only if it runs before the main G continues. While its panic unwinds, it drops its children, which are
/// steps. Between these steps, the main G may reach its end. If the exploration went back after the end, the main G
/// would reach its end for a second time during the same panic.
#[test]
fn exploration_does_not_go_back_during_a_panic() {
    static ENDS_DURING_PANICS: AtomicU32 = AtomicU32::new(0);
    let program = || {
        let steps = Arc::new(AtomicU32::new(0));
        let steps_seen = steps.clone();
        sim::go(move || {
            let _children: [_; 3] = std::array::from_fn(|_| sim::go(|| ()));
            assert_ne!(steps_seen.load(Ordering::Relaxed), 0, "the reason");
        })
        .detach();
        exhaustive::begin();
        sim::work(A_WHILE);
        sim::work(A_WHILE);
        steps.store(1, Ordering::Relaxed);
        ENDS_DURING_PANICS.fetch_add(u32::from(thread::panicking()), Ordering::Relaxed);
    };
    let failure = explore(one_switch(), program).unwrap_err();
    assert!(failure.message.contains("the reason"), "{failure}");
    assert!(ENDS_DURING_PANICS.load(Ordering::Relaxed) <= 1);
}

/// To name the functions of a backtrace, the standard library reads debug information, which is larger than the memory
/// of an explored machine.
#[test]
fn panic_in_a_program_can_print_a_backtrace() {
    struct PrintsBacktrace;
    impl Drop for PrintsBacktrace {
        fn drop(&mut self) {
            black_box(Backtrace::force_capture().to_string());
        }
    }
    let program = || {
        exhaustive::begin();
        let _prints = PrintsBacktrace;
        panic!("the reason");
    };
    let failure = explore(one_switch(), program).unwrap_err();
    assert_eq!(failure.message, "the reason");
}

#[test]
fn largest_machine_has_memory_enough() {
    let setting = Setting { cpus: 4, processors: 32, switches: Some(0), ..Setting::default() };
    explore(setting, exhaustive::begin).unwrap();
}

#[test]
#[should_panic(expected = "0 CPUs")]
fn setting_without_a_cpu_panics() {
    let _ = explore(Setting { cpus: 0, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "5 CPUs")]
fn setting_with_too_many_cpus_panics() {
    let _ = explore(Setting { cpus: 5, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "0 Ps")]
fn setting_without_a_p_panics() {
    let _ = explore(Setting { processors: 0, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "33 Ps")]
fn setting_with_too_many_ps_panics() {
    let _ = explore(Setting { procs_limit: 33, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "a simulation inside a simulation")]
fn exploration_inside_a_simulation_panics() {
    sim::run(sim::Config::default(), || drop(explore(Setting::default(), exhaustive::begin))).unwrap();
}

#[test]
#[should_panic(expected = "the program ends before it calls `begin`")]
fn program_that_ends_before_begin_panics() {
    let _ = explore(Setting::default(), || ());
}

/// Before the program calls `begin`, the clock does not advance.
#[test]
#[should_panic(expected = "the program never calls `begin`")]
fn program_that_sleeps_before_begin_panics() {
    let _ = explore(Setting::default(), || sim::sleep(A_WHILE));
}
