//! All CPUs print at the same time, from Gs and from interrupt handlers. Every line must appear once and complete, and
//! the lines of one G must be in order. A line of the input must not be lost if there is no memory for it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

const TEST: &str = "machine::prints_from_every_cpu";
/// The number of lines of each G. `LINES` and `ROUNDS` must equal the constants of the same names in the guest test.
const LINES: usize = 200;
/// The number of rounds. In each round, interrupt handlers print one line on every CPU except one.
const ROUNDS: usize = 20;

/// Runs the guest test `TEST` on `cpus` CPUs and returns its output.
fn printed(cpus: usize) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--timeout", "60", "--release", "--smp", &cpus.to_string()]);
    command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), TEST]);
    let output = command.output().expect("boot runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns line `number` of the G `g`. The form of the lines reveals whether lines were cut or mixed.
fn line(g: usize, number: usize) -> String {
    format!("<{g} {number} {}>", "abcdefghijklmnopqrstuvwxyz".repeat(1 + (g + number) % 5))
}

fn check(cpus: usize) {
    let text = printed(cpus);
    let mut from_gs: BTreeMap<usize, usize> = BTreeMap::new();
    let mut from_handlers = 0;
    for found in text.lines() {
        if found == "[from an interrupt handler]" {
            from_handlers += 1;
            continue;
        }
        let Some(g) = found.strip_prefix('<').and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok()) else {
            assert!(found.starts_with("@@test "), "{found:?} is a line that nothing has printed");
            continue;
        };
        let next = from_gs.entry(g).or_default();
        assert_eq!(found, line(g, *next));
        *next += 1;
    }
    assert_eq!(from_gs, (0..cpus).map(|g| (g, LINES)).collect());
    assert_eq!(from_handlers, ROUNDS * (cpus - 1));
}

#[test]
fn lines_from_one_cpu_are_whole() {
    check(1);
}

#[test]
fn lines_from_two_cpus_are_whole() {
    check(2);
}

#[test]
fn lines_from_eight_cpus_are_whole() {
    check(8);
}

#[test]
fn line_for_which_there_is_no_memory_is_kept() {
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--timeout", "60", "--release", "--smp", "1", "--memory", "64", "--kernel-option", "panic=isolate"]);
    command.args([guest, "stacks_without_memory::line_without_memory_is_an_error"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("boot runs");
    let line = "x".repeat(99_999) + "\n";
    child.stdin.take().expect("a pipe").write_all(line.as_bytes()).expect("the machine reads its input");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}
