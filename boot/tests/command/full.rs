//! Tests of file systems without room. A small file system in memory, which only the processes of a test see, takes the
//! place of a full disk.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::child::run;
use crate::outside::{boot_outside, small_machine, status, text};

/// Returns the command that mounts a file system of `size` at `place`, for itself alone, and then executes `command`.
/// Returns `None`, and prints a message, if this host does not allow that.
fn with_mounted(size: &str, place: &Path, command: &Command) -> Option<Command> {
    const UNSHARE: [&str; 3] = ["--map-root-user", "--mount", "sh"];
    let mount = format!("mount -t tmpfs -o size={size} tmpfs \"$0\"");
    let wrapped = |script: &str| {
        let mut wrapped = Command::new("unshare");
        wrapped.args(UNSHARE).args(["-c", script]).arg(place);
        wrapped
    };
    if !wrapped(&mount).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this host does not allow unshare and mount");
        return None;
    }
    Some(wrapping(wrapped(&format!("{mount} && cd \"$0\" && exec \"$@\"")), command))
}

/// Appends the program and the arguments of `command` to the arguments of `wrapper`.
fn wrapping(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args());
    wrapper.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wrapper
}

/// `boot` reserves the memory before QEMU starts. Without the reservation, SIGBUS would end QEMU.
#[test]
fn trace_is_elsewhere_if_the_shared_memory_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = format!("--trace={}", folder.path().join("run").display());
    let _machine = small_machine();
    let boot = boot_outside(&["--smp=1", &trace], &["flood", "end"]);
    let Some(mut command) = with_mounted("64k", "/dev/shm".as_ref(), &boot) else { return };
    command.env_remove("TMPDIR");
    let output = run(command);
    let said = text(&output.stderr);
    assert_eq!(status(&output), Some(0), "{said}");
    assert!(text(&output.stdout).ends_with("that was all\n") && said.contains("boot: trace: "), "{said}");
}

#[test]
fn lack_of_room_is_said_with_the_places_and_the_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = format!("--trace={}", folder.path().join("run").display());
    let boot = boot_outside(&["--smp=1", &trace], &["flood", "end"]);
    // The limit of the size of files is 1 MiB.
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"trap "" XFSZ; ulimit -f 2048; exec "$@""#, "sh"]);
    limited.env("TMPDIR", folder.path());
    let output = run(wrapping(limited, &boot));
    let said = text(&output.stderr);
    assert_eq!(status(&output), Some(104), "{said}");
    for part in ["128 MiB cannot be reserved in /dev/shm: ", &format!("; in {}: ", folder.path().display())] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// If a write to a disk fails because the host has no room, QEMU by default stops the machine.
#[test]
fn write_to_a_disk_whose_host_is_full_is_an_error_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let _machine = small_machine();
    let boot = boot_outside(&["--smp=1", "--disk-rw", "--disk=disk"], &["write-disk"]);
    // The file is longer than the file system has room for.
    let mut shell = Command::new("sh");
    shell.args(["-c", "truncate -s 8M disk && exec \"$@\"", "sh"]);
    let Some(command) = with_mounted("2m", folder.path(), &wrapping(shell, &boot)) else { return };
    let output = run(command);
    let said = text(&output.stderr);
    assert_eq!(status(&output), Some(0), "{said}");
    assert!(text(&output.stdout).ends_with(": the device reports an input/output error\n"), "{said}");
    assert!(!folder.path().join("disk").exists(), "the file system is not seen by others");
}
