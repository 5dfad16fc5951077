//! Tests of disks. Each disk is a file of the host. The output of `cargo run -- --disk FILE sha256` is compared with
//! SHA-256 computed on the host. The guest tests that need disks also run here, on one or several CPUs.

mod disks;
mod faults;
mod firmware;
mod queues;

use std::process::{Command, Output};

use boot::qemu::Firmware;

use crate::disks::{Disks, odd_disk, stderr, stdout};

macro_rules! without_firmware {
    ($($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                firmware::$test(Firmware::Pvh);
            }
        )*
    };
}

firmware::make_tests!(without_firmware);

/// Lengths of disks in bytes: zero, about one sector (512), about one buffer (64 KiB), and many requests.
const LENGTHS: [usize; 9] = [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, 5_000_001];

impl Disks {
    /// Runs `sha256` on these disks in both modes and checks the output.
    fn check_sums(&self, options: &[&str]) {
        for mode in ["sync", "async"] {
            let output = self.boot(options, &["sha256", "--mode", mode]);
            assert_eq!(stdout(&output), self.expected(), "{mode}: {}", stderr(&output));
            assert_eq!(output.status.code(), Some(0));
            // Standard error is not a terminal, so no progress bar is shown.
            assert!(!stderr(&output).contains(" % ["), "{}", stderr(&output));
        }
    }

    /// Runs `sha256` on threads of the host, with these disks.
    fn on_host(&self, arguments: &[&str]) -> Output {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "programs", "--bin", "sha256", "--"]);
        let names: Vec<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        command.args(arguments).current_dir(self.folder.path()).env("GMP_DISKS", names.join(":"));
        command.output().expect("cargo runs")
    }
}

fn all_lengths(cpus: &str) {
    Disks::new(Firmware::Pvh, LENGTHS.map(|length| ("", length))).check_sums(&["--smp", cpus]);
}

#[test]
fn all_lengths_on_one_cpu() {
    all_lengths("1");
}

#[test]
fn all_lengths_on_two_cpus() {
    all_lengths("2");
}

#[test]
fn all_lengths_on_eight_cpus() {
    all_lengths("8");
}

/// One disk is announced by `boot`, with its length, and the other one is not. Both have blocks of 4,096 bytes, and
/// their length is not a multiple of that.
#[test]
fn whole_length_of_a_disk_that_ends_within_a_block_can_be_read() {
    let disks = Disks::new(Firmware::Pvh, [("", 1_000_003)]);
    let odd = odd_disk(&disks, 1_000_003, "num-queues=1");
    let mut options: Vec<&str> = odd.iter().map(String::as_str).collect();
    options.extend(["--qemu-arg=-global", "--qemu-arg=virtio-blk-device.physical_block_size=4096"]);
    options.extend(["--qemu-arg=-global", "--qemu-arg=virtio-blk-device.logical_block_size=4096"]);
    disks.check_guest("disks::whole_length_of_each_disk_can_be_read", &options);
}

#[test]
fn all_lengths_on_the_host() {
    let disks = Disks::new(Firmware::Pvh, LENGTHS.map(|length| ("", length)));
    for mode in ["sync", "async"] {
        let output = disks.on_host(&["--mode", mode]);
        assert_eq!(stdout(&output), disks.expected(), "{mode}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn wrong_arguments_are_named() {
    let disks = Disks::new(Firmware::Pvh, [("", 1)]);
    for (arguments, mistake) in [
        (&["--mode", "fast"][..], "there is no mode `fast`"),
        (&["--mode"], "`--mode` needs a value"),
        (&["--quiet", "file"], "there is no option `file`"),
    ] {
        let output = disks.on_host(arguments);
        let said = format!("sha256: {mistake}\nusage: ");
        assert!(stderr(&output).starts_with(&said), "{}", stderr(&output));
        assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(1)));
    }
}

/// The clock counts instructions, so all runs are equal. The bar appears after 200 million instructions, while the
/// program is still hashing. With `--quiet` no bar appears.
#[test]
fn progress_is_shown_on_a_terminal_unless_quiet() {
    let disks = Disks::new(Firmware::Pvh, [("large", 16 << 20)]);
    let options = ["--icount", "--smp", "1", "--kernel-option", "stderr=terminal"];
    let output = disks.boot(&options, &["sha256"]);
    assert_eq!(stdout(&output), disks.expected());
    // The bar is drawn, drawn again over itself, and removed.
    let said = stderr(&output).into_owned();
    let (bars, spaces) = said.trim_end_matches('\r').rsplit_once('\r').expect("a bar and its removal");
    assert!(bars.ends_with("MiB/s") || bars.ends_with(' '), "{said:?}");
    assert!(bars.contains(" % [=") && bars.contains("] ") && bars.contains(" of 16 MiB, "), "{said:?}");
    assert!(!spaces.is_empty() && spaces.trim().is_empty(), "{said:?}");
    let output = disks.boot(&options, &["sha256", "--quiet"]);
    assert_eq!(stdout(&output), disks.expected());
    assert!(!stderr(&output).contains(['%', '\r']), "{}", stderr(&output));
}

