//! The tests of disks that run with every kind of firmware: here without firmware, and in `tests/firmware` on BIOS and
//! UEFI. With firmware, devices have other addresses, and the bootloader has read another disk before the kernel
//! starts.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use boot::qemu::Firmware;
use boot_protocol::report::Report;

use crate::disks::{Disks, bad_disk, odd_disk, slow_disk, stderr, stdout};

/// Passes the names of the tests to the macro `$make`. Each of the two test targets has its own `$make`: one defines a
/// function with `#[test]` for each name, the other makes a list.
macro_rules! make_tests {
    ($make:ident) => {
        $make! {
            device_error_is_reported_with_its_offset
            concurrent_reads_return_what_was_written
            writes_stay_within_their_range_and_the_disk
            read_only_disk_refuses_writes
            device_errors_are_returned_to_their_callers
            thousand_gs_read_and_write_parts_of_the_same_sectors
            large_transfers_return_what_was_written
            untouched_buffers_on_a_stack_are_filled
            limits_end_calls_to_a_slow_disk
            late_write_keeps_its_slot_and_its_sectors
            lost_request_times_out_while_others_are_answered
            sectors_of_4096_bytes_are_read_and_written_in_parts
            unplugged_disk_fails_every_request
            asynchronous_reads_park_only_their_gs
            every_read_hands_off_its_p
        }
    };
}

pub(crate) use make_tests;

