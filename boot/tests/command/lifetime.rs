//! Tests of the QEMU process that a `boot` has started: when it ends and stops, what signals to `boot` do, and how much
//! memory and CPU time QEMU uses.

use core::time::Duration;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::child::Running;
use crate::outside::{boot_outside, only_machine, small_machine, text};

/// A `boot` whose machine sleeps, and a mark by which the test finds the QEMU of this `boot`.
struct Sleeper {
    boot: Running,
    mark: String,
}

/// A QEMU process.
struct Qemu {
    id: u32,
    /// The state of the process, as a letter from Linux's `/proc`.
    state: char,
}

impl Sleeper {
    fn start(name: &str, cpus: u32, mebibytes: u32) -> Self {
        let size = [format!("--smp={cpus}"), format!("--memory={mebibytes}")];
        let mut sleeper = Self::start_program(name, &[&size[0], &size[1]], "sleep");
        assert_eq!(sleeper.boot.read_until("\n"), "sleeping\n");
        sleeper
    }

    fn start_program(name: &str, options: &[&str], program: &str) -> Self {
        let mark = format!("program.mark={name}-{}", process::id());
        let options = [options, &["--kernel-option", &mark]].concat();
        Self { boot: Running::start(boot_outside(&options, &[program])), mark }
    }

    /// Sends a signal to `boot` that makes the machine report its state. Returns the report.
    fn describe(&mut self) -> String {
        self.signal(Signal::QUIT);
        self.boot.read_errors_until("the machine goes on\n")
    }

    fn signal(&self, signal: Signal) {
        self.boot.signal(signal);
    }

    /// Finds the QEMU process of this `boot`, if it is running.
    fn qemu(&self) -> Option<Qemu> {
        let processes = fs::read_dir("/proc").expect("the processes");
        processes.filter_map(Result::ok).find_map(|entry| {
            let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            if !command.starts_with("qemu-system-x86_64\0") || !command.contains(&self.mark) {
                return None;
            }
            Some(Qemu { id: entry.file_name().to_str()?.parse().ok()?, state: state(&entry.path())? })
        })
    }

    fn qemu_state(&self) -> Option<char> {
        self.qemu().map(|qemu| qemu.state)
    }

    /// The state of the process `boot` itself.
    fn boot_state(&self) -> Option<char> {
        state(&Path::new("/proc").join(self.boot.id().to_string()))
    }

    /// Waits until QEMU has the given state. A signal may take effect only after the call that sends it has returned.
    fn wait_for_state(&self, wanted: impl Fn(Option<char>) -> bool) {
        wait_for("QEMU", SOON, || self.qemu_state(), wanted);
    }
}

/// The time limit for effects that should come at once.
const SOON: Duration = Duration::from_secs(5);

/// Returns the state of the process whose directory in `/proc` is `process`.
fn state(process: &Path) -> Option<char> {
    fs::read_to_string(process.join("status")).ok()?.split_once("State:\t")?.1.chars().next()
}

