//! Runs some guest tests with an unoptimised kernel. These are the tests that depend on how much stack the kernel uses.

use std::process::Command;

fn run(cpus: u32, test: &str) -> String {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "boot", "--", "--timeout", "120"]);
    command.args(["--debug", "--smp", &cpus.to_string(), concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), test]);
    let output = command.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn preemption_stays_within_its_reserve_on_one_cpu() {
    println!("{}", run(1, "preemption::reserve::preemption_stays_within_its_reserve"));
}

#[test]
fn preemption_stays_within_its_reserve_on_two_cpus() {
    println!("{}", run(2, "preemption::reserve::preemption_stays_within_its_reserve"));
}