/// One disk returns errors. The other disk is not affected.
pub(crate) fn device_error_is_reported_with_its_offset(firmware: Firmware) {
    let disks = Disks::new(firmware, [("good", 1_000)]);
    let options = bad_disk(&disks);
    let output = disks.boot(&options.each_ref().map(String::as_str), &["sha256"]);
    // Sector 1000 is in the chunk that begins at 256 KiB.
    let complaint = "sha256: disk1: cannot read at offset 262144: the device reports an input/output error\n";
    assert_eq!(stdout(&output), disks.expected(), "{}", stderr(&output));
    assert!(stderr(&output).contains(complaint), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

pub(crate) fn concurrent_reads_return_what_was_written(firmware: Firmware) {
    let disks = Disks::new(firmware, [("a", 1_000_003), ("b", 70_000), ("c", 3 << 20)]);
    for cpus in ["1", "2", "8"] {
        disks.check_guest("disks::concurrent_reads_return_what_was_written", &["--disk-rw", "--smp", cpus]);
    }
}

pub(crate) fn writes_stay_within_their_range_and_the_disk(firmware: Firmware) {
    Disks::new(firmware, [("", 100_001)])
        .check_guest("disks::writes_stay_within_their_range_and_the_disk", &["--disk-rw"]);
}

pub(crate) fn read_only_disk_refuses_writes(firmware: Firmware) {
    let disks = Disks::new(firmware, [("", 5_000)]);
    disks.check_guest("disks::read_only_disk_refuses_writes", &[]);
    let (name, content) = &disks.files[0];
    assert_eq!(fs::read(disks.folder.path().join(name)).expect("the file is there"), *content);
}

pub(crate) fn device_errors_are_returned_to_their_callers(firmware: Firmware) {
    let disks = Disks::new(firmware, []);
    let options = bad_disk(&disks);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    disks.check_guest("disks::errors_of_the_device_are_returned_to_their_callers", &options);
}

pub(crate) fn thousand_gs_read_and_write_parts_of_the_same_sectors(firmware: Firmware) {
    let disks = Disks::new(firmware, [("", 800_000)]);
    // Firmware does not change how the CPUs share a disk, and each boot of it takes seconds.
    let counts = if firmware == Firmware::Pvh { &["1", "2", "8"][..] } else { &["8"] };
    for &cpus in counts {
        disks.check_guest("disks::thousand_gs_read_and_write_parts_of_the_same_sectors", &["--disk-rw", "--smp", cpus]);
    }
}

pub(crate) fn large_transfers_return_what_was_written(firmware: Firmware) {
    const TEST: &str = "disks::large_transfers_return_what_was_written";
    let disks = Disks::new(firmware, [("", 16 << 20)]);
    for cpus in ["1", "2", "8"] {
        disks.check_guest(TEST, &["--disk-rw", "--smp", cpus]);
    }
    // If the queue has 16 entries, the device allows 14 segments in a request, but the driver has only 8 buffers for
    // this queue.
    for properties in ["logical_block_size=4096,physical_block_size=4096", "queue-size=16"] {
        let disks = Disks::new(firmware, []);
        let options = odd_disk(&disks, 16 << 20, properties);
        disks.check_guest(TEST, &options.each_ref().map(String::as_str));
    }
}

pub(crate) fn untouched_buffers_on_a_stack_are_filled(firmware: Firmware) {
    Disks::new(firmware, [("", 50_000)]).check_guest("disks::untouched_buffers_on_a_stack_are_filled", &["--disk-rw"]);
}

/// QEMU throttles this disk to 50 requests in a second.
pub(crate) fn limits_end_calls_to_a_slow_disk(firmware: Firmware) {
    let disks = Disks::new(firmware, []);
    let options = slow_disk(&disks, 100_000, "iops-total=50");
    disks.check_guest("disks::limits_end_calls_to_a_slow_disk", &options.each_ref().map(String::as_str));
}

/// After the first write to this disk, QEMU delays the next write until eight minutes have passed or the device is
/// reset.
pub(crate) fn late_write_keeps_its_slot_and_its_sectors(firmware: Firmware) {
    let disks = Disks::new(firmware, []);
    let options = slow_disk(&disks, 6 << 20, "bps-write=1");
    disks.check_guest("disks::late_write_keeps_its_slot_and_its_sectors", &options.each_ref().map(String::as_str));
}

pub(crate) fn lost_request_times_out_while_others_are_answered(firmware: Firmware) {
    let disks = Disks::new(firmware, []);
    let options = slow_disk(&disks, 100_000, "bps-write=1");
    let mut options = options.each_ref().map(String::as_str).to_vec();
    options.extend(["--smp=2", "--kernel-option=disk_timeout_s=1"]);
    disks.check_guest("disks::lost_request_times_out_while_others_are_answered", &options);
}

pub(crate) fn sectors_of_4096_bytes_are_read_and_written_in_parts(firmware: Firmware) {
    let disks = Disks::new(firmware, []);
    let options = odd_disk(&disks, 802_816, "logical_block_size=4096,physical_block_size=4096");
    let test = "disks::thousand_gs_read_and_write_parts_of_the_same_sectors";
    disks.check_guest(test, &options.each_ref().map(String::as_str));
}

/// QEMU removes the second disk while the guest test reads from it, without asking the guest first.
pub(crate) fn unplugged_disk_fails_every_request(firmware: Firmware) {
    const TEST: &str = "disks::unplugged_disk_fails_every_request";
    let disks = Disks::new(firmware, [("good", 50_000)]);
    let socket = disks.folder.path().join("monitor");
    let monitor = format!("--qemu-arg=unix:{},server=on,wait=off", socket.display());
    let odd = odd_disk(&disks, 802_816, "request-merging=off");
    let mut options = odd.each_ref().map(String::as_str).to_vec();
    options.extend(["--smp=2", "--kernel-option=disk_timeout_s=1", "--qemu-arg=-qmp", &monitor]);
    let program = [concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), TEST];
    let mut boot = disks.command(&options, &program).stdout(Stdio::piped()).spawn().expect("boot runs");
    let mut lines = BufReader::new(boot.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "reading"), "the test has started");
    unplug(&socket, "odd");
    assert!(lines.any(|line| Report::parse(&line) == Some(Report::Passed(TEST))));
    boot.wait().expect("boot ends");
}

/// Makes QEMU remove a device, by commands to the monitor at `socket`.
fn unplug(socket: &Path, device: &str) {
    let mut monitor = UnixStream::connect(socket).expect("QEMU has a monitor");
    let remove = format!(
        r#"{{"execute": "qom-set", "arguments": {{"path": "/machine/peripheral/{device}", "property": "realized", "value": false}}}}"#
    );
    writeln!(monitor, r#"{{"execute": "qmp_capabilities"}} {remove}"#).expect("QEMU reads");
    // QEMU confirms both commands.
    let replies = BufReader::new(monitor).lines().map_while(Result::ok);
    assert_eq!(replies.filter(|line| line.contains(r#""return""#)).take(2).count(), 2);
}

pub(crate) fn asynchronous_reads_park_only_their_gs(firmware: Firmware) {
    let disks = Disks::new(firmware, [("", 5_000)]);
    for cpus in ["1", "8"] {
        disks.check_guest("disks::asynchronous_reads_park_only_their_gs", &["--smp", cpus]);
    }
}

pub(crate) fn every_read_hands_off_its_p(firmware: Firmware) {
    let disks = Disks::new(firmware, [("", 5_000)]);
    for cpus in ["1", "8"] {
        disks.check_guest("disks::every_read_hands_off_its_p", &["--smp", cpus]);
    }
}
