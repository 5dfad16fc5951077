//! Tests of `--record-input` and `--input-script`, and of the command that repeats a run.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::child::{Running, run};
use crate::outside::{boot_outside, finish, small_machine, status, text};

/// A run: its output, and the trace, which contains the time of each event.
#[derive(PartialEq)]
struct Run {
    output: String,
    trace: Vec<u8>,
}

/// Returns the options of a run with counted instructions, whose input and trace are files in this folder.
fn options(folder: &Path, cpus: &str, input: &str) -> Vec<String> {
    let file = |name| folder.join(name).display().to_string();
    vec!["--icount".into(), cpus.into(), input.into(), file("input"), "--trace".into(), file("trace")]
}

fn start(folder: &Path, cpus: &str, input: &str, more: &[&str], program: &[&str]) -> Running {
    let mut options = options(folder, cpus, input);
    options.extend(more.iter().map(|&option| option.to_owned()));
    let mut command = boot_outside(&options.iter().map(String::as_str).collect::<Vec<_>>(), program);
    if input == "--record-input" {
        command.stdin(Stdio::piped());
    }
    Running::start(command)
}

fn run_of(folder: &Path, output: &Output) -> Run {
    assert_eq!(status(output), Some(0), "{}", text(&output.stderr));
    Run { output: text(&output.stdout), trace: fs::read(folder.join("trace.json")).expect("a trace") }
}

/// Runs a program whose input is recorded, with the further options `more`. Each line is sent when the program has
/// answered the line before it.
fn record(folder: &Path, cpus: &str, more: &[&str]) -> Run {
    let mut child = start(folder, cpus, "--record-input", more, &["clocked"]);
    let mut input = child.take_input();
    let mut output = String::new();
    for line in ["one", "t\"w\\o", "größer", "", "a very long line: ".repeat(60).as_str()] {
        input.write_all(format!("{line}\n").as_bytes()).expect("taken");
        output += &child.read_until(&format!("[{line}]"));
    }
    drop(input);
    let rest = child.finish();
    let mut run = run_of(folder, &rest);
    run.output = output + &run.output;
    run
}

fn replay(folder: &Path, cpus: &str, more: &[&str]) -> Run {
    let output = start(folder, cpus, "--input-script", more, &["clocked"]).finish();
    run_of(folder, &output)
}

#[test]
fn recorded_run_replays_to_the_same_bytes() {
    let folder = TempDir::new().expect("a folder");
    let disk = folder.path().join("disk");
    fs::write(&disk, "0123456789abcdef".repeat(100)).expect("written");
    let disk = format!("--disk={}", disk.display());
    let _machine = small_machine();
    for (cpus, more) in [("--smp=1", &[][..]), ("--smp=4", &[disk.as_str()])] {
        let recorded = record(folder.path(), cpus, more);
        // The program reads the disk once for each line of the input.
        assert_eq!(recorded.output.matches(" 456789abcdef0123\n").count(), 5 * more.len(), "{}", recorded.output);
        let script = fs::read_to_string(folder.path().join("input")).expect("a script");
        for part in [" \"one\\n\"\n", " \"t\\\"w\\\\o\\n\"\n", " \"größer\\n\"\n", " end\n"] {
            assert!(script.contains(part), "{part} is not in {script}");
        }
        for _ in 0..2 {
            let replayed = replay(folder.path(), cpus, more);
            assert_eq!(recorded.output, replayed.output, "{cpus}\n{script}");
            assert!(recorded.trace == replayed.trace, "{cpus}: the traces differ");
        }
    }
}

fn is_gdb_missing() -> bool {
    let is_missing = Command::new("gdb").arg("--version").output().is_err();
    if is_missing {
        eprintln!("SKIPPED: gdb is not installed");
    }
    is_missing
}

/// Replays a run under gdb, with the further options `more`, and with the commands `orders` for gdb. Returns what gdb
/// prints, and the output of `boot`.
fn replay_under_gdb(folder: &Path, cpus: &str, more: &[&str], orders: &[&str]) -> (String, Output) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let port = format!("--gdb={port}");
    let more: Vec<&str> = more.iter().copied().chain([port.as_str()]).collect();
    let mut child = start(folder, cpus, "--input-script", &more, &["clocked"]);
    let mut says = BufReader::new(child.take_errors()).lines().map_while(Result::ok);
    let command = says.find_map(|line| Some(line.split_once("waiting for gdb: ")?.1.to_owned())).expect("the command");
    let words = shlex::split(&command).expect("a shell command");
    let mut gdb = Command::new(&words[0]);
    gdb.args(["-nx", "-batch"]).args(&words[1..]);
    for order in orders {
        gdb.args(["-ex", order]);
    }
    gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let printed = text(&run(gdb).stdout);
    // Reads the other messages of `boot`. If nothing read them, `boot` could wait for a reader for ever.
    says.for_each(drop);
    (printed, child.finish())
}

