//! Tests the gdb script that shows the scheduler. The tests use the gdb command that `boot` prints.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::child::{Running, run};
use crate::outside::{boot_outside, only_machine, text};

#[test]
fn gdb_lists_goroutines_and_their_backtraces() {
    if Command::new("gdb").arg("--version").output().is_err() {
        eprintln!("SKIPPED: gdb is not installed, so scripts/gmp.py was not tried");
        return;
    }
    let _machine = only_machine();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let mut child = Running::start(boot_outside(&["--smp=2", &format!("--gdb={port}")], &["inspected"]));
    let mut says = BufReader::new(child.take_errors()).lines().map_while(Result::ok);
    let command = says.find_map(|line| Some(line.split_once("waiting for gdb: ")?.1.to_owned())).expect("the command");
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
    drop(child);
    let printed = text(&output.stdout) + &text(&output.stderr);
    for line in [
        "goroutine 1 [running]\n",
        "goroutine 16 [sleep] created by goroutine 1\n",
        ", goroutine 1\n",
        "[running] on M",
        "outside::nap (",
        "goroutine 17 [runnable] created by goroutine 1\n#0  ",
        " gmp_sched::lifecycle::closure::run (",
        "no goroutine 18 is alive",
    ] {
        assert!(printed.contains(line), "{line:?} is not in\n{printed}");
    }
}
