//! Tests of the computer below the scheduler: console, CPUs, clock, timers, interrupts and command line.

use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use kernel::clock;
use kernel::cpus;
use kernel::internals::{self, Vector};
use kernel::percpu::{self, CpuId, PreemptGuard};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;

use crate::registry::{arguments, expected_cpus};
use crate::several::{go_each, join_all, spawn_each};
use crate::vectors;

guest_test!(
    prints_lines,
    smp = &[1, 2, 8],
    texts = &["first line 1", "second line 2", "a part, and the rest", "ünïcödé \"quoted\\"],
);
fn prints_lines() {
    println!("first line {}", 1);
    println!("second line {}", 2);
    print!("a part");
    println!(", and the rest");
    println!("ünïcödé \"quoted\\");
}

guest_test!(prints_more_than_the_console_holds, texts = &["number 0", "number 9999", "number 19999"]);
fn prints_more_than_the_console_holds() {
    for number in 0..20_000 {
        println!("number {number}");
    }
}

guest_test!(
    lines_of_many_gs_stay_whole,
    smp = &[1, 2, 8],
    texts = &[
        "<0 0 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx>",
        "<0 1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx>",
        "<0 18 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx>",
        "<0 19 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx>"
    ]
);
fn lines_of_many_gs_stay_whole() {
    join_all(go_each(0..8, move |g| {
        for line in 0..20 {
            println!("<{g} {line} {}>", "x".repeat(60));
            yield_now();
        }
    }));
}

guest_test!(all_cpus_are_up, smp = &[1, 2, 8]);
fn all_cpus_are_up() {
    assert_eq!(cpus::count(), expected_cpus());
    assert_eq!(cpus::all().count(), expected_cpus());
    assert_eq!(num_cpu(), expected_cpus());
    assert_eq!(procs(), expected_cpus());
}

guest_test!(clock_is_the_same_on_all_cpus, smp = &[1, 2, 8]);
fn clock_is_the_same_on_all_cpus() {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let read = || {
        for _ in 0..20_000 {
            let seen = LATEST.load(Ordering::SeqCst);
            let now = clock::now();
            assert!(now >= seen, "{now} after {seen}");
            LATEST.fetch_max(now, Ordering::SeqCst);
        }
    };
    join_all(spawn_each(0..num_cpu(), |_| read));
}

guest_test!(sleep_takes_as_long_as_asked, smp = &[1, 2, 8], icount);
fn sleep_takes_as_long_as_asked() {
    // With counted instructions, no load of the host delays a wakeup, so the bound covers only the kernel's own paths.
    const LATENESS: Duration = Duration::from_micros(100);
    for asked in [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000].map(Duration::from_micros) {
        let start = clock::now();
        sleep(asked);
        let slept = Duration::from_nanos(clock::now() - start);
        assert!(slept >= asked, "asked for {asked:?}, slept {slept:?}");
        assert!(slept < asked + LATENESS, "asked for {asked:?}, slept {slept:?}");
    }
}

guest_test!(
    missing_timer_is_not_used,
    smp = &[1, 8],
    isolated,
    options = &["timer=tsc-deadline"],
    texts = &["timer=tsc-deadline: this processor has none"],
);
/// The kernel option requests the TSC-deadline timer, which QEMU's CPU does not have. So the kernel prints a warning
/// and uses the one-shot timer. `sleep` still works.
fn missing_timer_is_not_used() {
    for millis in [1, 5, 20] {
        let start = clock::now();
        sleep(Duration::from_millis(millis));
        assert!(clock::now() - start >= millis * 1_000_000);
    }
}

guest_test!(sleep_outlasts_the_hardware_timer, smp = &[1, 8], icount);
fn sleep_outlasts_the_hardware_timer() {
    // The 32-bit counter of the one-shot timer ends after 4.29 seconds, so the kernel must start the timer several
    // times for this sleep.
    let asked = Duration::from_secs(10);
    let start = clock::now();
    sleep(asked);
    let slept = Duration::from_nanos(clock::now() - start);
    assert!((asked..asked + Duration::from_micros(100)).contains(&slept), "{slept:?}");
}