/// This test compares two runs only up to the first stop. After a stop, the runs may differ, because the other CPUs
/// execute some more instructions, and QEMU may advance the clock.
#[test]
fn gdb_finds_the_recorded_state_at_the_first_stop() {
    if is_gdb_missing() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let _machine = small_machine();
    // The argument of the function `debugger_stops_at_a_line`, in the register `rdi`, is the time that the program
    // prints.
    let orders = ["hbreak *debugger_stops_at_a_line", "continue", "print $rdi", "info registers rip rsp rbx", "kill"];
    for cpus in ["--smp=1", "--smp=4"] {
        let recorded = record(folder.path(), cpus, &[]).output;
        let (time, _) = recorded.split_once(' ').expect("a time");
        let stop = || replay_under_gdb(folder.path(), cpus, &[], &orders).0;
        let first = stop();
        assert!(first.contains(&format!("$1 = {time}\n")), "{recorded}\n{first}");
        assert_eq!(first, stop(), "{cpus}");
    }
}

/// The function at which gdb stops has the event's time as its first argument.
#[test]
fn gdb_stops_at_an_event_of_the_timeline() {
    if is_gdb_missing() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let _machine = small_machine();
    for cpus in ["--smp=1", "--smp=4"] {
        let recorded = record(folder.path(), cpus, &[]).trace;
        let recorded: serde_json::Value = serde_json::from_slice(&recorded).expect("JSON");
        let start = recorded["otherData"]["clock at 0 ns"].as_u64().expect("nanoseconds");
        let slices = recorded["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X");
        let mut times: Vec<u64> =
            slices.map(|slice| start + (slice["ts"].as_f64().expect("microseconds") * 1000.0).round() as u64).collect();
        times.sort_unstable();
        for time in [times[0], times[times.len() / 2]] {
            let orders = ["print $rdi", "backtrace 1", "kill"];
            let (printed, _) = replay_under_gdb(folder.path(), cpus, &[&format!("--until={time}ns")], &orders);
            assert!(printed.contains(&format!("$1 = {time}\n")), "{cpus}, {time}: {printed}");
        }
    }
}

#[test]
fn interrupted_run_keeps_its_recorded_input() {
    let folder = TempDir::new().expect("a folder");
    let _machine = small_machine();
    let mut child = start(folder.path(), "--smp=1", "--record-input", &[], &["clocked"]);
    let mut input = child.take_input();
    input.write_all(b"one\n").expect("taken");
    child.read_until("[one]");
    child.signal(Signal::INT);
    let output = child.finish();
    let printed = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()), "{printed}");
    assert!(printed.contains("boot: trace: ") && !printed.contains("to repeat this run"), "{printed}");
    let script = fs::read_to_string(folder.path().join("input")).expect("a script");
    assert!(script.ends_with(" \"one\\n\"\n"), "{script}");
}

/// On `/dev/full` nothing can be written.
#[test]
fn recording_that_cannot_be_written_is_an_error() {
    let _machine = small_machine();
    let mut command = boot_outside(&["--icount", "--smp=1", "--record-input=/dev/full"], &["clocked"]);
    command.stdin(Stdio::piped());
    let mut child = Running::start(command);
    child.take_input().write_all(b"one\n").expect("taken");
    let output = child.finish();
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(74), "{printed}");
    assert!(printed.contains("cannot record the input in /dev/full"), "{printed}");
}

#[test]
fn script_is_written_by_hand() {
    let folder = TempDir::new().expect("a folder");
    let script = "# two lines at once, then one in two pieces\n0.05 \"a\\nb\\n\"\n\n0.1 \"c\"\n0.30 \"\\x64\\n\"\n0.4 \"e\"\n0.4 end\n";
    fs::write(folder.path().join("input"), script).expect("written");
    let _machine = small_machine();
    let run = replay(folder.path(), "--smp=2", &[]);
    let lines: Vec<(u64, &str)> = run
        .output
        .lines()
        .map(|line| {
            let (time, rest) = line.split_once(' ').expect("a time");
            (time.parse().expect("nanoseconds"), rest.split_once(' ').map_or(rest, |(line, _)| line))
        })
        .collect();
    let ms = |at: u64| at / 1_000_000;
    let [(first, a), (second, b), (third, c), (fourth, e), (last, end)] = lines[..] else { panic!("{lines:?}") };
    assert_eq!([a, b, c, e, end], ["[a]", "[b]", "[cd]", "[e]", "end"]);
    // The kernel takes input every 10 ms.
    assert!((50..65).contains(&ms(first)) && ms(first) == ms(second), "{lines:?}");
    assert!((300..315).contains(&ms(third)) && (400..415).contains(&ms(fourth)) && ms(fourth) == ms(last), "{lines:?}");
    assert!(run == replay(folder.path(), "--smp=2", &[]), "the second run differs");
}

