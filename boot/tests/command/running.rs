//! Tests of programs that run in the machine: their arguments, input and output, and the exit status of `boot`.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use boot_protocol::console::{BEGIN, Stream};

use crate::child::{Running, run};
use crate::outside::{OUTSIDE, boot, boot_outside, finish, finish_at_limit, only_machine, status, text, write_crate};
use crate::top::pseudo_terminal;

/// Makes the standard input of a command a pipe, so that the test can write to it.
fn with_input(mut command: Command) -> Command {
    command.stdin(Stdio::piped());
    command
}

/// Returns a command with arguments and an empty input. The test can read its output.
fn captured(mut command: Command, arguments: &[impl AsRef<OsStr>]) -> Command {
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn crate_outside_the_workspace_is_built_and_booted() {
    let mut by_directory = boot();
    by_directory.arg(OUTSIDE.directory.path());
    let mut by_manifest = boot();
    by_manifest.arg(OUTSIDE.directory.path().join("Cargo.toml"));
    let mut from_inside = boot();
    from_inside.current_dir(OUTSIDE.directory.path()).arg(".");
    for command in [by_directory, by_manifest, from_inside] {
        let output = finish(command);
        assert_eq!(text(&output.stdout), "hello from outside\n", "{}", text(&output.stderr));
        assert_eq!(status(&output), Some(0));
    }
}

#[test]
fn program_knows_whether_standard_error_is_a_terminal() {
    let (_ours, terminal) = pseudo_terminal();
    let on_terminal = |options| {
        let mut command = boot_outside(options, &["stderr"]);
        command.stderr(terminal.try_clone().expect("a handle"));
        command
    };
    for (command, expected) in [
        (on_terminal(&["--smp=1"]), true),
        (on_terminal(&["--smp=1", "--kernel-option=stderr=file"]), false),
        (boot_outside(&["--smp=1"], &["stderr"]), false),
    ] {
        let output = finish(command);
        assert_eq!(text(&output.stdout), format!("standard error is a terminal: {expected}\n"));
        assert_eq!(status(&output), Some(0));
    }
}

#[test]
fn flags_for_the_host_do_not_reach_the_machine() {
    let mut command = boot();
    command
        .arg(OUTSIDE.directory.path())
        .env("RUSTFLAGS", "-Cpanic=unwind")
        .env("RUSTC_WORKSPACE_WRAPPER", "/no/wrapper");
    let output = finish(command);
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));
}

/// `boot` builds an ELF file with the names and lines that reports need, although the profiles of the crate leave them
/// out.
#[test]
fn program_whose_profiles_strip_it_reports_names_and_lines() {
    let folder = write_crate(
        "stripped",
        "#![no_std]\n#![no_main]\nkernel::main!(main);\n\n\nfn main(_: &[&str]) { panic!() }\n",
    );
    let manifest = folder.path().join("Cargo.toml");
    let profiles = ["release", "dev"]
        .map(|profile| format!("\n[profile.{profile}]\nstrip = true\ndebug = false\nsplit-debuginfo = \"packed\"\n"));
    fs::write(&manifest, fs::read_to_string(&manifest).expect("text") + &profiles.concat()).expect("written");
    for option in ["--debug", "--release", "--smp=1"] {
        let mut command = boot();
        command.arg(option).arg(folder.path());
        let output = finish(command);
        assert_eq!(status(&output), Some(2), "{}", text(&output.stderr));
        // An optimised build inlines the function, and then the line has its name without the crate.
        let name = if option == "--debug" { "stripped::main" } else { "main" };
        let line = format!(" {name} ({}/src/main.rs:6)\n", folder.path().display());
        assert!(text(&output.stderr).contains(&line), "{option}: {}", text(&output.stderr));
    }
}

#[test]
fn debug_build_reports_where_preemption_was_turned_off() {
    let mut command = boot();
    command.args(["--debug", "--smp=2", "--timeout=60"]).arg(OUTSIDE.directory.path()).arg("pinned");
    let output = finish(command);
    let printed = text(&output.stderr);
    let line = include_str!("outside_program.rs").lines().position(|line| line.contains("let _pinned")).expect("a pin");
    assert!(printed.contains("has had preemption off for"), "{printed}");
    assert!(printed.contains(&format!("preempt count 1 since src/main.rs:{}:", line + 1)), "{printed}");
    assert_eq!(status(&output), Some(0), "{printed}");
}

