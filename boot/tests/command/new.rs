//! Tests of the crate that `boot new` makes. Ordinary cargo commands work in this crate, and `boot` boots its program.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::child::{Running, run};
use crate::outside::{boot, finish, only_machine, status, text};

/// The source of a program that must behave in the same way on the machine and on the host. Its first argument chooses
/// what it does.
const ALIKE: &str = include_str!("new_program.rs");

/// The folder that contains the crate `alike`, whose program is [`ALIKE`]. Several tests use this crate, and may write
/// to the folder.
static ALIKE_CRATE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    make("alike", folder.path());
    fs::write(folder.path().join("alike/src/main.rs"), ALIKE).expect("written");
    folder
});

/// Runs `boot new` with these arguments in a folder.
fn boot_new(words: &[&str], folder: &Path) -> Output {
    let mut command = boot();
    command.current_dir(folder).arg("new").args(words);
    run(command)
}

/// Makes the crate `name` in a folder.
fn make(name: &str, folder: &Path) {
    let output = boot_new(&[name], folder);
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));
}

/// Returns a cargo command that runs in the folder of a crate, without access to the network. All crates of these tests
/// share one target directory.
pub(crate) fn cargo(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/new")).env("CARGO_NET_OFFLINE", "true");
    command.env("RUST_BACKTRACE", "0").env("CARGO_TERM_COLOR", "never");
    for variable in ["RUSTFLAGS", "GMP_KERNEL_OPTIONS", "GMP_DISKS", "GMP_DISKS_WRITABLE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a cargo command, and asserts that it succeeds.
pub(crate) fn succeed(words: &[&str], folder: &Path) -> Output {
    let output = run(cargo(words, folder));
    assert_eq!(status(&output), Some(0), "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

#[test]
fn ordinary_cargo_commands_work_in_a_new_crate() {
    let folder = tempfile::tempdir().expect("a folder");
    make("my-program", folder.path());
    let own = folder.path().join("my-program");
    succeed(&["check", "--all-targets"], &own);
    let clippy = succeed(&["clippy", "--all-targets", "--", "-D", "warnings"], &own);
    assert!(!text(&clippy.stderr).contains("warning"), "{}", text(&clippy.stderr));
    let trace = folder.path().join("trace");
    let mut traced = cargo(&["run", "--", "a", "b c"], &own);
    traced.env("GMP_TRACE", &trace);
    let ran = run(traced);
    assert_eq!(text(&ran.stdout), "[\"a\", \"b c\"]: 204\n", "{}", text(&ran.stderr));
    let tested = succeed(&["test"], &own);
    assert!(text(&tested.stdout).contains("test tests::squares_are_summed ... ok"), "{}", text(&tested.stdout));
    succeed(&["fmt", "--check"], &own);

    let mut booted = boot();
    booted.arg(&own).args(["a", "b c"]);
    let booted = finish(booted);
    assert_eq!(text(&booted.stdout), text(&ran.stdout), "{}", text(&booted.stderr));
    assert_eq!(status(&booted), Some(0));

    let mut converted = boot();
    converted.arg("timeline").args([&trace, &folder.path().join("timeline")]);
    let converted = run(converted);
    assert_eq!(status(&converted), Some(0), "{}", text(&converted.stderr));
    let json = fs::read_to_string(folder.path().join("timeline.json")).expect("the JSON file");
    assert!(text(&converted.stdout).contains(" 0 lost, in ") && json.contains("\"G1 main\""), "{json}");
}

#[test]
fn failing_test_of_a_new_crate_names_the_g_and_the_place() {
    let folder = tempfile::tempdir().expect("a folder");
    make("failing", folder.path());
    let main = folder.path().join("failing/src/main.rs");
    let source = fs::read_to_string(&main).expect("text");
    let wrong = source.replace("n * n)", "if n == 2 { panic!(\"two\") } else { n })").replace("1 + 4 + 9", "0");
    fs::write(&main, wrong).expect("written");
    let output = run(cargo(&["test"], &folder.path().join("failing")));
    let said = text(&output.stdout);
    assert_eq!(status(&output), Some(101), "{said}");
    assert!(said.contains("panicked at src/main.rs:") && said.contains("goroutine ") && said.contains("two"), "{said}");
}

#[test]
fn program_behaves_alike_on_the_host_and_on_the_machine() {
    let own = ALIKE_CRATE.path().join("alike");
    let built = succeed(&["build"], &own);
    assert!(!text(&built.stderr).contains("warning"), "{}", text(&built.stderr));
    for (arguments, ends_with) in [
        (&["library"][..], Some(0)),
        (&["select"], Some(0)),
        (&["surface"], Some(0)),
        (&["status", "9"], Some(9)),
        (&["status", "400"], Some(100)),
        (&["error"], Some(1)),
        (&["exit", "7"], Some(7)),
        (&["exit", "200"], Some(100)),
        (&["panic"], Some(2)),
        (&["deadlock"], Some(2)),
        (&["select-nothing"], Some(2)),
    ] {
        let [host, machine] = on_both(arguments);
        let context = format!("{arguments:?}: {}{}", text(&host.stderr), text(&machine.stderr));
        assert_eq!(status(&host), ends_with, "{context}");
        assert_eq!(status(&machine), ends_with, "{context}");
        for part in match arguments[0] {
            "panic" => &["panic at src/main.rs:", "as it should", "[running]", "(waits) ["][..],
            "deadlock" => &["all goroutines are asleep - deadlock!", "goroutine 1 [chan receive"],
            "select-nothing" => &["all goroutines are asleep - deadlock!", "goroutine 1 [select (no cases)"],
            "status" if arguments[1] == "400" => &["exit status 400 is not in 0 to 100: the program ends with 100\n"],
            "exit" if arguments[1] == "200" => &["exit status 200 is not in 0 to 100: the program ends with 100\n"],
            "error" => &["error: it was meant to fail\n"],
            _ => &[],
        } {
            assert!(text(&host.stderr).contains(part), "host, {part}: {}", text(&host.stderr));
            assert!(text(&machine.stderr).contains(part), "machine, {part}: {}", text(&machine.stderr));
        }
    }
}

#[test]
fn kernel_option_without_effect_on_the_host_is_said_and_an_unknown_one_is_refused() {
    let own = ALIKE_CRATE.path().join("alike");
    for (options, said, ends_with) in [
        ("log=debug procs=2", "note: the kernel option log=debug has no effect on the host, only on the machine\n", 0),
        ("procs=2 panic=isolate program.size=large", "", 0),
        ("preemption=off", "", 0),
        ("preemption=no", "kernel option preemption=no: expected one of on, off\n", 64),
        ("procs=2,panic=isolate,program.sizes=1,2", "", 0),
        (
            "procs=2,panci=isolate",
            "kernel option panci=isolate: no option is named `panci`; did you mean `panic`? ",
            64,
        ),
        ("panic=isolated", "kernel option panic=isolated: expected one of end, isolate\n", 64),
        ("verbose", "kernel option verbose: expected the form KEY=VALUE\n", 64),
    ] {
        let mut host = cargo(&["run", "--quiet", "--", "status", "0"], &own);
        host.env("GMP_KERNEL_OPTIONS", options);
        let host = run(host);
        let printed = text(&host.stderr);
        assert!(printed.starts_with(said) && printed.is_empty() == said.is_empty(), "{options}: {printed}");
        assert_eq!(status(&host), Some(ends_with), "{options}: {printed}");
    }
}

#[test]
fn kernel_option_turns_preemption_off_on_the_host() {
    let own = ALIKE_CRATE.path().join("alike");
    for (options, expected) in [("procs=1", "preempted\n"), ("procs=1 preemption=off", "not preempted\n")] {
        let mut host = cargo(&["run", "--quiet", "--", "loop"], &own);
        host.env("GMP_KERNEL_OPTIONS", options);
        let host = run(host);
        assert_eq!(text(&host.stdout), expected, "{options}: {}", text(&host.stderr));
    }
}

/// Runs the program [`ALIKE`] on the host and on the machine. Asserts that standard output is the same, and returns
/// both outputs.
fn on_both(arguments: &[&str]) -> [Output; 2] {
    let own = ALIKE_CRATE.path().join("alike");
    let host = run(cargo(&[&["run", "--quiet", "--"], arguments].concat(), &own));
    let mut machine = boot();
    machine.arg("--smp=2").arg(&own).args(arguments);
    let machine = finish(machine);
    assert_eq!(text(&machine.stdout), text(&host.stdout), "{}{}", text(&host.stderr), text(&machine.stderr));
    [host, machine]
}

#[test]
fn input_and_disks_of_the_host_are_like_those_of_the_machine() {
    let own = ALIKE_CRATE.path().join("alike");
    let disk = ALIKE_CRATE.path().join("disk");
    let content: Vec<u8> = (0..1300_u32).map(|byte| (byte % 251) as u8).collect();
    fs::write(&disk, content).expect("written");
    let input = ALIKE_CRATE.path().join("input");
    fs::write(&input, "one\r\n\ntw\u{f6}").expect("written");
    let open = || Stdio::from(fs::File::open(&input).expect("a file"));

    let mut host = cargo(&["run", "--quiet", "--", "devices"], &own);
    host.env("GMP_DISKS", &disk).stdin(open());
    let host = run(host);
    let mut machine = boot();
    machine.arg("--disk").arg(&disk).arg(&own).arg("devices").stdin(open());
    let machine = finish(machine);
    assert_eq!(text(&host.stdout), text(&machine.stdout), "{}{}", text(&host.stderr), text(&machine.stderr));
    assert_eq!((status(&host), status(&machine)), (Some(0), Some(0)));
    assert!(
        text(&host.stdout)
            .contains("[\"one\", \"\", \"tw\u{f6}\"], 3 lines\nSome(0), unchanged; random numbers differ: true\n")
            && text(&host.stdout).contains("1300 bytes"),
        "{}",
        text(&host.stdout)
    );

    let mut missing = cargo(&["run", "--quiet", "--", "devices"], &own);
    missing.env("GMP_DISKS", "/no/such/file");
    let missing = run(missing);
    assert_eq!((status(&missing), text(&missing.stdout).as_str()), (Some(64), ""));
    assert!(text(&missing.stderr).contains("disk `/no/such/file`: No such file"), "{}", text(&missing.stderr));
}

/// Runs the program of the crate `alike` with the argument `input` on the host and on the machine, with this standard
/// input.
fn input_on_both(open: impl Fn() -> Stdio) -> [Output; 2] {
    let own = ALIKE_CRATE.path().join("alike");
    let mut host = cargo(&["run", "--quiet", "--", "input"], &own);
    host.stdin(open());
    let mut machine = boot();
    machine.arg("--smp=1").arg(&own).arg("input").stdin(open());
    [run(host), finish(machine)]
}

#[test]
fn input_of_a_file_is_bytes() {
    let file = ALIKE_CRATE.path().join("bytes");
    // Every byte occurs after every byte. Some of the bytes would be keys with a meaning if they came from a terminal.
    let pairs = (0..=u8::MAX).flat_map(|first| (0..=u8::MAX).flat_map(move |next| [first, next]));
    let rest: Vec<u8> = pairs.chain(b"\r\n\x04\x14\n\0".repeat(100)).collect();
    let first = format!("{}\u{4}\u{14}\0\r\n", "long".repeat(50_000));
    fs::write(&file, [first.as_bytes(), &rest].concat()).expect("written");
    for output in input_on_both(|| fs::File::open(&file).expect("a file").into()) {
        let expected = [format!("Ok({}) {first:?}\n", first.len()).as_bytes(), &rest].concat();
        assert!(output.stdout == expected, "{} bytes; {}", output.stdout.len(), text(&output.stderr));
        assert_eq!(status(&output), Some(0));
    }
}

#[test]
fn input_that_cannot_be_read_is_an_error() {
    for output in input_on_both(|| fs::File::open("/").expect("a folder").into()) {
        assert_eq!(text(&output.stdout), "Err(Unreadable) \"\"\nthe input cannot be read\n");
        assert!(
            text(&output.stderr).contains("cannot read standard input: Is a directory"),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(status(&output), Some(0));
    }
}

#[test]
fn several_gs_that_read_get_whole_lines() {
    let own = ALIKE_CRATE.path().join("alike");
    let mut host = cargo(&["run", "--quiet", "--", "readers"], &own);
    host.env("GMP_KERNEL_OPTIONS", "procs=1");
    let mut machine = boot();
    machine.arg("--smp=1").arg(&own).arg("readers");
    let lines: Vec<String> = (0..1000).map(|number| format!("{number:03};")).collect();
    let _machine = only_machine();
    for mut command in [host, machine] {
        command.stdin(Stdio::piped());
        let mut child = Running::start(command);
        assert_eq!(child.read_until("\n"), "waiting, 1000 rounds\n");
        child.take_input().write_all(lines.join("\n").as_bytes()).expect("taken");
        let output = child.finish();
        assert_eq!(text(&output.stdout), format!("1000 lines, {}\n", lines.concat()), "{}", text(&output.stderr));
        assert_eq!(status(&output), Some(0));
    }
}

#[test]
fn limit_ends_a_wait_for_input_and_loses_nothing() {
    let own = ALIKE_CRATE.path().join("alike");
    let host = cargo(&["run", "--quiet", "--", "limits"], &own);
    let mut machine = boot();
    machine.arg("--smp=2").arg(&own).arg("limits");
    let _machine = only_machine();
    for mut command in [host, machine] {
        command.stdin(Stdio::piped());
        let mut child = Running::start(command);
        assert_eq!(child.read_until("\n"), "Err(Limit(DeadlineExceeded))\n");
        let mut input = child.take_input();
        input.write_all(b"ha").expect("taken");
        let waits = child.read_until("halves\n");
        assert_eq!(waits, "Err(Limit(Canceled))\nErr(Limit(DeadlineExceeded)) \"\"\nhalves\n");
        input.write_all(b"lf\n").expect("taken");
        drop(input);
        let output = child.finish();
        let read = "Ok(5) \"half\\n\"\nOk(0)\nOk(0) \"\"\nOk(())\ntrue\n";
        assert_eq!((text(&output.stdout).as_str(), status(&output)), (read, Some(0)), "{}", text(&output.stderr));
    }
}

#[test]
fn programs_of_the_tree_run_on_the_host() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // These programs are built into the target directory of the workspace, where other tests use them, too.
    let program = |name| {
        let mut command = cargo(&["run", "--quiet", "--package", "programs", "--bin", name], &tree);
        command.env_remove("CARGO_TARGET_DIR");
        command
    };
    let tour = run(program("tour"));
    assert_eq!(status(&tour), Some(0), "{}{}", text(&tour.stdout), text(&tour.stderr));
    let printed = text(&tour.stdout);
    for part in ["-- stealing", "-- preemption", "-- handoff", "-- counters", " handoffs\n", " retakes by sysmon\n"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("abc");
    fs::write(&disk, "abc").expect("written");
    let mut sum = program("sha256");
    sum.env("GMP_DISKS", &disk);
    let sum = run(sum);
    let line = format!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  {}\n", disk.display());
    assert_eq!((text(&sum.stdout), status(&sum)), (line, Some(0)), "{}", text(&sum.stderr));
}

#[test]
fn program_that_links_std_is_not_entered() {
    make("std-program", ALIKE_CRATE.path());
    let own = ALIKE_CRATE.path().join("std-program");
    let main = own.join("src/main.rs");
    let source = fs::read_to_string(&main).expect("text");
    fs::write(&main, source.replace("#![no_std]\n", "")).expect("written");
    for words in [&["check"][..], &["check", "--tests"]] {
        let output = run(cargo(words, &own));
        assert_eq!(status(&output), Some(101), "{words:?}");
        assert!(text(&output.stderr).contains("`std` is ambiguous"), "{}", text(&output.stderr));
    }
}

#[test]
fn second_crate_is_built_with_what_the_first_one_has_built() {
    // This folder is inside of the kernel's tree. `boot` must treat crates there like crates elsewhere.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let crates = ["one", "other"].map(|name| folder.path().join(name).join("same"));
    for own in &crates {
        fs::create_dir(own.parent().expect("a folder")).expect("made");
        make("same", own.parent().expect("a folder"));
        let main = fs::read_to_string(own.join("src/main.rs")).expect("text");
        fs::write(own.join("src/main.rs"), main.replace("{args:?}", &format!("{} {{args:?}}", own.display())))
            .expect("written");
    }
    // The two crates have the same name, and share one build directory. Each program prints the path of its crate,
    // which shows whether cargo has mistaken one crate for the other.
    for own in [&crates[0], &crates[1], &crates[0]] {
        let mut command = boot();
        command.args(["--smp=1"]).arg(own).env("CARGO_TERM_COLOR", "never");
        let output = finish(command);
        assert_eq!(text(&output.stdout), format!("{} []: 204\n", own.display()), "{}", text(&output.stderr));
        if own == &crates[1] {
            let said = text(&output.stderr);
            let built: Vec<&str> = said.lines().filter(|line| line.contains("Compiling")).collect();
            assert!(built.len() == 1 && built[0].contains("Compiling same"), "{said}");
        }
    }
}

#[test]
fn mistakes_in_the_name_of_a_new_crate_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("there")).expect("made");
    for (words, complaint) in [
        (&[][..], "`new` takes the path of the crate to make"),
        (&["a", "b"], "`new` takes the path of the crate to make"),
        (&["there"], "`there` exists already"),
        (&["1st"], "`1st` cannot be the name of a crate"),
        (&["no good"], "`no good` cannot be the name of a crate"),
        (&["--lib"], "`--lib` cannot be the name of a crate"),
        (&[".."], "`` cannot be the name of a crate"),
        (&["std"], "`std` cannot be the name of a program"),
        (&["kernel"], "`kernel` cannot be the name of a program"),
        (&["no/such/folder"], "cannot make `no/such/folder`: No such file"),
    ] {
        let output = boot_new(words, folder.path());
        let said = text(&output.stderr);
        assert!(said.contains(complaint), "{words:?}: {said}");
        assert_eq!((status(&output), text(&output.stdout).as_str()), (Some(64), ""), "{words:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