fn wait_for(who: &str, limit: Duration, state: impl Fn() -> Option<char>, wanted: impl Fn(Option<char>) -> bool) {
    let deadline = Instant::now() + limit;
    while !wanted(state()) {
        assert!(Instant::now() < deadline, "{who} is in state {:?}", state());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn qemu_ends_with_boot() {
    let _machine = only_machine();
    for (name, signal) in [("int", Signal::INT), ("term", Signal::TERM), ("hup", Signal::HUP), ("kill", Signal::KILL)] {
        let mut sleeper = Sleeper::start(name, 2, 1024);
        assert!(sleeper.qemu_state().is_some());
        sleeper.signal(signal);
        let status = sleeper.boot.wait();
        assert_eq!(status.signal(), Some(signal.as_raw()), "`boot` ends by the signal {name}, as a shell expects");
        sleeper.wait_for_state(|state| state.is_none());
    }
}

/// Nothing reads the output of `boot`, so after the first signal `boot` waits for a reader and cannot write the trace yet.
#[test]
fn second_signal_ends_boot_at_once_although_there_is_a_recording() {
    let _machine = small_machine();
    let folder = tempfile::tempdir().expect("a folder");
    let option = format!("--trace={}", folder.path().join("run").display());
    let mut printer = Sleeper::start_program("twice", &["--smp=1", &option], "print");
    printer.boot.read_until("\n");
    thread::sleep(Duration::from_secs(1));
    printer.signal(Signal::INT);
    printer.wait_for_state(|state| state.is_none());
    assert!(printer.boot_state().is_some_and(|state| state != 'Z'), "`boot` waits for a reader of its output");
    printer.signal(Signal::INT);
    assert_eq!(printer.boot.wait().signal(), Some(Signal::INT.as_raw()));
}

/// A shell without job control starts a command in the background with SIGINT and SIGQUIT ignored. `boot` continues to
/// ignore these signals.
#[test]
fn signals_that_boot_inherits_as_ignored_stay_ignored() {
    let _machine = only_machine();
    let mark = format!("program.mark=ignored-{}", process::id());
    let inner = boot_outside(&["--smp=1", "--kernel-option", &mark], &["sleep"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' INT QUIT; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sleeper = Sleeper { boot: Running::start(command), mark };
    assert_eq!(sleeper.boot.read_until("\n"), "sleeping\n");
    sleeper.signal(Signal::INT);
    sleeper.signal(Signal::QUIT);
    // `boot` still handles SIGTSTP. This shows that the ignored signals have not ended `boot` or its machine.
    sleeper.signal(Signal::TSTP);
    sleeper.wait_for_state(|state| state == Some('T'));
    wait_for("boot", SOON, || sleeper.boot_state(), |state| state == Some('T'));
    sleeper.signal(Signal::CONT);
    sleeper.signal(Signal::TERM);
    let output = sleeper.boot.finish();
    assert_eq!(output.status.signal(), Some(Signal::TERM.as_raw()));
    assert!(!text(&output.stderr).contains("non-maskable"), "{}", text(&output.stderr));
}

/// SIGQUIT, which is also the signal for Ctrl-\ on a terminal, makes the machine report the state of each CPU, P, M and
/// G. The machine continues afterwards.
#[test]
fn signal_prints_a_report_of_the_machine() {
    let _machine = only_machine();
    let mut sleeper = Sleeper::start("inspect", 2, 1024);
    // The program prints `sleeping` shortly before its G sleeps, so the first reports may show the G still running.
    let is_asleep = |printed: &str| printed.contains("[sleep, ");
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut printed = sleeper.describe();
    while !is_asleep(&printed) {
        assert!(Instant::now() < deadline, "the G does not sleep: {printed}");
        printed = sleeper.describe();
    }
    // The machine has continued, so a second signal makes it report again.
    printed = sleeper.describe();
    assert_eq!(printed.matches("-- asked by").count(), 1, "one CPU reports for all: {printed}");
    for part in ["-- asked by a non-maskable interrupt at ", "CPU 0", "CPU 1", "SCHED ", "  P1: ", "  M0: ", "[sleep, "]
    {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    sleeper.signal(Signal::TERM);
    sleeper.boot.wait();
}

#[test]
fn stopping_boot_stops_the_machine() {
    let _machine = only_machine();
    let mut sleeper = Sleeper::start("stop", 2, 1024);
    sleeper.signal(Signal::TSTP);
    sleeper.wait_for_state(|state| state == Some('T'));
    // `boot` stops QEMU first and then itself. The test waits for both, as a shell does, before it continues `boot`.
    wait_for("boot", SOON, || sleeper.boot_state(), |state| state == Some('T'));
    sleeper.signal(Signal::CONT);
    sleeper.wait_for_state(|state| state.is_some_and(|state| state != 'T'));
    sleeper.signal(Signal::TERM);
    sleeper.boot.wait();
    sleeper.wait_for_state(|state| state.is_none());
}

#[test]
fn output_without_reader_is_lost_after_a_time_and_reported() {
    let _machine = small_machine();
    let mut printer = Sleeper::start_program("print", &["--smp=1", "--kernel-option=drain_s=1"], "print-and-exit");
    let first = printer.boot.read_until("\n");
    // QEMU ends although nothing reads its output. `boot` then waits until its own output has been read.
    wait_for("QEMU", Duration::from_secs(60), || printer.qemu_state(), |state| state.is_none());
    let output = printer.boot.finish();
    assert!(text(&output.stderr).contains("output is lost"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(105));
    let printed = first + &text(&output.stdout);
    let (lines, last) = printed.rsplit_once('\n').expect("lines");
    assert!(lines.lines().all(|line| line == "one more line") && "one more line".starts_with(last), "{last}");
}

/// The reader is slower than the program, so `boot` always has more output to show.
#[test]
fn program_that_prints_all_the_time_is_ended_at_the_time_limit() {
    const LIMIT: usize = 6 << 20;
    let _machine = small_machine();
    let mut boot = Running::start(boot_outside(&["--smp=1", "--timeout=3"], &["print"]));
    let mut output = boot.take_output();
    let (mut part, mut total) = ([0; 4096], 0);
    loop {
        match output.read(&mut part).expect("a pipe") {
            0 => break,
            count => total += count,
        }
        assert!(total < LIMIT, "`boot` still prints long after the time limit");
        thread::sleep(Duration::from_millis(10));
    }
    let output = boot.finish();
    assert_eq!(output.status.code(), Some(103), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("time-out: the program still ran after 3s"), "{}", text(&output.stderr));
}

/// If the kernel has not used a page of the machine's memory, this page takes no memory of the host.
#[test]
fn unused_memory_takes_no_memory_of_the_host() {
    let _machine = only_machine();
    let mut sleeper = Sleeper::start("memory", 1, 4096);
    let qemu = sleeper.qemu().expect("it runs").id;
    let status = fs::read_to_string(format!("/proc/{qemu}/status")).expect("it runs");
    let resident = status.split_once("VmRSS:").expect("a figure").1.split_whitespace().next().expect("a number");
    let resident = resident.parse::<u64>().expect("a number") / 1024;
    sleeper.signal(Signal::TERM);
    sleeper.boot.wait();
    // The bound leaves room for the program, for QEMU itself, and for the memory that the kernel uses.
    assert!(resident < 512, "{resident} MiB of 4096 are in use");
}

/// Returns the CPU time that the threads of a process have used on the host.
fn processor_time(id: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
    let nanoseconds = threads.filter_map(Result::ok).filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// This test is ignored by default, because its measurement is wrong on a busy host.
#[test]
#[ignore = "takes 12 s, and measures time"]
fn sleeping_machine_uses_under_two_percent_of_a_core() {
    const OVER: Duration = Duration::from_secs(10);
    let _machine = only_machine();
    let mut sleeper = Sleeper::start("idle", 8, 1024);
    let qemu = sleeper.qemu().expect("it runs").id;
    // Waits until all timers of the boot have fired.
    thread::sleep(Duration::from_secs(2));
    let before = processor_time(qemu);
    thread::sleep(OVER);
    let used = processor_time(qemu) - before;
    let percent = 100.0 * used.as_secs_f64() / OVER.as_secs_f64();
    println!("QEMU used {used:?} in {OVER:?}: {percent:.1} % of a core");
    sleeper.signal(Signal::TERM);
    sleeper.boot.wait();
    assert!(percent < 2.0, "{percent} %");
}
