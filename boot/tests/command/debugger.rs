//! Tests the gdb script that shows the scheduler. The tests use the gdb command that `boot` prints.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::child::{Running, run};
use crate::outside::{boot_outside, only_machine, status, text};

fn is_gdb_missing() -> bool {
    let is_missing = Command::new("gdb").arg("--version").output().is_err();
    if is_missing {
        eprintln!("SKIPPED: gdb is not installed, so scripts/gmp.py was not tried");
    }
    is_missing
}

/// Boots a machine that waits for gdb. Returns `boot`, the gdb command that it prints, and the lines that it prints
/// afterwards on standard error.
fn wait_for_gdb() -> (Running, String, impl Iterator<Item = String>) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let mut child = Running::start(boot_outside(&["--smp=2", &format!("--gdb={port}")], &["inspected"]));
    let mut says = BufReader::new(child.take_errors()).lines().map_while(Result::ok);
    let command = says.find_map(|line| Some(line.split_once("waiting for gdb: ")?.1.to_owned())).expect("the command");
    (child, command, says)
}

#[test]
fn gdb_lists_goroutines_and_their_backtraces() {
    if is_gdb_missing() {
        return;
    }
    let _machine = only_machine();
    let (child, command, says) = wait_for_gdb();
    let words = shlex::split(&command).expect("a shell command");
    let mut gdb = Command::new(&words[0]);
    gdb.args(["-nx", "-batch"]).args(&words[1..]);
    for order in [
        "hbreak debugger_stops_here",
        "continue",
        "gmp goroutines",
        "gmp machines",
        "gmp processors",
        "gmp backtrace 16",
        "gmp backtrace 17",
        "gmp backtrace 18",
        "kill",
    ] {
        gdb.args(["-ex", order]);
    }
    gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = run(gdb);
    assert_was_killed(child, says);
    let printed = text(&output.stdout) + &text(&output.stderr);
    for line in [
        "goroutine 1 [running]\n",
        "goroutine 16 [sleep] created by goroutine 1\n",
        ", goroutine 1\n",
        "[running] on M",
        "outside::nap (",
        "goroutine 17 [runnable] created by goroutine 1\n#0  ",
        " gmp_sched::context::x86_64::start",
        "no goroutine 18 is alive",
    ] {
        assert!(printed.contains(line), "{line:?} is not in\n{printed}");
    }
    // Below the line of each G is the line of the program at which the G is. The scheduler's function in which a G waits
    // is not shown.
    let source: Vec<&str> = include_str!("outside_program.rs").lines().collect();
    let number = |code: &str| 1 + source.iter().position(|line| line.trim() == code).expect("a line");
    for (goroutine, function) in [
        ("goroutine 1 [running]", number("extern \"C\" fn debugger_stops_here() {")),
        ("goroutine 16 [sleep] created by goroutine 1", number("fn nap() {")),
    ] {
        let place = printed.lines().skip_while(|line| *line != goroutine).nth(1).expect(&printed);
        let (file, line) = place.rsplit_once(':').expect(&printed);
        assert!(file.starts_with("  in ") && file.ends_with("main.rs"), "{place:?} in\n{printed}");
        let line: usize = line.parse().expect("a number");
        assert!((function..=function + 1).contains(&line), "{place:?} in\n{printed}");
    }
}

/// Asserts that `boot` says that gdb has ended the machine, and not that the machine has failed.
fn assert_was_killed(child: Running, mut says: impl Iterator<Item = String>) {
    let said: Vec<String> = says.by_ref().collect();
    assert!(said.iter().any(|line| line.contains("the machine was ended by gdb")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("triple fault")), "{said:?}");
    assert_eq!(status(&child.finish()), Some(104));
}

/// The test does what a user would do. It runs the printed command by a shell in another folder, and types commands
/// into gdb.
#[test]
fn printed_gdb_command_works_in_a_shell() {
    if is_gdb_missing() {
        return;
    }
    let _machine = only_machine();
    let (child, command, says) = wait_for_gdb();
    let mut gdb = Command::new("sh");
    gdb.args(["-c", &command]).current_dir("/").env("DEBUGINFOD_URLS", "");
    gdb.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut gdb = Running::start(gdb);
    let mut input = gdb.take_input();
    input.write_all(b"help gmp\ninfo threads\nkill\nquit\n").expect("taken");
    drop(input);
    let output = gdb.finish();
    let printed = text(&output.stdout) + &text(&output.stderr);
    for part in ["gmp goroutines", "Thread 1.1", "Thread 1.2", "killed"] {
        assert!(printed.contains(part), "{part:?} is not in\n{printed}");
    }
    assert_was_killed(child, says);
}
