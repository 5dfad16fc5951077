//! Tests of machines with too little memory, and of kernel options at the limits of their ranges and beyond.

use std::process::{Command, Stdio};

use crate::outside::{boot_outside, finish, status, text};

#[test]
fn machine_with_little_memory_for_its_cpus_runs_with_fewer() {
    for memory in [8, 10, 12, 16, 24] {
        let output =
            finish(boot_outside(&["--smp=64", &format!("--memory={memory}"), "--timeout=60"], &["status", "7"]));
        let printed = text(&output.stderr);
        assert_eq!(status(&output), Some(7), "{memory} MiB: {printed}");
        assert!(printed.contains("no memory for ") && printed.contains(" of 63 other CPUs"), "{memory} MiB: {printed}");
    }
}

/// Boots machines without disks and machines with disks, which use as much memory as they can get. A machine that
/// leaves CPUs out says how many. Each boot takes up to a minute.
#[test]
#[ignore = "boots 255 CPUs many times"]
fn machine_of_255_cpus_with_any_memory_runs_and_names_what_is_left_out() {
    let disk = tempfile::NamedTempFile::new().expect("a file");
    disk.as_file().set_len(1 << 20).expect("room for a disk");
    let path = disk.path().to_str().expect("a path in UTF-8");
    for disks in [0, 20] {
        for memory in (56..=96).step_by(8).chain([12, 32, 104, 112]) {
            let memory_option = format!("--memory={memory}");
            let options =
                [&["--smp=255", &memory_option, "--timeout=300"][..], &["--disk", path].repeat(disks)].concat();
            let output = finish(boot_outside(&options, &["status", "7"]));
            let printed = text(&output.stderr);
            assert_eq!(status(&output), Some(7), "{memory} MiB, {disks} disks: {printed}");
            // A machine with more than 96 MiB may have enough memory for all CPUs.
            let names_cpus = printed.contains("no memory for ") && printed.contains(" of 254 other CPUs");
            assert!(names_cpus || memory > 96, "{memory} MiB, {disks} disks: {printed}");
        }
    }
}

#[test]
fn machine_with_little_memory_for_its_ps_runs_with_fewer() {
    for memory in [6, 8] {
        let memory = format!("--memory={memory}");
        let options = ["--smp=1", &memory, "--kernel-option=procs=64", "--timeout=60"];
        let output = finish(boot_outside(&options, &["status", "7"]));
        let printed = text(&output.stderr);
        assert_eq!(status(&output), Some(7), "{memory}: {printed}");
        assert!(printed.contains("no memory for ") && printed.contains(" of 64 Ps"), "{memory}: {printed}");
    }
}

#[test]
fn machine_with_too_little_memory_says_the_least_amount() {
    let with = |mebibytes: u32| {
        let memory = format!("--memory={mebibytes}");
        finish(boot_outside(&["--smp=4", &memory, "--timeout=60"], &["status", "7"]))
    };
    let output = with(2);
    let printed = text(&output.stderr);
    let needed = printed.split_once("needs at least ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let needed = needed.unwrap_or_else(|| panic!("no amount in {printed}"));
    for mebibytes in 2..needed {
        let output = with(mebibytes);
        let printed = text(&output.stderr);
        assert_eq!(status(&output), Some(64), "{printed}");
        let said =
            format!("--memory {mebibytes}: too little memory; this program needs at least {needed} MiB to start");
        assert!(printed.contains(&said), "{said:?} is not in {printed}");
    }
    let output = with(needed);
    assert_eq!(status(&output), Some(7), "{needed} MiB: {}", text(&output.stderr));
}

#[test]
fn time_limit_may_be_longer_than_any_time() {
    let output = finish(boot_outside(&["--smp=1", "--timeout=1e19"], &["status", "7"]));
    assert_eq!(status(&output), Some(7), "{}", text(&output.stderr));
}

#[test]
fn kernel_option_out_of_range_is_refused() {
    for (option, range) in [
        ("slice_us=99", "100 to 10000000"),
        ("slice_us=18446744073709551", "100 to 10000000"),
        ("slice_us=fast", "100 to 10000000"),
        ("undisturbed_us=18446744073709552", "0 to 10000000"),
        ("undisturbed_us=-1", "0 to 10000000"),
        ("halt_poll_us=10000001", "0 to 10000000"),
        ("procs=0", "1 to 255"),
        ("procs=65", "1 to 64"),
        ("seed=many", "0 to 18446744073709551615"),
    ] {
        let output = finish(boot_outside(&["--smp=1", "--kernel-option", option], &["status", "7"]));
        assert!(
            text(&output.stderr).contains(&format!(": expected a number from {range}\n")),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(status(&output), Some(64), "{option}");
    }
}

/// The test adds the option to the command that `--dry-run` has printed, as a user may do. So `boot` cannot check this
/// option.
#[test]
fn kernel_refuses_an_unknown_option_that_boot_has_not_checked() {
    let output = finish(boot_outside(&["--dry-run", "--smp=1"], &["status", "7"]));
    let mut words = shlex::split(text(&output.stdout).trim()).expect("a shell command");
    let line = words.last_mut().expect("the kernel's command line");
    *line = format!("lgo=debug {line}");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command);
    let printed = text(&output.stdout);
    assert!(printed.contains("kernel option lgo=debug: no option is named `lgo`; "), "{printed}");
    // 161 is QEMU's exit code if the guest ends with status 64.
    assert_eq!(status(&output), Some(161));
}

#[test]
fn kernel_option_at_the_end_of_its_range_is_accepted() {
    for options in
        [["slice_us=100", "undisturbed_us=0", "procs=64"], ["slice_us=10000000", "undisturbed_us=10000000", "procs=1"]]
    {
        let options = options.map(|option| format!("--kernel-option={option}"));
        let words: Vec<&str> = ["--smp=1"].into_iter().chain(options.iter().map(String::as_str)).collect();
        let output = finish(boot_outside(&words, &["status", "7"]));
        assert_eq!(status(&output), Some(7), "{options:?}: {}", text(&output.stderr));
    }
}
