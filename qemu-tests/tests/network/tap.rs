//! Tests of the network over a TAP device of the host.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::process::Stdio;

use super::namespaces::run_inside;
use super::server::{Running, connect_to};
use super::{boot, send_and_compare};

const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The options of a machine with this address, and the commands that make its device.
const OPTIONS: [&str; 3] = ["--smp=2", "--tap=tap0", "--kernel-option=ip=10.9.0.2/24"];
const MAKE_TAP: &str = "ip tuntap add tap0 mode tap && ip addr add 10.9.0.1/24 dev tap0 && ip link set tap0 up";

/// Runs `echo` on a machine with these options, for two clients: the first sends nothing, the second `bytes` bytes.
/// Returns the mean length of the frames that the machine received, in bytes.
fn serve_over_tap(options: &[&str], bytes: usize) -> u64 {
    let mut command = boot(&[&OPTIONS[..], options].concat(), &["echo", "--connections", "2"]);
    let mut machine = Running(command.stdout(Stdio::piped()).spawn().expect("boot runs"));
    let mut output = BufReader::new(machine.0.stdout.take().expect("it is a pipe"));
    let mut said = String::new();
    output.read_line(&mut said).expect("the machine prints a line");
    assert_eq!(said, "echo: port 7\n");
    let before = sent_to_tap();
    for bytes in [0, bytes] {
        send_and_compare(connect_to((MACHINE, 7)), bytes);
    }
    let after = sent_to_tap();
    output.read_to_string(&mut said).expect("text");
    assert_eq!(said, said_after(bytes));
    assert_eq!(machine.0.wait().expect("boot ends").code(), Some(0));
    (after.0 - before.0) / (after.1 - before.1)
}

/// Returns what the server prints in the whole run, if it has received `bytes`.
fn said_after(bytes: usize) -> String {
    format!("echo: port 7\necho: {bytes} bytes, 0 connections left\n")
}

/// Returns how many bytes the host has sent over the TAP device, and how many frames.
fn sent_to_tap() -> (u64, u64) {
    let read = |name| {
        let text = fs::read_to_string("/proc/self/net/dev").expect("a list of devices");
        let line = text.lines().find_map(|line| line.trim().strip_prefix("tap0:")).expect("the device");
        line.split_whitespace().nth(name).and_then(|number| number.parse().ok()).expect("a number")
    };
    (read(8), read(9))
}

/// The device may put segments of the host together into long frames only if a frame may be in several buffers
/// (`mrg_rxbuf`).
#[test]
#[ignore = "needs the rights to make namespaces of Linux, which not every system gives to its users"]
fn host_reaches_the_machine_over_a_tap_device() {
    if !run_inside("tap::host_reaches_the_machine_over_a_tap_device", MAKE_TAP) {
        return;
    }
    let merged = serve_over_tap(&[], 4 << 20);
    let plain = serve_over_tap(&["--qemu-arg=-global", "--qemu-arg=virtio-net-pci.mrg_rxbuf=off"], 4 << 20);
    println!("frames to the machine have {merged} bytes with offload, {plain} without");
    assert!(merged > 2_000 && plain < 1_600, "{merged} and {plain} bytes");
}

/// When the run is repeated, it uses neither the device nor the host.
#[test]
#[ignore = "needs the rights to make namespaces of Linux, which not every system gives to its users"]
fn run_over_a_tap_device_is_recorded_and_repeated() {
    if !run_inside("tap::run_over_a_tap_device_is_recorded_and_repeated", MAKE_TAP) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [input, capture] = ["input", "frames"].map(|name| folder.path().join(name).display().to_string());
    let length = serve_over_tap(&["--icount", "--record-input", &input, "--pcap", &capture], 100_000);
    assert!(length < 1_600, "{length} bytes: without a device in the machine, nobody puts segments together");
    let frames = fs::read(&capture).expect("a file");
    assert!(frames.len() > 200_000, "{} bytes of frames", frames.len());
    let before = sent_to_tap();
    let options = [&OPTIONS[..], &["--icount", "--input-script", &input]].concat();
    let output = boot(&options, &["echo", "--connections", "2"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), said_after(100_000));
    assert_eq!(sent_to_tap(), before);
}

#[test]
fn missing_device_is_named_with_the_command_that_makes_it() {
    let output = boot(&["--tap=no-such-device"], &["echo"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("the host has no device `no-such-device`: make it with"), "{said}");
}
