//! Checks that all runs of a program with counted instructions (`--icount`) are equal, to the byte and to the
//! instruction, also with disks.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use boot_protocol::report::Report;
use tempfile::TempDir;

/// The name of the disk's file in the temporary folder in which a test runs `boot`.
const DISK: &str = "disk.img";

/// Makes a folder with a disk of `length` random bytes. Returns the folder and the bytes.
fn folder_with_disk(length: usize) -> (TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut content = vec![0; length];
    fastrand::Rng::with_seed(0).fill(&mut content);
    fs::write(folder.path().join(DISK), &content).expect("room for a file");
    (folder, content)
}

/// Runs `boot --icount` in a folder.
fn boot(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.arg("--icount").args(arguments).current_dir(folder).output().expect("boot runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `sha256` with a trace. Returns the output, and the trace, which contains the time of each event.
fn traced(folder: &Path, options: &[&str]) -> (String, Vec<u8>) {
    let arguments = [options, &["--disk", DISK, "--trace", "trace", "sha256"]].concat();
    let output = boot(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (text(&output.stdout), fs::read(folder.join("trace.json")).expect("a trace"))
}

#[test]
fn disks_answer_at_the_same_instants_in_every_run() {
    let (folder, _) = folder_with_disk(3_000_001);
    for cpus in ["--smp=1", "--smp=4"] {
        let first = traced(folder.path(), &[cpus]);
        assert!(text(&first.1).contains("disk in memory"), "the trace has no interrupt of the disk");
        assert!(first == traced(folder.path(), &[cpus]), "{cpus}: the second run differs");
        // With another seed, the disk answers at other times, but the content is the same.
        let other = traced(folder.path(), &[cpus, "--kernel-option=disk_seed=7"]);
        assert_eq!(first.0, other.0);
        assert!(first.1 != other.1, "{cpus}: the seed changes nothing");
    }
}

#[test]
fn benchmarks_of_disks_have_the_same_results_in_every_run() {
    let (folder, _) = folder_with_disk(8 << 20);
    for cpus in ["--smp=1", "--smp=4"] {
        let run = || text(&boot(folder.path(), &[cpus, "--disk", DISK, "bench", "io"]).stdout);
        let first = run();
        assert!(first.contains("bench io_async_64 ") && first.ends_with("bench done\n"), "{first}");
        assert_eq!(first, run());
    }
}

/// Runs some of the guest tests of disks with a disk in memory. The file of the disk must not change.
#[test]
fn disk_in_memory_passes_the_tests_of_disks() {
    for (test, length) in [
        ("concurrent_reads_return_what_was_written", 1_000_003),
        ("writes_stay_within_their_range_and_the_disk", 100_001),
        ("thousand_gs_read_and_write_parts_of_the_same_sectors", 800_000),
        ("large_transfers_return_what_was_written", 16 << 20),
        ("asynchronous_reads_park_only_their_gs", 5_000),
        ("every_read_hands_off_its_p", 5_000),
    ] {
        let (folder, content) = folder_with_disk(length);
        let test = format!("disks::{test}");
        let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");
        let output = boot(folder.path(), &["--smp=8", "--disk-rw", "--disk", DISK, guest, &test]);
        let passed = text(&output.stdout).lines().any(|line| Report::parse(line) == Some(Report::Passed(&test)));
        assert!(passed, "{test}: {}\n{}", text(&output.stdout), text(&output.stderr));
        // What the machine writes stays in its memory.
        assert!(fs::read(folder.path().join(DISK)).expect("the file is there") == content, "{test} changed the file");
    }
}

#[test]
fn disk_in_memory_is_read_only_unless_it_may_be_written() {
    let (folder, _) = folder_with_disk(5_000);
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");
    let test = "disks::read_only_disk_refuses_writes";
    let output = boot(folder.path(), &["--disk", DISK, guest, test]);
    let passed = text(&output.stdout).lines().any(|line| Report::parse(line) == Some(Report::Passed(test)));
    assert!(passed, "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn disks_that_are_together_too_large_for_the_memory_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = [DISK, "second.img"];
    for name in names {
        fs::File::create(folder.path().join(name)).and_then(|file| file.set_len(2 << 30)).expect("a sparse file");
    }
    let output = boot(folder.path(), &["--memory=32", "--disk", names[0], "--disk", names[1], "sha256"]);
    assert_eq!(output.status.code(), Some(64));
    let message = "boot: with --icount, disks are loaded into memory. For the 4096 MiB of the disks, the machine needs at \
                   least --memory 64\n";
    assert_eq!(text(&output.stderr), message);
}

/// Runs the benchmarks of connections over the loopback, with a trace. Returns the output and the trace.
fn connections(folder: &Path) -> (String, Vec<u8>) {
    let output = boot(folder, &["--smp=1", "--trace", "trace", "bench", "net_connect", "net_echo", "net_poll_wake"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (text(&output.stdout), fs::read(folder.join("trace.json")).expect("a trace"))
}

/// Returns a number that the benchmarks have printed.
fn value(output: &str, name: &str, procs: u32) -> f64 {
    let row = format!("bench {name} procs={procs} ");
    let of_row = |line: &str| Some(line.strip_prefix(&row)?.split_once(' ')?.0.parse());
    output.lines().find_map(of_row).unwrap_or_else(|| panic!("no {name}: {output}")).expect("a number")
}

/// Checks that a round trip beside up to 10,000 idle connections takes less than 1.1 times as many instructions as
/// beside one, and that an idle connection needs less than 10,000 bytes.
fn check_ten_thousand(output: &str, procs: u32) {
    let alone = value(output, "net_echo_1", procs);
    for many in ["net_echo_100", "net_echo_1000", "net_echo_10000"] {
        let beside_many = value(output, many, procs);
        assert!(beside_many < 1.1 * alone, "{many}: {beside_many} instead of {alone}");
    }
    // Both ends of an idle connection, and the G that waits.
    let bytes = value(output, "net_connection", procs);
    println!("{bytes} bytes for each of 10,000 connections, with procs={procs}");
    assert!(bytes < 10_000.0, "{bytes} bytes");
}

#[test]
fn connections_over_the_loopback_are_equal_in_every_run_and_cost_the_same_beside_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = connections(folder.path());
    check_ten_thousand(&first.0, 1);
    assert!(["net_connect", "net_poll_wake"].iter().all(|name| value(&first.0, name, 1) > 0.0));
    assert!(first == connections(folder.path()), "the second run differs");
}

/// With eight CPUs, the connections are in eight shards.
#[test]
fn connections_in_eight_shards_cost_the_same_beside_many() {
    let output = boot(Path::new("."), &["--smp=8", "bench", "net_echo"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    check_ten_thousand(&text(&output.stdout), 8);
}

/// TCP over simulated hosts, whose frames are delayed and lost. The digest is of all frames, and of the instants at which
/// they arrive.
#[test]
fn simulated_network_is_equal_in_every_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |cpus, seed| {
        let output = boot(folder.path(), &[cpus, "lossy", seed]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for cpus in ["--smp=1", "--smp=2"] {
        let first = run(cpus, "1");
        assert!(first.contains("20 % lost: ") && first.contains("digest"), "{first}");
        assert_eq!(first, run(cpus, "1"));
        assert_ne!(first, run(cpus, "2"), "{cpus}: the seed changes nothing");
    }
}

/// On a busy host, QEMU's main loop may find that the CPU has halted before its last instructions are counted. Then a
/// timer fires late. The library `busy_host/preload.rs` makes this happen at nearly every halt.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the library replaces functions of the GNU C library")]
fn run_with_one_cpu_is_equal_on_a_busy_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let idle = boot(folder.path(), &["--smp=1", "lossy", "1"]);
    assert_eq!(idle.status.code(), Some(0), "{}", text(&idle.stderr));

    let library = folder.path().join("libpreload.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/busy_host/preload.rs");
    let compiler = Command::new("rustc")
        .args(["--edition=2024", "-O", "--crate-type=cdylib", source, "-o"])
        .arg(&library)
        .status();
    assert!(compiler.expect("rustc runs").success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--icount", "--smp=1", "lossy", "1"]).env("LD_PRELOAD", &library).env("BUSY_HOST", folder.path());
    let busy = command.output().expect("boot runs");
    assert_eq!(text(&idle.stdout), text(&busy.stdout), "{}", text(&busy.stderr));
    for replaced in ["ppoll", "siglongjmp"] {
        assert!(folder.path().join(replaced).exists(), "QEMU does not call {replaced}, so this test has shown nothing");
    }
}

/// Runs `echo` for one client of the host, which sends these bytes, and records the run. Returns its output and trace.
fn recorded(folder: &Path, cpus: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--icount", "--timeout=180", cpus, "--record-input", "input", "--trace", "trace"]);
    command.args([&format!("--port={port}:7"), "echo", "--connections", "1"]).current_dir(folder);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("boot runs");
    let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut said = String::new();
    output.read_line(&mut said).expect("a line");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("QEMU listens");
    stream.set_read_timeout(Some(Duration::from_secs(100))).expect("a limit");
    stream.write_all(bytes).expect("the machine reads");
    stream.shutdown(Shutdown::Write).expect("the end");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the machine answers");
    assert!(answer == bytes, "{} bytes", answer.len());
    output.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("boot ends").code(), Some(0));
    (said, fs::read(folder.join("trace.json")).expect("a trace"))
}

/// The repetition has no client and opens no port.
#[test]
fn run_with_a_client_of_the_host_is_repeated_to_the_byte() {
    let (folder, content) = folder_with_disk(100_000);
    for cpus in ["--smp=1", "--smp=2"] {
        let first = recorded(folder.path(), cpus, &content);
        assert_eq!(first.0, "echo: port 7\necho: 100000 bytes, 0 connections left\n");
        let script = ["--input-script", "input", "--port=1:7", "--trace", "again", "echo", "--connections", "1"];
        let output = boot(folder.path(), &[&[cpus], &script[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), first.0);
        assert!(fs::read(folder.path().join("again.json")).expect("a trace") == first.1, "{cpus}: the traces differ");
    }
}

#[test]
fn network_whose_frames_are_not_recorded_is_refused() {
    let output = boot(Path::new("."), &["--port=1:7", "echo"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("add --record-input FILE to record the frames"), "{}", text(&output.stderr));
}
