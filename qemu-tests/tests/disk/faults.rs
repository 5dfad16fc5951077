//! Tests of faulty disks. Most of them use disks in memory, into which the kernel option `disk_fault` injects faults.
//! So the same requests have the same faults in every run. Only the last test uses a device of QEMU.

use std::fs;

use boot::qemu::Firmware;

use crate::disks::{Disks, stderr, stdout};

/// The number of bytes of each disk in memory: 256 KiB for each of the 64 calls that a guest test makes at most.
const BYTES: usize = 64 << 18;

/// Makes disks with these names, each filled with [`BYTES`] bytes of the value 1.
fn filled<const COUNT: usize>(names: [&'static str; COUNT]) -> Disks {
    let disks = Disks::new(Firmware::Pvh, names.map(|name| (name, BYTES)));
    for (name, _) in &disks.files {
        fs::write(disks.folder.path().join(name), vec![1; BYTES]).expect("room for a file");
    }
    disks
}

#[test]
fn faulty_requests_fail_and_others_succeed() {
    const TEST: &str = "disk_faults::faulty_requests_fail_and_others_succeed";
    let disks = filled(["bad"]);
    for fault in ["short", "error", "lose"] {
        let fault = format!("--kernel-option=disk_fault={fault}");
        for cpus in ["--smp=1", "--smp=4"] {
            let options = ["--icount", "--disk-rw", cpus, &fault, "--kernel-option=disk_timeout_s=1"];
            disks.check_guest(TEST, &options);
        }
    }
}

/// The guest test makes 24 requests at a time, and in the fourth round one of them has the fault. The disk is as slow
/// as the kernel allows, so all 24 are in flight before the first is answered.
#[test]
fn wrong_completion_fails_everything_in_flight() {
    const TEST: &str = "disk_faults::wrong_completion_fails_everything_in_flight";
    let disks = filled(["bad", "good"]);
    for fault in ["id@80", "twice@80"] {
        let fault = format!("--kernel-option=disk_fault={fault}");
        for cpus in ["--smp=1", "--smp=2"] {
            let options = ["--icount", "--disk-rw", cpus, &fault, "--kernel-option=disk_access_us=100000"];
            disks.check_guest(TEST, &options);
        }
    }
}

#[test]
fn late_write_is_submitted_again_after_a_reset() {
    const TEST: &str = "disk_faults::late_write_is_submitted_again_after_a_reset";
    let disks = filled(["a", "b", "c", "d"]);
    for cpus in ["--smp=1", "--smp=4"] {
        let options = ["--kernel-option=disk_fault=lose@2", "--kernel-option=disk_timeout_s=1"];
        disks.check_guest(TEST, &[&["--icount", "--disk-rw", cpus][..], &options].concat());
    }
}

#[test]
fn slow_disk_that_answers_is_not_reset() {
    let disks = filled(["slow"]);
    let options = ["--icount", "--kernel-option=disk_access_us=100000", "--kernel-option=disk_timeout_s=1"];
    for cpus in ["--smp=1", "--smp=2"] {
        disks.check_guest("disk_faults::slow_disk_that_answers_is_not_reset", &[&options[..], &[cpus]].concat());
    }
}

/// A wrong value of the option is refused before the program starts. The message lists the faults.
#[test]
fn wrong_fault_is_refused() {
    let output = Disks::new(Firmware::Pvh, []).boot(&["--kernel-option=disk_fault=lose@first"], &["sha256"]);
    assert!(stderr(&output).contains("expected short, id, twice, lose or error"), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(64)));
}

/// QEMU's driver `blkdebug` returns errors for requests of one kind: all flushes, or those reads, writes or discards
/// that include sector 1000.
#[test]
fn failed_requests_change_nothing_else() {
    let disks = Disks::new(Firmware::Pvh, []);
    let bad = disks.folder.path().join("bad");
    for kind in ["read", "write", "flush", "discard"] {
        fs::write(&bad, vec![1; 1_000_000]).expect("room for a file");
        // A flush concerns no particular sector.
        let sector = if kind == "flush" { "" } else { "inject-error.0.sector=1000," };
        let device = format!(
            "driver=blkdebug,node-name=bad,discard=unmap,image.driver=file,image.filename={},\
             inject-error.0.event=none,inject-error.0.iotype={kind},{sector}inject-error.0.once=off",
            bad.display()
        );
        let arguments =
            ["-blockdev", &device, "-device", "virtio-blk-pci,drive=bad,disable-legacy=on,request-merging=off"];
        let mut options = arguments.map(|argument| format!("--qemu-arg={argument}")).to_vec();
        options.push(format!("--kernel-option=program.fails={kind}"));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        disks.check_guest("disk_faults::failed_requests_change_nothing_else", &options);
    }
}
