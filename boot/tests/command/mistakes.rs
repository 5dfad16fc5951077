//! Tests that each mistake of the user leads to a message that names the mistake, and to a certain exit status.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::child::run;
use crate::outside::{boot, boot_outside, finish, status, text, write_crate};

#[test]
fn mistakes_print_a_message_that_names_them() {
    let names = "tour";
    for (words, complaint) in [
        (&["no-such-program"][..], "there is no program, crate or file `no-such-program`"),
        (&["no-such-program"], names),
        (&["no/such/path"], "`no/such/path`"),
        (&["--smp", "none"], "'none' for '--smp <N>'"),
        (&["--no-such-option"], "'--no-such-option'"),
        (&["--kernel-option", "lgo=debug", "tour"], "did you mean `log`?"),
        (&["--kernel-option", "blockinglimit=8", "tour"], "did you mean `blocking_limit`?"),
        (&["--kernel-option", "blocking_limit=0", "tour"], "expected a number from 1 to 8000"),
        (&["--kernel-option", "size=large", "tour"], "those of programs begin with `program.`"),
        (&["--kernel-option", "console=poled", "tour"], "expected one of virtio, serial, polled"),
        (&["--kernel-option", "slice_us=99", "tour"], "expected a number from 100 to 10000000"),
        (&["--disk", "no-such-file", "tour"], "disk `no-such-file`: No such file"),
        (&["Cargo.lock.d"], "`Cargo.lock.d`"),
        (&["src"], "has no Cargo.toml"),
        (&["src/lib.rs"], "no ELF file"),
        (&["/bin/sh"], "`/bin/sh` is an ELF file, but no program for the machine; a program is "),
        (&["--trace", "tour"], "`--trace` takes a FILE, but `tour` is a program: cargo run -- --trace FILE tour"),
        (&["--profile=../programs"], "`--profile` takes a DIR, but `../programs` is a program"),
        (&["--icount", "--record-input", "tour"], "`--record-input` takes a FILE"),
        (&["--net=user", "--pcap", "tour"], "`--pcap` takes a FILE"),
        (
            &["--trace=x.json", "--net=user", "--pcap=./x.json", "tour"],
            "--pcap and --trace use the same file, ./x.json",
        ),
        (
            &["--net=user", "--pcap=src/../Cargo.toml", "--disk=Cargo.toml", "tour"],
            "--pcap and --disk use the same file",
        ),
        (&["--icount", "--record-input=x.html", "--trace=x", "tour"], "--record-input and --trace use the same file"),
        (&["/dev/zero"], "`/dev/zero` is not a regular file; a program is a name"),
        (&["--trace=.", "tour"], "the files of a timeline cannot be named after the folder `.`"),
        (&["tour", "--smp", "2"], "cargo run -- --smp 2 tour"),
        (&["../programs", "--timeout=5"], "cargo run -- '--timeout=5' ../programs"),
        (&["new", "gmp-sched"], "`gmp-sched` cannot be the name of a program"),
        (&["../kernel"], "has no binary"),
        (&[".."], "it is a workspace"),
        (&["--bin", "none", "."], "has no binary `none`; it has boot"),
        (&["--icount", "--accel=kvm", "tour"], "--icount"),
    ] {
        let mut command = boot();
        command.current_dir(env!("CARGO_MANIFEST_DIR")).args(words);
        let output = run(command);
        let said = text(&output.stderr);
        assert!(said.contains(complaint), "{words:?}: {said}");
        assert_eq!((status(&output), text(&output.stdout).as_str()), (Some(64), ""), "{words:?}");
    }
}

#[test]
fn program_that_does_not_build_ends_with_status_65() {
    let broken = write_crate("broken", "fn main( {}");
    let mut command = boot();
    command.arg(broken.path());
    let output = run(command);
    assert_eq!(status(&output), Some(65));
    assert!(text(&output.stderr).contains("`broken` does not build"), "{}", text(&output.stderr));
}