/// The disk of the second run has sectors of 4,096 bytes, so that more reads and writes begin or end in the middle of a
/// sector.
#[test]
fn cursors_agree_with_plain_calls() {
    const TEST: &str = "disk_cursors::cursors_agree_with_plain_calls";
    Disks::new(Firmware::Pvh, [("", 100_001)]).check_guest(TEST, &["--disk-rw", "--smp=2"]);
    let disks = Disks::new(Firmware::Pvh, []);
    let options = odd_disk(&disks, 200_704, "logical_block_size=4096,physical_block_size=4096");
    disks.check_guest(TEST, &options.each_ref().map(String::as_str));
}

#[test]
fn cursor_ends_where_the_disk_ends() {
    let disks = Disks::new(Firmware::Pvh, [("", 100_001)]);
    disks.check_guest("disk_cursors::cursor_ends_where_the_disk_ends", &["--disk-rw"]);
}

/// The disk is in memory and slow, so no request is answered before the limit is checked.
#[test]
fn limit_of_a_cursor_ends_its_calls() {
    let options = ["--icount", "--disk-rw", "--kernel-option=disk_access_us=1000"];
    Disks::new(Firmware::Pvh, [("", 2_000)]).check_guest("disk_cursors::limit_of_a_cursor_ends_its_calls", &options);
}

#[test]
fn one_empty_file() {
    Disks::new(Firmware::Pvh, [("", 0)]).check_sums(&[]);
}

#[test]
fn two_large_files_at_once() {
    Disks::new(Firmware::Pvh, [("first", 3 << 20), ("second", (3 << 20) + 77)]).check_sums(&[]);
}

#[test]
fn more_cpus_than_the_host_has() {
    Disks::new(Firmware::Pvh, [("many", 2 << 20)]).check_sums(&["--smp", "16"]);
}

#[test]
fn little_memory_is_enough_for_a_file_that_is_larger() {
    Disks::new(Firmware::Pvh, [("large", 40 << 20)]).check_sums(&["--smp", "2", "--memory", "24"]);
}

/// `sha256sum` escapes characters that would break its lines. It does not change spaces and colons.
#[test]
fn names_are_printed_as_sha256sum_prints_them() {
    let names = [("with space: and colon ", 10), ("back\\slash", 11), ("line\nbreak", 12), ("ümläut\"", 13)];
    Disks::new(Firmware::Pvh, names).check_sums(&["--smp", "2"]);
}

#[test]
fn missing_file_is_named_and_nothing_is_booted() {
    let output = Disks::new(Firmware::Pvh, []).boot(&["--disk", "no-such-file"], &["sha256"]);
    assert!(stderr(&output).contains("no-such-file"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(64));
    assert!(output.stdout.is_empty());
}

#[test]
fn no_file_at_all_is_a_mistake() {
    let output = Disks::new(Firmware::Pvh, []).boot(&["--smp", "1"], &["sha256"]);
    assert!(stderr(&output).contains("usage"), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(1)));
}

#[test]
fn missing_device_is_reported() {
    let output = Disks::new(Firmware::Pvh, []).boot(&["--kernel-option", "disk=ghost:100"], &["sha256"]);
    let complaint = "sha256: ghost: cannot read at offset 0: there is no such device\n";
    assert!(stderr(&output).contains(complaint), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(1)));
}

#[test]
fn device_that_is_notified_through_a_port_is_refused_and_others_work() {
    let disks = Disks::new(Firmware::Pvh, [("good", 1_000)]);
    let options = odd_disk(&disks, 802_816, "modern-pio-notify=on");
    let output = disks.boot(&options.each_ref().map(String::as_str), &["sha256"]);
    let complaint = "the driver needs registers in memory, but the device's are I/O ports";
    // `boot` has not announced this disk, so the kernel names it `disk1`.
    let refusal = format!("sha256: disk1: cannot read at offset 0: {complaint}\n");
    assert!(stderr(&output).contains(&refusal), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), (disks.expected().as_str(), Some(1)));
}

/// The kernel maps the registers of at most 32 virtio devices. Two of them are the console and the entropy device, so
/// 30 of the 34 disks work. Eight disks share one device of the PCI bus, as its functions, because the bus has room for
/// only 32 devices.
#[test]
#[ignore = "takes half a minute"]
fn disk_beyond_the_limit_is_refused_and_others_work() {
    let disks = Disks::new(Firmware::Pvh, [("good", 1_024)]);
    let file = disks.folder.path().join("good1024");
    let mut arguments = Vec::new();
    for disk in 0..33 {
        let (slot, function) = (16 + disk / 8, disk % 8);
        arguments.extend([
            "-drive".to_owned(),
            format!("if=none,id=more{disk},format=raw,readonly=on,file={}", file.display()),
            "-device".to_owned(),
            format!("virtio-blk-pci,drive=more{disk},disable-legacy=on,addr={slot:x}.{function},multifunction=on"),
        ]);
    }
    let options: Vec<String> = arguments.iter().map(|argument| format!("--qemu-arg={argument}")).collect();
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.push("--smp=2");
    let output = disks.boot(&options, &["sha256"]);
    let complaint = "cannot read at offset 0: the kernel uses the registers of at most 32 devices";
    assert_eq!(stderr(&output).matches(complaint).count(), 4, "{}", stderr(&output));
    let sum = disks.expected().split(' ').next().expect("a sum").to_owned();
    assert_eq!(stdout(&output).matches(&sum).count(), 30, "{}", stdout(&output));
}
