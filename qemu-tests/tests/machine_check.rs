//! Tests of machine checks. QEMU injects a hardware error. The machine must end with a report.

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use boot::build::{Options, Profile, build};
use boot::program::Program;
use boot::qemu::Configuration;
use boot::session::{Ending, Event, Session};
use boot_protocol::report::SERVE;
use boot_protocol::status::EXCEPTION;

/// Boots the test program. The program then waits for the name of a test, with all CPUs halted.
fn machine(cpus: u32) -> Session {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
    let program = Program::find(directory.as_os_str(), None).expect("the program is there");
    let options = Options { profile: Profile::Release, ..Options::default() };
    let elf = build(&program, options).expect("it builds");
    let configuration = Configuration { cpus, ..Configuration::default() };
    Session::boot(&configuration, &elf, &[SERVE.to_owned()]).expect("QEMU starts")
}

fn check(cpus: u32) {
    let mut machine = machine(cpus);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut text = String::new();
    let mut is_injected = false;
    let ending = loop {
        match machine.next(Some(deadline)) {
            Event::Output(_, bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Ended(ending) => break ending,
            Event::TimedOut => panic!("the machine does not end:\n{text}"),
        }
        if !is_injected && text.contains("@@test ready") {
            is_injected = true;
            machine.inject_machine_check().expect("the monitor listens");
        }
    };
    assert_eq!(ending, Ending::Status(EXCEPTION), "{text}");
    assert!(text.contains("exception on CPU 0: machine check (#MC, vector 18)"), "{text}");
}

#[test]
fn machine_check_ends_the_machine_with_a_report() {
    check(1);
}

#[test]
fn machine_check_on_one_of_several_cpus_ends_the_machine_with_a_report() {
    check(2);
}
