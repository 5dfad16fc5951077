//! Tests of disks with one or several queues.

use boot::qemu::Firmware;

use crate::disks::{Disks, odd_disk};

/// QEMU's default is one queue for each CPU.
#[test]
fn requests_use_the_queue_of_their_cpu() {
    const TEST: &str = "disk_queues::requests_use_the_queue_of_their_cpu";
    for (property, queues) in
        [("num-queues=1", "1"), ("num-queues=3", "3"), ("num-queues=8", "8"), ("request-merging=off", "8")]
    {
        let disks = Disks::new(Firmware::Pvh, []);
        let options = odd_disk(&disks, 200_000, property);
        let queues = format!("--kernel-option=program.queues={queues}");
        let mut options = options.each_ref().map(String::as_str).to_vec();
        options.extend(["--smp=8", &queues]);
        disks.check_guest(TEST, &options);
    }
}

/// The disk is in memory and slow, so no request is answered while the Gs submit theirs.
#[test]
fn one_cpu_can_use_all_buffers() {
    let disks = Disks::new(Firmware::Pvh, [("", 300_000)]);
    let options = ["--icount", "--smp=8", "--kernel-option=procs=1", "--kernel-option=disk_access_us=100000"];
    disks.check_guest("disk_queues::one_cpu_can_use_all_buffers", &options);
}

#[test]
fn requests_of_all_lengths_end_while_all_buffers_are_in_use() {
    const TEST: &str = "disk_queues::requests_of_all_lengths_end_while_all_buffers_are_in_use";
    let disks = Disks::new(Firmware::Pvh, [("", 250_000)]);
    disks.check_guest(TEST, &["--smp=4"]);
    disks.check_guest(TEST, &["--icount", "--smp=4"]);
}