/// Parts of the advice that `boot` prints for likely mistakes.
const ADVICE: [&str; 5] = [
    "`main` must be a `fn main(args: &[&str])` that returns nothing, an `i32` or a `Result`",
    "add the line `kernel::main!(main);`",
    "the program also needs the line `#![no_main]`",
    "the program's first line must be `#![no_std]`",
    "the program does not use the crate `kernel`, so it cannot run on the machine",
];

#[test]
fn likely_mistakes_of_a_first_program_are_followed_by_advice() {
    let [signature, declaration, no_main, no_std, kernel] = ADVICE.map(Some);
    let head = "#![no_std]\n#![no_main]\nuse kernel::prelude::*;\n";
    let declared = format!("{head}kernel::main!(main);\n");
    let c_function = "unsafe extern \"C\" { fn nowhere(); }\nfn main(_: &[&str]) { unsafe { nowhere() } }";
    let mut program = write_crate("mistaken", "");
    for (source, advice) in [
        (format!("{declared}fn main() {{}}"), signature),
        (format!("{declared}fn main(_: Vec<String>) {{}}"), signature),
        (format!("{declared}fn main(_: &[&str]) -> String {{ String::new() }}"), signature),
        (format!("{head}fn main(_: &[&str]) {{ println!() }}"), declaration),
        (declared.replace("#![no_main]\n", "") + "fn main(_: &[&str]) {}", no_main),
        (head.replace("#![no_main]\n", "") + "fn main() { println!() }", no_main),
        (declared.replace("#![no_std]\n", "") + "fn main(_: &[&str]) {}", no_std),
        // Other mistakes get no advice.
        (format!("{declared}fn main(_: &[&str]) {{ let _: u8 = \"\"; f(1) }} fn f() {{}}"), None),
        (format!("{declared}fn mian(_: &[&str]) {{}}"), None),
        (format!("{declared}{c_function}"), None),
        ("fn main() { println!() }".into(), kernel),
    ] {
        if advice == kernel {
            program = write_crate("mistaken", "");
            let manifest = program.path().join("Cargo.toml");
            let text = fs::read_to_string(&manifest).expect("text");
            fs::write(&manifest, text.split("kernel =").next().expect("a part")).expect("written");
        }
        fs::write(program.path().join("src/main.rs"), &source).expect("written");
        let mut command = boot();
        command.arg(program.path());
        let output = run(command);
        let said = text(&output.stderr);
        let end = said.lines().next_back().unwrap_or_default();
        assert_eq!((status(&output), text(&output.stdout).as_str()), (Some(65), ""), "{source}: {said}");
        assert!(said.contains("error"), "{source}: {said}");
        match advice {
            Some(advice) => assert!(end.starts_with("boot: ") && end.contains(advice), "{source}: {said}"),
            None => assert!(end.ends_with("see cargo's output above"), "{source}: {said}"),
        }
    }
}

#[test]
fn missing_qemu_prints_how_to_install_it() {
    let mut command = boot_outside(&[], &[]);
    command.env("PATH", "/no/programs/here");
    let output = finish(command);
    assert_eq!(status(&output), Some(104));
    assert!(text(&output.stderr).contains("run ./setup"), "{}", text(&output.stderr));
}

#[test]
fn failing_qemu_ends_with_status_104() {
    let output = finish(boot_outside(&["--qemu-arg=-no-such-option"], &[]));
    assert_eq!(status(&output), Some(104));
    assert!(text(&output.stderr).contains("no-such-option"), "{}", text(&output.stderr));
}

/// Runs `boot` with these options, and with a shell script in place of QEMU. Returns the exit status and standard
/// error.
fn with_fake_qemu(options: &[&str], script: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("qemu-system-x86_64");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    let mut command = boot_outside(options, &[]);
    command.env("PATH", directory.path());
    let output = finish(command);
    (status(&output), text(&output.stderr))
}