guest_test!(
    arguments_arrive_as_they_were_given,
    smp = &[1],
    arguments = &["plain", "", "two words", r"back\slash", "quo\"te", "--", "key=value", "ünï", " ", r#"\""#],
);
fn arguments_arrive_as_they_were_given() {
    let expected = ["plain", "", "two words", r"back\slash", "quo\"te", "--", "key=value", "ünï", " ", r#"\""#];
    assert_eq!(arguments(), expected);
}

guest_test!(
    options_of_the_program_reach_it,
    smp = &[1],
    options = &["program.first=1", "program.path=a b:c", "program.first=2", "program.empty="],
);
fn options_of_the_program_reach_it() {
    use kernel::args::{option, options};

    assert_eq!(options("program.first").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(option("program.path"), Some("a b:c"));
    assert_eq!(option("program.empty"), Some(""));
    assert_eq!(option("program.firs"), None);
}

// This test runs only with `--ignored`, because a machine with the maximum number of CPUs keeps the host busy for a
// long time.
guest_test!(maximum_number_of_cpus_starts, smp = &[255], seconds = 300, ignored);
fn maximum_number_of_cpus_starts() {
    assert_eq!(num_cpu(), 255);
    let handles = go_each(0..1000u32, move |n| n);
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<u32>(), 499_500);
}

// `tests/console.rs` on the host checks the output.
guest_test!(prints_from_every_cpu, hidden);
fn prints_from_every_cpu() {
    const LINES: usize = 200;
    const ROUNDS: usize = 20;
    static READY: AtomicUsize = AtomicUsize::new(0);
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    let handler = |_| {
        println!("[from an interrupt handler]");
        HANDLED.fetch_add(1, Ordering::SeqCst);
    };
    let vector = vectors::allocate(handler);
    let print = |g: usize| {
        READY.fetch_add(1, Ordering::SeqCst);
        while READY.load(Ordering::SeqCst) < procs() {
            core::hint::spin_loop();
        }
        for number in 0..LINES {
            println!("<{g} {number} {}>", "abcdefghijklmnopqrstuvwxyz".repeat(1 + (g + number) % 5));
        }
    };
    let printing = go_each(1..procs(), print);
    let interrupting = go(move || {
        for round in 1..=ROUNDS {
            vectors::send_to_others(vector);
            while HANDLED.load(Ordering::SeqCst) < round * (num_cpu() - 1) {
                yield_now();
            }
        }
    });
    print(0);
    join_all(printing);
    interrupting.join().expect("it does not panic");
}

guest_test!(no_interrupt_in_a_ring_of_cpus_is_lost, smp = &[1, 2, 8], isolated, seconds = 60);
/// Each handler interrupts the next CPU and counts a hop. If an interrupt were lost, the hops would end too early. If
/// an interrupt came twice, there would be too many hops, or a hop would be counted on the wrong CPU.
fn no_interrupt_in_a_ring_of_cpus_is_lost() {
    const HOPS: usize = 10_000;
    static HOP: AtomicUsize = AtomicUsize::new(0);
    static ASTRAY: AtomicUsize = AtomicUsize::new(0);
    static VECTOR: AtomicU8 = AtomicU8::new(0);
    let pass_on = |_| {
        let hop = HOP.fetch_add(1, Ordering::SeqCst);
        if percpu::current().index() != hop % num_cpu() {
            ASTRAY.fetch_add(1, Ordering::SeqCst);
        }
        if hop + 1 < HOPS {
            vectors::send(CpuId::new((hop + 1) % num_cpu()), Vector(VECTOR.load(Ordering::SeqCst)));
        }
    };
    let vector = vectors::allocate(pass_on);
    VECTOR.store(vector.0, Ordering::SeqCst);
    vectors::send(CpuId::BOOT, vector);
    while HOP.load(Ordering::SeqCst) < HOPS {
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_millis(10));
    assert_eq!(HOP.load(Ordering::SeqCst), HOPS);
    assert_eq!(ASTRAY.load(Ordering::SeqCst), 0);
}

guest_test!(one_command_interrupts_all_others, smp = &[1, 2, 8], isolated);
fn one_command_interrupts_all_others() {
    const ROUNDS: u64 = 300;
    static TAKEN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let count = |_| _ = TAKEN[percpu::current().index()].fetch_add(1, Ordering::SeqCst);
    let vector = vectors::allocate(count);
    let mut expected = [0; 8];
    for _ in 0..ROUNDS {
        let pinned = PreemptGuard::new();
        let me = percpu::current().index();
        vectors::send_to_others(vector);
        drop(pinned);
        let others = (0..num_cpu()).filter(|&cpu| cpu != me);
        others.clone().for_each(|cpu| expected[cpu] += 1);
        for cpu in others {
            while TAKEN[cpu].load(Ordering::SeqCst) < expected[cpu] {
                core::hint::spin_loop();
            }
        }
    }
    let taken = TAKEN.each_ref().map(|count| count.load(Ordering::SeqCst));
    assert_eq!(taken, expected);
}

guest_test!(unexpected_interrupts_are_counted, smp = &[1, 8], isolated);
fn unexpected_interrupts_are_counted() {
    let before = internals::unexpected_interrupts();
    vectors::send(percpu::current(), Vector(0xe0));
    while internals::unexpected_interrupts() == before {
        yield_now();
    }
    assert_eq!(internals::unexpected_interrupts(), before + 1);
}

guest_test!(
    cpu_that_does_not_start_is_left_out,
    smp = &[4],
    isolated,
    options = &["dead_cpu=2"],
    texts = &["1 of 3 other CPUs did not start within 5 s", "3 CPUs run"],
);
fn cpu_that_does_not_start_is_left_out() {
    assert_eq!((cpus::count(), procs(), expected_cpus()), (3, 3, 4));
    assert_all_cpus_run();
}

guest_test!(
    cpu_that_starts_late_halts,
    smp = &[4],
    isolated,
    options = &["late_cpu=2"],
    texts = &["1 of 3 other CPUs did not start within 5 s", "3 CPUs run"],
);
fn cpu_that_starts_late_halts() {
    assert_eq!((cpus::count(), procs(), expected_cpus()), (3, 3, 4));
    while internals::late_cpus() < 1 {
        sleep(Duration::from_millis(1));
    }
    assert_all_cpus_run();
    assert_eq!(internals::late_cpus(), 1);
}

guest_test!(
    non_maskable_interrupt_to_a_late_cpu_does_not_reset_the_machine,
    smp = &[4],
    isolated,
    options = &["late_cpu=2"],
    texts = &["1 of 3 other CPUs did not start within 5 s", "3 CPUs run"],
);
#[expect(unsafe_code, reason = "interrupts a CPU that the kernel does not use")]
fn non_maskable_interrupt_to_a_late_cpu_does_not_reset_the_machine() {
    while internals::late_cpus() < 1 {
        sleep(Duration::from_millis(1));
    }
    for _ in 0..3 {
        // SAFETY: this CPU, which the option `late_cpu` names, has come late.
        unsafe { internals::send_nmi_to_late_cpu(2) };
        sleep(Duration::from_millis(10));
    }
    assert_all_cpus_run();
}

/// Returns when every CPU has run a G.
fn assert_all_cpus_run() {
    /// A bit mask of the CPUs that have run a G, by their indices.
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let wait = || {
        while (SEEN.load(Ordering::SeqCst).count_ones() as usize) < procs() {
            SEEN.fetch_or(1 << percpu::current().index(), Ordering::SeqCst);
            core::hint::spin_loop();
        }
    };
    join_all(spawn_each(0..2 * procs(), |_| wait));
    println!("{} CPUs run", cpus::count());
}

guest_test!(cpus_are_in_the_expected_state, smp = &[1, 2, 8], isolated);
fn cpus_are_in_the_expected_state() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let look = |_| {
        processor::check();
        SEEN.fetch_add(1, Ordering::SeqCst);
    };
    let vector = vectors::allocate(look);
    cpus::all().for_each(|cpu| vectors::send(cpu, vector));
    while SEEN.load(Ordering::SeqCst) < num_cpu() {
        sleep(Duration::from_millis(1));
    }
}

guest_test!(cpus_reach_the_expected_state_from_any_firmware_state, smp = &[1], isolated);
fn cpus_reach_the_expected_state_from_any_firmware_state() {
    let masked = InterruptMutex::new(());
    let masked = masked.lock();
    processor::spoil();
    internals::init_cpu();
    processor::check();
    drop(masked);
}

/// Checks and changes the control register CR4 and the floating-point state.
#[expect(unsafe_code, reason = "reads and writes control registers")]
mod processor {
    use core::arch::asm;

    /// The bits that the kernel sets in CR4: PAE, OSFXSR, OSXMMEXCPT, MCE.
    const CR4: u64 = 1 << 5 | 1 << 9 | 1 << 10 | 1 << 6;
    /// The bits of CR4 that the kernel must clear: TSD, DE, PGE.
    const UNWANTED: u64 = 1 << 2 | 1 << 3 | 1 << 7;
    /// Control, status and tag word of an empty x87 stack with all exceptions masked.
    const X87: [u16; 3] = [0x37f, 0, 0xffff];
    const MXCSR: u32 = 0x1f80;

    pub(super) fn check() {
        let cr4: u64;
        // SAFETY: this instruction only reads a register.
        unsafe { asm!("mov {}, cr4", out(reg) cr4, options(nomem, nostack)) };
        assert_eq!(cr4, CR4, "CR4 is {cr4:#x}");
        let mut environment = [0u32; 7];
        // SAFETY: this instruction stores 28 bytes, which is the size of `environment`. It also masks the x87
        // exceptions, which are masked already.
        unsafe { asm!("fnstenv [{}]", in(reg) &raw mut environment) };
        assert_eq!(environment.map(|word| word as u16)[..3], X87);
        let mut mxcsr = 0u32;
        // SAFETY: this instruction stores four bytes, which is the size of `mxcsr`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr) };
        assert_eq!(mxcsr, MXCSR);
    }

    /// Sets CR4 and the floating-point registers to values that hardware or firmware may leave in them.
    pub(super) fn spoil() {
        // SAFETY: no bit that changes here affects this code. MCE is off only until `init_cpu` sets it again.
        unsafe { asm!("mov cr4, {}", in(reg) (CR4 & !(1 << 6)) | UNWANTED, options(nostack)) };
        let (x87, mxcsr) = (0x40u16, 0x9fc0u32);
        // SAFETY: no floating-point computation happens before `init_cpu` resets this state, so unmasked exceptions
        // have no effect.
        unsafe { asm!("fninit", "fld1", "fldcw [{}]", in(reg) &raw const x87) };
        // SAFETY: no floating-point computation happens before `init_cpu` resets MXCSR.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr) };
    }
}

guest_test!(devices_are_found_and_enabled_with_few_accesses, smp = &[1, 8]);
/// Each access to the configuration space of a device leaves the virtual machine. Some of the writes also rebuild the
/// memory map of every CPU. So if there were many accesses, a boot with many devices or CPUs would take long.
fn devices_are_found_and_enabled_with_few_accesses() {
    /// One word for each of 32 devices on each of 256 buses.
    const SEARCH: u32 = 256 * 32;
    /// The console and the source of random numbers.
    const DEVICES: u32 = 2;
    let (reads, writes) = internals::configuration_accesses();
    assert!(reads < SEARCH + 256 + DEVICES * 300, "{reads} reads");
    // The command register twice, each of six BARs twice, and the control word of MSI-X.
    assert!((1..=DEVICES * (2 + 2 * 6 + 1)).contains(&writes), "{writes} writes");
}
