//! A TAP device of the host.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Stdio;

use super::namespaces::run_inside;
use super::server::Running;
use super::{boot, send_and_compare};

const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

#[test]
#[ignore = "needs the rights to make namespaces of Linux, which not every system gives to its users"]
fn host_reaches_the_machine_over_a_tap_device() {
    let script = "ip tuntap add tap0 mode tap && ip addr add 10.9.0.1/24 dev tap0 && ip link set tap0 up";
    if !run_inside("tap::host_reaches_the_machine_over_a_tap_device", script) {
        return;
    }
    let options = ["--smp=2", "--tap=tap0", "--kernel-option=ip=10.9.0.2/24"];
    let mut command = boot(&options, &["echo", "--connections", "2"]);
    let mut machine = Running(command.stdout(Stdio::piped()).spawn().expect("boot runs"));
    let mut output = BufReader::new(machine.0.stdout.take().expect("it is a pipe"));
    let mut said = String::new();
    output.read_line(&mut said).expect("the machine prints a line");
    assert_eq!(said, "echo: port 7\n");
    for bytes in [0, 1 << 20] {
        send_and_compare(TcpStream::connect((MACHINE, 7)).expect("the machine listens"), bytes);
    }
    output.read_to_string(&mut said).expect("text");
    assert_eq!(said, "echo: port 7\necho: 1048576 bytes, 0 connections left\n");
    assert_eq!(machine.0.wait().expect("boot ends").code(), Some(0));
}

#[test]
fn missing_device_is_named_with_the_command_that_makes_it() {
    let output = boot(&["--tap=no-such-device"], &["echo"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("the host has no device `no-such-device`: make it with"), "{said}");
}
