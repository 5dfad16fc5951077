//! Tests a program that chooses its scheduling policy by `kernel::main!`.

use std::process::Command;

/// Runs the program `priorities` on `cpus` CPUs. Returns the number of messages that it reports, and the median of
/// their delays in microseconds.
fn delay(cpus: &str) -> (u64, u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    let output =
        command.args(["--timeout", "60", "--release", "--smp", cpus, "priorities"]).output().expect("boot runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    (numbers.next().expect("the number of messages"), numbers.next().expect("a delay"))
}

/// By Go's rules the messages would wait until each of the other Gs has had its slice.
#[test]
fn messages_reach_a_g_of_a_high_priority_beside_hogs() {
    for cpus in ["1", "4"] {
        let (messages, delay) = delay(cpus);
        assert_eq!(messages, 8 * 20 * cpus.parse::<u64>().unwrap());
        assert!(delay < 5_000, "{delay} us on {cpus} CPUs");
    }
}