#[test]
fn failing_old_qemu_prints_its_version() {
    let old = "[ \"$1\" = --version ] && echo 'QEMU emulator version 6.2.0 (Debian)' && exit\nexit 1";
    let (status, said) = with_fake_qemu(&[], old);
    assert_eq!(status, Some(104));
    assert!(said.contains("this is QEMU 6.2; it takes 7.2 or later: run ./setup"), "{said}");
}

#[test]
fn other_ends_of_qemu_are_failures() {
    for script in ["exit 1", "exit 3", "exit 255", "kill -KILL $$"] {
        assert_eq!(with_fake_qemu(&[], script).0, Some(104), "{script}");
    }
}

/// Both the script and its child keep the connection to the monitor open.
#[test]
fn qemu_that_hangs_is_ended_and_named() {
    let (status, said) = with_fake_qemu(&["--timeout=1"], "/bin/sleep 1000\nexit 0");
    assert_eq!(status, Some(103), "{said}");
    assert!(
        said.contains("time-out")
            && said.ends_with("boot: the kernel has printed nothing: it has not begun, or QEMU hangs\n"),
        "{said}"
    );
}

/// The script behaves like a QEMU whose virtualisation fails. Such a QEMU stops the machine, but continues to run until
/// it receives the command to quit.
#[test]
fn machine_stopped_for_good_by_qemu_is_a_failure() {
    let talk = r#"
        for word; do case $word in socket,id=monitor,fd=*) monitor=${word##*=};; esac; done
        hear() { read -r said <&$monitor; case $said in *$1*) ;; *) exit 77;; esac; }
        say() { echo "$1" >&$monitor; }
        hear qmp_capabilities
        say '{"event": "STOP", "timestamp": {}}'
        hear query-status
        say '{"return": {"status": "STATE", "running": false}}'
        hear quit"#;
    for (state, options) in [("internal-error", &["--accel=kvm"][..]), ("io-error", &[])] {
        let (status, said) = with_fake_qemu(options, &talk.replace("STATE", state));
        assert_eq!(status, Some(104), "{said}");
        assert!(said.contains(&format!("QEMU has stopped the machine: {state}; see its output above")), "{said}");
        assert_eq!(said.contains("Without --accel, the machine runs on every host"), !options.is_empty(), "{said}");
    }
}

/// The result depends on the host: QEMU may run the machine, or fail because the host has no KVM or does not allow it.
#[test]
fn machine_on_kvm_runs_or_says_why_it_does_not() {
    let output = finish(boot_outside(&["--accel=kvm", "--timeout=60"], &["status", "7"]));
    let said = text(&output.stderr);
    let explained = said.contains("KVM") && said.ends_with(". Without --accel, the machine runs on every host\n");
    assert!(status(&output) == Some(7) || (status(&output) == Some(104) && explained), "{said}");
}

#[test]
fn list_help_and_version_go_to_standard_output() {
    let run_with = |option| {
        let mut command = boot();
        command.arg(option);
        run(command)
    };
    let list = run_with("--list");
    assert_eq!(status(&list), Some(0));
    assert!(text(&list.stdout).contains("\n  tour "), "{}", text(&list.stdout));
    let help = run_with("--help");
    assert_eq!(status(&help), Some(0));
    assert!(text(&help.stdout).contains("Exit status:"));
    let version = run_with("--version");
    assert_eq!(status(&version), Some(0));
    assert_eq!(text(&version.stdout), concat!("boot ", env!("CARGO_PKG_VERSION"), "\n"));
    for option in ["--list", "--help", "--version"] {
        let mut command = boot();
        command.arg(option).stdout(fs::File::options().write(true).open("/dev/full").expect("a device"));
        let output = run(command);
        let said = text(&output.stderr);
        assert!(said.starts_with("boot: cannot write to standard output: No space left"), "{option}: {said}");
        assert_eq!(status(&output), Some(74), "{option}");
    }
}