#[test]
fn script_has_bytes_and_keys() {
    let folder = TempDir::new().expect("a folder");
    let script = "0.05 \"a\\x04\\x14\\n\\r\\n\"\n0.1 keys \"\\x14\\rb\\rc\\r\\n\"\n0.2 keys \"\\x04\"\n0.3 \"late\"\n";
    fs::write(folder.path().join("input"), script).expect("written");
    let _machine = small_machine();
    let output = start(folder.path(), "--smp=1", "--input-script", &[], &["echo"]).finish();
    assert_eq!(text(&output.stdout), "[a\u{4}\u{14}]\n[\r]\n[b]\n4 lines, 10 bytes\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("-- asked by the console at "), "{}", text(&output.stderr));
}

#[test]
fn script_comes_from_a_pipe() {
    let _machine = small_machine();
    let mut command = boot_outside(&["--icount", "--smp=1", "--input-script=/dev/stdin", "--timeout=60"], &["clocked"]);
    command.stdin(Stdio::piped());
    let mut child = Running::start(command);
    child.take_input().write_all(b"0.05 \"one\\n\"\n0.1 end\n").expect("taken");
    let output = child.finish();
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(" [one]"), "{}", text(&output.stdout));
}

#[test]
fn mistake_in_a_script_is_named_with_its_place() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("input");
    fs::write(&file, "0.5 \"fine\"\n0.6 \"not \\q\"\n").expect("written");
    let option = format!("--input-script={}", file.display());
    let output = run(boot_outside(&["--icount", &option], &["clocked"]));
    let expected =
        format!("boot: --input-script: {}:2:10: expected \\n, \\r, \\t, \\\", \\\\ or \\xNN\n", file.display());
    assert_eq!((status(&output), text(&output.stderr)), (Some(64), expected));
    let output = run(boot_outside(&["--icount", "--input-script=/no/such/file"], &["clocked"]));
    assert!(text(&output.stderr).starts_with("boot: --input-script: /no/such/file: "), "{}", text(&output.stderr));
    let output = run(boot_outside(&["--input-script=x"], &["clocked"]));
    assert!(text(&output.stderr).contains("--icount"), "{}", text(&output.stderr));
}

/// The arguments of `boot` in the command that repeats a run.
fn repeating(output: &Output) -> Vec<String> {
    let printed = text(&output.stderr);
    let command =
        printed.lines().find_map(|line| line.split_once("to repeat this run, also with --gdb: cargo run -- "));
    shlex::split(command.unwrap_or_else(|| panic!("no command in {printed}")).1).expect("a shell command")
}

#[test]
fn failed_run_prints_the_command_that_repeats_it() {
    let folder = TempDir::new().expect("a folder");
    let repeat = |words: &[String]| {
        let mut command = crate::outside::boot();
        command.args(words);
        finish(command)
    };
    // The first run has no input.
    let output = finish(boot_outside(&["--icount", "--smp=2"], &["panic"]));
    let again = repeat(&repeating(&output));
    assert_eq!((status(&output), output.stdout, output.stderr), (status(&again), again.stdout, again.stderr));
    // The second run has recorded input. The command that repeats this run takes the input from the file.
    let output = {
        let _machine = small_machine();
        let mut child = start(folder.path(), "--smp=4", "--record-input", &[], &["clocked", "panic"]);
        let mut input = child.take_input();
        input.write_all(b"one\ntwo\n").expect("taken");
        drop(input);
        child.finish()
    };
    assert_eq!(status(&output), Some(2));
    let words = repeating(&output);
    let again = repeat(&words);
    assert_eq!((output.stdout, text(&output.stderr)), (again.stdout.clone(), text(&again.stderr)));
    assert!(text(&again.stderr).contains("it was meant to panic at "));
    assert_eq!(words, repeating(&again));
}

#[test]
fn failed_run_with_input_that_was_not_recorded_says_so() {
    let mut command = boot_outside(&["--icount", "--smp=1"], &["clocked", "panic"]);
    command.stdin(Stdio::null());
    let output = finish(command);
    assert_eq!(status(&output), Some(2));
    assert!(
        text(&output.stderr).contains("With --record-input FILE, the run could be repeated: cargo run -- --icount")
    );
}