#[test]
fn cpu_that_waits_for_its_own_lock_panics() {
    let output = finish(boot_outside(&["--timeout=30"], &["deadlock"]));
    let printed = text(&output.stderr);
    assert_eq!(status(&output), Some(2), "{printed}");
    let source = include_str!("outside_program.rs");
    let line = |wanted: &str| source.lines().position(|line| line.contains(wanted)).expect("a lock") + 1;
    let (held, wanted) = (line("let _held = "), line("let _never = "));
    assert!(printed.contains(&format!("waits for itself: at src/main.rs:{wanted}:")), "{printed}");
    assert!(printed.contains(&format!("that it took at src/main.rs:{held}:")), "{printed}");
}

#[test]
fn arguments_are_passed_unchanged() {
    let output = finish(boot_outside(&["--smp=1"], &["arguments", "--smp", "3", "", "two words", "--", r#"a\"b"#]));
    assert_eq!(text(&output.stdout), r#"["--smp", "3", "", "two words", "--", "a\\\"b"]"#.to_owned() + "\n");
}

#[test]
fn exceptions_and_resets_have_their_own_status() {
    let output = finish(boot_outside(&[], &["exception"]));
    assert_eq!(status(&output), Some(2));
    let printed = text(&output.stderr);
    for part in ["in goroutine 1: invalid opcode (#UD", "\ngoroutine 1 [running] on CPU", "src/main.rs:"] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    let output = finish(boot_outside(&[], &["reset"]));
    assert_eq!(status(&output), Some(102));
    assert!(text(&output.stderr).contains("triple fault"), "{}", text(&output.stderr));
}

#[test]
fn time_limit_prints_where_the_cpus_are() {
    let hangs = |output: &Output| text(&output.stderr).contains("outside::hang");
    let output = finish_at_limit(&["--smp=2"], "hang", hangs);
    let printed = text(&output.stderr);
    assert_eq!(status(&output), Some(103), "{printed}");
    assert_eq!(text(&output.stdout), "hanging\n", "{printed}");
    assert!(printed.contains("time-out"), "{printed}");
    assert!(hangs(&output) && printed.contains("src/main.rs:"), "{printed}");
}

#[test]
fn reports_do_not_reach_standard_output() {
    for (cause, printed, reported, ends_with) in [
        ("panic", "before\nwithout an end", "it was meant to panic", 2),
        ("deadlock", "before\nwithout an end", "all goroutines are asleep - deadlock!", 2),
        ("overflow", "before\nwithout an end", "fatal error: stack overflow", 2),
        ("exception", "before\nwithout an end", "invalid opcode", 2),
        ("watchdog", "before\nwithout an end, as if nothing had been\n", "has had preemption off for", 0),
        ("isolated", "before\nwithout an end, as if nothing had been\n", "is dead and the others go on", 0),
    ] {
        let options = [
            "--smp=2",
            "--timeout=60",
            "--kernel-option",
            if cause == "isolated" { "panic=isolate" } else { "log=warn" },
        ];
        let output = finish(boot_outside(&options, &["report", cause]));
        let report = text(&output.stderr);
        assert_eq!(text(&output.stdout), printed, "{cause}: {report}");
        assert!(report.contains(reported), "{cause}: {report}");
        assert!(!report.contains("before") && !report.contains("nothing had been"), "{cause}: {report}");
        assert_eq!(status(&output), Some(ends_with), "{cause}: {report}");
    }
}

/// The report shows one G of each group of similar Gs, with the lines of the program at which this G waits.
#[test]
fn deadlock_report_shows_where_each_group_of_goroutines_waits() {
    let output = finish(boot_outside(&["--smp=2"], &["philosophers"]));
    let printed = text(&output.stderr);
    let source = include_str!("outside_program.rs");
    let line = |wanted: &str| source.lines().position(|line| line.contains(wanted)).expect("a line") + 1;
    let deadlock = "fatal error: all goroutines are asleep - deadlock!\n";
    assert!(printed.starts_with(deadlock) && printed.ends_with(deadlock), "{printed}");
    for part in [
        "(philosopher 0) [sync.Mutex.Lock, ".to_owned(),
        "(philosopher 1) [sync.Mutex.Lock, ".to_owned(),
        format!("src/main.rs:{})", line("let _right = ")),
        "\n1,499 more like goroutine ".to_owned(),
        format!("src/main.rs:{})", line("never.recv()")),
        format!("src/main.rs:{})", line("philosopher.join()")),
    ] {
        assert!(printed.contains(&part), "{part} is not in {printed}");
    }
    // The backtrace shows only the program's own functions.
    assert!(!printed.contains("gmp_sched::") && !printed.contains("gmp-sched/src"), "{printed}");
    assert!(printed.lines().count() < 40, "{printed}");
    assert_eq!(status(&output), Some(2));
}

/// The report of this program has no end, so the time limit cuts it. `boot` still ends with the status of the failed
/// program, which the kernel has sent before the report.
#[test]
fn time_limit_during_a_report_keeps_the_status() {
    let cut = "boot: time-out: the program had failed, and its report is cut after ";
    let output = finish_at_limit(&["--smp=1"], "long-message", |output| text(&output.stderr).contains(cut));
    let printed = text(&output.stderr);
    assert!(printed.contains(cut), "{}", printed.len());
    assert_eq!(status(&output), Some(2));
}

#[test]
fn log_is_printed_to_standard_error() {
    let output = finish(boot_outside(&["--smp=2", "--kernel-option=log=info"], &[]));
    assert_eq!(text(&output.stdout), "hello from outside\n");
    assert!(text(&output.stderr).contains("] info: kernel::"), "{}", text(&output.stderr));
}

#[test]
fn output_and_errors_in_one_file_keep_their_order() {
    let file = tempfile::tempfile().expect("a file");
    let mut command = boot_outside(&["--smp=2"], &["both"]);
    command.stdout(file.try_clone().expect("a file")).stderr(file.try_clone().expect("a file"));
    assert_eq!(status(&finish(command)), Some(0));
    let mut shown = String::new();
    (&file).rewind().expect("a file");
    (&file).read_to_string(&mut shown).expect("text");
    let expected: String = (0..1000).map(|number| format!("out {number}\nerr {number}\n")).collect();
    assert_eq!(shown, expected);

    let output = finish(boot_outside(&["--smp=2"], &["both"]));
    let only = |stream: &str| (0..1000).map(|number| format!("{stream} {number}\n")).collect::<String>();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (only("out"), only("err")));
}

#[test]
fn prompt_is_shown_before_it_is_answered() {
    let _machine = only_machine();
    let mut child = Running::start(with_input(boot_outside(&[], &["prompt"])));
    assert_eq!(child.read_until("? "), "name? ");
    child.take_input().write_all(b"machine\n").expect("taken");
    assert_eq!(text(&child.finish().stdout), "hello, machine\n");
}

/// A terminal sends the inspection key together with a newline. Both are removed from the program's input. Ctrl-D ends
/// the input.
#[test]
fn key_prints_a_report_of_the_machine() {
    let _machine = only_machine();
    let (mut input, terminal) = pseudo_terminal();
    let mut command = boot_outside(&["--smp=2"], &["echo"]);
    command.stdin(terminal);
    let mut child = Running::start(command);
    input.write_all(b"one\nt\x14\nwo").expect("taken");
    let printed = child.read_errors_until("the machine goes on\n");
    for part in ["-- asked by the console at ", "CPU 0", "CPU 1", "SCHED ", "  P1: ", "  M0: ", "goroutine 1 ["] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    input.write_all(b"\n\x04").expect("taken");
    let output = child.finish();
    assert_eq!(text(&output.stdout), "[one]\n[two]\n2 lines, 8 bytes\n");
    assert_eq!(status(&output), Some(0));
}

#[test]
fn closed_standard_output_ends_boot_silently() {
    let _machine = only_machine();
    let mut child = Running::start(boot_outside(&[], &["print"]));
    let mut start = [0; 100];
    child.take_output().read_exact(&mut start).expect("some lines");
    let output = child.finish();
    assert_eq!(status(&output), Some(141));
    assert_eq!(text(&output.stderr), "");
}

/// The output of the tour contains times, counters and a timeline. So two outputs are equal only if the two runs did
/// the same at the same times.
#[test]
fn counted_instructions_make_tours_equal() {
    let run = || {
        let mut command = boot();
        command.args(["--icount", "--smp=8", "tour", "--check"]);
        let output = finish(command);
        assert_eq!(status(&output), Some(0), "{}", text(&output.stdout));
        text(&output.stdout)
    };
    let first = run();
    assert!(first.contains("   P7  "), "{first}");
    assert_eq!(first, run());
    assert!(first.contains(" promises hold, 0 do not."), "{first}");
    check_story(&first);
}

/// One part of the tour shows three ways to wait for a device. This function checks what this part prints: when each
/// step happened, and on which M.
fn check_story(tour: &str) {
    let story = tour.split("-- three ways to wait").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a story");
    let step = |line: &str| {
        let (when, what) = line.split_once(" us  ")?;
        let words = what.split(|character: char| !character.is_ascii_alphanumeric());
        let machines: Vec<u32> = words.filter_map(|word| word.strip_prefix('M')?.parse().ok()).collect();
        Some((when.trim().parse().expect("microseconds"), machines))
    };
    let steps: Vec<(u64, Vec<u32>)> = story.lines().filter_map(step).collect();
    assert_eq!(steps.len(), 13, "{story}");
    let (free, rest) = steps.split_at(3);
    let (busy, rest) = rest.split_at(3);
    let (parked, polled) = rest.split_at(3);
    for scene in [free, busy, parked, polled] {
        assert!(scene[0].0 == 0 && scene.is_sorted_by_key(|step| step.0), "{story}");
    }
    // The P is free when the call ends. Another M runs main during the call. Afterwards, the G continues on its own M,
    // with its old P.
    assert!(free[1].1 != free[0].1 && free[2].1 == free[0].1 && (3000..3100).contains(&free[2].0), "{story}");
    // The P is busy when the call ends. The G continues on the M that runs main, and the M of the call becomes idle.
    assert!(busy[1].1 != busy[0].1 && busy[2].1 == busy[1].1, "{story}");
    assert!(story.contains(&format!("M{} is on the list of idle Ms", busy[0].1[0])), "{story}");
    // The driver waits for a signal. Only one M takes part, and the G runs as soon as the signal is raised.
    assert!(parked.iter().all(|step| step.1[..] == parked[0].1[..1]) && parked[2].0 < 1000, "{story}");
    // The driver polls. sysmon retakes the P long before the call ends, and another M runs main.
    let (own, other) = (polled[0].1[0], polled[2].1[0]);
    assert!(polled[1].1 == [own] && polled[1].0 < 25_000 && own != other, "{story}");
    assert!(polled[3].1 == [other] && polled[3].0 >= 30_000, "{story}");
    assert!(story.contains(&format!("M{own} is on the list of idle Ms")), "{story}");
    assert!(story.contains("counted: 2 handoffs, 1 retaken by sysmon, "), "{story}");
}

#[test]
fn dry_run_prints_an_equivalent_command() {
    let output = finish(boot_outside(&["--dry-run", "--smp=1"], &["arguments", "two words"]));
    let command = text(&output.stdout);
    assert!(command.starts_with("qemu-system-x86_64 "), "{command}");
    let _machine = only_machine();
    let output = run(captured(Command::new("sh"), &["-c", &command]));
    assert!(text(&output.stdout).contains(r#"["two words"]"#), "{}", text(&output.stdout));
    // 33 is QEMU's exit code if the guest ends with status 0.
    assert_eq!(status(&output), Some(33));
}

/// QEMU runs without `isa-debug-exit`, the device by which the guest ends QEMU, and without `-no-reboot`. So the kernel
/// prints the status and turns the machine off by ACPI.
#[test]
fn machine_without_debug_exit_is_powered_off() {
    let output = finish(boot_outside(&["--dry-run", "--smp=2"], &["status", "7"]));
    let mut words = shlex::split(text(&output.stdout).trim()).expect("a shell command");
    words.retain(|word| word != "-no-reboot");
    let device = words.iter().position(|word| word.starts_with("isa-debug-exit")).expect("the device");
    words.drain(device - 1..=device);
    let _machine = only_machine();
    let output = run(captured(Command::new(&words[0]), &words[1..]));
    // Two bytes of the console's output are meant for `boot`: the kernel's first byte, and the mark that selects
    // standard error. QEMU itself does not interpret them.
    let [begin, mark] = [BEGIN, Stream::Error.mark()].map(char::from);
    assert_eq!(
        text(&output.stdout),
        format!("{begin}{mark}The program has ended with status 7.\n"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(status(&output), Some(0));
}

#[test]
fn machine_waits_for_gdb() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let output = finish(boot_outside(&[&format!("--gdb={port}"), "--timeout=1"], &[]));
    assert_eq!((status(&output), text(&output.stdout).as_str()), (Some(103), ""));
    assert!(text(&output.stderr).contains(&format!("'target remote 127.0.0.1:{port}'")), "{}", text(&output.stderr));
}
